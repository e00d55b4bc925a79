// Ids to places, and the sorts: by counting where keys are places, by radix where they are scores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tasks.h"

namespace boxscore {

// The smallest and largest of `values`, as 64-bit integers. Not for empty input.
template <class Id>
std::pair<int64_t, int64_t> bounds(const Id* values, size_t size) {
    auto [low, high] = std::minmax_element(values, values + size);
    return {static_cast<int64_t>(*low), static_cast<int64_t>(*high)};
}

// Whether a table over all of [low, high] is a fair price for `size` look-ups.
inline bool is_table_cheap(int64_t low, int64_t high, size_t size) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return span < std::max<uint64_t>(uint64_t{1} << 16, 4 * uint64_t{size});
}

// The distinct values, ascending.
template <class Id>
std::vector<int64_t> distinct(const Id* values, size_t size) {
    std::vector<int64_t> found;
    if (size == 0) return found;
    const auto [low, high] = bounds(values, size);
    if (is_table_cheap(low, high, size)) {
        std::vector<uint8_t> is_seen(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1);
        for (size_t i = 0; i < size; ++i) is_seen[static_cast<int64_t>(values[i]) - low] = 1;
        for (size_t place = 0; place < is_seen.size(); ++place) {
            if (is_seen[place]) found.push_back(low + static_cast<int64_t>(place));
        }
        return found;
    }
    // Ids often come in runs; keeping one of each run makes the sort short.
    for (size_t i = 0; i < size; ++i) {
        if (i == 0 || values[i] != values[i - 1]) found.push_back(static_cast<int64_t>(values[i]));
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// The place of each value in `table`, which ascends and holds them all.
template <class Id>
void places(const Id* values, size_t size, const int64_t* table, size_t table_size, int32_t* place) {
    if (size == 0) return;
    const int64_t low = table[0], high = table[table_size - 1];
    if (is_table_cheap(low, high, size)) {
        std::vector<int32_t> by_value(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1);
        for (size_t k = 0; k < table_size; ++k) by_value[table[k] - low] = static_cast<int32_t>(k);
        for (size_t i = 0; i < size; ++i) place[i] = by_value[static_cast<int64_t>(values[i]) - low];
        return;
    }
    for (size_t i = 0; i < size; ++i) {
        if (i > 0 && values[i] == values[i - 1]) {
            place[i] = place[i - 1];
        } else {
            place[i] = static_cast<int32_t>(
                std::lower_bound(table, table + table_size, static_cast<int64_t>(values[i])) - table);
        }
    }
}

// Rows grouped by place: `row[start[k]] .. row[start[k + 1] - 1]` are those of place k, in their order. `row` is empty where
// the rows are grouped as they stand.
struct Groups {
    std::vector<uint32_t> start;
    std::vector<uint32_t> row;

    uint32_t at(uint32_t position) const { return row.empty() ? position : row[position]; }
};

inline Groups group(const int32_t* place, size_t size, size_t num_places) {
    Groups groups;
    groups.start.assign(num_places + 1, 0);
    bool is_grouped = true;
    for (size_t i = 0; i < size; ++i) {
        ++groups.start[place[i] + 1];
        is_grouped &= i == 0 || place[i - 1] <= place[i];
    }
    for (size_t k = 0; k < num_places; ++k) groups.start[k + 1] += groups.start[k];
    if (is_grouped) return groups;
    std::vector<uint32_t> next(groups.start.begin(), groups.start.end() - 1);
    groups.row.resize(size);
    for (size_t i = 0; i < size; ++i) groups.row[next[place[i]]++] = static_cast<uint32_t>(i);
    return groups;
}

// A key that ascends as a score falls; equal scores have equal keys, 0.0 and -0.0 included.
inline uint64_t falling_key(double score) {
    score += 0.0;
    uint64_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    const uint64_t rising = (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
    return ~rising;
}

inline double score_of(uint64_t key) {
    const uint64_t rising = ~key;
    const uint64_t bits = (rising >> 63) != 0 ? rising & ~(uint64_t{1} << 63) : ~rising;
    double score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

template <class Record>
void insertion_sort(Record* begin, Record* end) {
    for (Record* current = begin + 1; current < end; ++current) {
        Record moving = *current;
        Record* place = current;
        for (; place > begin && moving.key < place[-1].key; --place) *place = place[-1];
        *place = moving;
    }
}

inline constexpr size_t kFew = 32;

// Sorts records by `key`, stably. Radix passes over the upper half of the keys, which tells nearly all scores apart; the few
// that it does not are sorted by the whole key afterwards.
template <class Record>
void sort_by_key(Record* records, size_t size, std::vector<Record>& spare) {
    constexpr int kDigits = 3, kDigitBits = 11, kLowest = 64 - kDigits * kDigitBits;
    constexpr size_t kBuckets = size_t{1} << kDigitBits;
    if (std::is_sorted(records, records + size, [](const Record& a, const Record& b) { return a.key < b.key; })) return;
    if (size <= kFew) return insertion_sort(records, records + size);
    if (size <= kBuckets / 4) {
        std::stable_sort(records, records + size, [](const Record& a, const Record& b) { return a.key < b.key; });
        return;
    }
    spare.resize(std::max(spare.size(), size));
    std::array<std::array<uint32_t, kBuckets>, kDigits> count{};
    auto digit = [](uint64_t key, int place) { return (key >> (kLowest + place * kDigitBits)) & (kBuckets - 1); };
    for (size_t i = 0; i < size; ++i) {
        for (int place = 0; place < kDigits; ++place) ++count[place][digit(records[i].key, place)];
    }
    Record *from = records, *to = spare.data();
    for (int place = 0; place < kDigits; ++place) {
        if (count[place][digit(from[0].key, place)] == size) continue;  // all alike in this digit
        uint32_t start = 0;
        for (uint32_t& bucket : count[place]) start += std::exchange(bucket, start);
        for (size_t i = 0; i < size; ++i) to[count[place][digit(from[i].key, place)]++] = from[i];
        std::swap(from, to);
    }
    if (from != records) std::copy(from, from + size, records);
    for (size_t first = 0; first < size;) {
        size_t last = first + 1;
        while (last < size && records[last].key >> kLowest == records[first].key >> kLowest) ++last;
        if (last - first <= kFew) {
            insertion_sort(records + first, records + last);
        } else {
            std::stable_sort(records + first, records + last,
                             [](const Record& a, const Record& b) { return a.key < b.key; });
        }
        first = last;
    }
}

}  // namespace boxscore
