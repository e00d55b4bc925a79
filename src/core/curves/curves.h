// Curves: class by class, one pass over the verdicts by falling score, all cells and limits at once.
#pragma once

#include <cstdint>
#include <vector>

#include "curves/average.h"
#include "curves/ordered_hits.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

// The state of a sum over true positives, for the rules that take one: a pairwise sum's, or a sequential sum in its first entry.
inline constexpr size_t kSumState = PairwiseSum::kStateSize;

// Where curves begin that continue from detections of higher scores, which are not among the rows: [T, K, A, M] each.
struct CurveStart {
    const int64_t *num_true, *num_counted;
    const int64_t* total_true;  // true positives of all ranges, for the envelope
    const double* sum;          // [T, K, A, M, kSumState]: over the true positives so far
    const double* beyond;       // the best precision among the detections of lower scores, for the envelope
    double* sum_after;          // as `sum`, with the true positives of these rows; gets written
};

// Where curves get written.
struct CurveArrays {
    std::vector<size_t> limits;  // those whose curves are built, ascending; within the others detections are only counted
    double* recall;              // [T, K, A, M]
    int64_t *num_true, *num_false;   // [T, K, A, M]
    double* average_precision;       // [T, K, A, M]; stays as it was within limits whose curves are not built
    double *precision = nullptr, *scores = nullptr;  // [T, R, K, A, M], as in pycocotools, if all limits are built; null: not wanted
    // By area range and limit: precision of the classes with truths there, as [T, D, R]; null: not wanted; empty: none is.
    std::vector<double*> samples = {};
};

// Of hits in their order, and truths by class and area range. `start` may be null: these are all detections.
void build_curves(const OrderedHits& hits, const int64_t* num_truths, const Rules& rules, const CurveStart* start, const Run& run,
                  const CurveArrays& out);

}  // namespace boxscore
