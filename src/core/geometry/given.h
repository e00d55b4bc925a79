// Policies of similarities that somebody else has measured: a matrix per group of rows, or a list of candidates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "geometry/policy.h"

namespace boxscore {

// Index of a row in the given columns, and its area.
struct GivenShape {
    size_t index;
    double area;
};

// A matrix per group, one row per detection and one column per truth, group after group.
struct MatrixPolicy {
    using Shape = GivenShape;
    using Index = NoIndex;
    using Workspace = NoWorkspace;

    const double* values;
    const size_t* row_start;   // where the row of each detection begins
    const uint32_t* column;    // of each truth

    Shape detection(size_t row) const { return {row_start[row], 0}; }
    Shape truth(size_t row) const { return {column[row], 0}; }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t) const {}

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool, double, Workspace&, Use use) const {
        const double value = values[shape.index + truth.index];
        // as in COCO: a NaN similarity reaches every threshold
        use(std::isnan(value) ? std::numeric_limits<double>::infinity() : value);
    }

    Index make_index(double) const { return {}; }
};

// A list per detection of the truths that are similar to it, in ascending order of their rows; others are not at all.
struct CandidatePolicy {
    using Shape = GivenShape;
    using Index = NoIndex;
    using Workspace = NoWorkspace;

    const int64_t* start;  // of the list of each detection; one more for the end of the last
    const int32_t* truth_row;
    const double* values;
    const double *detection_area, *truth_area;

    Shape detection(size_t row) const { return {row, detection_area[row]}; }
    Shape truth(size_t row) const { return {row, truth_area[row]}; }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t) const {}

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool, double, Workspace&, Use use) const {
        const int32_t *first = truth_row + start[shape.index], *last = truth_row + start[shape.index + 1];
        const int32_t* listed = std::lower_bound(first, last, static_cast<int32_t>(truth.index));
        if (listed != last && *listed == static_cast<int32_t>(truth.index)) use(values[listed - truth_row]);
    }

    Index make_index(double) const { return {}; }
};

}  // namespace boxscore
