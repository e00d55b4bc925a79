// The ranks of the detections of one image, by falling score in each class. Groups are small, and which of two scores is higher can't
// be predicted: so there are few branches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "order.h"

namespace boxscore {

// A detection on its way to its rank.
struct RankEntry {
    uint64_t key;     // ascends as scores fall
    uint64_t packed;  // its class, and its index in its image

    uint32_t index() const { return static_cast<uint32_t>(packed); }
    uint32_t label() const { return static_cast<uint32_t>(packed >> 32); }
};

// Sorts the entries of classes that have two, where entries stand class by class; others keep their entries in some order. Of equal
// ones the first stays first. Not for none.
inline void sort_pairs(RankEntry* entries, size_t num) {
    RankEntry last = entries[0];
    for (size_t i = 1; i < num; ++i) {
        const RankEntry entry = entries[i];
        const uint64_t is_before = (entry.key < last.key) & (entry.label() == last.label());
        const uint64_t key = (entry.key ^ last.key) & -is_before, packed = (entry.packed ^ last.packed) & -is_before;
        entries[i - 1] = {last.key ^ key, last.packed ^ packed};
        last = {entry.key ^ key, entry.packed ^ packed};
    }
    entries[num - 1] = last;
}

// Sorts entries; of equal ones the first stays first.
inline void sort_by_score(RankEntry* entries, size_t num, std::vector<RankEntry>& spare) {
    constexpr size_t kMostCompared = 16;  // beyond it, fewer than all pairs are compared
    bool is_sorted = true;                // as many detectors give them
    for (size_t i = 1; i < num; ++i) is_sorted &= entries[i - 1].key <= entries[i].key;
    if (is_sorted) return;
    spare.assign(entries, entries + num);
    if (num > kMostCompared) return sort_by_key(spare.data(), entries, num);
    const size_t num_padded = (num + 3) / 4 * 4;
    std::array<uint64_t, kMostCompared> keys;
    keys.fill(std::numeric_limits<uint64_t>::max());
    for (size_t i = 0; i < num; ++i) keys[i] = entries[i].key;
    for (size_t i = 0; i < num; ++i) {
        size_t rank = 0;
        for (size_t j = 0; j < num_padded; ++j) rank += (keys[j] < keys[i]) | ((keys[j] == keys[i]) & (j < i));
        entries[rank] = spare[i];
    }
}

}  // namespace boxscore
