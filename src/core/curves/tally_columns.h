// A tally as the core reads it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace boxscore {

// A tally, or a part of one: the part's rows, and everything else from the whole.
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

}  // namespace boxscore
