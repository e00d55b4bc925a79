// A protocol as the compiled engine reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/compiler.h"

namespace boxscore {

enum class Matching : uint8_t { best, best_regular, next_best };
// Kind of a truth. A detection that takes a difficult truth or a crowd is ignored; of the detections that take a group the first is true
// and the others are ignored.
enum TruthKind : uint8_t { kRegular, kDifficult, kCrowd, kGroup };

// Whether similarities are relative to the size of the detection, and several detections may take the truth.
inline bool is_relative(uint8_t kind) { return kind >= kCrowd; }

// Coverage of a detection's class in its image.
enum Coverage : uint8_t { kExhaustive, kNotExhaustive, kNotCovered };

enum class ApRule : uint8_t {
    recall_points,
    interpolated,
    linear_points,
    linear_points_to_end,
    envelope,
    trapezoid,
    trapezoid_from_first
};

// Whether AP is made from precisions at recall points.
inline bool is_sampled(ApRule rule) { return rule == ApRule::recall_points || rule == ApRule::interpolated; }

// Whether AP is a sum of trapezoids under the envelope, interpolated at recall points.
inline bool is_linear(ApRule rule) { return rule == ApRule::linear_points || rule == ApRule::linear_points_to_end; }

// Whether AP is a sum of trapezoids under the raw curve, one for each true positive.
inline bool is_trapezoid(ApRule rule) { return rule == ApRule::trapezoid || rule == ApRule::trapezoid_from_first; }

inline constexpr uint32_t kNoLimit = UINT32_MAX;
inline constexpr size_t kBitsPerWord = 64;

// Number of bits of a number; 0 for 0.
inline unsigned bit_width(uint64_t number) {
    return number == 0 ? 0 : static_cast<unsigned>(kBitsPerWord) - count_leading_zeros(number);
}

struct Rules {
    std::vector<double> cutoffs;  // thresholds as similarities are compared with them, ascending
    bool is_strict = false;       // a similarity must exceed its cutoff
    Matching matching = Matching::next_best;
    bool is_last_first = true;      // whether the last of equally similar truths is preferred, else the first
    bool is_group_counted = true;   // whether a group counts as one truth, else as none
    bool keeps_similarity = false;  // whether to write the similarity of true positives in the first cell
    std::vector<double> area_low, area_high;
    std::vector<uint32_t> limits;     // ascending
    bool is_limit_per_image = false;  // limits are per image over all classes, else per image and class
    std::vector<double> recall_points;
    ApRule ap = ApRule::recall_points;
    double epsilon = 0;

    size_t num_thresholds() const { return cutoffs.size(); }
    size_t num_areas() const { return area_low.size(); }
    size_t num_limits() const { return limits.size(); }

    // A cell is one area range and one threshold; cell a * T + t is one bit of a detection's verdict.
    size_t num_cells() const { return num_areas() * num_thresholds(); }
    size_t num_words() const { return (num_cells() + kBitsPerWord - 1) / kBitsPerWord; }
};

// One number: the mean over classes of AP or recall, at some thresholds, in one area range, within one limit.
struct Measure {
    bool is_recall;
    std::vector<size_t> thresholds;
    size_t area, limit;
    std::vector<uint8_t> is_member;  // by class: whether it counts; empty: all do

    bool has(size_t label) const { return is_member.empty() || is_member[label] != 0; }
};

// The requested numbers, and how they weight classes.
struct MeasureSet {
    std::vector<Measure> measures;
    bool is_weighted = false;  // whether classes are weighted by their numbers of truths
};

}  // namespace boxscore
