// pycocotools' reading of counts that need not be a valid mask: any characters, any sums, runs without pixels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "masks/runs.h"

namespace boxscore {

// as in COCO: any byte is five bits and two flags, sums wrap around, and a byte of 0 is the end
void decode_loosely(const char* text, size_t size, Runs& runs);

// Pixels in common over those of either, or of `a` for a crowd. As in COCO: it ends where both are between two runs that have no
// pixels. False if one mask has more pixels than
// the other, where pycocotools does not come to an end.
bool compare_loosely(const Runs& a, const Runs& b, bool is_crowd, double& iou);

}  // namespace boxscore
