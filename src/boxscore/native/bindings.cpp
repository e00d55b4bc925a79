// The Python side of the engine: arrays in, arrays out, without the interpreter lock in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "checks.h"
#include "curves.h"
#include "match.h"
#include "order.h"
#include "unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_files(nb::module_& module);

namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// Memory that is handed to Python as an array when it is done with.
template <class T>
class Buffer {
public:
    explicit Buffer(size_t size) : data_(new T[std::max<size_t>(size, 1)]) {}
    T* data() { return data_.get(); }
    nb::object release(std::initializer_list<size_t> shape) {
        T* data = data_.release();
        nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<T*>(pointer); });
        return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
    }

private:
    std::unique_ptr<T[]> data_;
};

template <class T>
nb::object to_numpy(const std::vector<T>& values, std::initializer_list<size_t> shape) {
    Buffer<T> buffer(values.size());
    std::copy(values.begin(), values.end(), buffer.data());
    return buffer.release(shape);
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

template <class Id>
std::vector<int32_t> places_of(const Id* values, size_t size, const int64_t* table, size_t table_size) {
    std::vector<int32_t> place(size);
    places(values, size, table, table_size, place.data());
    return place;
}

std::vector<int32_t> places_of(const Input& ids, const int64_t* table, size_t table_size) {
    return with_integers(ids, [&](const auto* values) { return places_of(values, ids.size(), table, table_size); });
}

nb::object distinct_of(const Input& ids) {
    std::vector<int64_t> found;
    {
        nb::gil_scoped_release unlock;
        found = with_integers(ids, [&](const auto* values) { return distinct(values, ids.size()); });
    }
    return to_numpy(found, {found.size()});
}

// How often each id of a table occurs.
nb::object count_ids(const Input& ids, const Input& table) {
    std::vector<int64_t> count(table.size());
    const int64_t* values = typed<int64_t>(table, table.size(), "table");
    {
        nb::gil_scoped_release unlock;
        for (const int32_t place : places_of(ids, values, table.size())) ++count[place];
    }
    return to_numpy(count, {count.size()});
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

template <class Box, class Score, class State>
nb::tuple match_typed(const Columns& found, const Box* box, const Score* score, const Columns& there,
                      const std::optional<Input>& area, const std::optional<Input>& ignore, const Input& images,
                      const Input& classes, const Rules& rules, size_t num_threads) {
    const size_t size = found.image.size(), num_truths = there.image.size();
    const int64_t* image_table = typed<int64_t>(images, images.size(), "images");
    const int64_t* class_table = typed<int64_t>(classes, classes.size(), "classes");
    Buffer<int32_t> image(size), label(size);
    Buffer<Score> out_score(size);
    Buffer<uint8_t> tier(size);
    Buffer<State> state(size);
    TallyRows<Score, State> tally{image.data(), label.data(), out_score.data(), tier.data(), state.data(), {}, {}, {}, 0};
    const TruthColumns truths{num_truths,
                              nullptr,
                              nullptr,
                              typed<double>(there.box, num_truths * 4, "truth_box"),
                              there.box_format,
                              area ? typed<double>(*area, num_truths, "area") : nullptr,
                              ignore ? typed<uint8_t>(*ignore, num_truths, "ignore") : nullptr};
    run_without_lock(size, num_threads, [&](const Run& run) {
        std::vector<int32_t> found_image, found_label, there_image, there_label;
        const std::array<std::tuple<const Input*, const int64_t*, size_t, std::vector<int32_t>*>, 4> columns{{
            {&found.image, image_table, images.size(), &found_image},
            {&found.label, class_table, classes.size(), &found_label},
            {&there.image, image_table, images.size(), &there_image},
            {&there.label, class_table, classes.size(), &there_label},
        }};
        for_each_task(columns.size(), run, [] { return 0; }, [&](size_t i, int) {
            const auto& [ids, table, table_size, place] = columns[i];
            *place = places_of(*ids, table, table_size);
        });
        TruthColumns placed = truths;
        placed.image = there_image.data();
        placed.label = there_label.data();
        const DetectionColumns<Box, Score> detections{size,  found_image.data(), found_label.data(),
                                                      score, box,                found.box_format};
        match(detections, placed, images.size(), classes.size(), rules, run, tally);
    });
    const size_t num_words = rules.num_words(), num_hits = tally.is_true.size() / num_words;
    return nb::make_tuple(image.release({tally.size}), label.release({tally.size}), out_score.release({tally.size}),
                          tier.release({tally.size}), state.release({tally.size}),
                          to_numpy(tally.is_true, {num_hits, num_words}),
                          to_numpy(tally.is_counted, {num_hits, num_words}),
                          to_numpy(tally.num_truths, {classes.size(), rules.num_areas()}));
}

nb::tuple match_columns(const Input& image, const Input& label, const Input& score, const Input& box,
                        BoxFormat box_format, const Input& truth_image, const Input& truth_label, const Input& truth_box,
                        BoxFormat truth_box_format, const std::optional<Input>& area, const std::optional<Input>& ignore,
                        const Input& images, const Input& classes, const Rules& rules, size_t num_threads) {
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
                return match_typed<Box, Score, uint8_t>(found, boxes, scores, there, area, ignore, images, classes, rules,
                                                        num_threads);
            }
            return match_typed<Box, Score, uint64_t>(found, boxes, scores, there, area, ignore, images, classes, rules,
                                                     num_threads);
        });
    });
}

