// Python bindings of curves and their means.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "curves/average.h"
#include "curves/curves.h"
#include "curves/finish.h"
#include "curves/precision.h"
#include "match/match.h"
#include "platform/memory.h"
#include "python/arrays.h"
#include "python/finished.h"
#include "python/measures.h"
#include "python/tally.h"
#include "python/unlocked.h"

namespace boxscore {

using namespace nb::literals;

void bind_curves(nb::module_& module);

namespace {

// Whether image ids ascend over all parts.
bool are_in_order(const std::vector<Input>& parts) {
    bool is_ordered = true;
    int64_t last = INT64_MIN;
    for (const Input& image : parts) {
        if (image.size() == 0) continue;
        with_integers(image, [&](const auto* values) {
            is_ordered &= last <= static_cast<int64_t>(values[0]);
            for (size_t i = 1; i < image.size(); ++i) is_ordered &= values[i - 1] <= values[i];
            last = static_cast<int64_t>(values[image.size() - 1]);
        });
    }
    return is_ordered;
}

nb::object count_truths_of(const Input& label, const Input& state, const Input& classes, size_t num_areas) {
    const Buffer<int32_t> index = indices_of(label, ascending(classes, "classes"), "truth_label", "the classes");
    auto count = [&](const auto* states) {
        return count_truths(index.data(), states, index.size(), classes.size(), num_areas);
    };
    const std::vector<int64_t> counts = num_areas < 8 ? count(typed<uint8_t>(state, label.size(), "truth_state"))
                                                      : count(typed<uint64_t>(state, label.size(), "truth_state"));
    return to_numpy(counts, {classes.size(), num_areas});
}

// Concatenated words of all parts; a single part is not copied.
Input concatenate_words(const std::vector<Input>& parts, const char* name) {
    if (parts.size() == 1) return parts[0];
    size_t size = 0;
    for (const Input& part : parts) size += part.size();
    Buffer<uint64_t> words(size);
    uint64_t* to = words.data();
    for (const Input& part : parts) to = std::copy_n(typed<uint64_t>(part, part.size(), name), part.size(), to);
    uint64_t* data = words.data();
    return Input(data, {size}, owner_of(std::move(words)), {}, nb::dtype<uint64_t>());
}

// Validated columns of tallies that are parts of one.
struct Tallies {
    TallyArrays arrays;
    std::vector<int64_t> classes;
    std::vector<Input> truth_label, truth_state;
    size_t size = 0;

    explicit Tallies(const std::vector<TallyObject>& parts) {
        std::vector<Input> is_true, is_counted;
        for (const TallyObject& part : parts) {
            arrays.parts.push_back(part.rows());
            // States are read more than once, to group the rows.
            arrays.parts.back().state = snapshot(arrays.parts.back().state);
            size += arrays.parts.back().size();
            is_true.push_back(TallyObject::input(part.is_true, "is_true"));
            is_counted.push_back(TallyObject::input(part.is_counted, "is_counted"));
            classes = united(classes, ascending(TallyObject::input(part.classes, "classes"), "classes"));
            truth_label.push_back(TallyObject::input(part.truth_label, "truth_label"));
            truth_state.push_back(TallyObject::input(part.truth_state, "truth_state"));
        }
        if (parts.empty()) throw std::invalid_argument("tallies: none");
        arrays.is_true = concatenate_words(is_true, "is_true");
        arrays.is_counted = concatenate_words(is_counted, "is_counted");
    }

    // Number of truths that count, by class and area range.
    template <class State>
    std::vector<int64_t> num_truths(size_t num_areas) const {
        std::vector<int64_t> total(classes.size() * num_areas);
        for (size_t i = 0; i < truth_label.size(); ++i) {
            const size_t num = truth_label[i].size();
            const Buffer<int32_t> index = indices_of(truth_label[i], classes, "truth_label", "the classes");
            const State* state = typed<State>(truth_state[i], num, "truth_state");
            const std::vector<int64_t> counts = count_truths(index.data(), state, num, classes.size(), num_areas);
            for (size_t k = 0; k < total.size(); ++k) total[k] += counts[k];
        }
        return total;
    }
};

// The columns of `Tallies` with indices instead of ids, as the core reads them.
template <class Score, class State>
struct TallyParts {
    std::vector<int64_t> images;
    Buffer<int32_t> image;
    std::vector<Buffer<int32_t>> label;
    std::vector<TallyColumns<Score, State>> columns;

