// Overlaps across classes: the nearest truths of each detection, and pairs of different classes.
#pragma once

#include <cstdint>

#include "rules.h"
#include "tasks.h"

namespace boxscore {

// Boxes of one side. A row that is not used is as good as absent.
struct BoxColumns {
    size_t size;
    const int32_t* image;  // places among the images, and so on
    const int32_t* label;
    const double* box;  // four numbers a row
    BoxFormat box_format;
    const uint8_t* is_used;
};

// The truth with the largest IoU, the first of equal ones; -1 and 0 where none overlaps.
struct Nearest {
    int32_t* truth;
    double* iou;
};

// The nearest truths of each detection: of its own class, and of any other. All rows get written.
void find_nearest(const BoxColumns& detections, const BoxColumns& truths, size_t num_images, bool is_inclusive,
                  const Run& run, const Nearest& own, const Nearest& other);

// Detections by falling score, of equal ones the first row first, take the free truth of another class with the largest IoU
// that reaches the only cutoff of the rules. Written is the truth of each detection, or -1.
void match_across(const BoxColumns& detections, const double* score, const BoxColumns& truths, size_t num_images,
                  const Rules& rules, const Run& run, int32_t* taken);

}  // namespace boxscore
