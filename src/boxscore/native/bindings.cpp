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

#include "average.h"
#include "checks.h"
#include "curves.h"
#include "match.h"
#include "memory.h"
#include "order.h"
#include "unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_files(nb::module_& module);

namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object to_numpy(Buffer<T>&& buffer, std::initializer_list<size_t> shape) {
    T* data = buffer.release();
    nb::capsule owner(data, [](void* pointer) noexcept { std::free(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

template <class T>
nb::object to_numpy(const std::vector<T>& values, std::initializer_list<size_t> shape) {
    Buffer<T> buffer(values.size());
    std::copy(values.begin(), values.end(), buffer.data());
    return to_numpy(std::move(buffer), shape);
}

// The elements of an array, which must stand where their type may stand.
template <class T>
const T* elements(const Input& array) {
    if (reinterpret_cast<uintptr_t>(array.data()) % alignof(T) != 0) throw std::invalid_argument("misaligned array");
    return static_cast<const T*>(array.data());
}

// Calls `use` with the array's elements as what they are.
template <class Use>
auto with_integers(const Input& array, Use use) {
    if (array.dtype() == nb::dtype<int64_t>()) return use(elements<int64_t>(array));
    if (array.dtype() == nb::dtype<int32_t>()) return use(elements<int32_t>(array));
    if (array.dtype() == nb::dtype<int16_t>()) return use(elements<int16_t>(array));
    if (array.dtype() == nb::dtype<int8_t>()) return use(elements<int8_t>(array));
    if (array.dtype() == nb::dtype<uint64_t>()) return use(elements<uint64_t>(array));
    if (array.dtype() == nb::dtype<uint32_t>()) return use(elements<uint32_t>(array));
    if (array.dtype() == nb::dtype<uint16_t>()) return use(elements<uint16_t>(array));
    if (array.dtype() == nb::dtype<uint8_t>()) return use(elements<uint8_t>(array));
    throw std::invalid_argument("expected an array of integers");
}

template <class Use>
auto with_reals(const Input& array, Use use) {
    if (array.dtype() == nb::dtype<double>()) return use(elements<double>(array));
    if (array.dtype() == nb::dtype<float>()) return use(elements<float>(array));
    throw std::invalid_argument("expected an array of float32 or float64");
}

template <class T>
const T* typed(const Input& array, size_t size, const char* name) {
    if (array.dtype() != nb::dtype<T>() || array.size() != size) {
        throw std::invalid_argument(std::string(name) + ": unexpected dtype or size");
    }
    return elements<T>(array);
}

void check_size(const Input& array, size_t size, const char* name) {
    if (array.size() != size) throw std::invalid_argument(std::string(name) + ": unexpected size");
    if (size > UINT32_MAX / 2) throw std::invalid_argument("more than 2**31 - 1 rows; match in batches and merge the tallies");
}

std::vector<int64_t> distinct_of(const Input& ids) {
    return with_integers(ids, [&](const auto* values) { return distinct(values, ids.size()); });
}

nb::object distinct_ids(const Input& ids) {
    std::vector<int64_t> found;
    {
        nb::gil_scoped_release unlock;
        found = distinct_of(ids);
    }
    return to_numpy(found, {found.size()});
}

// Ids that must ascend, as those that others are looked up in.
std::vector<int64_t> ascending(const Input& ids, const char* name) {
    const int64_t* values = typed<int64_t>(ids, ids.size(), name);
    std::vector<int64_t> table(values, values + ids.size());
    for (size_t k = 1; k < table.size(); ++k) {
        if (table[k - 1] >= table[k]) throw std::invalid_argument(std::string(name) + ": not ascending");
    }
    return table;
}

Buffer<int32_t> places_of(const Input& ids, const std::vector<int64_t>& table, const char* name, const char* table_name) {
    Buffer<int32_t> place(ids.size());
    const bool is_all_there = with_integers(
        ids, [&](const auto* values) { return find_places(values, ids.size(), table, place.data()); });
    if (!is_all_there) throw std::invalid_argument(std::string(name) + ": not among " + table_name);
    return place;
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

struct Columns {
    Input image, label, box;
    BoxFormat box_format;
};

// Ids as a tally holds them: in 32 bits where all of a table fit, else in 64. Matching writes the narrow ones as it goes;
// wide ones are looked up afterwards.
struct IdColumn {
    bool is_narrow;
    std::vector<int32_t> written;
    Buffer<int32_t> narrow;
    Buffer<int64_t> wide;

    IdColumn() = default;
    IdColumn(const std::vector<int64_t>& table, size_t size)
        : is_narrow(table.empty() || (table.front() >= INT32_MIN && table.back() <= INT32_MAX)), written(table.size()),
          narrow(size) {
        for (size_t k = 0; k < table.size(); ++k) written[k] = static_cast<int32_t>(is_narrow ? table[k] : int64_t(k));
    }

    void widen(const std::vector<int64_t>& table, size_t size) {
        if (is_narrow) return;
        wide = Buffer<int64_t>(size);
        for (size_t i = 0; i < size; ++i) wide[i] = table[narrow[i]];
    }

    nb::object release(size_t size) {
        return is_narrow ? to_numpy(std::move(narrow), {size}) : to_numpy(std::move(wide), {size});
    }

    // A short column that was written the same way.
    nb::object release(const std::vector<int32_t>& column, const std::vector<int64_t>& table) const {
        if (is_narrow) return to_numpy(column, {column.size()});
        std::vector<int64_t> looked_up;
        for (const int32_t place : column) looked_up.push_back(table[place]);
        return to_numpy(looked_up, {looked_up.size()});
    }
};

template <class Box, class Score, class State>
nb::tuple match_typed(const Columns& found, const Box* box, const Score* score, const Columns& there,
                      const std::optional<Input>& area, const std::optional<Input>& ignore,
                      const std::vector<int64_t>& named, const Rules& rules, size_t num_threads) {
    const size_t size = found.image.size(), num_truths = there.image.size();
    Buffer<Score> out_score(size);
    Buffer<uint8_t> tier(size);
    Buffer<State> state(size);
    TruthColumns truths{num_truths,
                        nullptr,
                        nullptr,
                        typed<double>(there.box, num_truths * 4, "truth_box"),
                        there.box_format,
                        area ? typed<double>(*area, num_truths, "area") : nullptr,
                        ignore ? typed<uint8_t>(*ignore, num_truths, "ignore") : nullptr};
    std::vector<int64_t> images, classes;
    IdColumn image, label;
    TallyRows<Score, State> tally{};
    run_without_lock(size, num_threads, [&](const Run& run) {
        // The two columns of the detections are the long ones; so they come first, a thread each.
        const std::array<const Input*, 4> ids{&found.image, &found.label, &there.image, &there.label};
        std::array<std::vector<int64_t>, 4> seen;
        for_each_task(ids.size(), run, [] { return 0; }, [&](size_t i, int) { seen[i] = distinct_of(*ids[i]); });
        images = united(seen[0], seen[2]);
        classes = united(united(seen[1], seen[3]), named);
        std::array<Buffer<int32_t>, 4> place;
        for_each_task(ids.size(), run, [] { return 0; }, [&](size_t i, int) {
            place[i] = places_of(*ids[i], i % 2 == 0 ? images : classes, "ids", "the table");
        });
        image = IdColumn(images, size);
        label = IdColumn(classes, size);
        tally.image_id = image.written.data(), tally.label_id = label.written.data();
        tally.image = image.narrow.data(), tally.label = label.narrow.data();
        tally.score = out_score.data(), tally.tier = tier.data(), tally.state = state.data();
        truths.image = place[2].data(), truths.label = place[3].data();
        const DetectionColumns<Box, Score> detections{size,  place[0].data(), place[1].data(),
                                                      score, box,             found.box_format};
        match(detections, truths, images.size(), classes.size(), rules, run, tally);
        image.widen(images, tally.size);
        label.widen(classes, tally.size);
    });
    const size_t num_words = rules.num_words(), num_hits = tally.is_true.size() / num_words;
    const nb::object truth_image = image.release(tally.truth_image, images);
    const nb::object truth_label = label.release(tally.truth_label, classes);
    return nb::make_tuple(image.release(tally.size), label.release(tally.size),
                          to_numpy(std::move(out_score), {tally.size}), to_numpy(std::move(tier), {tally.size}),
                          to_numpy(std::move(state), {tally.size}), to_numpy(tally.is_true, {num_hits, num_words}),
                          to_numpy(tally.is_counted, {num_hits, num_words}), to_numpy(classes, {classes.size()}),
                          truth_image, truth_label, to_numpy(tally.truth_state, {num_truths}));
}

nb::tuple match_columns(const Input& image, const Input& label, const Input& score, const Input& box,
                        BoxFormat box_format, const Input& truth_image, const Input& truth_label, const Input& truth_box,
                        BoxFormat truth_box_format, const std::optional<Input>& area, const std::optional<Input>& ignore,
                        const Input& named, const Rules& rules, size_t num_threads) {
    const int64_t* names = typed<int64_t>(named, named.size(), "named");
    const std::vector<int64_t> named_ids = distinct(names, named.size());
    check_size(label, image.size(), "label");
    check_size(score, image.size(), "score");
    check_size(truth_label, truth_image.size(), "truth_label");
    if (box.size() != image.size() * 4) throw std::invalid_argument("box: unexpected size");
    const Columns found{image, label, box, box_format}, there{truth_image, truth_label, truth_box, truth_box_format};
    return with_reals(box, [&](const auto* boxes) {
        return with_reals(score, [&](const auto* scores) {
            using Box = std::decay_t<decltype(*boxes)>;
            using Score = std::decay_t<decltype(*scores)>;
            if (rules.num_areas() < 8) {
                return match_typed<Box, Score, uint8_t>(found, boxes, scores, there, area, ignore, named_ids, rules,
                                                        num_threads);
            }
            return match_typed<Box, Score, uint64_t>(found, boxes, scores, there, area, ignore, named_ids, rules,
                                                     num_threads);
        });
    });
}

template <class Score, class State>
void draw_typed(const Input& image, const Input& label, const Score* score, const uint8_t* tier, const State* state,
                const uint64_t* is_true, const uint64_t* is_counted, const std::vector<int64_t>& classes,
                const int64_t* num_truths, const Rules& rules, const CurveStart* begin, size_t num_threads,
                const CurveArrays& out) {
    const size_t size = label.size();
    run_without_lock(size, num_threads, [&](const Run& run) {
        const Buffer<int32_t> label_place = places_of(label, classes, "label", "the classes");
        std::vector<int64_t> images;
        Buffer<int32_t> image_place;
        const bool is_in_order =
            with_integers(image, [&](const auto* values) { return std::is_sorted(values, values + size); });
        if (!is_in_order) {
            images = distinct_of(image);
            image_place = places_of(image, images, "image", "the images");
        }
        const TallyColumns<Score, State> tally{
            size,    label_place.data(), is_in_order ? nullptr : image_place.data(),
            score,   tier,               state,
            is_true, is_counted,         images.size(),
            classes.size(), num_truths};
        draw_curves(tally, rules, begin, run, out);
    });
}

nb::tuple draw_columns(const Input& image, const Input& label, const Input& score, const Input& tier, const Input& state,
                       const Input& is_true, const Input& is_counted, const Input& classes, const Input& num_truths,
                       const Rules& rules, size_t num_threads, const std::optional<std::array<Input, 4>>& start) {
    const size_t size = label.size(), num_classes = classes.size();
    check_size(image, size, "image");
    check_size(score, size, "score");
    if (is_true.size() != is_counted.size()) throw std::invalid_argument("is_counted: unexpected size");
    const uint8_t* tiers = typed<uint8_t>(tier, size, "tier");
    const uint64_t* trues = typed<uint64_t>(is_true, is_true.size(), "is_true");
    const uint64_t* counted = typed<uint64_t>(is_counted, is_true.size(), "is_counted");
    const int64_t* truths = typed<int64_t>(num_truths, num_classes * rules.num_areas(), "num_truths");
    uint8_t last_tier = 0;
    for (size_t i = 0; i < size; ++i) last_tier = std::max(last_tier, tiers[i]);
    if (last_tier >= rules.num_limits()) throw std::invalid_argument("tier: beyond the limits");
    for (size_t i = 0; i < num_truths.size(); ++i) {
        if (truths[i] < 0 || truths[i] >= INT32_MAX) throw std::invalid_argument("num_truths: out of range");
    }
    const std::vector<int64_t> table = ascending(classes, "classes");
    const size_t num_thresholds = rules.num_thresholds(), num_points = rules.recall_points.size();
    const size_t num_areas = rules.num_areas(), num_limits = rules.num_limits();
    const size_t num_curves = num_thresholds * num_classes * num_areas * num_limits;
    CurveStart begin{};
    if (start) {
        const auto& [before_true, before_counted, area, beyond] = *start;
        begin = {typed<int64_t>(before_true, num_curves, "start: num_true"),
                 typed<int64_t>(before_counted, num_curves, "start: num_counted"),
                 typed<double>(area, num_curves, "start: area"), typed<double>(beyond, num_curves, "start: beyond")};
        for (size_t i = 0; i < num_curves; ++i) {
            const bool is_fine = 0 <= begin.num_true[i] && begin.num_true[i] <= begin.num_counted[i];
            if (!is_fine || begin.num_true[i] >= INT32_MAX) throw std::invalid_argument("start: counts out of range");
        }
    }
    Buffer<double> precision(num_curves * num_points), scores(num_curves * num_points);
    Buffer<double> recall(num_curves), average_precision(num_curves);
    Buffer<int64_t> num_true(num_curves), num_false(num_curves);
    const CurveArrays out{precision.data(), scores.data(),   recall.data(), average_precision.data(),
                          num_true.data(),  num_false.data()};
    with_reals(score, [&](const auto* values) {
        using Score = std::decay_t<decltype(*values)>;
        auto draw = [&](const auto* states) {
            size_t num_hits = 0;
            uint64_t all_bits = 0;
            for (size_t i = 0; i < size; ++i) num_hits += states[i] & 1, all_bits |= states[i];
            if (all_bits >> num_areas > 1) throw std::invalid_argument("state: beyond the area ranges");
            if (num_hits * rules.num_words() != is_true.size()) throw std::invalid_argument("is_true: not a row a hit");
            using State = std::decay_t<decltype(*states)>;
            draw_typed<Score, State>(image, label, values, tiers, states, trues, counted, table, truths, rules,
                                     start ? &begin : nullptr, num_threads, out);
        };
        if (num_areas < 8) {
            draw(typed<uint8_t>(state, size, "state"));
        } else {
            draw(typed<uint64_t>(state, size, "state"));
        }
    });
    return nb::make_tuple(
        to_numpy(std::move(precision), {num_thresholds, num_points, num_classes, num_areas, num_limits}),
        to_numpy(std::move(scores), {num_thresholds, num_points, num_classes, num_areas, num_limits}),
        to_numpy(std::move(recall), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(average_precision), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(num_true), {num_thresholds, num_classes, num_areas, num_limits}),
        to_numpy(std::move(num_false), {num_thresholds, num_classes, num_areas, num_limits}));
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
        .value("envelope", ApRule::envelope)
        .value("trapezoid", ApRule::trapezoid);
    nb::class_<Rules>(module, "Rules")
        .def(nb::init<>())
        .def_rw("cutoffs", &Rules::cutoffs)
        .def_rw("is_strict", &Rules::is_strict)
        .def_rw("is_inclusive", &Rules::is_inclusive)
        .def_rw("is_crowd", &Rules::is_crowd)
        .def_rw("matching", &Rules::matching)
        .def_rw("area_low", &Rules::area_low)
        .def_rw("area_high", &Rules::area_high)
        .def_rw("limits", &Rules::limits)
        .def_rw("recall_points", &Rules::recall_points)
        .def_rw("ap", &Rules::ap)
        .def_rw("epsilon", &Rules::epsilon);
    module.attr("NO_LIMIT") = kNoLimit;
    module.def("are_finite", &are_finite_values, "values"_a);
    module.def("are_boxes_fine", &are_fine_boxes, "box"_a, "box_format"_a, "largest"_a);
    module.def("distinct", &distinct_ids, "ids"_a);
    module.def("count", &count_ids, "ids"_a, "table"_a);
    module.def("count_truths", &count_truths_of, "label"_a, "state"_a, "classes"_a, "num_areas"_a);
    module.def("match", &match_columns, "image"_a, "label"_a, "score"_a, "box"_a, "box_format"_a, "truth_image"_a,
               "truth_label"_a, "truth_box"_a, "truth_box_format"_a, "area"_a.none(), "ignore"_a.none(), "named"_a,
               "rules"_a, "num_threads"_a);
    module.def("draw_curves", &draw_columns, "image"_a, "label"_a, "score"_a, "tier"_a, "state"_a, "is_true"_a,
               "is_counted"_a, "classes"_a, "num_truths"_a, "rules"_a, "num_threads"_a, "start"_a.none() = nb::none());
    module.def("mean_samples", &mean_samples, "values"_a, "thresholds"_a, "area"_a, "limit"_a);
    bind_files(module);
}
