// Look-up of ids, grouping of rows, and stable sorts: counting sorts of indices, bucket sorts of scores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/memory.h"
#include "platform/processor.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

// The range of values from `low` to `high`, as offsets in a lookup table.
struct IdSpan {
    int64_t low;
    uint64_t size;

    IdSpan(int64_t low, int64_t high) : low(low), size(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1) {}

    // Whether a lookup table pays for the given number of look-ups. A span over all integers has size 0.
    bool is_cheap(size_t num) const { return size - 1 < std::max<uint64_t>(uint64_t{1} << 16, 4 * uint64_t{num}); }
    // Offset of a value, or `size` if it is out of bounds. Values are checked again here, since another thread may have changed them since
    // the bounds were found.
    template <class Id>
    uint64_t offset(Id value) const {
        return std::min(static_cast<uint64_t>(static_cast<int64_t>(value)) - static_cast<uint64_t>(low), size);
    }
    int64_t value(uint64_t offset) const { return low + static_cast<int64_t>(offset); }
};

// Range from the smallest to the largest value. Not for empty input.
template <class Id>
IdSpan bounds(const Id* values, size_t size) {
    return per_processor([&]() BOXSCORE_INLINE {
        Id low = values[0], high = values[0];
        for (size_t i = 1; i < size; ++i) low = std::min(low, values[i]), high = std::max(high, values[i]);
        return IdSpan(static_cast<int64_t>(low), static_cast<int64_t>(high));
    });
}

