// What a curve is made of: the recall points it reaches, and the area under it by each rule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace boxscore {

// The fewest true positives n with n / num_truths >= point, as floats have it. A product is rounded to an integer only if it
// is at most one step of a float away; so the one below it is too few, and the one above it enough.
inline uint32_t num_needed(double point, int64_t num_truths) {
    const double truths = static_cast<double>(num_truths);
    const auto below = static_cast<int64_t>(point * truths);
    return static_cast<uint32_t>(below + (static_cast<double>(below) / truths < point));
}

// What one true positive adds to the paper's Alg. 12: a step of the raw curve, which begins at (0, 1).
inline double trapezoid(uint32_t num_true, double num_counted, double num_truths, double epsilon) {
    const double precision = num_true / (num_counted + epsilon);
    const double last = num_counted == 1 ? 1.0 : (num_true - 1) / (num_counted - 1 + epsilon);
    const double gain = num_true / num_truths - (num_true - 1) / num_truths;
    return (precision + last) * gain / 2;
}

// The area under the envelope of the precisions at some true positives, the last of `num_true`; they become that envelope.
// `area` is what is under the curve before them.
inline double area_under_envelope(std::vector<double>& precision, size_t num_true, int64_t num_truths, double area) {
    for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
    const double truths = static_cast<double>(num_truths);
    const size_t num_before = num_true - precision.size();
    double reached = static_cast<double>(num_before) / truths;
    for (size_t i = 0; i < precision.size(); ++i) {
        const double recall = static_cast<double>(num_before + i + 1) / truths;
        area += precision[i] * (recall - reached);
        reached = recall;
    }
    return area;
}

}  // namespace boxscore
