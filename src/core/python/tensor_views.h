// Views of arrays in host memory, without a copy: of NumPy by the buffer protocol, of PyTorch by DLPack's C functions, of others by
// `__dlpack__`.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "python/dict_values.h"

namespace boxscore {

namespace nb = nanobind;

// C functions of an array library, as DLPack 1 defines them.
struct ExchangeFunctions {
    struct Header {
        uint32_t major, minor;
        Header* older;
    };
    Header header;
    void *allocate, *export_managed, *import_managed;
    int (*export_view)(void* object, nb::dlpack::dltensor* out);  // may be null; the view is valid as long as the object
    void* current_stream;
};

// View of the numbers of an array. Strides are in bytes.
struct View {
    static constexpr size_t kMostAxes = 5;

    const uint8_t* data = nullptr;
    nb::dlpack::dtype dtype{};
    size_t num_axes = 0;
    std::array<size_t, kMostAxes> shape{};
    std::array<ptrdiff_t, kMostAxes> strides{};

    size_t item_size() const { return dtype.bits / 8; }

    size_t num_items() const {
        size_t num = 1;
        for (size_t axis = 0; axis < num_axes; ++axis) num *= shape[axis];
        return num;
    }

    // Whether the numbers are contiguous and aligned.
    bool is_compact() const {
        if (num_items() == 0) return true;  // the strides and the address of an empty array are arbitrary
        auto stride = static_cast<ptrdiff_t>(item_size());
        for (size_t axis = num_axes; axis-- > 0; stride *= static_cast<ptrdiff_t>(shape[axis])) {
            if (shape[axis] != 1 && strides[axis] != stride) return false;
        }
        return reinterpret_cast<uintptr_t>(data) % item_size() == 0;
    }

    // Copy the numbers to contiguous memory.
    void copy_to(uint8_t* out) const { copy_axis(data, 0, out); }

private:
    uint8_t* copy_axis(const uint8_t* from, size_t axis, uint8_t* out) const {
        if (axis == num_axes) {
            std::memcpy(out, from, item_size());
            return out + item_size();
        }
        for (size_t i = 0; i < shape[axis]; ++i, from += strides[axis]) out = copy_axis(from, axis + 1, out);
        return out;
    }
};

// Makes views of arrays of one Python type.
class ViewReader {
public:
    explicit ViewReader(nb::object type) : type_(std::move(type)) {
        if (numpy_types().is_array_type(type_)) {
            is_numpy_ = true;
            return;
        }
        if (numpy_types().is_array_subtype(type_)) return;  // a masked array's values would be read without its mask
        const nb::object capsule = nb::getattr(type_, "__dlpack_c_exchange_api__", nb::none());
        if (PyCapsule_CheckExact(capsule.ptr())) {
            const auto* functions = static_cast<const ExchangeFunctions*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
            if (functions == nullptr) PyErr_Clear();
            // A subclass of PyTorch's tensor that dispatches its operations itself may have no memory: FakeTensor, DTensor.
            const nb::object dispatch = nb::getattr(type_, "__torch_dispatch__", nb::none());
            if (!dispatch.is_none() && !PyCFunction_Check(dispatch.ptr())) return;
            if (functions != nullptr && functions->header.major == 1) export_view_ = functions->export_view;
        }
        has_dlpack_ = export_view_ == nullptr && nb::hasattr(type_, "__dlpack__");
    }

    bool is_for(nb::handle type) const { return type_.is(type); }

