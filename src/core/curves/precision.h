// The formulas of a curve: precision, the recall points that it reaches, its envelope, and the area under it by each rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "curves/average.h"
#include "platform/lanes.h"
#include "rows/rules.h"

namespace boxscore {

// Precision among the detections that count up to some true positive. Counts are signed, which processors convert to floats
// with one instruction, or floats already; or several of these side by side.
template <class True, class Count>
BOXSCORE_INLINE inline auto precision_at(const True& num_true, const Count& num_counted, double epsilon) {
    return num_true / (num_counted + epsilon);
}

// The fewest true positives n with n / num_truths >= point, as floats have it. A product is rounded to an integer only if it
// is at most one step of a float away; so the one below it is too few, and the one above it enough. Points are at most 2^31.
inline uint32_t num_needed(double point, int64_t num_truths) {
    const double truths = static_cast<double>(num_truths);
    const auto below = static_cast<int64_t>(point * truths);
    const int64_t needed = below + (static_cast<double>(below) / truths < point);
    return static_cast<uint32_t>(std::min<int64_t>(needed, UINT32_MAX));
}

// The envelope: each of `num_rows` rows of `width` precisions is raised to the best of the rows after it.
inline void raise_to_envelope(double* precision, size_t num_rows, size_t width) {
    if (num_rows == 0) return;
    for (size_t i = (num_rows - 1) * width; i-- > 0;) precision[i] = std::max(precision[i], precision[i + width]);
}

// Precision of several rows, one per lane.
template <class Row>
BOXSCORE_INLINE inline void raise_to_envelope(double* precision, size_t num_rows) {
    Row best{};
    for (size_t i = num_rows; i-- > 0;) {
        best.raise_to(Row(precision + i * Row::kWidth));
        best.store(precision + i * Row::kWidth);
    }
}

// AP of `width` curves side by side, as the mean of `num_points` rows of precisions at recall points.
inline void mean_over_points(const double* precision, size_t num_points, size_t width, ApRule rule, double* ap) {
    const auto num = static_cast<double>(num_points);
    if (rule == ApRule::interpolated) {
        // as in py-faster-rcnn: precisions are divided before they are added, one after the other
        std::fill_n(ap, width, 0.0);
        for (size_t r = 0; r < num_points; ++r) {
            for (size_t i = 0; i < width; ++i) ap[i] += precision[r * width + i] / num;
        }
        return;
    }
    size_t i = 0;
    for (; i + kColumns <= width; i += kColumns) {
        (pairwise_sum(LaneColumns<kColumns>{precision + i, width}, num_points) / num).store(ap + i);
    }
    for (; i < width; ++i) (pairwise_sum(LaneColumns<1>{precision + i, width}, num_points) / num).store(ap + i);
}

// The area that one true positive adds in the paper's Alg. 12: a step of the raw curve, which begins at (0, 1) or at its first point.
inline double trapezoid(uint32_t num_true, double num_counted, double num_truths, double epsilon, bool is_from_first) {
    if (is_from_first && num_counted == 1) return 0;
    const double precision = precision_at(static_cast<int32_t>(num_true), num_counted, epsilon);
    const double last = num_counted == 1 ? 1.0 : precision_at(static_cast<int32_t>(num_true - 1), num_counted - 1, epsilon);
    const double gain = num_true / num_truths - (num_true - 1) / num_truths;
    return (precision + last) * gain / 2;
}

// The area under the envelope of the precisions at all true positives, which become that envelope. As in py-faster-rcnn, it is NumPy's
// sum over the steps of recall, the last of which leads to recall 1, where precision is 0 beyond the last true positive.
inline double area_under_envelope(std::vector<double>& precision, int64_t num_truths) {
    raise_to_envelope(precision.data(), precision.size(), 1);
    const double truths = static_cast<double>(num_truths);
    const bool has_last_step = precision.size() != static_cast<size_t>(num_truths);
    PairwiseSum sum(precision.size() + has_last_step);
    double reached = 0;
    for (size_t i = 0; i < precision.size(); ++i) {
        const double recall = static_cast<double>(i + 1) / truths;
        sum.add(precision[i] * (recall - reached));
        reached = recall;
    }
    if (has_last_step) sum.add(0);
    return sum.total();
}

// Facts about a curve, beside its precisions, that the interpolated envelope needs.
struct CurveEnd {
    int64_t num_truths;
    double num_counted;  // all detections that count
    double epsilon;
    bool is_to_end;      // the curve goes on from its last point to (1, 0); else it falls to 0 at its last recall
};

// The area under the envelope as Ultralytics takes it: the curve through all detections, which begins at (0, 1), interpolated
// linearly at the recall points; then trapezoids between these. `precision` has the precisions at all true positives, which become
// the envelope, `num_counted` the detections that count up to each of them.
//
// Between two true positives the envelope is that of the second if a false positive is among them, as NumPy's interpolation takes
// the last of several values at one recall; else it falls from the first to the second.
inline double area_through_points(std::vector<double>& precision, const std::vector<double>& num_counted, const CurveEnd& end,
                                  const std::vector<double>& points) {
    raise_to_envelope(precision.data(), precision.size(), 1);
    const double truths = static_cast<double>(end.num_truths);
    const size_t num_true = precision.size();
    const bool is_to_end = end.is_to_end && num_true > 0;
    size_t reached = 0;  // true positives with a recall of at most the point
    std::vector<double> values;
    for (const double point : points) {
        while (reached < num_true && static_cast<double>(reached + 1) / truths <= point) ++reached;
        const bool is_last = reached == num_true;
        const double recall = static_cast<double>(reached) / truths;
        if (is_last && (!is_to_end || recall == 1)) {
            values.push_back(0);
            continue;
        }
        const double next = is_last ? 1.0 : static_cast<double>(reached + 1) / truths, height = is_last ? 0 : precision[reached];
        const double until = is_last ? end.num_counted + 1 : num_counted[reached];
        const bool has_false = until - (reached == 0 ? 0 : num_counted[reached - 1]) > 1;
        double before = reached == 0 ? 1.0 : precision[reached - 1];
        if (has_false) before = is_last ? precision_at(static_cast<int32_t>(num_true), end.num_counted, end.epsilon) : height;
        const double slope = (height - before) / (next - recall);
        values.push_back(recall == point ? before : slope * (point - recall) + before);
    }
    PairwiseSum sum(points.size() - 1);
    for (size_t i = 1; i < points.size(); ++i) sum.add((points[i] - points[i - 1]) * (values[i] + values[i - 1]) / 2.0);
    return points.size() > 1 ? sum.total() : 0;
}

}  // namespace boxscore
