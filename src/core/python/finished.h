// Python class of a finished tally: averages, and the data of its curves.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "curves/finish.h"
#include "python/arrays.h"
#include "python/measures.h"

namespace boxscore {

// The requested numbers, and the function that computes them from a tally of each type. Virtual, because geometries of other extension
// modules don't contain the code of `finish`.
class WantedNumbers {
public:
    WantedNumbers(std::vector<MeasureObject> measures, bool is_weighted, bool keeps_tally)
        : measures_(std::move(measures)), is_weighted_(is_weighted), keeps_tally_(keeps_tally) {}
    virtual ~WantedNumbers() = default;

    // Whether to return the tally, too.
    bool keeps_tally() const { return keeps_tally_; }

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
    bool is_weighted_, keeps_tally_;
};

struct FinishedObject {
    Averages averages;
    std::vector<int64_t> classes;
    Array<double> recall;               // [T, K, A, M]
    Array<int64_t> num_true, num_false;  // [T, K, A, M]
    std::vector<double> ap_at;          // [T, K]: in the first area range and within the last limit
    // The inputs of all curves, which are built when Python reads them.
    OrderedHits hits;
    std::vector<int64_t> truths;  // [K, A]
    Rules rules;

    FinishedObject(Finished&& finished, std::vector<int64_t> class_ids, std::vector<int64_t> num_truths_by_class, const Rules& all_rules)
        : averages(std::move(finished.averages)), classes(std::move(class_ids)), hits(std::move(finished.hits)),
          truths(std::move(num_truths_by_class)), rules(all_rules) {
        const size_t T = rules.num_thresholds(), K = classes.size(), A = rules.num_areas(), M = rules.num_limits();
        for (size_t i = 0; i < T * K; ++i) ap_at.push_back(finished.average_precision[i * A * M + M - 1]);
        recall = to_array(std::move(finished.recall), {T, K, A, M});
        num_true = to_array(std::move(finished.num_true), {T, K, A, M});
        num_false = to_array(std::move(finished.num_false), {T, K, A, M});
    }
};

inline void check_truths(const std::vector<int64_t>& num_truths) {
    for (const int64_t num : num_truths) {
        if (num < 0 || num >= INT32_MAX) throw std::invalid_argument("num_truths: out of range");
    }
}

}  // namespace boxscore
