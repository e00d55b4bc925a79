// Lists of dicts, such as pycocotools' annotations and results: reads them into columns, and completes them in place.
//
// Values must be ints, floats, bools, NumPy's numbers, or lists, tuples or arrays of them. For any other value the reader returns None,
// and Python takes the general path, which reports errors.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "geometry/box_around.h"
#include "platform/compiler.h"
#include "python/arrays.h"
#include "python/dict_values.h"

namespace boxscore {

using namespace nb::literals;

void bind_dicts(nb::module_& module);

namespace {

// The keys of annotations, in the order in which they are read.
enum class DictKey : uint8_t { image_id, category_id, id, iscrowd, area, bbox, score, num_keypoints, keypoints, segmentation, last = segmentation };

constexpr size_t kNumDictKeys = static_cast<size_t>(DictKey::last) + 1;
constexpr std::array<const char*, kNumDictKeys> kDictKeys{"image_id", "category_id", "id",            "iscrowd",   "area",
                                                          "bbox",     "score",       "num_keypoints", "keypoints", "segmentation"};

const nb::object& interned(DictKey key) {
    static const auto* names = [] {  // never freed: the interpreter may end first
        auto* all = new std::array<nb::object, kNumDictKeys>();
        for (size_t i = 0; i < kNumDictKeys; ++i) (*all)[i] = intern(kDictKeys[i]);
        return all;
    }();
    return (*names)[static_cast<size_t>(key)];
}

// Prefetch distance in dicts, which are scattered in memory.
constexpr Py_ssize_t kAhead = 8;

void prefetch_item(nb::handle list, Py_ssize_t i, Py_ssize_t size) {
    if (i + kAhead < size) prefetch(PyList_GetItem(list.ptr(), i + kAhead));
}

// Columns of the requested keys; all others are empty.
struct DictColumns {
    nb::object image, category, id, is_crowd, area, box, score, num_keypoints, keypoints;
    bool has_int_ids;       // whether all ids are ints: no bools, no NumPy integers
    bool has_float_scores;  // whether all scores are floats
};

class DictReader {
public:
    // `keys`: a subset of kDictKeys. `skips_crowds`: as in COCO, the area of a crowd is never read.
    DictReader(const std::vector<std::string>& keys, bool skips_crowds) : skips_crowds_(skips_crowds) {
        for (const std::string& name : keys) {
            size_t i = 0;
            while (i < kNumDictKeys && name != kDictKeys[i]) ++i;
            if (i >= static_cast<size_t>(DictKey::segmentation)) throw std::invalid_argument("keys: unknown key");
            is_wanted_[i] = true;
        }
    }

    // Read all dicts. Return false if a value is missing or of another type.
    bool read(nb::handle list) {
        const Py_ssize_t size = PyList_Size(list.ptr());
        reserve(static_cast<size_t>(size));
        for (Py_ssize_t i = 0; i < size && i < PyList_Size(list.ptr()); ++i) {
            prefetch_item(list, i, PyList_Size(list.ptr()));
            const nb::object dict = nb::borrow(PyList_GetItem(list.ptr(), i));
            if (!PyDict_CheckExact(dict.ptr()) || !read_dict(dict)) return false;
            ++num_rows_;
        }
        return num_rows_ == static_cast<size_t>(size);
    }

