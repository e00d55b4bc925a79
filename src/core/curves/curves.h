// Curves: class by class, one pass over the verdicts by falling score, all cells and limits at once.
#pragma once

#include <cstdint>
#include <vector>

#include "curves/average.h"
#include "curves/ordered_hits.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

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

// Build the curves of hits in their order. `num_truths`: by class and area range, [K, A].
void build_curves(const OrderedHits& hits, const int64_t* num_truths, const Rules& rules, const Run& run, const CurveArrays& out);

}  // namespace boxscore
