// Python module of the engine. Functions take and return arrays, and release the interpreter lock while they compute.
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

#include "geometry/boxes.h"
#include "geometry/checks.h"
#include "match/match.h"
#include "platform/memory.h"
#include "python/arrays.h"
#include "python/tally.h"
#include "python/unlocked.h"
#include "rows/order.h"
#include "rows/row_order.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_keypoints(nb::module_& module);
void bind_masks(nb::module_& module);
void bind_match(nb::module_& module);
void bind_oriented(nb::module_& module);
void bind_rle(nb::module_& module);
void bind_files(nb::module_& module);
void bind_annotations(nb::module_& module);
void bind_batches(nb::module_& module);
void bind_dicts(nb::module_& module);
void bind_images(nb::module_& module);
void bind_bootstrap(nb::module_& module);
void bind_curves(nb::module_& module);

namespace {

nb::object distinct_ids(const Input& ids) {
    std::vector<int64_t> found;
    {
        const Unlocked unlocked;
        found = distinct_of(ids);
    }
    return to_numpy(found, {found.size()});
}

// Index of each id in an ascending table; -1 where missing.
nb::object find_ids(const Input& ids, const Input& table) {
    const std::vector<int64_t> values = ascending(table, "table");
    Buffer<int32_t> index(ids.size());
    {
        const Unlocked unlocked;
        find_all(ids, values, index);
    }
    return to_numpy(std::move(index), {ids.size()});
}

// Number of occurrences of each id of an ascending table.
nb::object count_ids(const Input& ids, const Input& table) {
    const std::vector<int64_t> values = ascending(table, "table");
    std::vector<int64_t> count(table.size());
    {
        const Unlocked unlocked;
        const Buffer<int32_t> index = indices_of(ids, values, "ids", "the table");
        for (size_t i = 0; i < index.size(); ++i) ++count[index[i]];
    }
    return to_numpy(count, {count.size()});
}

// Stable lexicographic order of rows: by the first column, then by the next. Columns are integers or floats.
nb::object order_of_rows(const std::vector<Input>& columns) {
    const size_t size = columns.at(0).size();
    for (const Input& column : columns) check_size(column, size, "column");
    Buffer<int64_t> order(size);
    {
        const Unlocked unlocked;
        RowOrder rows(size);
        for (size_t i = columns.size(); i-- > 0;) {
            if (is_real(columns[i])) {
                with_reals(columns[i], [&](const auto* values) { rows.add([&](size_t row) { return ~falling_key(values[row]); }); });
            } else {
                with_integers(columns[i], [&](const auto* values) { rows.add([&](size_t row) { return rising_key(values[row]); }); });
            }
        }
        rows.finish(order.data());
    }
    return to_numpy(std::move(order), {size});
}

bool are_finite_values(const Input& values) {
    const Unlocked unlocked;
    return with_reals(values, [&](const auto* data) { return are_finite(data, values.size()); });
}

bool are_valid_boxes(const Input& box, BoxFormat format, double largest) {
    const Unlocked unlocked;
    return with_reals(box, [&](const auto* data) { return are_boxes_valid(data, box.size() / 4, format, largest); });
}

}  // namespace
}  // namespace boxscore

NB_MODULE(_compiled, module) {
    using namespace boxscore;
    module.doc() = "The compiled engine: indices, matching, curves.";
    nb::set_leak_warnings(false);  // other modules may keep our objects until the interpreter ends
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
        .value("linear_points", ApRule::linear_points)
        .value("linear_points_to_end", ApRule::linear_points_to_end)
        .value("envelope", ApRule::envelope)
        .value("trapezoid", ApRule::trapezoid)
        .value("trapezoid_from_first", ApRule::trapezoid_from_first);
    nb::class_<Rules>(module, "Rules")
        .def(nb::init<>())
        .def_rw("cutoffs", &Rules::cutoffs)
        .def_rw("is_strict", &Rules::is_strict)
        .def_rw("matching", &Rules::matching)
        .def_rw("is_last_first", &Rules::is_last_first)
        .def_rw("is_group_counted", &Rules::is_group_counted)
        .def_rw("keeps_similarity", &Rules::keeps_similarity)
        .def_rw("area_low", &Rules::area_low)
        .def_rw("area_high", &Rules::area_high)
        .def_rw("limits", &Rules::limits)
        .def_rw("is_limit_per_image", &Rules::is_limit_per_image)
        .def_rw("recall_points", &Rules::recall_points)
        .def_rw("ap", &Rules::ap)
        .def_rw("epsilon", &Rules::epsilon);
    module.attr("NO_LIMIT") = kNoLimit;
    module.def("are_finite", &are_finite_values, "values"_a);
    module.def("are_boxes_valid", &are_valid_boxes, "box"_a, "box_format"_a, "largest"_a);
    module.def("distinct", &distinct_ids, "ids"_a);
    module.def("find", &find_ids, "ids"_a, "table"_a);
    module.def("count", &count_ids, "ids"_a, "table"_a);
    module.def("order_of_rows", &order_of_rows, "columns"_a);
    bind_tally(module);
    bind_curves(module);
    bind_match(module);
    bind_keypoints(module);
    bind_masks(module);
    bind_oriented(module);
    bind_rle(module);
    bind_files(module);
    bind_images(module);
    bind_annotations(module);
    bind_dicts(module);
    bind_batches(module);
    bind_bootstrap(module);
}
