// Whether columns are fine, in one pass; finding out what is wrong, if something is, is left to Python.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "geometry/boxes.h"

namespace boxscore {

template <class Number>
bool are_finite(const Number* values, size_t size) {
    bool is_fine = true;
    for (size_t i = 0; i < size; ++i) is_fine &= std::abs(values[i]) <= std::numeric_limits<Number>::max();
    return is_fine;
}

// All coordinates finite, no negative size, no side beyond `largest`.
template <class Number>
bool are_boxes_fine(const Number* box, size_t num_boxes, BoxFormat format, double largest) {
    constexpr Number kMost = std::numeric_limits<Number>::max();
    bool is_fine = true;
    for (const Number* end = box + num_boxes * 4; box < end; box += 4) {
        const double width = format == BoxFormat::xyxy ? double{box[2]} - box[0] : box[2];
        const double height = format == BoxFormat::xyxy ? double{box[3]} - box[1] : box[3];
        is_fine &= (std::abs(box[0]) <= kMost) & (std::abs(box[1]) <= kMost);
        is_fine &= (width >= 0) & (height >= 0) & (width <= largest) & (height <= largest);
    }
    return is_fine;
}

}  // namespace boxscore
