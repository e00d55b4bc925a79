// The box around points.
#pragma once

#include <array>
#include <cstddef>

namespace boxscore {

// Left, top, width and height of the smallest box around points x, y, x, y, …; there is at least one. As in
// NumPy's reduction, the later of 0 and -0 counts.
inline std::array<double, 4> box_around(const double* point, size_t num_points) {
    double left = point[0], right = left, top = point[1], bottom = top;
    for (size_t k = 1; k < num_points; ++k) {
        const double x = point[2 * k], y = point[2 * k + 1];
        left = left < x ? left : x, right = right > x ? right : x;
        top = top < y ? top : y, bottom = bottom > y ? bottom : y;
    }
    return {left, top, right - left, bottom - top};
}

}  // namespace boxscore
