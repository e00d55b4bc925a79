// Python bindings of the bootstrap: the numbers of resamples of a tally.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap.h"
#include "bootstrap/draws.h"
#include "python/arrays.h"
#include "python/measures.h"
#include "python/tally.h"
#include "python/unlocked.h"

namespace boxscore {

using namespace nb::literals;

void bind_bootstrap(nb::module_& module);

namespace {

nb::tuple bootstrap_tally(const TallyObject& tally, const Input& images, const Rules& rules,
                          const std::vector<MeasureObject>& wanted, bool is_weighted, uint64_t seed, size_t num_resamples,
                          size_t num_threads, size_t max_lanes) {
    check_measures(wanted, rules);
    for (const MeasureObject& measure : wanted) {
        const bool is_early = !measure.is_recall && measure.limit + 1 < rules.num_limits();
        if (is_early) throw std::invalid_argument("measures: precision within a limit that is not the last");
    }
    const std::vector<Measure> measures =
        measures_of(wanted, ascending(TallyObject::input(tally.classes, "classes"), "classes"));
    const BootstrapOptions options{{measures, is_weighted}, seed, num_resamples, max_lanes};
    RowArrays rows = tally.rows();
    rows.tier = snapshot(rows.tier), rows.state = snapshot(rows.state);
    const Input classes = TallyObject::input(tally.classes, "classes");
    const Input truth_image = TallyObject::input(tally.truth_image, "truth_image");
    const Input truth_label = TallyObject::input(tally.truth_label, "truth_label");
    const Input truth_state = TallyObject::input(tally.truth_state, "truth_state");
    const size_t size = rows.size(), num_classes = classes.size(), num_truths = truth_label.size();
    const std::vector<int64_t> image_table = ascending(images, "images"), class_table = ascending(classes, "classes");
    check_size(images, images.size(), "images");
    check_size(truth_image, num_truths, "truth_image");
    Buffer<double> numbers(num_resamples * measures.size()), ap(num_resamples * num_classes), ar(num_resamples * num_classes);
    const BootstrapArrays out{numbers.data(), ap.data(), ar.data()};
    const TallyArrays arrays{{rows},
                             snapshot(TallyObject::input(tally.is_true, "is_true")),
                             snapshot(TallyObject::input(tally.is_counted, "is_counted"))};
    with_tally(arrays, rules, [&](auto a_score, auto a_state) {
        using Score = decltype(a_score);
        using State = decltype(a_state);
        const State* truth_states = typed<State>(truth_state, num_truths, "truth_state");
        run_without_lock((size + num_truths) * num_resamples, num_threads, [&](const Run& run) {
            const Buffer<int32_t> image_index = indices_of(rows.image, image_table, "image", "the images");
            const Buffer<int32_t> label_index = indices_of(rows.label, class_table, "label", "the classes");
            const Buffer<int32_t> truth_image_index = indices_of(truth_image, image_table, "truth_image", "the images");
            const Buffer<int32_t> truth_label_index = indices_of(truth_label, class_table, "truth_label", "the classes");
            const TallyColumns<Score, State> columns{
                size,
                label_index.data(),
                image_index.data(),
                elements<Score>(rows.score),
                elements<uint8_t>(rows.tier),
                elements<State>(rows.state),
                elements<uint64_t>(arrays.is_true),
                elements<uint64_t>(arrays.is_counted),
                arrays.is_true.size() / rules.num_words(),
                images.size(),
                num_classes,
                nullptr};
            const TruthStates<State> truths{num_truths, truth_image_index.data(), truth_label_index.data(), truth_states};
            bootstrap(lay_out(columns, truths, rules, measures, run), rules, options, run, out);
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
    module.def("bootstrap", &bootstrap_tally, "tally"_a, "images"_a, "rules"_a, "measures"_a, "is_weighted"_a, "seed"_a,
               "num_resamples"_a, "num_threads"_a, "max_lanes"_a = 8);
    module.def("draw_images", &drawn_images, "num_images"_a, "seed"_a, "resample"_a);
}

}  // namespace boxscore
