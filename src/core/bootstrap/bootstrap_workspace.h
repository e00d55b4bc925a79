// Workspace of the bootstrap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/memory.h"

namespace boxscore {

// The points of a curve in each lane, one per true positive that matters: how many detections are true up to it, and how many
// count. Lanes in which its image was not drawn, or less often, repeat the point before it.
template <size_t kLanes>
struct CurvePoints {
    std::vector<int32_t> num_true, num_counted;  // [size, lanes]
    size_t size = 0;

    void reserve(size_t num) {
        if (num_true.size() >= (size + num) * kLanes) return;
        num_true.resize(2 * (size + num) * kLanes);
        num_counted.resize(num_true.size());
    }
};

// The numbers of one resample in the area range at hand, of the classes that have truths there: D of them.
struct ResampleNumbers {
    std::vector<uint32_t> classes;          // their indices, ascending
    std::vector<double> num_truths;         // [D]
    std::vector<double> average_precision;  // [T, D]; only where it is not made from precisions at recall points
    std::vector<double> ap;                 // [D]: the means of those precisions, in the first area range
    std::vector<double> recall;             // [M, T, D]

    size_t num_defined() const { return classes.size(); }
};

// A thread's own memory for several resamples at once. Values of all resamples stand side by side, one lane each, so that one
// instruction works on many.
template <size_t kLanes>
struct ResampleWorkspace {
    std::vector<uint16_t> drawn;      // how often each image is, in one resample
    std::vector<uint16_t> weight;     // [N + 1, lanes]: the same in all, and of an image that is none
    std::vector<int32_t> num_truths;  // [K, lanes]
    // Of the class at hand.
    std::vector<uint16_t> num_copies;  // [stops, lanes]
    std::vector<int32_t> num_counted;  // [stops, lanes]: rows up to each that count at every threshold
    std::array<int32_t, kLanes> total{};  // all rows that count at every threshold
    std::vector<uint32_t> reach;       // [true positives, lanes]: recall points reached, times the lanes
    std::vector<double> class_samples;  // [T, R, lanes]: precisions at recall points
    // Of the threshold at hand.
    std::vector<int32_t> num_extra;  // [rows, lanes]: up to each of a cell's own
    CurvePoints<kLanes> points;
    std::vector<double> best;  // [R + 1, lanes]: precision where so many recall points are reached; zeros between cells
    std::vector<double> values;   // precisions at the true positives of one lane
    std::vector<double> counted;  // detections that count up to each of them
    // Of the area range at hand: precisions at recall points, as [T, R, most D, lanes]. Each lane has its own D classes, with no gaps
    // among them; as hardly any class is without truths, most are next to the same class in the other lanes.
    Buffer<double> samples;
    size_t most_defined = 0;
    ResampleNumbers numbers[kLanes];

    const uint16_t* weight_of(uint32_t image) const { return weight.data() + size_t{image} * kLanes; }
};

}  // namespace boxscore
