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
//     entries_   …[ sorted by position | the others of the group ]…   a range per group: first, first + num_sorted, end
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace boxscore {

// `Window` has what depends on the shapes: `position(shape)`; how far the window of a detection reaches, `before(shape)` and
// `after(shape)`; and `is_solid(shape)`, whether rounding can't change that.
template <class Window>
class WindowIndex {
public:
    struct Range {
        uint32_t first = 0, end = 0;  // 0, 0 if the truths are too few for an index
        uint32_t num_sorted = 0;
    };

    WindowIndex(Window window, double least) : window_(window), is_used_(least >= kLeastIndexed) {}

    void clear() { entries_.clear(); }

    template <class Shape>
    Range add(const Shape* truths, const uint8_t* is_relative, uint32_t first, uint32_t end) {
        if (end - first < kMany || !is_used_) return {};
        Range range;
        range.first = static_cast<uint32_t>(entries_.size());
        for (const bool is_sorted_part : {true, false}) {
            for (uint32_t g = first; g < end; ++g) {
                if (is_sorted_part == (window_.is_solid(truths[g]) && is_relative[g] == 0)) {
                    entries_.push_back({window_.position(truths[g]), g});
                }
            }
            if (!is_sorted_part) continue;
            range.num_sorted = static_cast<uint32_t>(entries_.size()) - range.first;
            std::sort(entries_.begin() + range.first, entries_.end(),
                      [](const Entry& a, const Entry& b) { return a.position < b.position; });
        }
        range.end = static_cast<uint32_t>(entries_.size());
        return range;
    }

    template <class Shape, class Visit>
    void visit(const Shape& shape, uint32_t first, uint32_t end, const Range& range, Visit visit) const {
        if (range.end == 0 || !window_.is_solid(shape)) {
            for (uint32_t g = first; g < end; ++g) visit(g);
            return;
        }
        const double position = window_.position(shape);
        const double first_inside = position - window_.before(shape), last_inside = position + window_.after(shape);
        const Entry* const entries = entries_.data() + range.first;
        const Entry* const end_sorted = entries + range.num_sorted;
        const Entry* entry = std::lower_bound(entries, end_sorted, first_inside,
                                              [](const Entry& e, double inside) { return e.position < inside; });
        for (; entry < end_sorted && entry->position <= last_inside; ++entry) visit(entry->truth);
        for (entry = end_sorted; entry < entries_.data() + range.end; ++entry) visit(entry->truth);
    }

private:
    struct Entry {
        double position;
        uint32_t truth;
    };

    static constexpr uint32_t kMany = 16;          // truths of a class that are worth an index
    static constexpr double kLeastIndexed = 0.01;  // below it a window would have nearly all of them

    Window window_;
    bool is_used_;
    std::vector<Entry> entries_;
};

}  // namespace boxscore