    // Move the columns into arrays.
    DictColumns take() {
        return {array_of(image_),
                array_of(category_),
                array_of(id_),
                array_of(is_crowd_),
                array_of(area_),
                array_of(box_, 4),
                array_of(score_),
                array_of(num_keypoints_),
                array_of(keypoints_, std::max<size_t>(num_numbers_, 3)),
                has_int_ids_,
                has_float_scores_};
    }

private:
    // Move values into an array; `width`: the number of values per row.
    template <class T>
    static nb::object array_of(std::vector<T>& values, size_t width = 1) {
        auto* const owned = new std::vector<T>(std::move(values));
        nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
        const size_t num_rows = owned->size() / width;
        if (width == 1) return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {num_rows}, owner));
        return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {num_rows, width}, owner));
    }

    bool wants(DictKey key) const { return is_wanted_[static_cast<size_t>(key)]; }

    void reserve(size_t size) {
        num_expected_ = size;
        if (wants(DictKey::image_id)) image_.reserve(size);
        if (wants(DictKey::category_id)) category_.reserve(size);
        if (wants(DictKey::id)) id_.reserve(size);
        if (wants(DictKey::iscrowd)) is_crowd_.reserve(size);
        if (wants(DictKey::area)) area_.reserve(size);
        if (wants(DictKey::bbox)) box_.reserve(size * 4);
        if (wants(DictKey::score)) score_.reserve(size);
        if (wants(DictKey::num_keypoints)) num_keypoints_.reserve(size);
    }

    bool read_dict(const nb::object& dict) {
        for (size_t i = 0; i < kNumDictKeys; ++i) {
            if (!is_wanted_[i]) continue;
            const auto key = static_cast<DictKey>(i);
            if (key == DictKey::area && skips_crowds_ && !is_crowd_.empty() && is_crowd_.back() != 0) {
                area_.push_back(0);
                continue;
            }
            const nb::object value = find_value(dict, interned(key));
            if (!value.is_valid() || !read_value(key, value)) return false;
        }
        return true;
    }

    bool read_value(DictKey key, nb::handle value) {
        switch (key) {
            case DictKey::image_id: return push_whole(value, image_);
            case DictKey::category_id: return push_whole(value, category_);
            case DictKey::id: return PyLong_CheckExact(value.ptr()) && push_whole(value, id_);
            case DictKey::iscrowd:
                is_crowd_.push_back(0);
                return read_flag(value, is_crowd_.back());
            case DictKey::area: return push_number(value, area_);
            case DictKey::bbox: return !PyTuple_CheckExact(value.ptr()) && append_numbers(value, 4, box_);  // as in COCO: lists and arrays
            case DictKey::score:
                if (!PyFloat_CheckExact(value.ptr())) {
                    has_float_scores_ = false;
                    // as in COCO: whether bools can be sorted depends on the other scores, and NumPy's integers may overflow when negated
                    if (!PyLong_CheckExact(value.ptr()) && !numpy_types().is_floating(value)) return false;
                }
                return push_number(value, score_);
            case DictKey::num_keypoints: return push_number(value, num_keypoints_);
            default: return push_keypoints(value);
        }
    }

    bool push_whole(nb::handle value, std::vector<int64_t>& column) {
        column.push_back(0);
        return read_whole(value, column.back(), has_int_ids_);
    }

    static bool push_number(nb::handle value, std::vector<double>& column) {
        column.push_back(0);
        return read_number(value, column.back());
    }

    bool push_keypoints(nb::handle value) {
        if (num_rows_ == 0) {
            const Py_ssize_t size = num_numbers(value);
            if (size <= 0 || size % 3 != 0) return false;
            num_numbers_ = static_cast<size_t>(size);
            keypoints_.reserve(std::min(num_expected_ * num_numbers_, size_t{1} << 26));
        }
        return append_numbers(value, num_numbers_, keypoints_);
    }

    std::array<bool, kNumDictKeys> is_wanted_{};
    bool skips_crowds_, has_int_ids_ = true, has_float_scores_ = true;
    size_t num_rows_ = 0, num_expected_ = 0, num_numbers_ = 0;
    std::vector<int64_t> image_, category_, id_;
    std::vector<uint8_t> is_crowd_;
    std::vector<double> area_, box_, score_, num_keypoints_, keypoints_;
};

// Columns of some keys of a list of dicts; None if it isn't a list of dicts or has values of other types.
std::optional<DictColumns> read_dicts(nb::handle annotations, const std::vector<std::string>& keys, bool skips_crowds) {
    DictReader reader(keys, skips_crowds);
    if (!PyList_CheckExact(annotations.ptr()) || !reader.read(annotations)) return std::nullopt;
    return reader.take();
}

