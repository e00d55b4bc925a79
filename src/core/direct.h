// From COCO files to plain numbers, without an array library in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/coco_json.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

// What tables show. By class, and by class and threshold, in the first area range and within the largest limit.
struct PlainResult {
    std::vector<double> numbers;  // of the measures
    std::vector<int64_t> classes;
    std::vector<int64_t> num_truths, num_detections;
    size_t num_read = 0;                       // detections in the file, also beyond the limit
    std::vector<double> ap, ar;                // means over thresholds
    std::vector<double> ap_at;                 // [K, T]
    std::vector<int64_t> num_true, num_false;  // [K, T]
};

// How the boxes of files are taken.
struct BoxRules {
    double largest;        // the longest side that a box may have
    bool is_inclusive;     // the last pixel is inside the box
    uint8_t ignored_kind;  // of a truth that a file marks
};

// The result of detections for truths, or nothing if there is anything in them that a person should be told about: this way
// has no words for it.
std::optional<PlainResult> evaluate_plainly(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                                            const std::vector<Measure>& measures, const BoxRules& boxes, const Run& run);

}  // namespace boxscore