// Distinct values, ascending.
template <class Id>
std::vector<int64_t> distinct(const Id* values, size_t size) {
    std::vector<int64_t> found;
    if (size == 0) return found;
    const IdSpan span = bounds(values, size);
    if (span.is_cheap(size)) {
        std::vector<uint8_t> is_seen(span.size + 1);
        for (size_t i = 0; i < size; ++i) is_seen[span.offset(values[i])] = 1;
        for (uint64_t offset = 0; offset < span.size; ++offset) {
            if (is_seen[offset] != 0) found.push_back(span.value(offset));
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

// Union of two ascending lists, ascending.
inline std::vector<int64_t> united(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    std::vector<int64_t> both;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

// Write the index of each value in the ascending `table`, or -1. Return whether all were found.
template <class Id>
bool find_indices(const Id* values, size_t size, const std::vector<int64_t>& table, int32_t* index) {
    if (size == 0) return true;
    if (table.empty()) {
        std::fill(index, index + size, -1);
        return false;
    }
    const IdSpan span(table.front(), table.back());
    if (span.is_cheap(size)) {
        std::vector<int32_t> by_offset(span.size + 1, -1);
        for (size_t k = 0; k < table.size(); ++k) by_offset[span.offset(table[k])] = static_cast<int32_t>(k);
        int32_t lowest = 0;
        for (size_t i = 0; i < size; ++i) {
            index[i] = by_offset[span.offset(values[i])];
            lowest = std::min(lowest, index[i]);
        }
        return lowest == 0;
    }
    bool is_all_there = true;
    for (size_t i = 0; i < size; ++i) {
        if (i > 0 && values[i] == values[i - 1]) {
            index[i] = index[i - 1];
            continue;
        }
        const int64_t value = static_cast<int64_t>(values[i]);
        const auto found = std::lower_bound(table.begin(), table.end(), value);
        const bool is_there = found != table.end() && *found == value;
        index[i] = is_there ? static_cast<int32_t>(found - table.begin()) : -1;
        is_all_there &= is_there;
    }
    return is_all_there;
}

// Rows grouped by index: `row[start[k]] .. row[start[k + 1] - 1]` have index k, in ascending order. `row` is empty if the rows are
// already grouped.
struct Groups {
    std::vector<uint32_t> start;
    Buffer<uint32_t> row;

    uint32_t at(uint32_t position) const { return row.empty() ? position : row[position]; }
};

inline Groups group(const int32_t* index, size_t size, size_t num_indices) {
    Groups groups;
    groups.start.assign(num_indices + 1, 0);
    bool is_grouped = true;
    for (size_t i = 0; i < size; ++i) {
        ++groups.start[index[i] + 1];
        is_grouped &= i == 0 || index[i - 1] <= index[i];
    }
    for (size_t k = 0; k < num_indices; ++k) groups.start[k + 1] += groups.start[k];
    if (is_grouped) return groups;
    std::vector<uint32_t> next(groups.start.begin(), groups.start.end() - 1);
    groups.row = Buffer<uint32_t>(size);
    for (size_t i = 0; i < size; ++i) groups.row[next[index[i]]++] = static_cast<uint32_t>(i);
    return groups;
}

// Rows grouped by id: ascending ids, the start of the rows of each, and the end of the last. `row` as in Groups.
struct RowsById {
    std::vector<int64_t> id;
    std::vector<uint32_t> start;
    Buffer<uint32_t> row;

    // Groups by index in `table`, which ascends and contains all ids.
    Groups groups(const std::vector<int64_t>& table) && {
        Groups groups;
        groups.start.reserve(table.size() + 1);
        size_t i = 0;
        for (const int64_t each : table) {
            groups.start.push_back(start[i]);
            if (i < id.size() && id[i] == each) ++i;
        }
        groups.start.push_back(start.back());
        groups.row = std::move(row);
        return groups;
    }
};

// Group rows whose ids already ascend; return false if they don't.
template <class Id>
bool find_runs(const Id* values, size_t size, RowsById& rows) {
    for (size_t i = 0; i < size; ++i) {
        if (i > 0 && values[i] == values[i - 1]) continue;
        const auto id = static_cast<int64_t>(values[i]);
        // Compare with the stored value: another thread may have changed values[i - 1].
        if (!rows.id.empty() && id <= rows.id.back()) return false;
        rows.id.push_back(id);
        rows.start.push_back(static_cast<uint32_t>(i));
    }
    rows.start.push_back(static_cast<uint32_t>(size));
    return true;
}

// Group rows by id. Return false if a change of ids by another thread was detected.
template <class Id>
bool group_by_id(const Id* values, size_t size, RowsById& rows) {
    if (find_runs(values, size, rows)) return true;
    rows = RowsById();
    const IdSpan span = bounds(values, size);
    if (!span.is_cheap(size)) {
        rows.id = distinct(values, size);
        Buffer<int32_t> index(size);
        if (!find_indices(values, size, rows.id, index.data())) return false;
        Groups groups = group(index.data(), size, rows.id.size());
        rows.start = std::move(groups.start), rows.row = std::move(groups.row);
        return true;
    }
    std::vector<uint32_t> next(span.size + 1);  // by offset: number of rows, then position of its next row
    Buffer<uint32_t> offset(size);
    for (size_t i = 0; i < size; ++i) {
        offset[i] = static_cast<uint32_t>(span.offset(values[i]));
        ++next[offset[i]];
    }
    uint32_t position = 0;
    for (uint64_t each = 0; each < span.size; ++each) {
        if (next[each] == 0) continue;
        rows.id.push_back(span.value(each));
        rows.start.push_back(position);
        position += std::exchange(next[each], position);
    }
    rows.start.push_back(position);
    rows.row = Buffer<uint32_t>(size);
    if (position < size) return false;
    for (size_t i = 0; i < size; ++i) rows.row[next[offset[i]]++] = static_cast<uint32_t>(i);
    return true;
}

// A key that ascends as a score falls; equal scores have equal keys, 0.0 and -0.0 included.
inline uint64_t falling_key(double score) {
    score += 0.0;
    uint64_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    const uint64_t rising = (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
    return ~rising;
}

// A key that ascends with an integer; comparable within one type.
template <class Id>
uint64_t rising_key(Id value) {
    constexpr uint64_t kSign = std::is_signed_v<Id> ? uint64_t{1} << 63 : 0;
    return static_cast<uint64_t>(static_cast<int64_t>(value)) ^ kSign;
}

inline double score_of(uint64_t key) {
    const uint64_t rising = ~key;
    const uint64_t bits = (rising >> 63) != 0 ? rising & ~(uint64_t{1} << 63) : ~rising;
    double score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

// Sort a few records, stably, by `is_before`.
template <class Record, class IsBefore>
void insertion_sort(Record* begin, Record* end, IsBefore is_before) {
    for (Record* current = begin + 1; current < end; ++current) {
        const Record moving = *current;
        Record* slot = current;
        for (; slot > begin && is_before(moving, slot[-1]); --slot) *slot = slot[-1];
        *slot = moving;
    }
}

inline constexpr size_t kFew = 32;

// Sort records from `from` into `to` by ascending `key`, stably; `from` is scratch afterwards. Divides the range of keys into equal
// buckets, which have a few keys each if keys are spread evenly; large buckets are sorted recursively.
template <class Record>
void sort_by_key(Record* from, Record* to, size_t size) {
    constexpr unsigned kBucketBits = 11;
    auto is_before = [](const Record& a, const Record& b) { return a.key < b.key; };
    if (size <= kFew) {
        std::copy(from, from + size, to);
        return insertion_sort(to, to + size, is_before);
    }
    uint64_t low = from[0].key, high = low;
    for (size_t i = 1; i < size; ++i) low = std::min(low, from[i].key), high = std::max(high, from[i].key);
    const unsigned num_bits = std::min(kBucketBits, bit_width(size));
    const unsigned shift = std::max(bit_width(high - low), num_bits) - num_bits;
    std::array<uint32_t, (size_t{1} << kBucketBits) + 1> end;  // of each bucket, once its records are placed
    const size_t num_buckets = size_t{1} << num_bits;
    std::fill_n(end.begin(), num_buckets + 1, 0);
    for (size_t i = 0; i < size; ++i) ++end[((from[i].key - low) >> shift) + 1];
    for (size_t bucket = 0; bucket < num_buckets; ++bucket) end[bucket + 1] += end[bucket];
    for (size_t i = 0; i < size; ++i) to[end[(from[i].key - low) >> shift]++] = from[i];
    if (shift == 0) return;  // each bucket has one key
    for (size_t bucket = 0, start = 0; bucket < num_buckets; start = end[bucket++]) {
        const size_t num = end[bucket] - start;
        if (num > kFew) {
            std::copy(to + start, to + start + num, from + start);
            sort_by_key(from + start, to + start, num);
        } else if (num > 1) {
            insertion_sort(to + start, to + start + num, is_before);
        }
    }
}

}  // namespace boxscore
