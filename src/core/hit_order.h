// The hits of a class by falling score, and how many of its other detections come before each of them. Only hits need an exact order;
// the others are counted between them.
//
//     hits by falling score      h0        h1   h2                h3
//     others               o  o      o  o           o  o  o  o        o  o  o
//     counted between           2       2    0         4            3            by limit and area range
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "curve_rows.h"
#include "lanes.h"
#include "memory.h"
#include "order.h"
#include "rules.h"

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

// A thread's own memory for one class after the other.
template <class State>
class HitOrder {
public:
    // `limits`: those that others are counted within, ascending.
    HitOrder(const Rules& rules, const std::vector<size_t>& limits, size_t most_hits)
        : num_tiers_(rules.num_limits()), num_limits_(limits.size()), num_lanes_(num_area_lanes(rules.num_areas())),
          hits_(most_hits), scratch_(most_hits) {
        for (size_t tier = 0; tier < num_tiers_; ++tier) {
            first_limit_.push_back(std::lower_bound(limits.begin(), limits.end(), tier) - limits.begin());
        }
        for (size_t areas = 0; areas < spread_.size(); ++areas) {
            for (size_t a = 0; a < kMostAreas; ++a) spread_[areas][a] = areas >> a & 1;
        }
    }

    // Of one class; both kinds of rows are in the order of images.
    void sort(const Row<State>* hits, size_t num_hits, const Row<State>* others, size_t num_others) {
        num_hits_ = num_hits;
        std::copy_n(hits, num_hits, scratch_.data());
        sort_by_key(scratch_.data(), hits_.data(), num_hits);
        num_between_.assign((num_hits + 1) * num_limits_ * num_lanes_, 0);
        num_in_tier_.assign(num_tiers_ * num_lanes_, 0);
        index_hits();
        for (size_t i = 0; i < num_others; ++i) {
            const Row<State>& row = others[i];
            count(row.state, num_in_tier_.data() + row.tier * num_lanes_);
            const size_t limit = first_limit_[row.tier];
            if (limit < num_limits_) count(row.state, num_between_.data() + (hits_before(row) * num_limits_ + limit) * num_lanes_);
        }
    }

    size_t size() const { return num_hits_; }
    const Row<State>& operator[](size_t i) const { return hits_[i]; }

    // The others between hit i - 1 and hit i that count, by the first of the limits that they are within, and by area range.
    const int32_t* num_between(size_t i) const { return num_between_.data() + i * num_limits_ * num_lanes_; }
    // All others that count, by area range.
    const int32_t* num_in_tier(size_t tier) const { return num_in_tier_.data() + tier * num_lanes_; }

private:
    static constexpr size_t kMostAreas = 8;  // of a state of one byte: 7, in whole lanes
    static constexpr unsigned kMostBucketBits = 14;

    // Which hits are in which bucket of scores. One bucket more is for those below the lowest hit.
    void index_hits() {
        low_ = num_hits_ == 0 ? 0 : hits_[0].key;
        const uint64_t high = num_hits_ == 0 ? 0 : hits_[num_hits_ - 1].key;
        const unsigned num_bits = std::min(kMostBucketBits, bit_width(8 * num_hits_));
        shift_ = std::max(bit_width(high - low_), num_bits) - num_bits;
        last_bucket_ = size_t{1} << num_bits;
        first_in_bucket_.assign(last_bucket_ + 2, 0);
        for (size_t i = 0; i < num_hits_; ++i) ++first_in_bucket_[bucket_of(hits_[i].key) + 1];
        for (size_t bucket = 0; bucket <= last_bucket_; ++bucket) first_in_bucket_[bucket + 1] += first_in_bucket_[bucket];
    }

    size_t bucket_of(uint64_t key) const { return std::min<uint64_t>((std::max(key, low_) - low_) >> shift_, last_bucket_); }

    size_t hits_before(const Row<State>& row) const {
        constexpr uint32_t kFewHits = 8;
        const auto is_before = [&](const Row<State>& hit) {
            return hit.key < row.key || (hit.key == row.key && hit.hit < row.hit);
        };
        const size_t bucket = bucket_of(row.key);
        uint32_t first = first_in_bucket_[bucket], end = first_in_bucket_[bucket + 1];
        while (end - first > kFewHits) {
            const uint32_t middle = first + (end - first) / 2;
            is_before(hits_[middle]) ? first = middle + 1 : end = middle;
        }
        while (first < end && is_before(hits_[first])) ++first;
        return first;
    }

    // Adds a row to the counts of its area ranges.
    void count(State state, int32_t* to) const {
        if constexpr (sizeof(State) == 1) {
            add_lanes(to, spread_[state >> 1].data(), num_lanes_);
        } else {
            for (uint64_t counted = state >> 1; counted != 0; counted &= counted - 1) ++to[count_trailing_zeros(counted)];
        }
    }

    const size_t num_tiers_, num_limits_, num_lanes_;
    std::vector<size_t> first_limit_;  // of each tier, among the limits
    size_t num_hits_ = 0;
    Buffer<Row<State>> hits_, scratch_;
    std::vector<int32_t> num_between_;       // [H + 1, limits, lanes]
    std::vector<int32_t> num_in_tier_;       // [M, lanes]
    std::vector<uint32_t> first_in_bucket_;  // hits in the buckets before
    uint64_t low_ = 0;
    unsigned shift_ = 0;
    size_t last_bucket_ = 0;
    std::array<std::array<int32_t, kMostAreas>, sizeof(State) == 1 ? 128 : 0> spread_{};  // bits of area ranges to lanes
};

}  // namespace boxscore
