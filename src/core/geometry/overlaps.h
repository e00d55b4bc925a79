// The policy of masks whose areas and common pixels somebody else has counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "geometry/given.h"
#include "geometry/masks.h"
#include "geometry/policy.h"

namespace boxscore {

// A block of counts per image, one row per detection and one column per truth of any class.
//
//     common   ┌ image 0, D x G ┐┌ image 1 ┐       row_start   of the row of each detection
//              └────────────────┘└─────────┘       column      of each truth in the rows of its image
struct OverlapPolicy {
    using Shape = GivenShape;
    using Index = NoIndex;
    using Workspace = NoWorkspace;

    const int32_t* common;
    size_t num_common;
    const int64_t *row_start, *column;
    const double *detection_area, *truth_area;

    Shape detection(size_t row) const { return {static_cast<size_t>(row_start[row]), detection_area[row]}; }
    Shape truth(size_t row) const { return {static_cast<size_t>(column[row]), truth_area[row]}; }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t) const {}

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double, Workspace&, Use use) const {
        const size_t position = shape.index + truth.index;
        if (position >= num_common) throw std::out_of_range("common: must have every pair of an image");
        use(ratio_of_pixels(static_cast<uint64_t>(common[position]), static_cast<uint64_t>(shape.area),
                            static_cast<uint64_t>(truth.area), is_relative));
    }

    Index make_index(double) const { return {}; }
};

}  // namespace boxscore
