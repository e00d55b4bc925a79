// Keypoints as a geometry of Python's.
#pragma once

#include <optional>
#include <vector>

#include "python/arrays.h"

namespace boxscore {

// Row after row: x and y of each point; of truths also whether each point is labelled, the scale of distances, and x, y, width, height
// of the box. `slot`: where the points of each row are, if not in the order of rows.
struct KeypointArrays {
    Input point;
    std::optional<Input> area, is_labelled, scale, box, slot;
};

nb::object make_keypoints(KeypointArrays arrays, std::vector<double> sigmas);

}  // namespace boxscore
