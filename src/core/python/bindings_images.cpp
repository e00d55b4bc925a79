// The Python side of what pycocotools keeps of every image.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "python/arrays.h"
#include "images.h"
#include "memory.h"
#include "python/unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_images(nb::module_& module);

namespace {

std::vector<int64_t> starts_of(const Input& starts, size_t num_rows, const char* name) {
    std::vector<int64_t> values = copy_of<int64_t>(starts, starts.size(), name);
    bool is_fine = starts.size() > 0 && values[0] == 0 && values[starts.size() - 1] == static_cast<int64_t>(num_rows);
    for (size_t n = 1; n < starts.size(); ++n) is_fine &= values[n - 1] <= values[n];
    if (!is_fine) throw std::invalid_argument(std::string(name) + ": must ascend from 0 to the number of rows");
    return values;
}

ImageGroups groups_of(const Input& start, size_t num_detections, const Input& truth_start, size_t num_truths) {
    if (start.size() != truth_start.size()) throw std::invalid_argument("truth_start: unexpected size");
    return {starts_of(start, num_detections, "start"), starts_of(truth_start, num_truths, "truth_start")};
}

nb::object overlaps(const Input& box, const Input& truth_box, const Input& is_crowd, const Input& start,
                    const Input& truth_start, size_t num_threads) {
    const size_t num_truths = is_crowd.size();
    const double* boxes = typed<double>(box, box.size() / 4 * 4, "box");
    const double* truth_boxes = typed<double>(truth_box, num_truths * 4, "truth_box");
    const uint8_t* flags = typed<uint8_t>(is_crowd, num_truths, "is_crowd");
    const ImageGroups groups = groups_of(start, box.size() / 4, truth_start, num_truths);
    Buffer<double> overlap(groups.matrix_starts().back());
    run_without_lock(overlap.size(), num_threads, [&](const Run& run) {
        measure_overlaps(groups, boxes, truth_boxes, flags, run, overlap.data());
    });
    const size_t size = overlap.size();
    return to_numpy(std::move(overlap), {size});
}

nb::tuple assignments(const Input& overlap, const Input& start, const Input& truth_start, const Input& area, const Input& id,
                      const Input& truth_area, const Input& truth_id, const Input& is_ignored, const Input& is_crowd,
                      const std::vector<double>& thresholds, const std::vector<double>& area_low,
                      const std::vector<double>& area_high, size_t num_threads) {
    const size_t num_detections = area.size(), num_truths = truth_area.size();
    const ImageGroups groups = groups_of(start, num_detections, truth_start, num_truths);
    const AssignmentColumns columns{typed<double>(overlap, groups.matrix_starts().back(), "overlap"),
                                    typed<double>(area, num_detections, "area"),
                                    typed<double>(id, num_detections, "id"),
                                    typed<double>(truth_area, num_truths, "truth_area"),
                                    typed<double>(truth_id, num_truths, "truth_id"),
                                    typed<uint8_t>(is_ignored, num_truths, "is_ignored"),
                                    typed<uint8_t>(is_crowd, num_truths, "is_crowd")};
    if (area_low.size() != area_high.size()) throw std::invalid_argument("area_high: unexpected size");
    const size_t num_areas = area_low.size(), num_cells = num_areas * thresholds.size();
    Buffer<double> match(num_cells * num_detections), truth_match(num_cells * num_truths);
    Buffer<uint8_t> ignored(num_cells * num_detections);
    Buffer<int64_t> truth_ignored(num_areas * num_truths), truth_order(num_areas * num_truths);
    const Assignments out{match.data(), truth_match.data(), ignored.data(), truth_ignored.data(), truth_order.data()};
    run_without_lock(num_cells * num_detections, num_threads, [&](const Run& run) {
        assign(groups, columns, {thresholds, area_low, area_high}, run, out);
    });
    const size_t width = thresholds.size() * num_detections, truth_width = thresholds.size() * num_truths;
    return nb::make_tuple(to_numpy(std::move(match), {num_areas, width}), to_numpy(std::move(ignored), {num_areas, width}),
                          to_numpy(std::move(truth_match), {num_areas, truth_width}),
                          to_numpy(std::move(truth_ignored), {num_areas, num_truths}),
                          to_numpy(std::move(truth_order), {num_areas, num_truths}));
}

}  // namespace

void bind_images(nb::module_& module) {
    module.def("overlaps", &overlaps, "box"_a, "truth_box"_a, "is_crowd"_a, "start"_a, "truth_start"_a, "num_threads"_a);
    module.def("assign", &assignments, "overlap"_a, "start"_a, "truth_start"_a, "area"_a, "id"_a, "truth_area"_a,
               "truth_id"_a, "is_ignored"_a, "is_crowd"_a, "thresholds"_a, "area_low"_a, "area_high"_a, "num_threads"_a);
}

}  // namespace boxscore
