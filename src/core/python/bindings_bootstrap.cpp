// The Python side of the bootstrap: a tally in, the numbers of its resamples out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "bootstrap.h"
#include "draws.h"
#include "python/unlocked.h"

namespace boxscore {

using namespace nb::literals;

void bind_bootstrap(nb::module_& module);

namespace {

using PlainMeasure = std::tuple<bool, std::vector<size_t>, size_t, size_t>;

std::vector<Measure> measures_of(const std::vector<PlainMeasure>& plain, const Rules& rules) {
    std::vector<Measure> measures;
    for (const auto& [is_recall, thresholds, area, limit] : plain) {
        if (area >= rules.num_areas() || limit >= rules.num_limits()) throw std::invalid_argument("measures: not there");
        if (!is_recall && limit + 1 < rules.num_limits()) throw std::invalid_argument("measures: an early limit");
        for (const size_t t : thresholds) {
            if (t >= rules.num_thresholds()) throw std::invalid_argument("measures: not there");
        }
        measures.push_back({is_recall, thresholds, area, limit});
    }
    return measures;
}

nb::tuple bootstrap_columns(const Input& image, const Input& label, const Input& score, const Input& tier,
                            const Input& state, const Input& is_true, const Input& is_counted, const Input& classes,
                            const Input& truth_image, const Input& truth_label, const Input& truth_state,
                            const Input& images, const Rules& rules, const std::vector<PlainMeasure>& measures,
                            bool is_weighted, uint64_t seed, size_t num_resamples, size_t num_threads) {
    const size_t size = label.size(), num_classes = classes.size(), num_truths = truth_label.size();
    const BootstrapOptions options{measures_of(measures, rules), is_weighted, seed, num_resamples};
    const std::vector<int64_t> image_table = ascending(images, "images"), class_table = ascending(classes, "classes");
    check_size(images, images.size(), "images");
    check_size(truth_image, num_truths, "truth_image");
    Buffer<double> numbers(num_resamples * measures.size()), ap(num_resamples * num_classes), ar(num_resamples * num_classes);
    const BootstrapArrays out{numbers.data(), ap.data(), ar.data()};
    const TallyArrays arrays{{{image, label, score, snapshot(tier), snapshot(state)}}, snapshot(is_true), snapshot(is_counted)};
    with_tally(arrays, rules, [&](auto a_score, auto a_state) {
        using Score = decltype(a_score);
        using State = decltype(a_state);
        const State* truth_states = typed<State>(truth_state, num_truths, "truth_state");
        run_without_lock((size + num_truths) * num_resamples, num_threads, [&](const Run& run) {
            const Buffer<int32_t> image_place = places_of(image, image_table, "image", "the images");
            const Buffer<int32_t> label_place = places_of(label, class_table, "label", "the classes");
            const Buffer<int32_t> truth_image_place = places_of(truth_image, image_table, "truth_image", "the images");
            const Buffer<int32_t> truth_label_place = places_of(truth_label, class_table, "truth_label", "the classes");
            const TallyColumns<Score, State> tally{
                size,
                label_place.data(),
                image_place.data(),
                elements<Score>(score),
                elements<uint8_t>(arrays.parts[0].tier),
                elements<State>(arrays.parts[0].state),
                elements<uint64_t>(arrays.is_true),
                elements<uint64_t>(arrays.is_counted),
                arrays.is_true.size() / rules.num_words(),
                images.size(),
                num_classes,
                nullptr};
            const TruthStates<State> truths{num_truths, truth_image_place.data(), truth_label_place.data(), truth_states};
            bootstrap(lay_out(tally, truths, rules, options.measures, run), rules, options, run, out);
        });
    });
    return nb::make_tuple(to_numpy(std::move(numbers), {num_resamples, measures.size()}),
                          to_numpy(std::move(ap), {num_resamples, num_classes}),
                          to_numpy(std::move(ar), {num_resamples, num_classes}));
}

nb::object drawn_images(size_t num_images, uint64_t seed, uint64_t resample) {
    if (num_images > UINT32_MAX / 2) throw std::invalid_argument("num_images: too many");
    return to_numpy(draw_images(num_images, seed, resample), {num_images});
}

}  // namespace

void bind_bootstrap(nb::module_& module) {
    module.def("bootstrap", &bootstrap_columns, "image"_a, "label"_a, "score"_a, "tier"_a, "state"_a, "is_true"_a,
               "is_counted"_a, "classes"_a, "truth_image"_a, "truth_label"_a, "truth_state"_a, "images"_a, "rules"_a,
               "measures"_a, "is_weighted"_a, "seed"_a, "num_resamples"_a, "num_threads"_a);
    module.def("draw_images", &drawn_images, "num_images"_a, "seed"_a, "resample"_a);
}

}  // namespace boxscore
