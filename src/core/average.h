// Means with the bits of NumPy's.
#pragma once

#include <algorithm>
#include <array>
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

// The same of a known number of values that come one by one. What was added so far can be saved, and continued from later.
class PairwiseSum {
public:
    static constexpr size_t kDepth = 32, kLanes = 8, kStateSize = kDepth + kLanes + 1;

    explicit PairwiseSum(size_t size) : PairwiseSum(size, 0, nullptr) {}

    // Continues after `position` values from what `save` wrote then.
    PairwiseSum(size_t size, size_t position, const double* state) : size_(size), position_(position) {
        if (position_ > 0) {
            std::copy_n(state, kDepth, left_.begin());
            std::copy_n(state + kDepth, kLanes, lane_.begin());
            total_ = state[kStateSize - 1];
        }
        if (position_ < size_) find_leaf();
    }

    void save(double* state) const {
        std::copy(left_.begin(), left_.end(), state);
        std::copy(lane_.begin(), lane_.end(), state + kDepth);
        state[kStateSize - 1] = total_;
    }

    void add(double value) {
        const size_t place = position_ - begin_, num = end_ - begin_, num_in_lanes = num - num % kLanes;
        if (num < kLanes) {
            lane_[0] = place == 0 ? value : lane_[0] + value;
        } else if (place < kLanes) {
            lane_[place] = value;
        } else if (place < num_in_lanes) {
            lane_[place % kLanes] += value;
        } else {
            lane_[0] += value;
        }
        if (place + 1 == num_in_lanes) {
            lane_[0] = ((lane_[0] + lane_[1]) + (lane_[2] + lane_[3])) + ((lane_[4] + lane_[5]) + (lane_[6] + lane_[7]));
        }
        if (++position_ == end_) end_leaf();
    }

    size_t position() const { return position_; }

    // Of all values, once all of them are there.
    double total() const { return total_; }

private:
    // The leaf of up to 128 values that the next value belongs to, and on which sides of the nodes above it is.
    void find_leaf() {
        begin_ = 0, end_ = size_, depth_ = 0;
        while (end_ - begin_ > 128) {
            const size_t half = (end_ - begin_) / 2, middle = begin_ + half - half % kLanes;
            is_right_[depth_] = position_ >= middle;
            (is_right_[depth_++] ? begin_ : end_) = middle;
        }
    }

    void end_leaf() {
        double sum = lane_[0];
        for (; depth_ > 0 && is_right_[depth_ - 1]; --depth_) sum = left_[depth_ - 1] + sum;
        if (depth_ > 0) left_[depth_ - 1] = sum;
        total_ = sum;
        if (position_ < size_) find_leaf();
    }

    size_t size_, position_;
    size_t begin_ = 0, end_ = 0, depth_ = 0;  // of the leaf
    std::array<bool, kDepth> is_right_{};
    std::array<double, kDepth> left_{};  // sums of the left halves of the nodes above the leaf, by depth
    std::array<double, kLanes> lane_{};
    double total_ = 0;
};

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
