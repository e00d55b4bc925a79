// Tests for likely mistakes in files, which checks/mistakes.py describes. On ordinary files each test ends after a few rows. Python
// reads the thresholds from here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rows/order.h"

namespace boxscore {

// Largest number of a box in fractions of the image's size, and the least share of boxes within it.
constexpr double kLargestFraction = 2, kMinFractionShare = 0.99;
// Significant bits of the 16-bit float formats.
constexpr unsigned kFloat16Bits = 11, kBfloat16Bits = 8;
// With fewer images, most may lack detections by chance. Detections per image that suggest a detector without a score threshold.
constexpr size_t kMinImages = 10, kManyDetections = 5;

// Whether all boxes, read as xywh, have width >= x and height >= y, so that they may be corners.
inline bool look_like_corners(const double* box, size_t num_boxes) {
    for (size_t i = 0; i < num_boxes; ++i, box += 4) {
        if (!(box[2] >= box[0] && box[3] >= box[1])) return false;
    }
    return num_boxes > 0;
}

// Whether nearly all boxes have numbers as small as fractions of the image's size.
inline bool look_like_fractions(const double* box, size_t num_boxes) {
    const double most = (1 - kMinFractionShare) * static_cast<double>(num_boxes);
    size_t num_outside = 0;
    for (size_t i = 0; i < num_boxes; ++i, box += 4) {
        num_outside += !std::all_of(box, box + 4, [](double each) { return std::abs(each) <= kLargestFraction; });
        if (static_cast<double>(num_outside) > most) return false;
    }
    return num_boxes > 0;
}

// Whether a number has at most `num_bits` significant bits.
inline bool fits(double number, unsigned num_bits) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return (bits & ((uint64_t{1} << (53 - num_bits)) - 1)) == 0;
}

// Whether every position fits in the 11 significant bits of float16. Whole pixels fit, too: they only count if they fit in the 8 bits of
// bfloat16 and some are 256 or more, where bfloat16 only has even numbers.
inline bool look_rounded(const double* box, size_t num_boxes) {
    bool is_brain = true, has_fraction = false, is_beyond = false;
    for (size_t i = 0; i < num_boxes; ++i, box += 4) {
        for (size_t axis = 0; axis < 2; ++axis) {
            const double each = box[axis];
            if (!fits(each, kFloat16Bits)) return false;
            is_brain &= fits(each, kBfloat16Bits);
            has_fraction |= each != std::floor(each);
            is_beyond |= std::abs(each) >= (1 << kBfloat16Bits);
        }
    }
    return has_fraction || (is_brain && is_beyond);
}

// Whether most images with truths lack detections, and the others have many; as `covers_few_images` in checks/suspicion.py.
inline bool cover_few_images(const Groups& detections, const Groups& truths, size_t num_images) {
    size_t num_covered = 0, num_with_truths = 0;
    for (size_t image = 0; image < num_images; ++image) {
        const bool has_truths = truths.start[image + 1] > truths.start[image];
        num_with_truths += has_truths;
        num_covered += has_truths && detections.start[image + 1] > detections.start[image];
    }
    const size_t num_detections = detections.start[num_images];
    return num_with_truths >= kMinImages && 2 * num_covered < num_with_truths && num_detections >= kManyDetections * num_covered;
}

}  // namespace boxscore
