// Numbers from values of Python dicts. A value is read exactly as NumPy would convert it, or rejected and left to Python.
//
// Python code may run while a dict is read, such as `__eq__` of a key with the same hash, and may change the dict, so values are held
// by strong references. Reading a number never runs Python code: values of types defined in Python are rejected.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "python/stable_api.h"

namespace boxscore {

namespace nb = nanobind;

inline nb::object intern(const char* name) { return nb::steal(PyUnicode_InternFromString(name)); }

// Value of a key; invalid if the dict doesn't have it.
inline nb::object find_value(nb::handle dict, const nb::object& key) {
    PyObject* const value = PyDict_GetItemWithError(dict.ptr(), key.ptr());
    if (value == nullptr) PyErr_Clear();
    return nb::borrow(value);
}

// Read a float, or an integer that a double holds exactly.
inline bool read_python_number(nb::handle value, double& number) {
    if (PyFloat_Check(value.ptr())) {
        number = PyFloat_AsDouble(value.ptr());
        return true;
    }
    if (!PyLong_CheckExact(value.ptr())) return false;
    constexpr long long kLargest = 1LL << 53;
    int overflow = 0;
    const long long integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    number = static_cast<double>(integer);
    return overflow == 0 && integer >= -kLargest && integer <= kLargest;
}

// Contiguous buffer of a NumPy array; `has` checks its type and shape.
class ArrayView {
  public:
    ArrayView(nb::handle array, bool is_written) {
        const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (is_written ? PyBUF_WRITABLE : 0);
        is_open_ = PyObject_GetBuffer(array.ptr(), &view_, flags) == 0;
        if (!is_open_) PyErr_Clear();
    }
    ~ArrayView() {
        if (is_open_) PyBuffer_Release(&view_);
    }
    ArrayView(const ArrayView&) = delete;
    ArrayView& operator=(const ArrayView&) = delete;

    // `formats`: the letters of the accepted item types.
    template <class T>
    bool has(const char* formats, std::initializer_list<size_t> shape) const {
        if (!is_open_ || view_.format == nullptr || view_.itemsize != sizeof(T)) return false;
        if (reinterpret_cast<uintptr_t>(view_.buf) % alignof(T) != 0) return false;
        if (std::strlen(view_.format) != 1 || std::strchr(formats, view_.format[0]) == nullptr) return false;
        return view_.ndim == static_cast<int>(shape.size()) &&
               std::equal(shape.begin(), shape.end(), view_.shape,
                          [](size_t wanted, Py_ssize_t size) { return wanted == static_cast<size_t>(size); });
    }
    size_t length() const { return is_open_ && view_.ndim > 0 ? static_cast<size_t>(view_.shape[0]) : 0; }
    template <class T>
    T* data() const {
        return static_cast<T*>(view_.buf);
    }

  private:
    Py_buffer view_;
    bool is_open_;
};

// Tests for values of NumPy's types. Subclasses that are defined in Python don't count: they may behave in any way.
class NumpyTypes {
public:
    bool is_floating(nb::handle value) const { return is_a(value, floating_); }
    bool is_integer(nb::handle value) const { return is_a(value, integer_); }
    bool is_array(nb::handle value) const { return value.type().is(array_); }
    bool is_array_type(nb::handle type) const { return type.is(array_); }
    bool is_array_subtype(nb::handle type) const {
        return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), reinterpret_cast<PyTypeObject*>(array_.ptr())) != 0;
    }

private:
    static bool is_a(nb::handle value, const nb::object& type) {
        auto* const own = reinterpret_cast<PyTypeObject*>(value.type().ptr());
        return PyType_IsSubtype(own, reinterpret_cast<PyTypeObject*>(type.ptr())) != 0 &&
               (PyType_GetFlags(own) & Py_TPFLAGS_HEAPTYPE) == 0;
    }

    nb::module_ numpy_ = nb::module_::import_("numpy");
    nb::object floating_ = numpy_.attr("floating"), integer_ = numpy_.attr("integer"), array_ = numpy_.attr("ndarray");
};

inline const NumpyTypes& numpy_types() {
    static const NumpyTypes* types = new NumpyTypes();  // never freed: the interpreter may end first
    return *types;
}

// Read a number as `read_python_number` does, or a bool, or a NumPy float or integer.
inline bool read_number(nb::handle value, double& number) {
    if (read_python_number(value, number)) return true;
    if (PyBool_Check(value.ptr())) {
        number = value.ptr() == Py_True ? 1 : 0;
        return true;
    }
    if (!numpy_types().is_floating(value) && !numpy_types().is_integer(value)) return false;
    number = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
}

// Read an int, a bool or a NumPy integer, which are equal as keys of dicts. Sets `is_int` to false unless it is an int.
inline bool read_whole(nb::handle value, int64_t& whole, bool& is_int) {
    nb::object as_int;
    if (!PyLong_CheckExact(value.ptr())) {
        is_int = false;
        if (!PyBool_Check(value.ptr()) && !numpy_types().is_integer(value)) return false;
        as_int = nb::steal(PyNumber_Index(value.ptr()));
        if (!as_int.is_valid()) {
            PyErr_Clear();
            return false;
        }
        value = as_int;
    }
    int overflow = 0;
    whole = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    return overflow == 0;
}

// Read a flag as pycocotools does: an integer from 0 to 255, or a bool.
inline bool read_flag(nb::handle value, uint8_t& flag) {
    int64_t whole = 0;
    bool is_int = true;
    if (!read_whole(value, whole, is_int) || whole < 0 || whole > 255) return false;
    flag = whole != 0;
    return true;
}

// Number of items that `append_numbers` would read; -1 if it can't read the value.
inline Py_ssize_t num_numbers(nb::handle value) {
    const bool is_readable = PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr()) || numpy_types().is_array(value);
    const Py_ssize_t size = is_readable ? PyObject_Size(value.ptr()) : -1;
    if (size < 0) PyErr_Clear();  // an array of no dimensions
    return size;
}

// Append the `num` numbers of a list, a tuple or a NumPy array of floats; return false for any other value.
inline bool append_numbers(nb::handle value, size_t num, std::vector<double>& numbers) {
    if (PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr())) {
        const Items items(nb::borrow(value));
        if (items.size() != static_cast<Py_ssize_t>(num)) return false;
        numbers.resize(numbers.size() + num);
        double* const out = numbers.data() + numbers.size() - num;
        for (size_t i = 0; i < num; ++i) {
            const nb::object item = items[static_cast<Py_ssize_t>(i)];
            if (!item.is_valid() || !read_number(item, out[i])) return false;
        }
        return true;
    }
    if (!numpy_types().is_array(value)) return false;
    const ArrayView view(value, false);
    if (view.has<double>("d", {num})) {
        numbers.insert(numbers.end(), view.data<double>(), view.data<double>() + num);
    } else if (view.has<float>("f", {num})) {
        numbers.insert(numbers.end(), view.data<float>(), view.data<float>() + num);
    } else {
        return false;
    }
    return true;
}

}  // namespace boxscore
