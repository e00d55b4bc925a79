// Curves: class by class, one pass over the verdicts by falling score, all cells and limits at once.
#pragma once

#include <cstdint>
#include <vector>

#include "rules.h"
#include "tasks.h"

namespace boxscore {

template <class Score, class State>
struct TallyColumns {
    size_t size;
    const int32_t* label;  // places among the classes
    const int32_t* image;  // places among the images; may be null where rows are in order of images
    const Score* score;
    const uint8_t* tier;
    const State* state;
    const uint64_t* is_true;  // num_words a hit, hits in the order of their rows
    const uint64_t* is_counted;
    size_t num_images;
    size_t num_classes;
    const int64_t* num_truths;  // by class and area range
};

// Arrays in pycocotools' layout: [T, R, K, A, M] and [T, K, A, M]. All of them get written.
struct CurveArrays {
    double *precision, *scores;
    double *recall, *average_precision;
    int64_t *num_true, *num_false;
};

template <class Score, class State>
void draw_curves(const TallyColumns<Score, State>& tally, const Rules& rules, const Run& run, const CurveArrays& out);

}  // namespace boxscore
