// Input of all resamples, laid out once: lists of images, over which weights are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "curves/curves.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

template <class State>
struct TruthStates {
    size_t size;
    const int32_t *image, *label;  // indices
    const State* state;            // bit a where it counts in area range a
};

// A row that counts, by its image; and whether what counts up to it is needed, as a curve has a true positive there.
struct Step {
    uint32_t image : 31;
    uint32_t is_stop : 1;
};

// A true positive of one cell. Where the next row that counts is true as well, precision is no lower there and recall no less: then
// the point of this one is not needed for an envelope.
struct CellStop {
    uint32_t stop : 31;  // index among the field's stops
    uint32_t is_followed : 1;
};

// Detections of one class, image and score that count in one cell, and some of which are true. In a resample all of the first
// copy stand before all of the second, so the true ones are not in one row with their own copies.
struct Tie {
    uint32_t begin, end;  // of the true ones among all true positives
    uint32_t size;        // rows that count
    uint32_t first_rank;  // the index of `begin` among the cell's ranks
};

// One threshold of one class and area range: its true positives, by falling score.
struct Cell {
    std::vector<CellStop> true_positives;
    std::vector<uint32_t> extra;      // images of rows that count here, but not at every threshold
    std::vector<uint32_t> num_extra;  // of each true positive: rows of `extra` up to it; empty if there are none at all
    std::vector<Tie> ties;
    std::vector<uint32_t> ranks;                // of each true positive in a tie: rows of the tie that count up to it
    std::vector<std::vector<uint32_t>> beyond;  // images of true positives beyond each limit but the last
};

// One class in one area range.
struct Field {
    std::vector<uint32_t> truths;  // images of the truths that count
    std::vector<Step> steps;       // rows that count at every threshold, by falling score, up to the last true positive
    std::vector<uint32_t> stops;   // images of the true positives of any threshold
    std::vector<Cell> cells;       // one per threshold
};

struct ResampleLayout {
    size_t num_classes = 0;
    std::vector<uint32_t> num_boxes;  // of each image
    std::vector<uint8_t> is_wanted;   // by area range: whether any number is of it
    std::vector<Field> fields;        // [K, A]

    size_t num_images() const { return num_boxes.size(); }
    const Field& field(size_t label, size_t area) const { return fields[label * is_wanted.size() + area]; }
};

// `tally.image` must be there; `tally.num_truths` need not. An image beyond the last stands for none: it has no weight.
template <class Score, class State>
ResampleLayout lay_out(const TallyColumns<Score, State>& tally, const TruthStates<State>& truths, const Rules& rules,
               const std::vector<Measure>& measures, const Run& run);

}  // namespace boxscore
