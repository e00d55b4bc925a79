// Curves: class by class, one pass over the verdicts by falling score, all cells and limits at once.
#pragma once

#include <cstdint>
#include <vector>

#include "average.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

// A tally, or a part of one: rows of its own, and all else of the whole.
template <class Score, class State>
struct TallyColumns {
    size_t size;
    const int32_t* label;  // places among the classes
    const int32_t* image;  // places among the images; may be null where rows are in order of images
    const Score* score;
    const uint8_t* tier;
    const State* state;
    const uint64_t* is_true;  // num_words a hit, hits in the order of their rows, part by part
    const uint64_t* is_counted;
    size_t num_hits;  // of all parts
    size_t num_images;
    size_t num_classes;
    const int64_t* num_truths;  // by class and area range
};

// A sum over true positives on its way, for the rules that take one: a pairwise sum's state, or a plain sum in its first place.
inline constexpr size_t kSumState = PairwiseSum::kStateSize;

// Where curves begin that continue from detections of higher scores, which are not among the rows: [T, K, A, M] each.
struct CurveStart {
    const int64_t *num_true, *num_counted;
    const int64_t* total_true;  // true positives of all ranges, for the envelope
    const double* sum;          // [T, K, A, M, kSumState]: over the true positives so far
    const double* beyond;       // the best precision among the detections of lower scores, for the envelope
    double* sum_after;          // as `sum`, with the true positives of these rows; gets written
};

// Arrays in pycocotools' layout: [T, R, K, A, M] and [T, K, A, M]. All of them get written.
struct CurveArrays {
    double *precision, *scores;
    double *recall, *average_precision;
    int64_t *num_true, *num_false;
};

// Of a tally in one or more parts; where they are several, rows are in order of images, part by part. `begin` may be null: the
// rows are all there are.
template <class Score, class State>
void draw_curves(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const CurveStart* begin,
                 const Run& run, const CurveArrays& out);

}  // namespace boxscore
