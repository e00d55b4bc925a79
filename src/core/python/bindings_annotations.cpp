// Overlaps and matches of one image and class, from pycocotools' dicts.
//
// Evaluators that call pycocotools' steps themselves make a million calls, most of them with a few dicts. This is the fast path for dicts
// whose values are ints and floats; for other types these functions return None or false, and Python takes the general path.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "match/images.h"
#include "python/dict_values.h"

namespace boxscore {

using namespace nb::literals;

void bind_annotations(nb::module_& module);

namespace {

struct Keys {
    nb::object score = intern("score"), bbox = intern("bbox"), area = intern("area"), id = intern("id"),
               iscrowd = intern("iscrowd"), ignore = intern("ignore");
};

const Keys& keys() {
    static const Keys* interned = new Keys();  // never freed: the interpreter may end first
    return *interned;
}

bool read_number_of(const nb::object& annotation, const nb::object& key, double& number) {
    const nb::object value = find_value(annotation, key);
    return value.is_valid() && read_python_number(value, number);
}

bool read_flag_of(const nb::object& annotation, const nb::object& key, uint8_t& flag) {
    const nb::object value = find_value(annotation, key);
    return value.is_valid() && read_flag(value, flag);
}

bool read_box(const nb::object& annotation, std::vector<double>& boxes) {
    const nb::object box = find_value(annotation, keys().bbox);
    if (!box.is_valid() || !PyList_CheckExact(box.ptr()) || PyList_Size(box.ptr()) != 4) return false;
    for (Py_ssize_t i = 0; i < 4; ++i) {
        double number;
        if (!read_python_number(PyList_GetItem(box.ptr(), i), number)) return false;
        boxes.push_back(number);
    }
    return true;
}

// Strong references to the dicts of a list.
using Annotations = std::vector<nb::object>;

bool read_annotations(nb::handle list, Annotations& annotations) {
    if (!PyList_CheckExact(list.ptr())) return false;
    const Py_ssize_t size = PyList_Size(list.ptr());
    annotations.reserve(static_cast<size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* annotation = PyList_GetItem(list.ptr(), i);
        if (!PyDict_CheckExact(annotation)) return false;
        annotations.push_back(nb::borrow(annotation));
    }
    return true;
}

// Read the first `limit` detections by falling score, stably.
bool read_detections(nb::handle list, size_t limit, Annotations& detections) {
    Annotations given;
    if (!read_annotations(list, given)) return false;
    std::vector<double> score(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
        if (!read_number_of(given[i], keys().score, score[i]) || std::isnan(score[i])) return false;
    }
    std::vector<size_t> order(given.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return score[one] > score[other]; });
    order.resize(std::min(limit, order.size()));
    detections.reserve(order.size());
    for (const size_t i : order) detections.push_back(std::move(given[i]));
    return true;
}

// Write the overlaps into `overlap`, of shape (D, G). Return false for values of other types.
bool measure_annotations(nb::handle detections, nb::handle truths, nb::handle overlap) {
    const ArrayView out(overlap, true);
    Annotations detection_dicts, truth_dicts;
    if (!read_annotations(truths, truth_dicts) || !read_detections(detections, out.length(), detection_dicts)) return false;
    const size_t num = detection_dicts.size(), num_truths = truth_dicts.size();
    if (!out.has<double>("d", {num, num_truths})) return false;
    std::vector<double> box, truth_box;
    std::vector<uint8_t> is_crowd(num_truths);
    for (const nb::object& each : detection_dicts) {
        if (!read_box(each, box)) return false;
    }
    for (size_t g = 0; g < num_truths; ++g) {
        const nb::object& each = truth_dicts[g];
        if (!read_box(each, truth_box) || !read_flag_of(each, keys().iscrowd, is_crowd[g])) return false;
    }
    const ImageGroups group{{0, static_cast<int64_t>(num)}, {0, static_cast<int64_t>(num_truths)}};
    measure_overlaps(group, box.data(), truth_box.data(), is_crowd.data(), Run{}, out.data<double>());
    return true;
}

// Values of a key that all dicts have.
nb::list values_of(const Annotations& annotations, const nb::object& key) {
    nb::list values;
    for (const nb::object& each : annotations) values.append(each[key]);
    return values;
}

// Columns of one image and class for matching.
struct ImageColumns {
    std::vector<double> area, id, truth_area, truth_id;
    std::vector<uint8_t> is_ignored, is_crowd;