// Disables the garbage collector during its lifetime: it would traverse all dicts repeatedly, and find no garbage.
class WithoutCollector {
public:
    WithoutCollector() : was_enabled_(PyGC_Disable() != 0) {}
    ~WithoutCollector() {
        if (was_enabled_) PyGC_Enable();
    }
    WithoutCollector(const WithoutCollector&) = delete;
    WithoutCollector& operator=(const WithoutCollector&) = delete;

private:
    bool was_enabled_;
};

// Move all tracked objects to the collector's oldest generation, without traversing them. The lists that results have got live as long
// as their dicts, and traversing them as young objects takes a fifth of a script's time. Does nothing if the program uses gc.freeze().
void promote_objects() {
    const nb::module_ collector = nb::module_::import_("gc");
    if (nb::cast<size_t>(collector.attr("get_freeze_count")()) > 0) return;
    collector.attr("freeze")();
    collector.attr("unfreeze")();
}

nb::object checked(PyObject* owned) {
    if (owned == nullptr) throw nb::python_error();
    return nb::steal(owned);
}

void check(bool is_valid) {
    if (!is_valid) throw nb::python_error();
}

// left + right and left * right, as in Python.
nb::object add(const nb::object& left, const nb::object& right) {
    if (PyFloat_CheckExact(left.ptr()) && PyFloat_CheckExact(right.ptr())) {
        return checked(PyFloat_FromDouble(PyFloat_AsDouble(left.ptr()) + PyFloat_AsDouble(right.ptr())));
    }
    return checked(PyNumber_Add(left.ptr(), right.ptr()));
}

nb::object multiply(const nb::object& left, const nb::object& right) {
    if (PyFloat_CheckExact(left.ptr()) && PyFloat_CheckExact(right.ptr())) {
        return checked(PyFloat_FromDouble(PyFloat_AsDouble(left.ptr()) * PyFloat_AsDouble(right.ptr())));
    }
    return checked(PyNumber_Multiply(left.ptr(), right.ptr()));
}

nb::object list_of(std::initializer_list<nb::object> items) {
    nb::object list = checked(PyList_New(static_cast<Py_ssize_t>(items.size())));
    Py_ssize_t i = 0;
    for (const nb::object& item : items) PyList_SetItem(list.ptr(), i++, nb::object(item).release().ptr());
    return list;
}

// annotation[key] and annotation[key] = value.
nb::object get(const nb::object& annotation, DictKey key) {
    if (PyDict_CheckExact(annotation.ptr())) {
        if (PyObject* const value = PyDict_GetItemWithError(annotation.ptr(), interned(key).ptr())) return nb::borrow(value);
        PyErr_Clear();
    }
    return checked(PyObject_GetItem(annotation.ptr(), interned(key).ptr()));
}

void set(const nb::object& annotation, DictKey key, const nb::object& value) {
    if (PyDict_CheckExact(annotation.ptr())) {
        check(PyDict_SetItem(annotation.ptr(), interned(key).ptr(), value.ptr()) == 0);
    } else {
        check(PyObject_SetItem(annotation.ptr(), interned(key).ptr(), value.ptr()) == 0);
    }
}

// Whether the annotation at index `i` also occurs earlier in the list, so that it already has got an id.
bool is_repeated(nb::handle list, const nb::object& annotation, Py_ssize_t i) {
    const nb::object id = PyDict_CheckExact(annotation.ptr()) ? find_value(annotation, interned(DictKey::id)) : nb::object();
    if (!id.is_valid() || !PyLong_CheckExact(id.ptr())) return false;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(id.ptr(), &overflow);
    if (overflow != 0 || number < 1 || number > i || number > PyList_Size(list.ptr())) return false;
    return PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(number - 1)) == annotation.ptr();
}

// The corners of a box as a polygon.
nb::object outline_of(const nb::object& x, const nb::object& y, const nb::object& right, const nb::object& bottom) {
    return list_of({list_of({x, y, x, bottom, right, bottom, right, y})});
}

// Least number of results to promote; the collector traverses fewer quickly.
constexpr size_t kManyResults = 10'000;

