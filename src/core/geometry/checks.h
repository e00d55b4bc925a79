// Validates columns in one pass; Python finds the invalid row and words the error.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "geometry/boxes.h"
#include "platform/processor.h"

namespace boxscore {

template <class Number>
bool are_finite(const Number* values, size_t size) {
    return per_processor([&]() BOXSCORE_INLINE {
        bool is_valid = true;
        for (size_t i = 0; i < size; ++i) is_valid &= std::abs(values[i]) <= std::numeric_limits<Number>::max();
        return is_valid;
    });
}

// Compares the four numbers of a box side by side, and each box with the same bounds: the compiler makes vectors of it.
template <bool kAreCorners, class Number>
BOXSCORE_INLINE inline bool are_within_bounds(const Number* box, size_t num_boxes, double largest) {
    constexpr double kMost = std::numeric_limits<double>::max();
    const double low[4] = {-kMost, -kMost, 0, 0}, high[4] = {kMost, kMost, largest, largest};
    int64_t is_outside[4] = {};  // all bits where any box is
    for (const Number* end = box + num_boxes * 4; box < end; box += 4) {
        double number[4];  // left, top, width, height
        for (size_t i = 0; i < 4; ++i) number[i] = box[i];
        if constexpr (kAreCorners) number[2] -= number[0], number[3] -= number[1];
        for (size_t i = 0; i < 4; ++i) is_outside[i] |= -int64_t{!(number[i] >= low[i])} | -int64_t{!(number[i] <= high[i])};
    }
    return (is_outside[0] | is_outside[1] | is_outside[2] | is_outside[3]) == 0;
}

// All coordinates finite, no negative size, no side beyond `largest`.
template <class Number>
bool are_boxes_valid(const Number* box, size_t num_boxes, BoxFormat format, double largest) {
    return per_processor([&]() BOXSCORE_INLINE {
        return format == BoxFormat::xyxy ? are_within_bounds<true>(box, num_boxes, largest)
                                         : are_within_bounds<false>(box, num_boxes, largest);
    });
}

}  // namespace boxscore
