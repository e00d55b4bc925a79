// NumPy's order of additions, on which the last bits of its sums and means depend.
#pragma once

#include <cstddef>

namespace boxscore {

// The sum in NumPy's order of additions: halves of up to 128 numbers, in eight lanes. `read(i)` is value i, from `begin` on: a number,
// or several side by side that belong to as many sums.
template <class Read>
auto pairwise_sum_by(const Read& read, size_t begin, size_t size) {
    using Value = decltype(read(begin));
    if (size < 8) {
        Value sum{};
        for (size_t i = 0; i < size; ++i) sum += read(begin + i);
        return sum;
    }
    if (size <= 128) {
        Value lane[8];
        for (size_t j = 0; j < 8; ++j) lane[j] = read(begin + j);
        size_t i = 8;
        for (; i + 8 <= size; i += 8) {
            for (size_t j = 0; j < 8; ++j) lane[j] += read(begin + i + j);
        }
        Value sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        for (; i < size; ++i) sum += read(begin + i);
        return sum;
    }
    const size_t half = size / 2 - size / 2 % 8;
    const Value first = pairwise_sum_by(read, begin, half);
    return first + pairwise_sum_by(read, begin + half, size - half);
}

inline double pairwise_sum(const double* values, size_t size) {
    return pairwise_sum_by([=](size_t i) { return values[i]; }, 0, size);
}

}  // namespace boxscore
