// NumPy's order of additions, on which the last bits of its sums and means depend.
#pragma once

#include <cstddef>

namespace boxscore {

// The sum in NumPy's order of additions: halves of up to 128 numbers, in eight lanes.
inline double pairwise_sum(const double* values, size_t size) {
    if (size < 8) {
        double sum = 0;
        for (size_t i = 0; i < size; ++i) sum += values[i];
        return sum;
    }
    if (size <= 128) {
        double lane[8];
        for (size_t j = 0; j < 8; ++j) lane[j] = values[j];
        size_t i = 8;
        for (; i + 8 <= size; i += 8) {
            for (size_t j = 0; j < 8; ++j) lane[j] += values[i + j];
        }
        double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        for (; i < size; ++i) sum += values[i];
        return sum;
    }
    const size_t half = size / 2 - size / 2 % 8;
    return pairwise_sum(values, half) + pairwise_sum(values + half, size - half);
}

}  // namespace boxscore
