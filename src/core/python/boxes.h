// Python class of boxes.
#pragma once

#include "geometry/boxes.h"
#include "python/arrays.h"

namespace boxscore {

// Make a geometry of boxes. Shape (N, 4), or flat.
nb::object make_boxes(Input box, BoxFormat format, bool is_inclusive);

}  // namespace boxscore
