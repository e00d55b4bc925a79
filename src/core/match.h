// Matching: image by image, everything of one image in the nearest cache, all thresholds and area ranges in one word.
#pragma once

#include <cstdint>
#include <vector>

#include "order.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

template <class Box, class Score>
struct DetectionColumns {
    size_t size;
    const int32_t* image;  // places among the images, and so on
    const int32_t* label;
    const Score* score;
    const Box* box;  // four numbers a row
    BoxFormat box_format;
};

struct TruthColumns {
    size_t size;
    const int32_t* image;
    const int32_t* label;
    const double* box;
    BoxFormat box_format;
    const double* area;      // may be null: the boxes' own
    const uint8_t* ignore;   // may be null: none
};

// What became of each detection in the first cell, and of each truth, in the order that they were given.
struct Pairs {
    uint8_t* verdict;  // 0 ignored, 1 false, 2 true; stays as it was for detections beyond the last limit
    int32_t* truth;    // the truth that it took; stays as it was if there is none
    uint8_t* counts;   // whether a truth is one that counts in the first area range
};

// What becomes of a detection, a row each, images in order and each image class by class in order of rank. A state has bit 0
// for a hit; a detection that is none has bit 1 + a where it counts, as a false positive, in area range a. Hits have their
// verdicts cell by cell in words, in the order of their rows.
template <class Score, class State>
struct TallyRows {
    const int32_t *image_id, *label_id;  // what is written for each place
    int32_t* image;
    int32_t* label;
    Score* score;
    uint8_t* tier;  // the first limit that the detection's rank is within
    State* state;
    std::vector<uint64_t> is_true, is_counted;  // num_words a hit
    std::vector<int32_t> truth_image, truth_label;  // of each truth, images in order and each image class by class
    std::vector<State> truth_state;                 // bit a where it counts in area range a
    size_t size = 0;
    Pairs* pairs = nullptr;  // written where they are wanted
};

// Truths that count, by class and area range, from the places of their classes and their states.
template <class State>
std::vector<int64_t> count_truths(const int32_t* label, const State* state, size_t size, size_t num_classes,
                                  size_t num_areas) {
    std::vector<int64_t> count(num_classes * num_areas);
    for (size_t g = 0; g < size; ++g) {
        for (size_t a = 0; a < num_areas; ++a) count[label[g] * num_areas + a] += state[g] >> a & 1;
    }
    return count;
}

template <class Box, class Score, class State>
void match(const DetectionColumns<Box, Score>& detections, const TruthColumns& truths, size_t num_images,
           size_t num_classes, const Rules& rules, const Run& run, TallyRows<Score, State>& tally);

}  // namespace boxscore
