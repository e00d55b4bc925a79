// The Python side of the engine: arrays in, arrays out, without the interpreter lock in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "python/arrays.h"
#include "average.h"
#include "checks.h"
#include "curves.h"
#include "geometry/boxes.h"
#include "match.h"
#include "memory.h"
#include "order.h"
#include "python/tally.h"
#include "python/unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_match(nb::module_& module);
void bind_files(nb::module_& module);
void bind_annotations(nb::module_& module);
void bind_images(nb::module_& module);
void bind_bootstrap(nb::module_& module);

namespace {

nb::object distinct_ids(const Input& ids) {
    std::vector<int64_t> found;
    {
        nb::gil_scoped_release unlock;
        found = distinct_of(ids);
    }
    return to_numpy(found, {found.size()});
}

// The place of each id in a table that ascends; -1 if it is not there.
nb::object find_ids(const Input& ids, const Input& table) {
    const std::vector<int64_t> values = ascending(table, "table");
    Buffer<int32_t> place(ids.size());
    {
        nb::gil_scoped_release unlock;
        find_all(ids, values, place);
    }
    return to_numpy(std::move(place), {ids.size()});
}

// How often each id of a table occurs.
nb::object count_ids(const Input& ids, const Input& table) {
    const std::vector<int64_t> values = ascending(table, "table");
    std::vector<int64_t> count(table.size());
    {
        nb::gil_scoped_release unlock;
        const Buffer<int32_t> place = places_of(ids, values, "ids", "the table");
        for (size_t i = 0; i < place.size(); ++i) ++count[place[i]];
    }
    return to_numpy(count, {count.size()});
}

nb::object count_truths_of(const Input& label, const Input& state, const Input& classes, size_t num_areas) {
    const Buffer<int32_t> place = places_of(label, ascending(classes, "classes"), "truth_label", "the classes");
    auto count = [&](const auto* states) {
        return count_truths(place.data(), states, place.size(), classes.size(), num_areas);
    };
    const std::vector<int64_t> counts = num_areas < 8 ? count(typed<uint8_t>(state, label.size(), "truth_state"))
                                                      : count(typed<uint64_t>(state, label.size(), "truth_state"));
    return to_numpy(counts, {classes.size(), num_areas});
}

bool are_finite_values(const Input& values) {
    nb::gil_scoped_release unlock;
    return with_reals(values, [&](const auto* data) { return are_finite(data, values.size()); });
}

bool are_fine_boxes(const Input& box, BoxFormat format, double largest) {
    nb::gil_scoped_release unlock;
    return with_reals(box, [&](const auto* data) { return are_boxes_fine(data, box.size() / 4, format, largest); });
}

// Whether there is nothing to say of columns as they are, a row each for some boxes, and nothing to convert.
bool are_columns_fine(const nb::handle& box, BoxFormat format, double largest, const nb::tuple& ids, const nb::tuple& reals,
                      const nb::tuple& flags) {
    using Kind = nb::dlpack::dtype_code;
    Input boxes, column;
    if (!read_boxes(box, boxes) || !are_fine_boxes(boxes, format, largest)) return false;
    const size_t size = boxes.shape(0);
    for (const nb::handle& value : ids) {
        if (!read_column(value, Kind::Int, size, column)) return false;
    }
    for (const nb::handle& value : flags) {
        if (!read_column(value, Kind::Bool, size, column)) return false;
    }
    for (const nb::handle& value : reals) {
        if (!read_reals(value, size, column) || !are_finite_values(column)) return false;
    }
    return true;
}

// Whether rows stand in order of images, part by part.
bool are_in_order(const std::vector<Input>& parts) {
    bool is_fine = true;
    int64_t last = INT64_MIN;
    for (const Input& image : parts) {
        if (image.size() == 0) continue;
        with_integers(image, [&](const auto* values) {
            is_fine &= last <= static_cast<int64_t>(values[0]) && std::is_sorted(values, values + image.size());
            last = static_cast<int64_t>(values[image.size() - 1]);
        });
    }
    return is_fine;
}

template <class Score, class State>
void draw_typed(const TallyArrays& arrays, const std::vector<int64_t>& classes, const int64_t* num_truths,
                const Rules& rules, const CurveStart* begin, const Run& run, const CurveArrays& out) {
    std::vector<Input> image;
    for (const RowArrays& rows : arrays.parts) image.push_back(rows.image);
    std::vector<int64_t> images;
    Buffer<int32_t> image_place;
    if (!are_in_order(image)) {
        if (image.size() > 1) throw std::invalid_argument("image: parts are not in order");
        images = distinct_of(image[0]);
        image_place = places_of(image[0], images, "image", "the images");
    }
    std::vector<Buffer<int32_t>> label(arrays.parts.size());
    for_each_task(label.size(), run, [] { return 0; }, [&](size_t i, int) {
        label[i] = places_of(arrays.parts[i].label, classes, "label", "the classes");
    });
    std::vector<TallyColumns<Score, State>> parts;
    for (size_t i = 0; i < label.size(); ++i) {
        const RowArrays& rows = arrays.parts[i];
        parts.push_back({rows.size(), label[i].data(), image_place.empty() ? nullptr : image_place.data(),
                         elements<Score>(rows.score), elements<uint8_t>(rows.tier), elements<State>(rows.state),
                         elements<uint64_t>(arrays.is_true), elements<uint64_t>(arrays.is_counted),
                         arrays.is_true.size() / rules.num_words(), images.size(), classes.size(), num_truths});
    }
    draw_curves(parts, rules, begin, run, out);
}

nb::tuple draw_columns(const std::vector<std::array<Input, 5>>& rows, const Input& is_true, const Input& is_counted,
                       const Input& classes, const Input& num_truths, const Rules& rules,
                       size_t num_threads, const std::optional<std::array<Input, 5>>& start) {
    const size_t num_classes = classes.size();
    const std::vector<int64_t> truths = copy_of<int64_t>(num_truths, num_classes * rules.num_areas(), "num_truths");
    for (const int64_t num : truths) {
        if (num < 0 || num >= INT32_MAX) throw std::invalid_argument("num_truths: out of range");
    }
    const std::vector<int64_t> table = ascending(classes, "classes");
    const size_t num_thresholds = rules.num_thresholds(), num_points = rules.recall_points.size();
    const size_t num_areas = rules.num_areas(), num_limits = rules.num_limits();
    const size_t num_curves = num_thresholds * num_classes * num_areas * num_limits;
    CurveStart begin{};
    std::vector<int64_t> before_true, before_counted, total_true;
    Buffer<double> sum_after;
    if (start) {
        const auto& [num_true, num_counted, total, sum, beyond] = *start;
        before_true = copy_of<int64_t>(num_true, num_curves, "start: num_true");
        before_counted = copy_of<int64_t>(num_counted, num_curves, "start: num_counted");
        total_true = copy_of<int64_t>(total, num_curves, "start: total_true");
        for (size_t i = 0; i < num_curves; ++i) {
            const bool is_fine = 0 <= before_true[i] && before_true[i] <= before_counted[i] && before_true[i] <= total_true[i];
            if (!is_fine || total_true[i] >= INT32_MAX) throw std::invalid_argument("start: counts out of range");
        }
        const double* sums = typed<double>(sum, num_curves * kSumState, "start: sum");
        sum_after = Buffer<double>(sum.size());
        std::copy(sums, sums + sum.size(), sum_after.data());
        begin = {before_true.data(), before_counted.data(), total_true.data(),
                 sums,               typed<double>(beyond, num_curves, "start: beyond"), sum_after.data()};
    }
    Buffer<double> precision(num_curves * num_points), scores(num_curves * num_points);
    Buffer<double> recall(num_curves), average_precision(num_curves);
    Buffer<int64_t> num_true(num_curves), num_false(num_curves);
    const CurveArrays out{precision.data(), scores.data(),   recall.data(), average_precision.data(),
                          num_true.data(),  num_false.data()};
    TallyArrays arrays{{}, is_true, is_counted};
    size_t size = 0;
    for (const auto& [image, label, score, tier, state] : rows) {
        arrays.parts.push_back({image, label, score, tier, state});
        size += label.size();
    }
    with_tally(arrays, rules, [&](auto score, auto state) {
        run_without_lock(size, num_threads, [&](const Run& run) {
            draw_typed<decltype(score), decltype(state)>(arrays, table, truths.data(), rules, start ? &begin : nullptr, run, out);
        });
    });
    return nb::make_tuple(
        to_numpy(std::move(precision), {num_thresholds, num_points, num_classes, num_areas, num_limits}),
        to_numpy(std::move(scores), {num_thresholds, num_points, num_classes, num_areas, num_limits}),
        to_numpy(std::move(recall), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(average_precision), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(num_true), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(num_false), {num_thresholds, num_classes, num_areas, num_limits}),
        start ? to_numpy(std::move(sum_after), {num_thresholds, num_classes, num_areas, num_limits, kSumState}) : nb::none());
}

// The mean over some thresholds and all that is between them and the last axes, in one area range and limit.
double mean_samples(const Input& values, const std::vector<size_t>& thresholds, size_t area, size_t limit) {
    const size_t num_axes = values.ndim();
    if (num_axes < 4) throw std::invalid_argument("values: expected thresholds first, areas and limits last");
    const size_t num_thresholds = values.shape(0), num_areas = values.shape(num_axes - 2), num_limits = values.shape(num_axes - 1);
    if (area >= num_areas || limit >= num_limits) throw std::invalid_argument("area, limit: not there");
    for (const size_t t : thresholds) {
        if (t >= num_thresholds) throw std::invalid_argument("thresholds: not there");
    }
    const double* data = typed<double>(values, values.size(), "values");
    nb::gil_scoped_release unlock;
    return mean_defined(data, thresholds, values.size() / std::max<size_t>(num_thresholds, 1), num_areas * num_limits,
                        area * num_limits + limit);
}

}  // namespace
}  // namespace boxscore