template <class Score, class State>
void draw_typed(const Input& image, const Input& label, const Score* score, const uint8_t* tier, const State* state,
                const uint64_t* is_true, const uint64_t* is_counted, const Input& classes, const int64_t* num_truths,
                const Rules& rules, size_t num_threads, const CurveArrays& out) {
    const size_t size = label.size();
    run_without_lock(size, num_threads, [&](const Run& run) {
        const int64_t* table = static_cast<const int64_t*>(classes.data());
        const std::vector<int32_t> label_place = places_of(label, table, classes.size());
        std::vector<int32_t> image_place;
        size_t num_images = 0;
        with_integers(image, [&](const auto* values) {
            if (std::is_sorted(values, values + size)) return;
            const std::vector<int64_t> images = distinct(values, size);
            num_images = images.size();
            image_place = places_of(values, size, images.data(), images.size());
        });
        const TallyColumns<Score, State> tally{
            size,  label_place.data(), image_place.empty() ? nullptr : image_place.data(),
            score, tier,               state,
            is_true, is_counted,       num_images, classes.size(), num_truths};
        draw_curves(tally, rules, run, out);
    });
}

nb::tuple draw_columns(const Input& image, const Input& label, const Input& score, const Input& tier, const Input& state,
                       const Input& is_true, const Input& is_counted, const Input& classes, const Input& num_truths,
                       const Rules& rules, size_t num_threads) {
    const size_t size = label.size(), num_classes = classes.size();
    check_size(image, size, "image");
    check_size(score, size, "score");
    typed<int64_t>(classes, num_classes, "classes");
    if (is_true.size() != is_counted.size()) throw std::invalid_argument("is_counted: unexpected size");
    const uint8_t* tiers = typed<uint8_t>(tier, size, "tier");
    const uint64_t* trues = typed<uint64_t>(is_true, is_true.size(), "is_true");
    const uint64_t* counted = typed<uint64_t>(is_counted, is_true.size(), "is_counted");
    const int64_t* truths = typed<int64_t>(num_truths, num_classes * rules.num_areas(), "num_truths");
    for (size_t i = 0; i < size; ++i) {
        if (tiers[i] >= rules.num_limits()) throw std::invalid_argument("tier: beyond the limits");
    }
    for (size_t i = 0; i < num_truths.size(); ++i) {
        if (truths[i] < 0 || truths[i] >= INT32_MAX) throw std::invalid_argument("num_truths: out of range");
    }
    const int64_t* table = elements<int64_t>(classes);
    for (size_t k = 1; k < num_classes; ++k) {
        if (table[k - 1] >= table[k]) throw std::invalid_argument("classes: not ascending");
    }
    for (const int64_t id : with_integers(label, [&](const auto* values) { return distinct(values, size); })) {
        if (!std::binary_search(table, table + num_classes, id)) throw std::invalid_argument("label: not among the classes");
    }

    const size_t num_thresholds = rules.num_thresholds(), num_points = rules.recall_points.size();
    const size_t num_areas = rules.num_areas(), num_limits = rules.num_limits();
    const size_t num_curves = num_thresholds * num_classes * num_areas * num_limits;
    Buffer<double> precision(num_curves * num_points), scores(num_curves * num_points);
    Buffer<double> recall(num_curves), average_precision(num_curves);
    Buffer<int64_t> num_true(num_curves), num_false(num_curves);
    const CurveArrays out{precision.data(), scores.data(),   recall.data(), average_precision.data(),
                          num_true.data(),  num_false.data()};
    with_reals(score, [&](const auto* values) {
        using Score = std::decay_t<decltype(*values)>;
        auto draw = [&](const auto* states) {
            size_t num_hits = 0;
            for (size_t i = 0; i < size; ++i) {
                num_hits += states[i] & 1;
                if (uint64_t{states[i]} >> num_areas > 1) throw std::invalid_argument("state: beyond the area ranges");
            }
            if (num_hits * rules.num_words() != is_true.size()) throw std::invalid_argument("is_true: not a row a hit");
            using State = std::decay_t<decltype(*states)>;
            draw_typed<Score, State>(image, label, values, tiers, states, trues, counted, classes, truths, rules,
                                     num_threads, out);
        };
        if (num_areas < 8) {
            draw(typed<uint8_t>(state, size, "state"));
        } else {
            draw(typed<uint64_t>(state, size, "state"));
        }
    });
    return nb::make_tuple(precision.release({num_thresholds, num_points, num_classes, num_areas, num_limits}),
                          scores.release({num_thresholds, num_points, num_classes, num_areas, num_limits}),
                          recall.release({num_thresholds, num_classes, num_areas, num_limits}),
                          average_precision.release({num_thresholds, num_classes, num_areas, num_limits}),
                          num_true.release({num_thresholds, num_classes, num_areas, num_limits}),
                          num_false.release({num_thresholds, num_classes, num_areas, num_limits}));
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
    module.def("distinct", &distinct_of, "ids"_a);
    module.def("count", &count_ids, "ids"_a, "table"_a);
    module.def("match", &match_columns, "image"_a, "label"_a, "score"_a, "box"_a, "box_format"_a, "truth_image"_a,
               "truth_label"_a, "truth_box"_a, "truth_box_format"_a, "area"_a.none(), "ignore"_a.none(), "images"_a,
               "classes"_a, "rules"_a, "num_threads"_a);
    module.def("draw_curves", &draw_columns, "image"_a, "label"_a, "score"_a, "tier"_a, "state"_a, "is_true"_a,
               "is_counted"_a, "classes"_a, "num_truths"_a, "rules"_a, "num_threads"_a);
    bind_files(module);
}
