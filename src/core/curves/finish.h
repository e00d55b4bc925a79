// Finish: a tally to its numbers, through its curves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "curves/curves.h"
#include "curves/ordered_hits.h"
#include "curves/tally_columns.h"
#include "platform/memory.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

// The means of curves. NaN is undefined: no truths.
struct Averages {
    std::vector<double> numbers;  // of the measures
    std::vector<double> ap, ar;   // [K]: means over thresholds, in the first area range and within the last limit
};

// Curves to take the means of: arrays [T, K, A, M], and precisions at recall points for each area range and limit.
struct CurveNumbers {
    const double *recall, *average_precision;
    const int64_t* num_truths;  // [K, A]
    size_t num_classes;
    std::vector<Samples> precision;  // [A, M]; those that no measure needs may be left as they are
};

Averages average_curves(const CurveNumbers& curves, const Rules& rules, const MeasureSet& wanted, const Run& run);

struct Finished {
    Buffer<double> recall;                // [T, K, A, M]
    Buffer<int64_t> num_true, num_false;  // [T, K, A, M]
    Buffer<double> average_precision;     // [T, K, A, M]; within the limits that a measure needs, and within the last
    Averages averages;
    OrderedHits hits;  // to build all curves of, when they are read
};

// Of a tally in one or more parts, as `order_hits` takes them. Curves are built within those limits only that a measure needs, and
// their samples are kept for its area ranges only.
template <class Score, class State>
Finished finish(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const MeasureSet& wanted,
                const Run& run);

}  // namespace boxscore
