// The box around points.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace boxscore {

// Left, top, width and height of the smallest box around points x, y, x, y, …; there is at least one.
inline std::array<double, 4> box_around(const double* point, size_t num_points) {
    double left = point[0], right = left, top = point[1], bottom = top;
    for (size_t k = 1; k < num_points; ++k) {
        left = std::min(left, point[2 * k]), right = std::max(right, point[2 * k]);
        top = std::min(top, point[2 * k + 1]), bottom = std::max(bottom, point[2 * k + 1]);
    }
    return {left, top, right - left, bottom - top};
}

}  // namespace boxscore
