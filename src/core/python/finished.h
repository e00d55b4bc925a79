// What a tally is finished to, as Python reads it.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "curves/finish.h"
#include "python/arrays.h"
#include "python/measures.h"

namespace boxscore {

// The numbers that Python asks for, and how they are made of tallies of each type. Virtual, as geometries may come from extension
// modules, which don't contain the code that finishes.
class WantedNumbers {
public:
    WantedNumbers(std::vector<MeasureObject> measures, bool is_weighted) : measures_(std::move(measures)), is_weighted_(is_weighted) {}
    virtual ~WantedNumbers() = default;

    void check(const Rules& rules) const {
        check_measures(measures_, rules);
        if (rules.recall_points.empty()) throw std::invalid_argument("rules: no recall points");
    }
    MeasureSet of(const std::vector<int64_t>& classes) const { return {measures_of(measures_, classes), is_weighted_}; }

    virtual Finished finish(const TallyColumns<float, uint8_t>&, const Rules&, const std::vector<int64_t>& classes, const Run&) const = 0;
    virtual Finished finish(const TallyColumns<float, uint64_t>&, const Rules&, const std::vector<int64_t>& classes, const Run&) const = 0;
    virtual Finished finish(const TallyColumns<double, uint8_t>&, const Rules&, const std::vector<int64_t>& classes, const Run&) const = 0;
    virtual Finished finish(const TallyColumns<double, uint64_t>&, const Rules&, const std::vector<int64_t>& classes, const Run&) const = 0;

private:
    std::vector<MeasureObject> measures_;
    bool is_weighted_;
};

// The means of curves.
struct AveragesObject {
    std::vector<double> numbers;
    nb::object ap, ar;

    explicit AveragesObject(const Averages& averages)
        : numbers(averages.numbers), ap(to_numpy(averages.ap, {averages.ap.size()})),
          ar(to_numpy(averages.ar, {averages.ar.size()})) {}
};

struct FinishedObject {
    AveragesObject averages;
    nb::object classes, num_truths, num_detections, recall, num_true, num_false;
    nb::object ap_at;  // [T, K]: in the first area range and within the last limit
    // What all curves are built of when they are read.
    OrderedHits hits;
    std::vector<int64_t> truths;  // [K, A]
    Rules rules;

    FinishedObject(Finished&& finished, const std::vector<int64_t>& class_ids, std::vector<int64_t> num_truths_by_class,
                   const Rules& all_rules)
        : averages(finished.averages), hits(std::move(finished.hits)), truths(std::move(num_truths_by_class)), rules(all_rules) {
        const size_t T = rules.num_thresholds(), K = class_ids.size(), A = rules.num_areas(), M = rules.num_limits();
        Buffer<double> first_area(T * K);
        for (size_t i = 0; i < T * K; ++i) first_area[i] = finished.average_precision[i * A * M + M - 1];
        classes = to_numpy(class_ids, {K});
        num_truths = to_numpy(truths, {K, A});
        num_detections = to_numpy(hits.num_detections, {K});
        recall = to_numpy(std::move(finished.recall), {T, K, A, M});
        num_true = to_numpy(std::move(finished.num_true), {T, K, A, M});
        num_false = to_numpy(std::move(finished.num_false), {T, K, A, M});
        ap_at = to_numpy(std::move(first_area), {T, K});
    }
};

inline void check_truths(const std::vector<int64_t>& num_truths) {
    for (const int64_t num : num_truths) {
        if (num < 0 || num >= INT32_MAX) throw std::invalid_argument("num_truths: out of range");
    }
}

}  // namespace boxscore
