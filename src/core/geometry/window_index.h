// The truths of a class by their positions along x, so that a detection is compared with those near it only.
//
//     positions, ascending   ──┬──────┬────────────┬───────┬───────┬──────┬──
//     compared                        [  before    ┊   after   ]
//                                      position of the detection
//
// A window says where truths that are similar enough may be. The position of a box is its left edge. Of a pair that is similar enough
// at most a share s of either width is not shared, at either end. So the left edge of the truth is at most s of the detection's width
// w to the right of the detection's; and at most s of the truth's own width to the left, which is at most w / (1 - s).
//
// This holds for exact numbers: shapes that rounding may move are compared with all; so are truths that similarity is relative to
// the detection with.
//
//     entries_   …[ bucket 0 | bucket 1 | … | bucket n - 1 | the others of the group ]…     a range per group
//     starts_    …[ start of bucket 0, …, start of bucket n - 1, their end ]…
//
// Buckets divide the positions evenly. A few truths before and after the window are in its first and last bucket, and compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/compiler.h"

namespace boxscore {

// `Window` has what depends on the shapes: `position(shape)`; how far the window of a detection reaches, `before(shape)` and
// `after(shape)`; `is_solid(shape)`, whether rounding can't change that; and a `Filter`, which has a row for each entry, and tells which
// of up to 64 rows may be similar enough: `clear()`, `add(shape)`, `mask(window, shape, first, num)`.
template <class Window>
class WindowIndex {
public:
    struct Range {
        uint32_t end = 0;  // 0 if the truths are too few for an index
        uint32_t first_bucket = 0, num_buckets = 0;
        double low = 0, buckets_per_unit = 0;
    };

    WindowIndex(Window window, double least) : window_(window), is_used_(least >= kLeastIndexed) {}

    void clear() {
        entries_.clear();
        starts_.clear();
        filter_.clear();
    }

    template <class Shape>
    Range add(const Shape* truths, const uint8_t* is_relative, uint32_t first, uint32_t end) {
        if (end - first < kMany || !is_used_) return {};
        const auto is_in_bucket = [&](uint32_t g) { return window_.is_solid(truths[g]) && is_relative[g] == 0; };
        Range range;
        range.first_bucket = static_cast<uint32_t>(starts_.size());
        range.num_buckets = end - first;
        range.low = std::numeric_limits<double>::infinity();
        double high = -range.low;
        for (uint32_t g = first; g < end; ++g) {
            if (!is_in_bucket(g)) continue;
            range.low = std::min(range.low, window_.position(truths[g]));
            high = std::max(high, window_.position(truths[g]));
        }
        range.buckets_per_unit = high > range.low ? range.num_buckets / (high - range.low) : 0;
        if (high < range.low) range.low = 0;  // there are none

        // A counting sort by bucket; the last of them is for the others.
        const auto bucket = [&](uint32_t g) {
            return is_in_bucket(g) ? bucket_of(range, window_.position(truths[g])) : range.num_buckets;
        };
        const auto first_entry = static_cast<uint32_t>(entries_.size());
        starts_.resize(starts_.size() + range.num_buckets + 2, 0);
        uint32_t* const starts = starts_.data() + range.first_bucket;
        for (uint32_t g = first; g < end; ++g) ++starts[bucket(g) + 1];
        starts[0] = first_entry;
        for (uint32_t i = 0; i <= range.num_buckets; ++i) starts[i + 1] += starts[i];
        entries_.resize(entries_.size() + (end - first));
        next_.assign(starts, starts + range.num_buckets + 1);
        for (uint32_t g = first; g < end; ++g) entries_[next_[bucket(g)]++] = g;
        range.end = static_cast<uint32_t>(entries_.size());
        for (uint32_t i = first_entry; i < range.end; ++i) filter_.add(truths[entries_[i]]);
        return range;
    }

    template <class Shape, class Visit>
    void visit(const Shape& shape, uint32_t first, uint32_t end, const Range& range, Visit visit) const {
        if (range.end == 0 || !window_.is_solid(shape)) {
            for (uint32_t g = first; g < end; ++g) visit(g);
            return;
        }
        const double position = window_.position(shape);
        const uint32_t* const starts = starts_.data() + range.first_bucket;
        const uint32_t first_inside = starts[bucket_of(range, position - window_.before(shape))];
        const uint32_t end_inside = starts[bucket_of(range, position + window_.after(shape)) + 1];
        for (uint32_t i = first_inside; i < end_inside; i += 64) {
            uint64_t mask = filter_.mask(window_, shape, i, std::min<uint32_t>(end_inside - i, 64));
            for (; mask != 0; mask &= mask - 1) visit(entries_[i + count_trailing_zeros(mask)]);
        }
        for (uint32_t i = starts[range.num_buckets]; i < range.end; ++i) visit(entries_[i]);
    }

private:
    // Never falls as positions rise: so what is at or beyond a position is in its bucket or in a later one.
    static uint32_t bucket_of(const Range& range, double position) {
        const double bucket = (position - range.low) * range.buckets_per_unit;
        return static_cast<uint32_t>(std::min(std::max(bucket, 0.0), range.num_buckets - 1.0));
    }

    static constexpr uint32_t kMany = 16;          // truths of a class that are worth an index
    static constexpr double kLeastIndexed = 0.01;  // below it a window would have nearly all of them

    Window window_;
    bool is_used_;
    std::vector<uint32_t> entries_;  // truths
    std::vector<uint32_t> starts_, next_;
    typename Window::Filter filter_;
};

// All rows may be similar enough.
struct NoFilter {
    void clear() {}
    template <class Shape>
    void add(const Shape&) {}
    template <class Window, class Shape>
    uint64_t mask(const Window&, const Shape&, uint32_t, uint32_t num) const {
        return ~uint64_t{0} >> (64 - num);
    }
};

}  // namespace boxscore
