// Vectors for long columns, on huge pages where the system gives them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "platform/system.h"

namespace boxscore {

template <class T>
struct ColumnAllocator {
    using value_type = T;

    ColumnAllocator() = default;
    template <class Other>
    ColumnAllocator(const ColumnAllocator<Other>&) {}

    T* allocate(size_t size) { return static_cast<T*>(boxscore::allocate(size * sizeof(T))); }
    void deallocate(T* memory, size_t) { std::free(memory); }

    template <class Other>
    bool operator==(const ColumnAllocator<Other>&) const { return true; }
    template <class Other>
    bool operator!=(const ColumnAllocator<Other>&) const { return false; }
};

// A fast path: new memory of small pages takes a tenth of the time of reading a file of results.
template <class T>
using ColumnVector = std::vector<T, ColumnAllocator<T>>;

}  // namespace boxscore