    // Make the view of a value. Return false if it is of another Python type, has an unsupported dtype, or is not in host memory. A view
    // is valid until Python code runs, or, if an owner was added to `owners`, as long as this owner.
    bool read(nb::handle value, View& view, std::vector<nb::ndarray<nb::ro>>& owners) const {
        if (!value.type().is(type_)) return false;
        if (is_numpy_) return read_buffer(value, view);
        if (export_view_ != nullptr) {
            nb::dlpack::dltensor tensor;
            if (export_view_(value.ptr(), &tensor) == 0) return from_tensor(tensor, view);
            PyErr_Clear();
            return false;
        }
        if (!has_dlpack_) return false;
        nb::ndarray<nb::ro> array;
        if (!nb::try_cast(value, array, false) || array.device_type() != nb::device::cpu::value) return false;
        if (array.ndim() > View::kMostAxes || !is_usual(array.dtype())) return false;
        view.data = static_cast<const uint8_t*>(array.data());
        view.dtype = array.dtype(), view.num_axes = array.ndim();
        for (size_t axis = 0; axis < view.num_axes; ++axis) {
            view.shape[axis] = array.shape(axis);
            view.strides[axis] = static_cast<ptrdiff_t>(array.stride(axis) * static_cast<int64_t>(view.item_size()));
        }
        owners.push_back(std::move(array));
        return true;
    }

private:
    static bool is_usual(nb::dlpack::dtype dtype) {
        using Code = nb::dlpack::dtype_code;
        const auto code = static_cast<Code>(dtype.code);
        const bool is_number = code == Code::Int || code == Code::UInt || code == Code::Bool || code == Code::Float;
        return is_number && dtype.lanes == 1 && dtype.bits >= 8 && dtype.bits <= 64;
    }

    static bool from_tensor(const nb::dlpack::dltensor& tensor, View& view) {
        if (tensor.device.device_type != nb::device::cpu::value || !is_usual(tensor.dtype)) return false;
        if (tensor.ndim < 0 || tensor.ndim > static_cast<int32_t>(View::kMostAxes)) return false;
        view.dtype = tensor.dtype, view.num_axes = static_cast<size_t>(tensor.ndim);
        auto stride = static_cast<ptrdiff_t>(view.item_size());
        for (size_t axis = view.num_axes; axis-- > 0; stride *= static_cast<ptrdiff_t>(view.shape[axis])) {
            view.shape[axis] = static_cast<size_t>(tensor.shape[axis]);
            const auto given = [&] { return static_cast<ptrdiff_t>(tensor.strides[axis]) * static_cast<ptrdiff_t>(view.item_size()); };
            view.strides[axis] = tensor.strides == nullptr ? stride : given();
        }
        if (tensor.data == nullptr) return view.num_items() == 0;  // a tensor without storage has nothing to read
        view.data = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
        return true;
    }

    // Read the view from the buffer and release it at once: nothing can change the array before Python code runs again.
    static bool read_buffer(nb::handle value, View& view) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(value.ptr(), &buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
            PyErr_Clear();
            return false;
        }
        const bool is_read = from_buffer(buffer, view);
        PyBuffer_Release(&buffer);
        return is_read;
    }

    static bool from_buffer(const Py_buffer& buffer, View& view) {
        using Code = nb::dlpack::dtype_code;
        if (buffer.ndim > static_cast<int>(View::kMostAxes) || buffer.itemsize > 8) return false;
        const char* format = buffer.format;  // one letter; more for a foreign byte order or for fields
        if (format == nullptr) return false;
        if (format[0] == '@' || format[0] == '=' || format[0] == '^') ++format;
        if (format[0] == 0 || format[1] != 0) return false;
        Code code;
        if (format[0] == '?') code = Code::Bool;
        else if (std::strchr("bhilq", format[0]) != nullptr) code = Code::Int;
        else if (std::strchr("BHILQ", format[0]) != nullptr) code = Code::UInt;
        else if (std::strchr("efd", format[0]) != nullptr) code = Code::Float;
        else return false;
        view.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * buffer.itemsize), 1};
        view.data = static_cast<const uint8_t*>(buffer.buf);
        view.num_axes = static_cast<size_t>(buffer.ndim);
        for (size_t axis = 0; axis < view.num_axes; ++axis) {
            view.shape[axis] = static_cast<size_t>(buffer.shape[axis]);
            view.strides[axis] = static_cast<ptrdiff_t>(buffer.strides[axis]);
        }
        return true;
    }

    nb::object type_;
    bool is_numpy_ = false, has_dlpack_ = false;
    int (*export_view_)(void*, nb::dlpack::dltensor*) = nullptr;
};

// Cached reader of a type. May call Python.
inline ViewReader reader_of(nb::handle type) {
    constexpr size_t kMost = 16;
    static auto* const readers = new std::vector<ViewReader>();  // never freed: the interpreter may end first
    for (const ViewReader& reader : *readers) {
        if (reader.is_for(type)) return reader;
    }
    ViewReader made(nb::borrow(type));
    if (readers->size() >= kMost) readers->clear();
    readers->push_back(made);
    return made;
}

}  // namespace boxscore
