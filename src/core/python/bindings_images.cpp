// Python bindings of the arrays that pycocotools keeps per image and class.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "match/images.h"
#include "platform/memory.h"
#include "python/arrays.h"
#include "python/geometry.h"
#include "python/unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_images(nb::module_& module);

namespace {

std::vector<int64_t> starts_of(const Input& starts, size_t num_rows, const char* name) {
    std::vector<int64_t> values = copy_of<int64_t>(starts, starts.size(), name);
    bool is_valid = starts.size() > 0 && values[0] == 0 && values[starts.size() - 1] == static_cast<int64_t>(num_rows);
    for (size_t n = 1; n < starts.size(); ++n) is_valid &= values[n - 1] <= values[n];
    if (!is_valid) throw std::invalid_argument(std::string(name) + ": must ascend from 0 to the number of rows");
    return values;
}

// Offsets of the groups among the detections and among the truths.
struct GroupsObject {
    Input start, truth_start;

    ImageGroups groups(size_t num_detections, size_t num_truths) const {
        if (start.size() != truth_start.size()) throw std::invalid_argument("truth_start: unexpected size");
        return {starts_of(start, num_detections, "start"), starts_of(truth_start, num_truths, "truth_start")};
    }
};

struct GroupedDetections {
    Input area, id;
};

struct GroupedTruths {
    Input area, id, is_ignored, is_crowd;
};

struct AssignmentsObject {
    nb::object match, is_ignored, truth_match, is_truth_ignored, truth_order;
};

nb::object overlaps(const GroupsObject& group_starts, const Input& box, const Input& truth_box, const Input& is_crowd,
                    size_t num_threads) {
    const size_t num_truths = is_crowd.size();
    const double* boxes = typed<double>(box, box.size() / 4 * 4, "box");
    const double* truth_boxes = typed<double>(truth_box, num_truths * 4, "truth_box");
    const uint8_t* flags = typed<uint8_t>(is_crowd, num_truths, "is_crowd");
    const ImageGroups groups = group_starts.groups(box.size() / 4, num_truths);
    Buffer<double> overlap(groups.matrix_starts().back());
    run_without_lock(overlap.size(), num_threads, [&](const Run& run) {
        measure_overlaps(groups, boxes, truth_boxes, flags, run, overlap.data());
    });
    const size_t size = overlap.size();
    return to_numpy(std::move(overlap), {size});
}

// Similarities of the pairs of each group, for any geometry; rows must be sorted by group.
nb::object similarities(const GroupsObject& group_starts, const Geometry& detections, const Geometry& truths, const Input& is_crowd,
                        size_t num_threads) {
    const uint8_t* flags = typed<uint8_t>(is_crowd, truths.size(), "is_crowd");
    return detections.measure(truths, group_starts.groups(detections.size(), truths.size()), flags, num_threads);
}

AssignmentsObject assign_groups(const GroupsObject& group_starts, const Input& overlap, const GroupedDetections& detections,
                                const GroupedTruths& truths, const AssignmentRules& rules, size_t num_threads) {
    const size_t num_detections = detections.area.size(), num_truths = truths.area.size();
    const ImageGroups groups = group_starts.groups(num_detections, num_truths);
    const AssignmentColumns columns{typed<double>(overlap, groups.matrix_starts().back(), "overlap"),
                                    typed<double>(detections.area, num_detections, "area"),
                                    typed<double>(detections.id, num_detections, "id"),
                                    typed<double>(truths.area, num_truths, "truth area"),
                                    typed<double>(truths.id, num_truths, "truth id"),
                                    typed<uint8_t>(truths.is_ignored, num_truths, "is_ignored"),
                                    typed<uint8_t>(truths.is_crowd, num_truths, "is_crowd")};
    if (rules.area_low.size() != rules.area_high.size()) throw std::invalid_argument("area_high: unexpected size");
    const size_t num_areas = rules.area_low.size(), num_cells = num_areas * rules.thresholds.size();
    Buffer<double> match(num_cells * num_detections), truth_match(num_cells * num_truths);
    Buffer<uint8_t> ignored(num_cells * num_detections);
    Buffer<int64_t> truth_ignored(num_areas * num_truths), truth_order(num_areas * num_truths);
    const Assignments out{match.data(), truth_match.data(), ignored.data(), truth_ignored.data(), truth_order.data()};
    run_without_lock(num_cells * num_detections, num_threads,
                     [&](const Run& run) { assign(groups, columns, rules, run, out); });
    const size_t width = rules.thresholds.size() * num_detections, truth_width = rules.thresholds.size() * num_truths;
    return {to_numpy(std::move(match), {num_areas, width}), to_numpy(std::move(ignored), {num_areas, width}),
            to_numpy(std::move(truth_match), {num_areas, truth_width}),
            to_numpy(std::move(truth_ignored), {num_areas, num_truths}),
            to_numpy(std::move(truth_order), {num_areas, num_truths})};
}

}  // namespace

void bind_images(nb::module_& module) {
    using Reals = std::vector<double>;
    auto make_groups = [](GroupsObject* self, Input start, Input truth_start) {
        new (self) GroupsObject{std::move(start), std::move(truth_start)};
    };
    auto make_detections = [](GroupedDetections* self, Input area, Input id) {
        new (self) GroupedDetections{std::move(area), std::move(id)};
    };
    auto make_truths = [](GroupedTruths* self, Input area, Input id, Input is_ignored, Input is_crowd) {
        new (self) GroupedTruths{std::move(area), std::move(id), std::move(is_ignored), std::move(is_crowd)};
    };
    auto make_rules = [](AssignmentRules* self, Reals thresholds, Reals area_low, Reals area_high) {
        new (self) AssignmentRules{std::move(thresholds), std::move(area_low), std::move(area_high)};
    };
    nb::class_<GroupsObject>(module, "ImageGroups").def("__init__", make_groups, "start"_a, "truth_start"_a);
    nb::class_<GroupedDetections>(module, "GroupedDetections").def("__init__", make_detections, "area"_a, "id"_a);
    nb::class_<GroupedTruths>(module, "GroupedTruths")
        .def("__init__", make_truths, "area"_a, "id"_a, "is_ignored"_a, "is_crowd"_a);
    nb::class_<AssignmentRules>(module, "AssignmentRules")
        .def("__init__", make_rules, "thresholds"_a, "area_low"_a, "area_high"_a);
    nb::class_<AssignmentsObject>(module, "Assignments")
        .def_ro("match", &AssignmentsObject::match)
        .def_ro("is_ignored", &AssignmentsObject::is_ignored)
        .def_ro("truth_match", &AssignmentsObject::truth_match)
        .def_ro("is_truth_ignored", &AssignmentsObject::is_truth_ignored)
        .def_ro("truth_order", &AssignmentsObject::truth_order);
    module.def("overlaps", &overlaps, "groups"_a, "box"_a, "truth_box"_a, "is_crowd"_a, "num_threads"_a);
    module.def("similarities", &similarities, "groups"_a, "detections"_a, "truths"_a, "is_crowd"_a, "num_threads"_a);
    module.def("assign", &assign_groups, "groups"_a, "overlap"_a, "detections"_a, "truths"_a, "rules"_a, "num_threads"_a);
}

}  // namespace boxscore
