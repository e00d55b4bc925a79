// Means with the bits of NumPy's.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

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

// The same of values that need not stand anywhere: `fill(to, num)` writes the next few, which are never more than 128.
template <class Fill>
double pairwise_sum_of(size_t size, Fill& fill) {
    if (size <= 128) {
        double values[128];
        fill(values, size);
        return pairwise_sum(values, size);
    }
    const size_t half = size / 2 - size / 2 % 8;
    const double first = pairwise_sum_of(half, fill);
    return first + pairwise_sum_of(size - half, fill);
}

// The mean of those that are defined, which -1 is not, among every `stride`-th of some runs of `length` values; NaN if none is.
inline double mean_defined(const double* values, const std::vector<size_t>& runs, size_t length, size_t stride, size_t offset) {
    std::vector<double> defined;
    defined.reserve(runs.size() * length / stride);
    for (const size_t run : runs) {
        const double* end = values + (run + 1) * length;
        for (const double* value = values + run * length + offset; value < end; value += stride) {
            if (*value > -1) defined.push_back(*value);
        }
    }
    if (defined.empty()) return std::numeric_limits<double>::quiet_NaN();
    return pairwise_sum(defined.data(), defined.size()) / static_cast<double>(defined.size());
}

}  // namespace boxscore
