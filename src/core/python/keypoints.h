// Python class of keypoints.
#pragma once

#include <optional>
#include <vector>

#include "python/arrays.h"

namespace boxscore {

// Columns of keypoints: x and y of each point; for truths also the flag of each point, the scale of distances, and the box in xywh.
// `slot`: index of the points of each row, if they are not in the order of rows.
struct KeypointArrays {
    Input point;
    std::optional<Input> area, is_labelled, scale, box, slot;
};

nb::object make_keypoints(KeypointArrays arrays, std::vector<double> sigmas);

}  // namespace boxscore