// Gives results an outline, an area, an id and, if `has_crowds`, `iscrowd` = 0. Equivalent to this Python code, errors included:
//
//     x, y, width, height = ann["bbox"][0], …
//     if "segmentation" not in ann: ann["segmentation"] = [[x, y, x, y + height, x + width, y + height, x + width, y]]
//     ann["area"], ann["id"], ann["iscrowd"] = width * height, number, 0
class BoxCompleter {
public:
    explicit BoxCompleter(bool has_crowds) : has_crowds_(has_crowds) {}

    // Complete the dicts of a list. Return whether they are distinct objects.
    bool complete(nb::handle annotations) {
        PyObject* const list = annotations.ptr();
        bool are_distinct = true;
        for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
            prefetch_item(annotations, i, PyList_Size(list));
            const nb::object annotation = nb::borrow(PyList_GetItem(list, i));
            const bool was_complete = complete_shape(annotation);
            are_distinct &= !was_complete || !is_repeated(annotations, annotation, i);
            set(annotation, DictKey::id, checked(PyLong_FromSsize_t(i + 1)));
            if (has_crowds_) set(annotation, DictKey::iscrowd, index_[0]);
        }
        return are_distinct;
    }

private:
    // Set the outline and the area. Return whether the dict already had an outline, as a repeated one has.
    bool complete_shape(const nb::object& annotation) const {
        const nb::object box = get(annotation, DictKey::bbox);
        // as in COCO: a box may have more than four numbers, as rotated boxes do; only the first four are read
        const nb::object x = item(box, 0), y = item(box, 1), width = item(box, 2), height = item(box, 3);
        const bool has_one = has_outline(annotation);
        if (!has_one) set(annotation, DictKey::segmentation, outline_of(x, y, add(x, width), add(y, height)));
        set(annotation, DictKey::area, multiply(width, height));
        return has_one;
    }

    nb::object item(const nb::object& box, Py_ssize_t i) const {
        if (PyList_CheckExact(box.ptr()) && i < PyList_Size(box.ptr())) return nb::borrow(PyList_GetItem(box.ptr(), i));
        return checked(PyObject_GetItem(box.ptr(), index_[static_cast<size_t>(i)].ptr()));
    }

    static bool has_outline(const nb::object& annotation) {
        const int found = PySequence_Contains(annotation.ptr(), interned(DictKey::segmentation).ptr());
        check(found >= 0);
        return found == 1;
    }

    bool has_crowds_;
    std::array<nb::object, 4> index_{nb::int_(0), nb::int_(1), nb::int_(2), nb::int_(3)};
};

bool complete_boxes(const nb::list& annotations, bool has_crowds) {
    const WithoutCollector without_collector;
    const bool are_distinct = BoxCompleter(has_crowds).complete(annotations);
    if (annotations.size() >= kManyResults) promote_objects();
    return are_distinct;
}

// Read every third number of a list from index `first` on, into every second element of `point`. Return false if one is neither a
// float nor an int, if one is NaN, or if none is a float.
bool read_coordinates(const nb::object& list, Py_ssize_t first, double* point) {
    bool has_float = false;
    const Py_ssize_t size = PyList_Size(list.ptr());
    for (Py_ssize_t i = first; i < size; i += 3, point += 2) {
        const nb::handle value = PyList_GetItem(list.ptr(), i);
        if (!read_python_number(value, *point) || std::isnan(*point)) return false;
        has_float |= PyFloat_Check(value.ptr()) != 0;
    }
    return has_float;
}

