// The bootstrap: the numbers of images drawn with replacement, from verdicts that stand as they are. An image that is drawn
// twice counts twice; nothing is matched again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bootstrap/bootstrap_layout.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

struct BootstrapOptions {
    MeasureSet wanted;  // measures of precision are those within the last limit
    uint64_t seed = 0;
    size_t num_resamples = 0;
    size_t max_lanes = 8;  // resamples that may be computed side by side; 1 for a benchmark of what that buys
};

// One row per resample. All of them get written; NaN is undefined.
struct BootstrapArrays {
    double* numbers;   // [S, measures]
    double *ap, *ar;  // [S, K]: means over thresholds, in the first area range and within the last limit
};

// The numbers of every resample are, bit for bit, those of a tally in which each image stands as often as it was drawn, a copy
// right behind its original.
void bootstrap(const ResampleLayout& layout, const Rules& rules, const BootstrapOptions& options, const Run& run,
               const BootstrapArrays& out);

}  // namespace boxscore
