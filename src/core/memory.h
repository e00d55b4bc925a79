// Large arrays that are not written before they are used, on huge pages where the system gives them: most of the cost of new
// memory is the system's, page by page.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "platform/system.h"

namespace boxscore {

template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>, "elements are neither made nor destroyed");

public:
    Buffer() = default;
    explicit Buffer(size_t size) : data_(static_cast<T*>(allocate(size * sizeof(T)))), size_(size) {}
    Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }

    // The memory, which is the caller's to free.
    T* release() {
        size_ = 0;
        return std::exchange(data_, nullptr);
    }

private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace boxscore
