#include "curves/finish.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "curves/average.h"

namespace boxscore {

Averages average_curves(const CurveNumbers& curves, const Rules& rules, const MeasureSet& wanted, const Run& run) {
    const size_t num_areas = rules.num_areas(), num_limits = rules.num_limits(), num_classes = curves.num_classes;
    const size_t class_stride = num_areas * num_limits, threshold_stride = num_classes * class_stride;
    auto averaged_at = [&](size_t area, size_t limit) {
        const size_t cell = area * num_limits + limit;
        auto at_cell = [&](const double* values) {
            return Samples{values + cell, 1, num_classes, threshold_stride, 0, class_stride};
        };
        Averaged averaged{curves.precision[cell], at_cell(curves.average_precision), at_cell(curves.recall), {}};
        for (size_t k = 0; k < num_classes; ++k) {
            averaged.num_truths.push_back(static_cast<double>(curves.num_truths[k * num_areas + area]));
        }
        return averaged;
    };
    Averages averages;
    averages.numbers.resize(wanted.measures.size());
    averages.ap.assign(num_classes, std::numeric_limits<double>::quiet_NaN());
    averages.ar = averages.ap;
    std::vector<size_t> every(rules.num_thresholds());
    std::iota(every.begin(), every.end(), size_t{0});
    for_each_task(wanted.measures.size() + 1, run, [] { return 0; }, [&](size_t i, int) {
        if (i < wanted.measures.size()) {
            const Measure& measure = wanted.measures[i];
            Averaged averaged = averaged_at(measure.area, measure.limit);
            averaged.is_member = measure.is_member;
            averages.numbers[i] = average(measure, averaged, rules.ap, wanted.is_weighted);
            return;
        }
        const Averaged averaged = averaged_at(0, num_limits - 1);
        const Samples& ap_samples = averaged.ap_samples(rules.ap);
        averaged.for_each_class(ap_samples, [&](size_t k, size_t index) {
            averages.ap[k] = mean_class_by_class(ap_samples, {index}, every);
            averages.ar[k] = mean_class_by_class(averaged.recall, {k}, every);
        });
    });
    return averages;
}

template <class Score, class State>
Finished finish(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const MeasureSet& wanted,
                const Run& run) {
    const TallyColumns<Score, State>& tally = parts.front();
    const size_t num_thresholds = rules.num_thresholds(), num_points = rules.recall_points.size();
    const size_t num_cells = rules.num_areas() * rules.num_limits(), num_classes = tally.num_classes;
    const size_t num_curves = num_thresholds * num_classes * num_cells;
    Finished finished{Buffer<double>(num_curves), Buffer<int64_t>(num_curves), Buffer<int64_t>(num_curves),
                      Buffer<double>(num_curves), {}, order_hits(parts, rules, run)};
    std::vector<Buffer<double>> samples(num_cells);
    CurveArrays arrays{{rules.num_limits() - 1}, finished.recall.data(), finished.num_true.data(), finished.num_false.data(),
                       finished.average_precision.data()};
    CurveNumbers numbers{finished.recall.data(), finished.average_precision.data(), tally.num_truths, num_classes,
                         std::vector<Samples>(num_cells)};
    arrays.samples.resize(num_cells);
    auto keep_samples = [&](size_t area, size_t limit) {
        const size_t cell = area * rules.num_limits() + limit;
        if (rules.ap != ApRule::recall_points || !samples[cell].empty()) return;
        size_t num_defined = 0;
        for (size_t k = 0; k < num_classes; ++k) num_defined += tally.num_truths[k * rules.num_areas() + area] > 0;
        samples[cell] = Buffer<double>(num_thresholds * num_defined * num_points);
        arrays.samples[cell] = samples[cell].data();
        numbers.precision[cell] = {samples[cell].data(), num_points, num_defined, num_defined * num_points, 1, num_points};
    };
    keep_samples(0, rules.num_limits() - 1);  // of which the APs of classes are means
    for (const Measure& measure : wanted.measures) {
        if (measure.is_recall) continue;
        arrays.limits.push_back(measure.limit);
        keep_samples(measure.area, measure.limit);
    }
    std::sort(arrays.limits.begin(), arrays.limits.end());
    arrays.limits.erase(std::unique(arrays.limits.begin(), arrays.limits.end()), arrays.limits.end());
    build_curves(finished.hits, tally.num_truths, rules, run, arrays);
    finished.averages = average_curves(numbers, rules, wanted, run);
    return finished;
}

template Finished finish(const std::vector<TallyColumns<float, uint8_t>>&, const Rules&, const MeasureSet&, const Run&);
template Finished finish(const std::vector<TallyColumns<float, uint64_t>>&, const Rules&, const MeasureSet&, const Run&);
template Finished finish(const std::vector<TallyColumns<double, uint8_t>>&, const Rules&, const MeasureSet&, const Run&);
template Finished finish(const std::vector<TallyColumns<double, uint64_t>>&, const Rules&, const MeasureSet&, const Run&);

}  // namespace boxscore
