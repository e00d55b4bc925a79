// Orders the hits of one class after the other, and counts its other detections between them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "curves/curve_rows.h"
#include "curves/ordered_hits.h"
#include "platform/memory.h"
#include "rows/cells.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

// A thread's own memory.
template <class State>
class HitSorter {
public:
    HitSorter(const Rules& rules, size_t most_hits)
        : num_words_(rules.num_words()), num_tiers_(rules.num_limits()), num_lanes_(num_area_lanes(rules.num_areas())),
          hits_(most_hits), scratch_(most_hits) {
        const Cells cells(rules);
        is_cell_.assign(cells.reached.end() - num_words_, cells.reached.end());
        for (size_t areas = 0; areas < spread_.size(); ++areas) {
            for (size_t a = 0; a < kMostAreas; ++a) spread_[areas][a] = areas >> a & 1;
        }
    }

    // Writes all of one class; `is_true` and `is_counted` are the words of a tally.
    void sort(size_t label, const Rows<State>& rows, const uint64_t* is_true, const uint64_t* is_counted, OrderedHits& to) {
        num_hits_ = rows.num_hits(label);
        std::copy_n(rows.hits(label), num_hits_, scratch_.data());
        sort_by_key(scratch_.data(), hits_.data(), num_hits_);
        index_hits();
        uint64_t* const first_key = to.first_key.data() + label * num_tiers_;
        for (size_t i = num_hits_; i-- > 0;) first_key[hits_[i].tier] = hits_[i].key;
        count_others(rows.others(label), rows.num_others(label), to.num_in_tier.data() + label * num_tiers_ * num_lanes_, first_key,
                     to.between(label));
        write_hits(rows, is_true, is_counted, to.start[label], to);
    }

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

    void count_others(const Row<State>* others, size_t num_others, int32_t* num_in_tier, uint64_t* first_key, int32_t* between) const {
        const size_t num_counts = num_tiers_ * num_lanes_;
        std::fill_n(between, (num_hits_ + 1) * num_counts, 0);
        for (size_t i = 0; i < num_others; ++i) {
            const Row<State>& row = others[i];
            first_key[row.tier] = std::min(first_key[row.tier], row.key);
            count(row.state, between + hits_before(row) * num_counts + row.tier * num_lanes_);
        }
        for (size_t place = 0; place <= num_hits_; ++place) add_lanes(num_in_tier, between + place * num_counts, num_counts);
    }

    // Adds a row to the counts of its area ranges.
    void count(State state, int32_t* to) const {
        if constexpr (sizeof(State) == 1) {
            add_lanes(to, spread_[state >> 1].data(), num_lanes_);
        } else {
            for (uint64_t counted = state >> 1; counted != 0; counted &= counted - 1) ++to[count_trailing_zeros(counted)];
        }
    }

    void write_hits(const Rows<State>& rows, const uint64_t* is_true, const uint64_t* is_counted, size_t first, OrderedHits& to) const {
        constexpr size_t kAhead = 24;  // hits whose words are prefetched, as these are stored in the order of images
        for (size_t i = 0; i < num_hits_; ++i) to.tier[first + i] = hits_[i].tier;
        for (size_t i = 0; i < num_hits_; ++i) {
            if (i + kAhead < num_hits_) {
                const size_t ahead = rows.word_index(hits_[i + kAhead]) * num_words_;
                prefetch(is_true + ahead);
                prefetch(is_counted + ahead);
            }
            to.key[first + i] = hits_[i].key;
            const size_t from = rows.word_index(hits_[i]) * num_words_;
            for (size_t w = 0; w < num_words_; ++w) {  // they come from outside: bits of no cell are left out
                to.is_true[(first + i) * num_words_ + w] = is_true[from + w] & is_cell_[w];
                to.is_counted[(first + i) * num_words_ + w] = is_counted[from + w] & is_cell_[w];
            }
        }
    }

    const size_t num_words_, num_tiers_, num_lanes_;
    std::vector<uint64_t> is_cell_;  // bits that belong to a cell
    size_t num_hits_ = 0;
    Buffer<Row<State>> hits_, scratch_;
    std::vector<uint32_t> first_in_bucket_;  // hits in the buckets before
    uint64_t low_ = 0;
    unsigned shift_ = 0;
    size_t last_bucket_ = 0;
    std::array<std::array<int32_t, kMostAreas>, sizeof(State) == 1 ? 128 : 0> spread_{};  // bits of area ranges to lanes
};

}  // namespace boxscore