    bool read(const Annotations& detections, const Annotations& truths) {
        area.resize(detections.size());
        id.resize(detections.size());
        for (size_t d = 0; d < detections.size(); ++d) {
            const nb::object& each = detections[d];
            if (!read_number_of(each, keys().area, area[d]) || !read_number_of(each, keys().id, id[d])) return false;
        }
        truth_area.resize(truths.size());
        truth_id.resize(truths.size());
        is_ignored.resize(truths.size());
        is_crowd.resize(truths.size());
        for (size_t g = 0; g < truths.size(); ++g) {
            const nb::object& each = truths[g];
            if (!read_flag_of(each, keys().ignore, is_ignored[g]) || !read_flag_of(each, keys().iscrowd, is_crowd[g])) return false;
            if (!read_number_of(each, keys().id, truth_id[g])) return false;
            // as in COCO: the area of an ignored truth is never read
            if (is_ignored[g] == 0 && !read_number_of(each, keys().area, truth_area[g])) return false;
        }
        return true;
    }
};

// Match the detections and truths of one image and class. `overlap`: shape (D, G), or None for an empty matrix. `rules`: thresholds,
// lowest area, highest area, limit. Writes the matches into the arrays of `out`, of shapes (T, D), (T, G), (T, D), (G,). Returns the
// ids of the detections, the ids of the truths and the scores, each in the order of matching; or None for values of other types.
nb::object match_annotations(nb::handle detections, nb::handle truths, nb::handle overlap, const nb::tuple& rules,
                             const nb::tuple& out) {
    Annotations detection_dicts, truth_dicts;
    double area_low, area_high;
    if (rules.size() != 4 || out.size() != 4) throw nb::type_error("`rules` and `out` must have 4 items");
    if (!read_python_number(rules[1].ptr(), area_low) || !read_python_number(rules[2].ptr(), area_high)) return nb::none();
    if (!read_annotations(truths, truth_dicts)) return nb::none();
    if (!read_detections(detections, nb::cast<size_t>(rules[3]), detection_dicts)) return nb::none();
    const size_t D = detection_dicts.size(), G = truth_dicts.size();
    const ArrayView thresholds(rules[0], false);
    const size_t T = thresholds.length();
    const ArrayView match(out[0], true), truth_match(out[1], true), is_ignored(out[2], true), is_truth_ignored(out[3], true);
    if (!thresholds.has<double>("d", {T}) || !match.has<double>("d", {T, D}) || !truth_match.has<double>("d", {T, G}) ||
        !is_ignored.has<uint8_t>("?", {T, D}) || !is_truth_ignored.has<int64_t>("lq", {G})) {
        return nb::none();
    }
    ImageColumns columns;
    if (!columns.read(detection_dicts, truth_dicts)) return nb::none();
    const ImageGroups group{{0, static_cast<int64_t>(D)}, {0, static_cast<int64_t>(G)}};
    std::vector<int64_t> order(G);
    const auto match_group = [&](const double* overlaps) {
        const double* values = thresholds.data<double>();
        assign(group,
               {overlaps, columns.area.data(), columns.id.data(), columns.truth_area.data(), columns.truth_id.data(),
                columns.is_ignored.data(), columns.is_crowd.data()},
               {{values, values + T}, {area_low}, {area_high}}, Run{},
               {match.data<double>(), truth_match.data<double>(), is_ignored.data<uint8_t>(),
                is_truth_ignored.data<int64_t>(), order.data()});
    };
    if (overlap.is_none()) {
        match_group(std::vector<double>(D * G, -std::numeric_limits<double>::infinity()).data());
    } else {
        const ArrayView measured(overlap, false);
        const size_t num_rows = measured.length();
        if (num_rows < D || !measured.has<double>("d", {num_rows, G})) return nb::none();
        match_group(measured.data<double>());
    }
    Annotations ordered;
    ordered.reserve(G);
    for (const int64_t g : order) ordered.push_back(truth_dicts[static_cast<size_t>(g)]);
    return nb::make_tuple(values_of(detection_dicts, keys().id), values_of(ordered, keys().id),
                          values_of(detection_dicts, keys().score));
}

}  // namespace

void bind_annotations(nb::module_& module) {
    module.def("measure_annotations", &measure_annotations, "detections"_a, "truths"_a, "overlap"_a);
    module.def("match_annotations", &match_annotations, "detections"_a, "truths"_a, "overlap"_a.none(), "rules"_a, "out"_a);
}

}  // namespace boxscore
