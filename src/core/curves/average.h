// Sums and means with the bits of NumPy's: the one home of every mean over thresholds, recall points and classes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "platform/lanes.h"
#include "platform/pairwise_sum.h"
#include "rows/rules.h"

namespace boxscore {

// `pairwise_sum` of a known number of values that come one by one.
class PairwiseSum {
public:
    static constexpr size_t kDepth = 32, kLanes = 8;

    explicit PairwiseSum(size_t size) : size_(size) {
        if (size_ > 0) find_leaf();
    }

    void add(double value) {
        const size_t slot = position_ - begin_, num = end_ - begin_, num_in_lanes = num - num % kLanes;
        if (num < kLanes) {
            lane_[0] = slot == 0 ? value : lane_[0] + value;
        } else if (slot < kLanes) {
            lane_[slot] = value;
        } else if (slot < num_in_lanes) {
            lane_[slot % kLanes] += value;
        } else {
            lane_[0] += value;
        }
        if (slot + 1 == num_in_lanes) {
            lane_[0] = ((lane_[0] + lane_[1]) + (lane_[2] + lane_[3])) + ((lane_[4] + lane_[5]) + (lane_[6] + lane_[7]));
        }
        if (++position_ == end_) end_leaf();
    }

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

    size_t size_, position_ = 0;
    size_t begin_ = 0, end_ = 0, depth_ = 0;  // of the leaf
    std::array<bool, kDepth> is_right_{};
    std::array<double, kDepth> left_{};  // sums of the left halves of the nodes above the leaf, by depth
    std::array<double, kLanes> lane_{};
    double total_ = 0;
};

// Values with thresholds, recall points and classes as axes, wherever they stand in memory. Undefined ones, of
// classes without truths, are -1 or NaN.
struct Samples {
    const double* first;
    size_t num_points, num_classes;
    size_t threshold_stride, point_stride, class_stride;
    const uint8_t* is_member = nullptr;  // by class: whether it counts; null: all do

    bool has(size_t label) const { return is_member == nullptr || is_member[label] != 0; }
    const double* row(size_t threshold, size_t point) const { return first + threshold * threshold_stride + point * point_stride; }
};

inline bool is_defined(double value) { return value > -1; }

inline size_t count_defined(const Samples& samples, const std::vector<size_t>& thresholds) {
    size_t num = 0;
    for (const size_t t : thresholds) {
        for (size_t r = 0; r < samples.num_points; ++r) {
            const double* row = samples.row(t, r);
            for (size_t k = 0; k < samples.num_classes; ++k) num += is_defined(row[k * samples.class_stride]);
        }
    }
    return num;
}

// as in COCO: one mean over thresholds, recall points and classes together, classes innermost, of those that are defined, of
// which there are `num_defined`; NaN if none is.
inline double mean_defined(const Samples& samples, const std::vector<size_t>& thresholds, size_t num_defined) {
    if (num_defined == 0) return std::numeric_limits<double>::quiet_NaN();
    size_t t = 0, r = 0, k = 0;
    auto sum_few = [&](size_t num) {
        double values[128];
        double *to = values, *const end = to + num;
        while (to < end && t < thresholds.size()) {
            const double* value = samples.row(thresholds[t], r) + k * samples.class_stride;
            for (; k < samples.num_classes && to < end; ++k, value += samples.class_stride) {
                prefetch(value + 8 * samples.point_stride);  // what comes soon
                if (samples.has(k) && is_defined(*value)) *to++ = *value;
            }
            if (k < samples.num_classes) break;
            k = 0;
            if (++r == samples.num_points) r = 0, ++t;
        }
        std::fill(to, end, 0.0);  // only where another thread has changed the samples
        return sum_in_lanes(values, num);
    };
    return pairwise_sum_by(num_defined, sum_few) / static_cast<double>(num_defined);
}

// Several sets of samples side by side, all of them defined: [thresholds and points, classes, lanes].
struct SampleLanes {
    const double* first;
    size_t num_points, num_classes;
    size_t point_stride;  // in classes
};

// So many columns are summed side by side: the eight sums of `sum_in_lanes` stay in registers.
inline constexpr size_t kColumns = 2;

// Columns of an array whose rows are `stride` apart.
template <size_t kWidth>
struct LaneColumns {
    const double* first;
    size_t stride;