    TallyParts(const Tallies& tallies, const int64_t* num_truths, const Rules& rules, const Run& run)
        : label(tallies.arrays.parts.size()) {
        const std::vector<RowArrays>& parts = tallies.arrays.parts;
        std::vector<Input> image_ids;
        for (const RowArrays& rows : parts) image_ids.push_back(rows.image);
        if (!are_in_order(image_ids)) {
            if (parts.size() > 1) throw std::invalid_argument("image: parts are not in order");
            images = distinct_of(image_ids[0]);
            image = indices_of(image_ids[0], images, "image", "the images");
        }
        std::vector<LookUp> labels;
        for (size_t i = 0; i < parts.size(); ++i) labels.push_back({parts[i].label, tallies.classes, label[i]});
        if (!find_all(labels, run)) throw std::invalid_argument("label: not among the classes");
        for (size_t i = 0; i < parts.size(); ++i) {
            columns.push_back({parts[i].size(), label[i].data(), image.empty() ? nullptr : image.data(),
                               elements<Score>(parts[i].score), elements<uint8_t>(parts[i].tier),
                               elements<State>(parts[i].state), elements<uint64_t>(tallies.arrays.is_true),
                               elements<uint64_t>(tallies.arrays.is_counted),
                               tallies.arrays.is_true.size() / rules.num_words(), images.size(), tallies.classes.size(),
                               num_truths});
        }
    }
};

class CompiledNumbers : public WantedNumbers {
public:
    using WantedNumbers::WantedNumbers;
    Finished finish(const TallyColumns<float, uint8_t>& tally, const Rules& rules, const std::vector<int64_t>& classes,
                    const Run& run) const override {
        return boxscore::finish(std::vector{tally}, rules, of(classes), run);
    }
    Finished finish(const TallyColumns<float, uint64_t>& tally, const Rules& rules, const std::vector<int64_t>& classes,
                    const Run& run) const override {
        return boxscore::finish(std::vector{tally}, rules, of(classes), run);
    }
    Finished finish(const TallyColumns<double, uint8_t>& tally, const Rules& rules, const std::vector<int64_t>& classes,
                    const Run& run) const override {
        return boxscore::finish(std::vector{tally}, rules, of(classes), run);
    }
    Finished finish(const TallyColumns<double, uint64_t>& tally, const Rules& rules, const std::vector<int64_t>& classes,
                    const Run& run) const override {
        return boxscore::finish(std::vector{tally}, rules, of(classes), run);
    }
};

FinishedObject finish_tallies(const std::vector<TallyObject>& tallies, const Rules& rules, const WantedNumbers& wanted,
                              size_t num_threads) {
    wanted.check(rules);
    const Tallies whole(tallies);
    const MeasureSet measures = wanted.of(whole.classes);
    std::vector<int64_t> num_truths;
    Finished finished;
    with_tally(whole.arrays, rules, [&](auto score, auto state) {
        num_truths = whole.num_truths<decltype(state)>(rules.num_areas());
        check_truths(num_truths);
        run_without_lock(whole.size, num_threads, [&](const Run& run) {
            const TallyParts<decltype(score), decltype(state)> parts(whole, num_truths.data(), rules, run);
            finished = finish(parts.columns, rules, measures, run);
        });
    });
    return FinishedObject(std::move(finished), whole.classes, std::move(num_truths), rules);
}

// Python class of curves.
struct CurvesObject {
    nb::object precision, scores, recall, average_precision, num_true, num_false;
};

// Buffers of the curves of all limits while they are built.
struct CurveBuffers {
    size_t T, R, K, A, M;
    Buffer<double> precision, scores, recall, average_precision;
    Buffer<int64_t> num_true, num_false;

    CurveBuffers(const Rules& rules, size_t num_classes)
        : T(rules.num_thresholds()), R(rules.recall_points.size()), K(num_classes), A(rules.num_areas()), M(rules.num_limits()),
          precision(num_curves() * R), scores(num_curves() * R), recall(num_curves()), average_precision(num_curves()),
          num_true(num_curves()), num_false(num_curves()) {}

    size_t num_curves() const { return T * K * A * M; }

    CurveArrays arrays() {
        std::vector<size_t> limits(M);
        std::iota(limits.begin(), limits.end(), size_t{0});
        return {limits,        recall.data(), num_true.data(), num_false.data(), average_precision.data(), precision.data(),
                scores.data()};
    }

