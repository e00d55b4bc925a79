// Python objects through Python's stable ABI, so that one wheel serves every Python from 3.12 on. Where the full API has a macro
// or a field of a struct, the stable ABI has a function.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

namespace boxscore {

// Items of a list or a tuple, such as PySequence_Fast returns. Reading an item may run Python code (`__float__`, `__index__`), which
// may change the list and release the item, so the sequence and the items are held by strong references.
class Items {
public:
    explicit Items(nanobind::object sequence) : sequence_(std::move(sequence)), is_list_(PyList_Check(sequence_.ptr()) != 0) {}

    Py_ssize_t size() const { return is_list_ ? PyList_Size(sequence_.ptr()) : PyTuple_Size(sequence_.ptr()); }

    // Item i; invalid if the list has become shorter.
    nanobind::object operator[](Py_ssize_t i) const {
        if (i >= size()) return {};
        return nanobind::borrow(is_list_ ? PyList_GetItem(sequence_.ptr(), i) : PyTuple_GetItem(sequence_.ptr(), i));
    }

private:
    nanobind::object sequence_;
    bool is_list_;
};

// Characters of a bytes object, which owns them.
inline const char* characters_of(nanobind::handle bytes, size_t& num) {
    num = static_cast<size_t>(PyBytes_Size(bytes.ptr()));
    return PyBytes_AsString(bytes.ptr());
}

// Name of an object's type as in CPython's messages: with the module for types of C extensions.
inline std::string name_of_type(nanobind::handle object) {
    const nanobind::handle type = object.type();
    const std::string name = nanobind::str(type.attr("__name__")).c_str();
    if ((PyType_GetFlags(reinterpret_cast<PyTypeObject*>(type.ptr())) & Py_TPFLAGS_HEAPTYPE) != 0) return name;
    const std::string module = nanobind::str(type.attr("__module__")).c_str();
    return module == "builtins" ? name : module + "." + name;
}

}  // namespace boxscore
