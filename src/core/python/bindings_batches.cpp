// Batches of dicts, one per image: their arrays one after the other, in memory of our own.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "memory.h"
#include "python/arrays.h"

namespace boxscore {

using namespace nb::literals;

void bind_batches(nb::module_& module);

namespace {

// The functions that a library of arrays offers to code in C, as DLPack 1 defines them: so reading a tensor takes no call of Python.
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
    explicit ViewReader(nb::handle first) : type_(first.type()) {
        const nb::object capsule = nb::getattr(type_, "__dlpack_c_exchange_api__", nb::none());
        if (!PyCapsule_CheckExact(capsule.ptr())) return;
        const auto* functions = static_cast<const ExchangeFunctions*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        if (functions == nullptr) PyErr_Clear();
        if (functions != nullptr && functions->header.major == 1) export_view_ = functions->export_view;
    }

    bool can_read() const { return export_view_ != nullptr; }

    // False if a value is of another type, is not in host memory, or is not contiguous.
    bool read(nb::handle value, nb::dlpack::dltensor& view) const {
        if (!value.type().is(type_)) return false;
        if (export_view_(value.ptr(), &view) != 0) {
            PyErr_Clear();
            return false;
        }
        if (view.device.device_type != nb::device::cpu::value || !is_known(view.dtype)) return false;
        int64_t stride = 1;
        bool is_contiguous = true;
        for (int32_t axis = view.ndim; axis-- > 0; stride *= view.shape[axis]) {
            is_contiguous &= view.strides == nullptr || view.shape[axis] == 1 || view.strides[axis] == stride;
        }
        return is_contiguous || stride == 0;  // strides of what is empty may be anything
    }

private:
    // Whether NumPy has such numbers, too.
    static bool is_known(nb::dlpack::dtype dtype) {
        using Kind = nb::dlpack::dtype_code;
        const auto kind = static_cast<Kind>(dtype.code);
        const bool is_number = kind == Kind::Int || kind == Kind::UInt || kind == Kind::Float || kind == Kind::Bool;
        return is_number && dtype.lanes == 1 && dtype.bits >= 8 && (kind != Kind::Float || dtype.bits >= 16);
    }

    nb::handle type_;  // the values hold it
    int (*export_view_)(void*, nb::dlpack::dltensor*) = nullptr;
};

// The rows that one key has in all images, in memory of our own.
struct GatheredColumn {
    Buffer<uint8_t> bytes;
    nb::dlpack::dtype dtype;
    std::vector<size_t> num_rows;

    nb::object to_array(size_t row_size) {
        size_t size = 0;
        for (const size_t num : num_rows) size += num;
        uint8_t* data = bytes.data();
        const std::initializer_list<size_t> flat{size}, rows{size, row_size};
        const nb::capsule owner = owner_of(std::move(bytes));
        return nb::cast(nb::ndarray<nb::numpy>(data, row_size == 1 ? flat : rows, owner, {}, dtype));
    }
};

// False if the images differ in it, or lack it.
bool gather(const nb::list& images, nb::handle key, size_t row_size, GatheredColumn& column) {
    std::vector<nb::dlpack::dltensor> views;
    size_t num_bytes = 0;
    const ViewReader* reader = nullptr;
    std::vector<ViewReader> readers;  // one, once the first value is there
    for (const nb::handle image : images) {
        PyObject* const value = PyDict_CheckExact(image.ptr()) ? PyDict_GetItemWithError(image.ptr(), key.ptr()) : nullptr;
        if (value == nullptr) {
            PyErr_Clear();
            return false;
        }
        if (reader == nullptr) {
            readers.emplace_back(value);
            reader = &readers.front();
            if (!reader->can_read()) return false;
        }
        nb::dlpack::dltensor view;
        if (!reader->read(value, view)) return false;
        const bool is_column = row_size == 1 ? view.ndim == 1 : view.ndim == 2 && view.shape[1] == static_cast<int64_t>(row_size);
        if (!is_column || (!views.empty() && view.dtype != views.front().dtype)) return false;
        column.num_rows.push_back(static_cast<size_t>(view.shape[0]));
        num_bytes += column.num_rows.back() * row_size * (view.dtype.bits / 8);
        views.push_back(view);
    }
    if (views.empty()) return false;
    column.dtype = views.front().dtype;
    column.bytes = Buffer<uint8_t>(num_bytes);
    uint8_t* to = column.bytes.data();
    for (size_t i = 0; i < views.size(); ++i) {
        const size_t num = column.num_rows[i] * row_size * (column.dtype.bits / 8);
        if (num > 0) std::memcpy(to, static_cast<const uint8_t*>(views[i].data) + views[i].byte_offset, num);
        to += num;
    }
    return true;
}

// For each key its rows in all images, as NumPy's arrays, and how many rows each image has. None unless all values are tensors in host
// memory that can be read without a call of Python, of one type, and fit together.
nb::object concatenate_images(const nb::list& images, const nb::tuple& keys, const std::vector<size_t>& row_sizes) {
    if (keys.size() != row_sizes.size()) throw std::invalid_argument("row_sizes: expected one number per key");
    nb::list arrays;
    std::vector<size_t> num_rows;
    for (size_t i = 0; i < row_sizes.size(); ++i) {
        GatheredColumn column;
        if (!gather(images, keys[i], row_sizes[i], column)) return nb::none();
        if (i > 0 && column.num_rows != num_rows) return nb::none();
        num_rows = column.num_rows;
        arrays.append(column.to_array(row_sizes[i]));
    }
    return nb::make_tuple(arrays, num_rows);
}

}  // namespace

void bind_batches(nb::module_& module) {
    module.def("concatenate_images", &concatenate_images, "images"_a, "keys"_a, "row_sizes"_a);
}

}  // namespace boxscore
