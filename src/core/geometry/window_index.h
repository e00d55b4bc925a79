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
// Detections are looked up many at a time, before any of them is compared. What is found differs from one to the next, and can't be
// predicted: so there is no branch on it in that loop, and the processor works on several at once. `visit` has all of its branches.
//
// Buckets divide the positions evenly. A few truths before and after the window are in its first and last bucket, and compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/compiler.h"
#include "platform/processor.h"

namespace boxscore {

// `Window` has what depends on the shapes: `position(shape)`; how far the window of a detection reaches, `before(shape)` and
// `after(shape)`; `is_solid(shape)`, whether rounding can't change that; and a `Filter`, which has a row for each entry, and tells which
// of up to 64 rows may be similar enough: `clear()`, `add(shapes, indices, num)`, `mask<kVectorBytes>(window, shape, first, num)`.
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
        filter_.add(truths, entries_.data() + first_entry, end - first);
        return range;
    }

    // Looks up some detections for `visit`: `shape_at(i)` is the shape of the i-th of them.
    template <class ShapeAt>
    void look_up(const ShapeAt& shape_at, uint32_t num, const Range& range) {
        if (range.end == 0) return;
        if (near_.size() < num) near_.resize(num);
        with_vectors([&](auto num_bytes) BOXSCORE_INLINE {
            const uint32_t* const starts = starts_.data() + range.first_bucket;
            Near* const near = near_.data();
            for (uint32_t i = 0; i < num; ++i) {
                const auto& shape = shape_at(i);
                const double position = window_.position(shape);
                near[i].first = starts[bucket_of(range, position - window_.before(shape))];
                near[i].end = starts[bucket_of(range, position + window_.after(shape)) + 1];
                const uint32_t num_rows = std::min(near[i].end - near[i].first, kRowsPerMask);
                near[i].mask = num_rows == 0 ? 0 : filter_.template mask<num_bytes()>(window_, shape, near[i].first, num_rows);
                near[i].is_all = !window_.is_solid(shape);
            }
        });
    }

    // The i-th of the detections that were looked up.
    template <class Shape, class Visit>
    void visit(uint32_t i, const Shape& shape, uint32_t first, uint32_t end, const Range& range, Visit visit) const {
        if (range.end == 0 || near_[i].is_all) {
            for (uint32_t g = first; g < end; ++g) visit(g);
            return;
        }
        const Near& near = near_[i];
        const auto visit_all = [&](uint32_t row, uint64_t mask) {
            for (; mask != 0; mask &= mask - 1) visit(entries_[row + count_trailing_zeros(mask)]);
        };
        visit_all(near.first, near.mask);
        for (uint32_t row = near.first + kRowsPerMask; row < near.end; row += kRowsPerMask) {
            const uint32_t num = std::min(near.end - row, kRowsPerMask);
            visit_all(row, filter_.template mask<16>(window_, shape, row, num));
        }
        for (uint32_t k = starts_[range.first_bucket + range.num_buckets]; k < range.end; ++k) visit(entries_[k]);
    }

private:
    // Monotonic in the position: truths at or beyond a position are in its bucket or a later one.
    static uint32_t bucket_of(const Range& range, double position) {
        const double bucket = (position - range.low) * range.buckets_per_unit;
        return static_cast<uint32_t>(std::min(std::max(bucket, 0.0), range.num_buckets - 1.0));
    }

    static constexpr uint32_t kRowsPerMask = 64;
    static constexpr uint32_t kMany = 12;          // truths of a class that are worth an index
    static constexpr double kLeastIndexed = 0.01;  // below it a window would have nearly all of them

    // Where truths are that may be similar enough to a detection.
    struct Near {
        uint32_t first, end;  // the entries of its window
        uint64_t mask;        // the filter's, of the first 64 of them
        bool is_all;          // all truths of the group may be
    };

    Window window_;
    bool is_used_;
    std::vector<uint32_t> entries_;  // truths
    std::vector<uint32_t> starts_, next_;
    std::vector<Near> near_;  // of the detections that were looked up
    typename Window::Filter filter_;
};

// All rows may be similar enough.
struct NoFilter {
    void clear() {}
    template <class Shape>
    void add(const Shape*, const uint32_t*, size_t) {}
    template <size_t kVectorBytes, class Window, class Shape>
    BOXSCORE_INLINE uint64_t mask(const Window&, const Shape&, uint32_t, uint32_t num) const {
        return ~uint64_t{0} >> (64 - num);
    }
};

}  // namespace boxscore
