// Values of Python's dicts as numbers: what is read is exactly what NumPy would make of it; all else is left to Python.
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

// The value of a key, borrowed; null if the dict does not have it.
inline PyObject* find_value(PyObject* dict, const nb::object& key) {
    PyObject* value = PyDict_GetItemWithError(dict, key.ptr());
    if (value == nullptr) PyErr_Clear();
    return value;
}

// A float, or an integer that a double holds exactly.
inline bool read_plain_number(PyObject* value, double& number) {
    if (PyFloat_Check(value)) {
        number = PyFloat_AsDouble(value);
        return true;
    }
    if (!PyLong_CheckExact(value)) return false;
    constexpr long long kLargest = 1LL << 53;
    int overflow = 0;
    const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    number = static_cast<double>(integer);
    return overflow == 0 && integer >= -kLargest && integer <= kLargest;
}

// The contiguous buffer of a NumPy array; `has` checks its type and shape.
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

// NumPy's types, which its values are told by.
class NumpyTypes {
public:
    bool is_floating(PyObject* value) const { return is_a(value, floating_); }
    bool is_integer(PyObject* value) const { return is_a(value, integer_); }
    bool is_array(PyObject* value) const { return reinterpret_cast<PyObject*>(Py_TYPE(value)) == array_.ptr(); }

private:
    static bool is_a(PyObject* value, const nb::object& type) {
        return PyType_IsSubtype(Py_TYPE(value), reinterpret_cast<PyTypeObject*>(type.ptr())) != 0;
    }

    nb::module_ numpy_ = nb::module_::import_("numpy");
    nb::object floating_ = numpy_.attr("floating"), integer_ = numpy_.attr("integer"), array_ = numpy_.attr("ndarray");
};

inline const NumpyTypes& numpy_types() {
    static const NumpyTypes* types = new NumpyTypes();  // never freed: the interpreter may end first
    return *types;
}

// Also bools and NumPy's floats and integers.
inline bool read_number(PyObject* value, double& number) {
    if (read_plain_number(value, number)) return true;
    if (PyBool_Check(value)) {
        number = value == Py_True ? 1 : 0;
        return true;
    }
    if (PyLong_Check(value) || !(numpy_types().is_floating(value) || numpy_types().is_integer(value))) return false;
    number = PyFloat_AsDouble(value);
    if (PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
}

// An int, a bool or one of NumPy's integers, all of which dicts find by its value. `is_plain`: unless it is an int, it becomes false.
inline bool read_whole(PyObject* value, int64_t& whole, bool& is_plain) {
    nb::object as_int;
    if (!PyLong_CheckExact(value)) {
        is_plain = false;
        if (!PyBool_Check(value) && !numpy_types().is_integer(value)) return false;
        as_int = nb::steal(PyNumber_Index(value));
        if (!as_int.is_valid()) {
            PyErr_Clear();
            return false;
        }
        value = as_int.ptr();
    }
    int overflow = 0;
    whole = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

// Appends the numbers of a list, a tuple or a NumPy array of floats, of which there must be `num`; false if there are others.
inline bool append_numbers(PyObject* value, size_t num, std::vector<double>& numbers) {
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
        const Items items{nb::handle(value)};
        if (items.size() != static_cast<Py_ssize_t>(num)) return false;
        numbers.resize(numbers.size() + num);
        double* const out = numbers.data() + numbers.size() - num;
        for (size_t i = 0; i < num; ++i) {
            if (!read_number(items[static_cast<Py_ssize_t>(i)], out[i])) return false;
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
