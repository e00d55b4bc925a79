// Curves: class by class, one pass over the verdicts by falling score, all cells and limits at once.
#pragma once

#include <cstdint>
#include <vector>

#include "average.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

// A tally, or a part of one: rows of its own, and all else of the whole.
//
//   state of a row      bit 0: it is a hit, whose verdicts are in the words below
//   (8 or 64 bits)      bit 1 + a: it is none, and counts as a false positive in area range a; else it is ignored there
//
//                         1+A ...  2    1    0
//                       +----+---+----+----+-----+
//                       |a A-1   | a 1| a 0| hit |        a hit has zeros in all other bits
//                       +----+---+----+----+-----+
//
//   words of a hit      bit a * T + t is the cell of area range a and threshold t, from the lowest bit of the first word on
//
//                       |   area 0    |   area 1    | ...           is_counted  is_true
//                       | t 0 ... T-1 | t 0 ... T-1 | ...               0          0      ignored
//                       bit 0           bit T                           1          0      false positive
//                                                                       1          1      true positive
template <class Score, class State>
struct TallyColumns {
    size_t size;
    const int32_t* label;  // indices of classes
    const int32_t* image;  // indices of images; may be null where rows are in order of images
    const Score* score;
    const uint8_t* tier;  // the first limit that a row is within
    const State* state;
    const uint64_t* is_true;  // num_words per hit, hits in the order of their rows, part by part
    const uint64_t* is_counted;
    size_t num_hits;  // of all parts
    size_t num_images;
    size_t num_classes;
    const int64_t* num_truths;  // by class and area range
};

// The state of a sum over true positives, for the rules that take one: that of a pairwise sum, or a plain sum in its first entry.
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
    int64_t* num_detections = nullptr;  // [K]; null: not wanted
    // By area range and limit: precision of the classes with truths there, as [T, D, R]; null: not wanted; empty: none is.
    std::vector<double*> samples = {};
};

// Of a tally in one or more parts; where they are several, rows are in order of images, part by part. `start` may be null: the
// rows are all there are.
template <class Score, class State>
void build_curves(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const CurveStart* start,
                  const Run& run, const CurveArrays& out);

}  // namespace boxscore
