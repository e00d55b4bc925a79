// Tensors read where they are, without a call of Python per tensor: a call takes a microsecond.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>

namespace boxscore {

namespace nb = nanobind;

// The functions that a library of arrays offers to code in C, as DLPack 1 defines them.
struct ExchangeFunctions {
    struct Header {
        uint32_t major, minor;
        Header* older;
    };
    Header header;
    void *allocate, *export_managed, *import_managed;
    int (*export_view)(void* object, nb::dlpack::dltensor* out);  // may be null; the view is valid while the object is
    void* current_stream;
};

// The views of the values of one type.
class ViewReader {
public:
    explicit ViewReader(nb::object type) : type_(std::move(type)) {
        const nb::object capsule = nb::getattr(type_, "__dlpack_c_exchange_api__", nb::none());
        if (!PyCapsule_CheckExact(capsule.ptr())) return;
        const auto* functions = static_cast<const ExchangeFunctions*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        if (functions == nullptr) PyErr_Clear();
        if (functions != nullptr && functions->header.major == 1) export_view_ = functions->export_view;
    }

    bool is_for(nb::handle type) const { return type_.is(type); }
    bool can_read() const { return export_view_ != nullptr; }

    // False if a value is of another type, is not in host memory, or is not contiguous and aligned.
    bool read(nb::handle value, nb::dlpack::dltensor& view) const {
        if (!value.type().is(type_)) return false;
        if (export_view_(value.ptr(), &view) != 0) {
            PyErr_Clear();
            return false;
        }
        if (view.device.device_type != nb::device::cpu::value || view.dtype.lanes != 1 || view.dtype.bits < 8) return false;
        int64_t stride = 1;
        bool is_contiguous = true;
        for (int32_t axis = view.ndim; axis-- > 0; stride *= view.shape[axis]) {
            is_contiguous &= view.strides == nullptr || view.shape[axis] == 1 || view.strides[axis] == stride;
        }
        if (stride == 0) return true;  // strides and addresses of what is empty may be anything
        return is_contiguous && reinterpret_cast<uintptr_t>(data_of(view)) % (view.dtype.bits / 8) == 0;
    }

    static const void* data_of(const nb::dlpack::dltensor& view) {
        return static_cast<const uint8_t*>(view.data) + view.byte_offset;
    }

private:
    nb::object type_;
    int (*export_view_)(void*, nb::dlpack::dltensor*) = nullptr;
};

}  // namespace boxscore