    Lanes<double, kWidth> operator[](size_t row) const { return Lanes<double, kWidth>(first + row * stride); }
    void operator+=(size_t num_rows) { first += num_rows * stride; }
};

// `mean_defined` of each set.
template <size_t kLanes>
Lanes<double, kLanes> mean_side_by_side(const SampleLanes& samples) {
    const double* next = samples.first;
    size_t k = 0;
    double row[128 * kLanes];
    auto sum_few = [&](size_t num) {
        const double* values = next;
        if (samples.num_classes == samples.point_stride) {
            next += num * kLanes;
        } else {
            values = row;
            for (double *to = row, *const end = row + num * kLanes; to < end;) {
                const size_t num_next = std::min<size_t>(samples.num_classes - k, (end - to) / kLanes);
                to = std::copy_n(next, num_next * kLanes, to);
                next += num_next * kLanes, k += num_next;
                if (k == samples.num_classes) k = 0, next += (samples.point_stride - samples.num_classes) * kLanes;
            }
        }
        double sums[kLanes];
        constexpr size_t kWidth = std::min(kLanes, kColumns);
        for (size_t lane = 0; lane < kLanes; lane += kWidth) {
            sum_in_lanes(LaneColumns<kWidth>{values + lane, kLanes}, num).store(sums + lane);
        }
        return Lanes<double, kLanes>(sums);
    };
    const size_t num_defined = samples.num_points * samples.num_classes;
    return pairwise_sum_by(num_defined, sum_few) / static_cast<double>(num_defined);
}

// NumPy's mean of some classes, all of them defined, as an array [classes, thresholds, points]. `classes`: their indices in the
// samples.
inline double mean_class_by_class(const Samples& samples, const std::vector<size_t>& classes, const std::vector<size_t>& thresholds) {
    std::vector<double> values;
    values.reserve(classes.size() * thresholds.size() * samples.num_points);
    for (const size_t k : classes) {
        for (const size_t t : thresholds) {
            const double* value = samples.row(t, 0) + k * samples.class_stride;
            for (size_t r = 0; r < samples.num_points; ++r, value += samples.point_stride) values.push_back(*value);
        }
    }
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    return pairwise_sum(values.data(), values.size()) / static_cast<double>(values.size());
}

// The samples that the numbers of one area range and limit are means of: of all classes, or only of those with truths.
struct Averaged {
    Samples precision;          // at recall points; only for the rule of that name
    Samples average_precision;  // one recall point, as recall
    Samples recall;
    std::vector<double> num_truths;       // of each class
    std::vector<uint8_t> is_member = {};  // of each class: whether it counts; empty: all do

    const Samples& ap_samples(ApRule rule) const { return rule == ApRule::recall_points ? precision : average_precision; }
    bool has(size_t label) const { return num_truths[label] > 0 && (is_member.empty() || is_member[label] != 0); }

    // Calls `work` with each class that counts and has truths, and its index in the samples.
    template <class Work>
    void for_each_class(const Samples& samples, Work work) const {
        const bool is_dense = samples.num_classes == num_truths.size();
        size_t index = 0;
        for (size_t k = 0; k < num_truths.size(); ++k) {
            if (has(k)) work(k, index);
            index += is_dense || num_truths[k] > 0;
        }
    }
};

// The mean of the classes' own means, weighted by their numbers of truths; NaN if none has any.
inline double weighted_mean(const Averaged& averaged, const Samples& samples, const std::vector<size_t>& thresholds) {
    std::vector<double> values;
    double total = 0;
    averaged.for_each_class(samples, [&](size_t k, size_t index) {
        values.push_back(mean_class_by_class(samples, {index}, thresholds) * averaged.num_truths[k]);
        total += averaged.num_truths[k];
    });
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    return pairwise_sum(values.data(), values.size()) / total;
}

// The value of a measure in its area range and within its limit; NaN if no class has truths there.
inline double average(const Measure& measure, const Averaged& averaged, ApRule rule, bool is_weighted) {
    Samples samples = measure.is_recall ? averaged.recall : averaged.ap_samples(rule);
    if (is_weighted) return weighted_mean(averaged, samples, measure.thresholds);
    std::vector<size_t> classes;
    averaged.for_each_class(samples, [&](size_t, size_t index) { classes.push_back(index); });
    // as in Ultralytics: an array of APs has one row per class
    if (!measure.is_recall && rule != ApRule::recall_points) return mean_class_by_class(samples, classes, measure.thresholds);
    std::vector<uint8_t> is_member;
    if (!averaged.is_member.empty()) {
        is_member.resize(samples.num_classes);
        for (const size_t index : classes) is_member[index] = 1;
        samples.is_member = is_member.data();
    }
    return mean_defined(samples, measure.thresholds, measure.thresholds.size() * samples.num_points * classes.size());
}

}  // namespace boxscore