NB_MODULE(_compiled, module) {
    using namespace boxscore;
    module.doc() = "The compiled engine: places, matching, curves.";
    nb::set_leak_warnings(false);  // others may hold what is ours until the interpreter is gone
    nb::enum_<BoxFormat>(module, "BoxFormat")
        .value("xyxy", BoxFormat::xyxy)
        .value("xywh", BoxFormat::xywh)
        .value("cxcywh", BoxFormat::cxcywh);
    nb::enum_<Matching>(module, "Matching")
        .value("best", Matching::best)
        .value("best_regular", Matching::best_regular)
        .value("next_best", Matching::next_best);
    nb::enum_<ApRule>(module, "ApRule")
        .value("recall_points", ApRule::recall_points)
        .value("interpolated", ApRule::interpolated)
        .value("envelope", ApRule::envelope)
        .value("trapezoid", ApRule::trapezoid);
    nb::class_<Rules>(module, "Rules")
        .def(nb::init<>())
        .def_rw("cutoffs", &Rules::cutoffs)
        .def_rw("is_strict", &Rules::is_strict)
        .def_rw("matching", &Rules::matching)
        .def_rw("area_low", &Rules::area_low)
        .def_rw("area_high", &Rules::area_high)
        .def_rw("limits", &Rules::limits)
        .def_rw("is_limit_per_image", &Rules::is_limit_per_image)
        .def_rw("recall_points", &Rules::recall_points)
        .def_rw("ap", &Rules::ap)
        .def_rw("epsilon", &Rules::epsilon);
    module.attr("NO_LIMIT") = kNoLimit;
    module.attr("SUM_STATE") = kSumState;
    module.def("are_finite", &are_finite_values, "values"_a);
    module.def("are_boxes_fine", &are_fine_boxes, "box"_a, "box_format"_a, "largest"_a);
    module.def("are_columns_fine", &are_columns_fine, "box"_a, "box_format"_a, "largest"_a, "ids"_a, "reals"_a, "flags"_a);
    module.def("distinct", &distinct_ids, "ids"_a);
    module.def("find", &find_ids, "ids"_a, "table"_a);
    module.def("count", &count_ids, "ids"_a, "table"_a);
    module.def("count_truths", &count_truths_of, "label"_a, "state"_a, "classes"_a, "num_areas"_a);
    module.def("are_in_order", &are_in_order, "parts"_a);
    module.def("draw_curves", &draw_columns, "rows"_a, "is_true"_a, "is_counted"_a, "classes"_a, "num_truths"_a, "rules"_a,
               "num_threads"_a, "start"_a.none() = nb::none());
    module.def("mean_samples", &mean_samples, "values"_a, "thresholds"_a, "area"_a, "limit"_a);
    bind_tally(module);
    bind_match(module);
    bind_files(module);
    bind_images(module);
    bind_annotations(module);
    bind_bootstrap(module);
}
