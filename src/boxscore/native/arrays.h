// Arrays of NumPy in and out of compiled code.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory.h"

namespace boxscore {

using Input = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
nanobind::object to_numpy(Buffer<T>&& buffer, std::initializer_list<size_t> shape) {
    T* data = buffer.release();
    nanobind::capsule owner(data, [](void* pointer) noexcept { std::free(pointer); });
    return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(data, shape, owner));
}

template <class T>
nanobind::object to_numpy(const std::vector<T>& values, std::initializer_list<size_t> shape) {
    Buffer<T> buffer(values.size());
    std::copy(values.begin(), values.end(), buffer.data());
    return to_numpy(std::move(buffer), shape);
}

// The elements of an array, which must stand where their type may stand; NumPy does not care where there are none.
template <class T>
const T* elements(const Input& array) {
    if (array.size() != 0 && reinterpret_cast<uintptr_t>(array.data()) % alignof(T) != 0) {
        throw std::invalid_argument("misaligned array");
    }
    return static_cast<const T*>(array.data());
}

template <class T>
const T* typed(const Input& array, size_t size, const char* name) {
    if (array.dtype() != nanobind::dtype<T>() || array.size() != size) {
        throw std::invalid_argument(std::string(name) + ": unexpected dtype or size");
    }
    return elements<T>(array);
}

}  // namespace boxscore