    CurvesObject release() {
        return {to_numpy(std::move(precision), {T, R, K, A, M}),
                to_numpy(std::move(scores), {T, R, K, A, M}),
                to_numpy(std::move(recall), {T, K, A, M}),
                to_numpy(std::move(average_precision), {T, K, A, M}),
                to_numpy(std::move(num_true), {T, K, A, M}),
                to_numpy(std::move(num_false), {T, K, A, M})};
    }
};

CurvesObject build_all_curves(const TallyObject& tally, const Rules& rules, size_t num_threads,
                              const std::optional<Input>& num_truths) {
    if (rules.recall_points.empty()) throw std::invalid_argument("rules: no recall points");
    const Tallies whole({tally});
    CurveBuffers buffers(rules, whole.classes.size());
    with_tally(whole.arrays, rules, [&](auto score, auto state) {
        using Parts = TallyParts<decltype(score), decltype(state)>;
        const std::vector<int64_t> truths = num_truths ? copy_of<int64_t>(*num_truths, buffers.K * buffers.A, "num_truths")
                                                       : whole.num_truths<decltype(state)>(buffers.A);
        check_truths(truths);
        run_without_lock(whole.size, num_threads, [&](const Run& run) {
            const Parts parts(whole, truths.data(), rules, run);
            build_curves(order_hits(parts.columns, rules, run), truths.data(), rules, run, buffers.arrays());
        });
    });
    return buffers.release();
}

// Columns of a table of classes as lists, in the first area range and the last limit: labels, AP, AR, numbers of truths and detections;
// and per threshold: AP, true positives, false positives.
nb::tuple class_rows(const FinishedObject& finished) {
    const size_t T = finished.rules.num_thresholds(), K = finished.classes.size(), A = finished.rules.num_areas();
    const size_t num_cells = A * finished.rules.num_limits(), cell = finished.rules.num_limits() - 1;
    std::vector<int64_t> num_truths(K);
    std::vector<std::vector<double>> ap_at(K);
    std::vector<std::vector<int64_t>> num_true(K), num_false(K);
    for (size_t k = 0; k < K; ++k) {
        num_truths[k] = finished.truths[k * A];
        for (size_t t = 0; t < T; ++t) {
            ap_at[k].push_back(finished.ap_at[t * K + k]);
            num_true[k].push_back(finished.num_true.data()[(t * K + k) * num_cells + cell]);
            num_false[k].push_back(finished.num_false.data()[(t * K + k) * num_cells + cell]);
        }
    }
    return nb::make_tuple(finished.classes, finished.averages.ap, finished.averages.ar, num_truths, finished.hits.num_detections, ap_at,
                          num_true, num_false);
}

CurvesObject build_finished_curves(const FinishedObject& finished, size_t num_threads) {
    CurveBuffers buffers(finished.rules, finished.hits.num_classes());
    const std::vector<int64_t>& num_detections = finished.hits.num_detections;
    const auto size = static_cast<size_t>(std::accumulate(num_detections.begin(), num_detections.end(), int64_t{0}));
    run_without_lock(size, num_threads, [&](const Run& run) {
        build_curves(finished.hits, finished.truths.data(), finished.rules, run, buffers.arrays());
    });
    return buffers.release();
}

// Means of the curves of any engine, given as arrays in pycocotools' layout.
Averages average_arrays(const Input& precision, const Input& recall, const Input& average_precision,
                              const Input& num_truths, const Input& classes, const Rules& rules,
                              const std::vector<MeasureObject>& measures, bool is_weighted) {
    check_measures(measures, rules);
    const size_t T = rules.num_thresholds(), R = rules.recall_points.size(), A = rules.num_areas(), M = rules.num_limits();
    const size_t K = num_truths.size() / A, num_cells = A * M;
    check_size(classes, K, "classes");
    const double* sampled = typed<double>(precision, T * R * K * num_cells, "precision");
    CurveNumbers curves{typed<double>(recall, T * K * num_cells, "recall"),
                        typed<double>(average_precision, T * K * num_cells, "average_precision"),
                        typed<int64_t>(num_truths, K * A, "num_truths"), K, {}};
    for (size_t cell = 0; cell < num_cells; ++cell) {
        curves.precision.push_back({sampled + cell, R, K, R * K * num_cells, K * num_cells, num_cells});
    }
    return average_curves(curves, rules, {measures_of(measures, ascending(classes, "classes")), is_weighted}, Run{});
}

// Mean of the defined values in one area range and limit, over these thresholds and over the axes between thresholds and area ranges.
double mean_samples(const Input& values, const std::vector<size_t>& thresholds, size_t area, size_t limit) {
    const size_t num_axes = values.ndim();
    if (num_axes < 4) throw std::invalid_argument("values: expected thresholds first, areas and limits last");
    const size_t num_thresholds = values.shape(0), num_areas = values.shape(num_axes - 2), num_limits = values.shape(num_axes - 1);
    if (area >= num_areas || limit >= num_limits) throw std::invalid_argument("area, limit: out of range");
    for (const size_t t : thresholds) {
        if (t >= num_thresholds) throw std::invalid_argument("thresholds: out of range");
    }
    const double* data = typed<double>(values, values.size(), "values");
    const size_t num_cells = num_areas * num_limits, per_threshold = values.size() / std::max<size_t>(num_thresholds, 1);
    const Unlocked unlocked;
    const Samples samples{data + area * num_limits + limit, 1, per_threshold / num_cells, per_threshold, 0, num_cells};
    return mean_defined(samples, thresholds, count_defined(samples, thresholds));
}

}  // namespace

void bind_curves(nb::module_& module) {
    nb::class_<MeasureObject>(module, "Measure")
        .def(
            "__init__",
            [](MeasureObject* self, bool is_recall, std::vector<size_t> thresholds, size_t area, size_t limit,
               std::optional<std::vector<int64_t>> labels) {
                new (self) MeasureObject{is_recall, std::move(thresholds), area, limit, std::move(labels)};
            },
            "is_recall"_a, "thresholds"_a, "area"_a, "limit"_a, "labels"_a = nb::none());
    nb::class_<WantedNumbers>(module, "WantedNumbers");
    nb::class_<CompiledNumbers, WantedNumbers>(module, "CompiledNumbers")
        .def(nb::init<std::vector<MeasureObject>, bool, bool>(), "measures"_a, "is_weighted"_a, "keeps_tally"_a = true);
    const auto column = [](auto get) {
        return [get](const Averages& self) { return to_numpy(get(self), {get(self).size()}); };
    };
    nb::class_<Averages>(module, "Averages")
        .def_ro("numbers", &Averages::numbers)
        .def_prop_ro("ap", column([](const Averages& self) { return self.ap; }))
        .def_prop_ro("ar", column([](const Averages& self) { return self.ar; }));
    using Finish = FinishedObject;
    nb::class_<FinishedObject>(module, "Finished")
        .def_ro("averages", &FinishedObject::averages)
        .def_prop_ro("classes", [](const Finish& self) { return to_numpy(self.classes, {self.classes.size()}); })
        .def_prop_ro("num_truths", [](const Finish& self) { return to_numpy(self.truths, {self.classes.size(), self.rules.num_areas()}); })
        .def_prop_ro("num_detections", [](const Finish& self) { return to_numpy(self.hits.num_detections, {self.classes.size()}); })
        .def_prop_ro("recall", [](const Finish& self) { return to_numpy(self.recall); })
        .def_prop_ro("ap_at", [](const Finish& self) { return to_numpy(self.ap_at, {self.rules.num_thresholds(), self.classes.size()}); })
        .def_prop_ro("num_true", [](const Finish& self) { return to_numpy(self.num_true); })
        .def_prop_ro("num_false", [](const Finish& self) { return to_numpy(self.num_false); })
        .def("class_rows", &class_rows)
        .def("build_curves", &build_finished_curves, "num_threads"_a);
    nb::class_<CurvesObject>(module, "Curves")
        .def_ro("precision", &CurvesObject::precision)
        .def_ro("scores", &CurvesObject::scores)
        .def_ro("recall", &CurvesObject::recall)
        .def_ro("average_precision", &CurvesObject::average_precision)
        .def_ro("num_true", &CurvesObject::num_true)
        .def_ro("num_false", &CurvesObject::num_false);
    module.def("are_in_order", &are_in_order, "parts"_a);
    module.def("count_truths", &count_truths_of, "label"_a, "state"_a, "classes"_a, "num_areas"_a);
    module.def("finish", &finish_tallies, "tallies"_a, "rules"_a, "wanted"_a, "num_threads"_a);
    module.def("build_curves", &build_all_curves, "tally"_a, "rules"_a, "num_threads"_a, "num_truths"_a.none() = nb::none());
    module.def("average_curves", &average_arrays, "precision"_a, "recall"_a, "average_precision"_a, "num_truths"_a,
               "classes"_a, "rules"_a, "measures"_a, "is_weighted"_a);
    module.def("mean_samples", &mean_samples, "values"_a, "thresholds"_a, "area"_a, "limit"_a);
}

}  // namespace boxscore
