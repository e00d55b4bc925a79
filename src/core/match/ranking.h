// Sort the detections of one image by falling score within each class. Groups are small and comparisons of scores are unpredictable,
// so the code is mostly branchless.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rows/order.h"

namespace boxscore {

inline constexpr size_t kFewRanked = 16;  // up to this size all pairs are compared
inline constexpr size_t kMostNear = 12;   // largest bucket whose entries are compared with each other

// Sort key of a detection.
struct RankEntry {
    uint64_t key;     // ascends as scores fall
    uint64_t packed;  // class in the upper 32 bits, index in its image in the lower

    uint32_t index() const { return static_cast<uint32_t>(packed); }
    uint32_t label() const { return static_cast<uint32_t>(packed >> 32); }
};

// Sort two entries, stably.
inline void sort_pair(RankEntry* entries) {
    const RankEntry first = entries[0], second = entries[1];
    const uint64_t is_before = -uint64_t{second.key < first.key};
    const uint64_t key = (first.key ^ second.key) & is_before, packed = (first.packed ^ second.packed) & is_before;
    entries[0] = {first.key ^ key, first.packed ^ packed};
    entries[1] = {second.key ^ key, second.packed ^ packed};
}

// Sort at most kFewRanked entries, stably: the rank of an entry is the number of entries before it. `from` and `to` must not overlap.
inline void rank_few(const RankEntry* from, RankEntry* to, size_t num) {
    std::array<uint64_t, kFewRanked> keys;
    keys.fill(std::numeric_limits<uint64_t>::max());
    const size_t num_padded = (num + 3) / 4 * 4;
    for (size_t i = 0; i < num; ++i) keys[i] = from[i].key;
    for (size_t i = 0; i < num; ++i) {
        size_t rank = 0;
        for (size_t j = 0; j < num_padded; ++j) rank += (keys[j] < keys[i]) | ((keys[j] == keys[i]) & (j < i));
        to[rank] = from[i];
    }
}

// Sort entries, stably, of which each is less than `distance` away from its rank: rank = index + number of later entries with a
// smaller key - number of earlier entries with a larger key.
inline void rank_near(const RankEntry* from, RankEntry* to, size_t num, size_t distance) {
    for (size_t i = 0; i < num; ++i) {
        size_t rank = i;
        const uint64_t key = from[i].key;
        const size_t first = i - std::min(i, distance - 1), end = std::min(num, i + distance);
        for (size_t j = first; j < i; ++j) rank -= key < from[j].key;
        for (size_t j = i + 1; j < end; ++j) rank += from[j].key < key;
        to[rank] = from[i];
    }
}

// Sort entries by key, stably.
inline void sort_by_score(RankEntry* entries, size_t num, std::vector<RankEntry>& spare) {
    constexpr unsigned kMostBits = 11;
    uint64_t low = entries[0].key, high = low, last = low;
    bool is_sorted = true;
    for (size_t i = 1; i < num; ++i) {
        const uint64_t key = entries[i].key;
        is_sorted &= last <= key;
        low = std::min(low, key), high = std::max(high, key), last = key;
    }
    if (is_sorted) return;
    if (spare.size() < num) spare.resize(num);
    const unsigned num_bits = bit_width(2 * num);
    if (num <= kFewRanked || num_bits > kMostBits) {
        std::copy(entries, entries + num, spare.data());
        return num <= kFewRanked ? rank_few(spare.data(), entries, num) : sort_by_key(spare.data(), entries, num);
    }
    // Sort into buckets of few keys; then each entry is close to its rank.
    const unsigned shift = std::max(bit_width(high - low), num_bits) - num_bits;
    std::array<uint32_t, (size_t{1} << kMostBits) + 1> start;
    const size_t num_buckets = size_t{1} << num_bits;
    std::fill_n(start.begin(), num_buckets + 1, 0);
    for (size_t i = 0; i < num; ++i) ++start[((entries[i].key - low) >> shift) + 1];
    uint32_t most = 0;
    for (size_t bucket = 0; bucket < num_buckets; ++bucket) {
        most = std::max(most, start[bucket + 1]);
        start[bucket + 1] += start[bucket];
    }
    for (size_t i = 0; i < num; ++i) spare[start[(entries[i].key - low) >> shift]++] = entries[i];
    if (most > kMostNear) return sort_by_key(spare.data(), entries, num);
    rank_near(spare.data(), entries, num, most);
}

}  // namespace boxscore
