// The hits of each class by falling score, and how many of its other detections come before each of them: all that curves are made of.
// Only hits need an exact order; the others are counted between them.
//
//     hits by falling score      h0        h1   h2                h3
//     others               o  o      o  o           o  o  o  o        o  o  o
//     counted between           2       2    0         4            3            by tier and area range
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "curves/tally_columns.h"
#include "platform/lanes.h"
#include "platform/memory.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

// Area ranges side by side, as one instruction adds them.
inline size_t num_area_lanes(size_t num_areas) { return (num_areas + 3) / 4 * 4; }

// sum[i] += numbers[i]
inline void add_lanes(int32_t* sum, const int32_t* numbers, size_t num_lanes) {
    for (size_t i = 0; i < num_lanes; i += 4) {
        Lanes<int32_t, 4> lanes(sum + i);
        lanes += Lanes<int32_t, 4>(numbers + i);
        lanes.store(sum + i);
    }
}

// Class by class. A tier is the first limit that a detection is within.
struct OrderedHits {
    size_t num_words = 0;   // per hit
    size_t num_counts = 0;  // of others at one place: tiers times lanes of area ranges
    std::vector<uint32_t> start;          // of the hits of each class; then their end: [K + 1]
    Buffer<uint64_t> key;                 // ascends as scores fall: [H]
    Buffer<uint8_t> tier;                 // [H]
    Buffer<uint64_t> is_true, is_counted; // verdicts in all cells: [H, words]
    Buffer<int32_t> num_between;          // others that count, before each hit and after the last of a class: [H + K, M, lanes]
    std::vector<int32_t> num_in_tier;     // all others that count: [K, M, lanes]
    std::vector<uint64_t> first_key;      // of all detections, `kNoKey` if there is none: [K, M]
    std::vector<int64_t> num_detections;  // [K]

    static constexpr uint64_t kNoKey = UINT64_MAX;  // of no score: this would be a NaN

    OrderedHits() = default;
    // Allocates for classes with the given numbers of hits and detections; the caller writes the rest.
    OrderedHits(const std::vector<uint32_t>& num_hits, std::vector<int64_t> num_detections, const Rules& rules)
        : num_words(rules.num_words()), num_counts(rules.num_limits() * num_area_lanes(rules.num_areas())), start{0},
          num_in_tier(num_hits.size() * num_counts), first_key(num_hits.size() * rules.num_limits(), kNoKey),
          num_detections(std::move(num_detections)) {
        for (const uint32_t num : num_hits) start.push_back(start.back() + num);
        const size_t num_all = start.back();
        key = Buffer<uint64_t>(num_all);
        tier = Buffer<uint8_t>(num_all);
        is_true = Buffer<uint64_t>(num_all * num_words);
        is_counted = Buffer<uint64_t>(num_all * num_words);
        num_between = Buffer<int32_t>((num_all + num_hits.size()) * num_counts);
    }

    size_t num_classes() const { return start.size() - 1; }
    size_t num_hits(size_t label) const { return start[label + 1] - start[label]; }
    // Detections before the first hit of a class; then those before its next one.
    int32_t* between(size_t label) { return num_between.data() + (start[label] + label) * num_counts; }
    const int32_t* between(size_t label) const { return num_between.data() + (start[label] + label) * num_counts; }
};

// Of a tally in one or more parts; where they are several, rows are in order of images, part by part.
template <class Score, class State>
OrderedHits order_hits(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const Run& run);

}  // namespace boxscore
