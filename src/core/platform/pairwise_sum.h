// Sums in NumPy's order of additions, so that their last bits are equal to NumPy's.
#pragma once

#include <cstddef>
#include <type_traits>

namespace boxscore {

// Sum by recursive halving down to at most 128 numbers. `sum_few(num)` returns the sum of the next `num`, by `sum_in_lanes`.
template <class SumFew>
auto pairwise_sum_by(size_t size, SumFew& sum_few) {
    if (size <= 128) return sum_few(size);
    const size_t half = size / 2 - size / 2 % 8;
    const auto first = pairwise_sum_by(half, sum_few);
    return first + pairwise_sum_by(size - half, sum_few);
}

// Sum of up to 128 values, in eight lanes. A value is a number, or a vector of numbers of separate sums.
template <class Values>
auto sum_in_lanes(const Values& values, size_t size) {
    using Value = std::decay_t<decltype(values[0])>;
    if (size < 8) {
        Value sum{};
        for (size_t i = 0; i < size; ++i) sum += values[i];
        return sum;
    }
    Value lane[8];
    for (size_t j = 0; j < 8; ++j) lane[j] = values[j];
    size_t i = 8;
    for (; i + 8 <= size; i += 8) {
        for (size_t j = 0; j < 8; ++j) lane[j] += values[i + j];
    }
    Value sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < size; ++i) sum += values[i];
    return sum;
}

// Sum of any number of values. `values`: a pointer, or an object that is indexed and advanced like one.
template <class Values>
auto pairwise_sum(Values values, size_t size) {
    auto sum_few = [&](size_t num) {
        const auto sum = sum_in_lanes(values, num);
        values += num;
        return sum;
    };
    return pairwise_sum_by(size, sum_few);
}

}  // namespace boxscore
