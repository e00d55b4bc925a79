// One image and class of pycocotools' dicts: its overlaps, and who is matched with whom.
//
// Evaluators that call pycocotools' steps themselves do so a million times, most of them with a few dicts. Those whose values are
// plain numbers are read here; for all others these functions give up, and Python does it in its own way.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "images.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_annotations(nb::module_& module);

namespace {

struct Keys {
    nb::object score = intern("score"), bbox = intern("bbox"), area = intern("area"), id = intern("id"),
               iscrowd = intern("iscrowd"), ignore = intern("ignore");

    static nb::object intern(const char* name) { return nb::steal(PyUnicode_InternFromString(name)); }
};

const Keys& keys() {
    static const Keys* made = new Keys();  // never freed: the interpreter may be gone before it
    return *made;
}

// A float, or an integer that a double holds exactly.
bool read_number(PyObject* value, double& number) {
    if (PyFloat_Check(value)) {
        number = PyFloat_AS_DOUBLE(value);
        return true;
    }
    if (!PyLong_CheckExact(value)) return false;
    constexpr long long kLargest = 1LL << 53;
    int overflow = 0;
    const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    number = static_cast<double>(integer);
    return overflow == 0 && integer >= -kLargest && integer <= kLargest;
}

// Null if there is no such key.
PyObject* find(PyObject* annotation, const nb::object& key) {
    PyObject* value = PyDict_GetItemWithError(annotation, key.ptr());
    if (value == nullptr) PyErr_Clear();
    return value;
}

bool read_number(PyObject* annotation, const nb::object& key, double& number) {
    PyObject* value = find(annotation, key);
    return value != nullptr && read_number(value, number);
}

// An integer or a bool, as a flag.
bool read_flag(PyObject* annotation, const nb::object& key, uint8_t& flag) {
    PyObject* value = find(annotation, key);
    if (value == nullptr || !PyLong_Check(value)) return false;
    flag = PyObject_IsTrue(value) == 1;
    return true;
}

bool read_box(PyObject* annotation, std::vector<double>& boxes) {
    PyObject* box = find(annotation, keys().bbox);
    if (box == nullptr || !PyList_CheckExact(box) || PyList_GET_SIZE(box) != 4) return false;
    for (Py_ssize_t i = 0; i < 4; ++i) {
        double number;
        if (!read_number(PyList_GET_ITEM(box, i), number)) return false;
        boxes.push_back(number);
    }
    return true;
}

// The dicts of a list, each with a reference of its own.
using Annotations = std::vector<nb::object>;

bool read_annotations(nb::handle list, Annotations& annotations) {
    if (!PyList_CheckExact(list.ptr())) return false;
    const Py_ssize_t size = PyList_GET_SIZE(list.ptr());
    annotations.reserve(static_cast<size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* annotation = PyList_GET_ITEM(list.ptr(), i);
        if (!PyDict_CheckExact(annotation)) return false;
        annotations.push_back(nb::borrow(annotation));
    }
    return true;
}

// The detections by falling score, of equal ones the first first, as many as are wanted.
bool read_detections(nb::handle list, size_t limit, Annotations& detections) {
    Annotations given;
    if (!read_annotations(list, given)) return false;
    std::vector<double> score(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
        if (!read_number(given[i].ptr(), keys().score, score[i]) || std::isnan(score[i])) return false;
    }
    std::vector<size_t> order(given.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return score[one] > score[other]; });
    order.resize(std::min(limit, order.size()));
    detections.reserve(order.size());
    for (const size_t place : order) detections.push_back(std::move(given[place]));
    return true;
}

