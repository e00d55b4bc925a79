// Boxes as a geometry of Python's.
#pragma once

#include "geometry/boxes.h"
#include "python/arrays.h"

namespace boxscore {

// Four numbers per row.
nb::object make_boxes(Input box, BoxFormat format, bool is_inclusive);

}  // namespace boxscore