// Read the box around the keypoints of a dict, if NumPy would compute it in float64. Return false for other numbers, or if an edge is
// at 0, since NumPy decides the sign of zero.
bool read_box_around(const nb::object& dict, std::vector<double>& points, std::array<double, 4>& box) {
    const nb::object list = PyDict_CheckExact(dict.ptr()) ? find_value(dict, interned(DictKey::keypoints)) : nb::object();
    if (!list.is_valid() || !PyList_CheckExact(list.ptr()) || PyList_Size(list.ptr()) == 0) return false;
    if (PyList_Size(list.ptr()) % 3 != 0) return false;
    const auto num_points = static_cast<size_t>(PyList_Size(list.ptr()) / 3);
    points.resize(num_points * 2);
    if (!read_coordinates(list, 0, points.data()) || !read_coordinates(list, 1, points.data() + 1)) return false;
    box = box_around(points.data(), num_points);
    return box[0] != 0 && box[1] != 0 && box[0] + box[2] != 0 && box[1] + box[3] != 0;
}

// Box around the keypoints of each dict, flat: area, left, top, width, height per dict. NaN where Python has to measure them.
nb::object boxes_around_keypoints(const nb::list& annotations) {
    const size_t size = annotations.size();
    std::vector<double> numbers, points;
    numbers.reserve(size * 5);
    for (size_t i = 0; i < size && i < annotations.size(); ++i) {
        prefetch_item(annotations, static_cast<Py_ssize_t>(i), static_cast<Py_ssize_t>(annotations.size()));
        std::array<double, 4> box;
        if (!read_box_around(nb::borrow(annotations[i]), points, box)) box.fill(std::numeric_limits<double>::quiet_NaN());
        numbers.push_back(box[2] * box[3]);
        numbers.insert(numbers.end(), box.begin(), box.end());
    }
    return to_numpy(numbers, {numbers.size()});
}

// Give results an area, an id and a box. `numbers` are from `boxes_around_keypoints`; where they are NaN, `measure(dict)` returns area
// and box. Return whether the dicts are distinct objects.
bool complete_keypoints(const nb::list& annotations, const nb::object& numbers, const nb::object& measure) {
    const WithoutCollector without_collector;
    const ArrayView view(numbers, false);
    const size_t size = view.length() / 5;
    if (!view.has<double>("d", {size * 5})) throw std::invalid_argument("numbers: unexpected array");
    bool are_distinct = true;
    for (size_t i = 0; i < size && i < annotations.size(); ++i) {
        const nb::object annotation = nb::borrow(annotations[i]);
        are_distinct &= !is_repeated(annotations, annotation, static_cast<Py_ssize_t>(i));
        nb::object area, box;
        if (std::isnan(view.data<double>()[5 * i + 1])) {
            const nb::object measured = measure(annotation);
            area = measured[0], box = measured[1];
        } else {
            const auto number = [&](size_t nth) { return checked(PySequence_GetItem(numbers.ptr(), static_cast<Py_ssize_t>(5 * i + nth))); };
            area = number(0), box = list_of({number(1), number(2), number(3), number(4)});
        }
        set(annotation, DictKey::area, area);
        set(annotation, DictKey::id, checked(PyLong_FromSize_t(i + 1)));
        set(annotation, DictKey::bbox, box);
    }
    return are_distinct;
}

}  // namespace

void bind_dicts(nb::module_& module) {
    nb::class_<DictColumns>(module, "DictColumns")
        .def_ro("image", &DictColumns::image)
        .def_ro("category", &DictColumns::category)
        .def_ro("id", &DictColumns::id)
        .def_ro("is_crowd", &DictColumns::is_crowd)
        .def_ro("area", &DictColumns::area)
        .def_ro("box", &DictColumns::box)
        .def_ro("score", &DictColumns::score)
        .def_ro("num_keypoints", &DictColumns::num_keypoints)
        .def_ro("keypoints", &DictColumns::keypoints)
        .def_ro("has_int_ids", &DictColumns::has_int_ids)
        .def_ro("has_float_scores", &DictColumns::has_float_scores);
    module.def("read_dicts", &read_dicts, "annotations"_a, "keys"_a, "skips_crowds"_a);
    module.def("complete_boxes", &complete_boxes, "annotations"_a, "has_crowds"_a = true);
    module.def("boxes_around_keypoints", &boxes_around_keypoints, "annotations"_a);
    module.def("complete_keypoints", &complete_keypoints, "annotations"_a, "numbers"_a, "measure"_a);
}

}  // namespace boxscore