// The memory of an array of NumPy: contiguous; `has` says whether it is of the type and shape that is wanted.
class Memory {
  public:
    Memory(nb::handle array, bool is_written) {
        const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (is_written ? PyBUF_WRITABLE : 0);
        is_open_ = PyObject_GetBuffer(array.ptr(), &view_, flags) == 0;
        if (!is_open_) PyErr_Clear();
    }
    ~Memory() {
        if (is_open_) PyBuffer_Release(&view_);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // `formats`: the letters of the types of items that will do.
    template <class T>
    bool has(const char* formats, std::initializer_list<size_t> shape) const {
        if (!is_open_ || view_.format == nullptr || view_.itemsize != sizeof(T)) return false;
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

// Writes the overlaps into `overlap`, (D, G); false for values that are not plain.
bool measure_annotations(nb::handle found, nb::handle truths, nb::handle overlap) {
    const Memory out(overlap, true);
    Annotations detections, there;
    if (!read_annotations(truths, there) || !read_detections(found, out.length(), detections)) return false;
    if (!out.has<double>("d", {detections.size(), there.size()})) return false;
    std::vector<double> box, truth_box;
    std::vector<uint8_t> is_crowd(there.size());
    for (const nb::object& each : detections) {
        if (!read_box(each.ptr(), box)) return false;
    }
    for (size_t g = 0; g < there.size(); ++g) {
        if (!read_box(there[g].ptr(), truth_box) || !read_flag(there[g].ptr(), keys().iscrowd, is_crowd[g])) return false;
    }
    const ImageGroups group{{0, static_cast<int64_t>(detections.size())}, {0, static_cast<int64_t>(there.size())}};
    measure_overlaps(group, box.data(), truth_box.data(), is_crowd.data(), Run{},
                     out.data<double>());
    return true;
}

// A value of each, all of which have one, in a list.
nb::list values_of(const Annotations& annotations, const nb::object& key) {
    nb::list values;
    for (const nb::object& each : annotations) values.append(each[key]);
    return values;
}

// Writes the matches of one area range into the last four, (T, D), (T, G), (T, D), (G,). Gives the ids of the detections, those of
// the truths and the scores, each in the order of matching; or None for values that are not plain. `overlap` may be None.
nb::object assign_annotations(nb::handle found, nb::handle truths, nb::handle overlap, nb::handle thresholds, nb::handle low,
                              nb::handle high, size_t limit, nb::handle match, nb::handle truth_match, nb::handle is_ignored,
                              nb::handle is_truth_ignored) {
    Annotations detections, there;
    double area_low, area_high;
    if (!read_number(low.ptr(), area_low) || !read_number(high.ptr(), area_high)) return nb::none();
    if (!read_annotations(truths, there) || !read_detections(found, limit, detections)) return nb::none();
    const size_t num = detections.size(), num_there = there.size();
    const Memory cutoffs(thresholds, false);
    const size_t T = cutoffs.length();
    const Memory out(match, true), truth_out(truth_match, true), ignored_out(is_ignored, true);
    const Memory truth_ignored_out(is_truth_ignored, true);
    if (!cutoffs.has<double>("d", {T}) || !out.has<double>("d", {T, num}) || !truth_out.has<double>("d", {T, num_there})) return nb::none();
    if (!ignored_out.has<uint8_t>("?", {T, num}) || !truth_ignored_out.has<int64_t>("lq", {num_there})) return nb::none();
    std::vector<double> area(num), id(num), truth_area(num_there), truth_id(num_there), none;
    std::vector<uint8_t> ignore(num_there), is_crowd(num_there);
    std::vector<int64_t> order(num_there);
    for (size_t d = 0; d < num; ++d) {
        PyObject* each = detections[d].ptr();
        if (!read_number(each, keys().area, area[d]) || !read_number(each, keys().id, id[d])) return nb::none();
    }
    for (size_t g = 0; g < num_there; ++g) {
        PyObject* each = there[g].ptr();
        if (!read_flag(each, keys().ignore, ignore[g]) || !read_flag(each, keys().iscrowd, is_crowd[g])) return nb::none();
        if (!read_number(each, keys().id, truth_id[g])) return nb::none();
        // as in COCO: the area of what is ignored is never looked at
        if (ignore[g] == 0 && !read_number(each, keys().area, truth_area[g])) return nb::none();
    }
    const ImageGroups group{{0, static_cast<int64_t>(num)}, {0, static_cast<int64_t>(num_there)}};
    const auto match_them = [&](const double* overlaps) {
        const double* values = cutoffs.data<double>();
        assign(group,
               {overlaps, area.data(), id.data(), truth_area.data(), truth_id.data(), ignore.data(), is_crowd.data()},
               {{values, values + T}, {area_low}, {area_high}}, Run{},
               {out.data<double>(), truth_out.data<double>(), ignored_out.data<uint8_t>(),
                truth_ignored_out.data<int64_t>(), order.data()});
    };
    if (overlap.is_none()) {
        none.assign(num * num_there, -std::numeric_limits<double>::infinity());
        match_them(none.data());
    } else {
        const Memory measured(overlap, false);
        const size_t num_rows = measured.length();
        if (num_rows < num || !measured.has<double>("d", {num_rows, num_there})) return nb::none();
        match_them(measured.data<double>());
    }
    Annotations ordered;
    ordered.reserve(num_there);
    for (const int64_t place : order) ordered.push_back(there[static_cast<size_t>(place)]);
    return nb::make_tuple(values_of(detections, keys().id), values_of(ordered, keys().id),
                          values_of(detections, keys().score));
}

}  // namespace

void bind_annotations(nb::module_& module) {
    module.def("measure_annotations", &measure_annotations, "found"_a, "truths"_a, "overlap"_a);
    module.def("assign_annotations", &assign_annotations, "found"_a, "truths"_a, "overlap"_a.none(), "thresholds"_a,
               "low"_a.none(), "high"_a.none(), "limit"_a, "match"_a, "truth_match"_a, "is_ignored"_a, "is_truth_ignored"_a);
}

}  // namespace boxscore
