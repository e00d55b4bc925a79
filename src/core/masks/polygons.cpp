#include "masks/polygons.h"

#include <algorithm>
#include <cmath>

#include "rows/order.h"

// As in COCO: the outline is drawn on a grid of five steps per pixel, a step at a time along the longer side of each edge. Between
// grid columns 5 k + 2 and 5 k + 3 it crosses the centre line of pixel column k, and the pixels of that column change between on and
// off from there down:
//
//     grid column       5 k   5 k + 1   5 k + 2  |  5 k + 3   5 k + 4
//                                                |
//                                          o     |            the upper one of the two points gives the row
//                                                |     o
//
// Only these steps matter, so they are computed by themselves: one per edge and pixel column, not five per pixel of outline.
namespace boxscore {
namespace {

constexpr int64_t kSteps = 5, kCenter = 2;

int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
int64_t divide_down(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The pixel columns whose centre line is between two grid columns.
struct ColumnRange {
    int64_t first, last;

    ColumnRange(int64_t left, int64_t right, uint32_t width)
        : first(std::max<int64_t>(divide_up(left - kCenter, kSteps), 0)),
          last(std::min<int64_t>(divide_down(right - kCenter - 1, kSteps), int64_t{width} - 1)) {}

    uint64_t size() const { return first <= last ? static_cast<uint64_t>(last - first + 1) : 0; }
};

// as in COCO: rounded by adding a half and cutting off
int64_t rounded(double value) { return static_cast<int64_t>(value + .5); }

}  // namespace

void Rasterizer::add_crossing(int64_t column, int64_t y) {
    // The first pixel whose centre is not above `y`, on the grid.
    const int64_t row = y <= kCenter ? 0 : (y + kCenter) / kSteps;
    crossings_.push_back({static_cast<uint32_t>(column), static_cast<uint32_t>(std::min<int64_t>(row, size_.height))});
}

void Rasterizer::add_flat_edge(GridPoint left, GridPoint right) {
    const double slope = static_cast<double>(right.y - left.y) / static_cast<double>(right.x - left.x);
    const auto y_at = [&](int64_t x) {
        return rounded(static_cast<double>(left.y) + slope * static_cast<double>(x - left.x));
    };
    const ColumnRange columns(left.x, right.x, size_.width);
    for (int64_t column = columns.first; column <= columns.last; ++column) {
        const int64_t x = column * kSteps + kCenter;
        add_crossing(column, std::min(y_at(x), y_at(x + 1)));
    }
}

void Rasterizer::add_steep_edge(GridPoint upper, GridPoint lower) {
    const int64_t num_steps = lower.y - upper.y;
    const double slope = static_cast<double>(lower.x - upper.x) / static_cast<double>(num_steps);
    const auto x_at = [&](int64_t step) {
        return rounded(static_cast<double>(upper.x) + slope * static_cast<double>(step));
    };
    const bool is_rightward = slope > 0;
    const ColumnRange columns(std::min(upper.x, lower.x), std::max(upper.x, lower.x), size_.width);
    for (int64_t column = columns.first; column <= columns.last; ++column) {
        const int64_t x = column * kSteps + kCenter;
        const auto is_across = [&](int64_t step) { return is_rightward ? x_at(step) > x : x_at(step) <= x; };
        // The first step across the line, from an estimate that rounding may have moved.
        const double line = static_cast<double>(x) + .5;
        auto step = static_cast<int64_t>((line - static_cast<double>(upper.x)) / slope);
        step = std::clamp<int64_t>(step, 1, num_steps);
        while (step > 1 && is_across(step - 1)) --step;
        while (step < num_steps && !is_across(step)) ++step;
        add_crossing(column, upper.y + step - 1);
    }
}

uint64_t Rasterizer::count_crossings() const {
    uint64_t num = 0;
    for (size_t i = 0; i < grid_.size(); ++i) {
        const auto [left, right] = std::minmax(grid_[i].x, grid_[i + 1 < grid_.size() ? i + 1 : 0].x);
        if (left < right) num += ColumnRange(left, right, size_.width).size();
    }
    return num;
}

void Rasterizer::add_edge(GridPoint from, GridPoint to) {
    const int64_t width = std::abs(to.x - from.x), height = std::abs(to.y - from.y);
    if (width == 0) return;
    if (width >= height) {
        from.x <= to.x ? add_flat_edge(from, to) : add_flat_edge(to, from);
    } else {
        from.y <= to.y ? add_steep_edge(from, to) : add_steep_edge(to, from);
    }
}

// By column, in it by row.
void Rasterizer::sort_crossings() {
    uint32_t first = UINT32_MAX, last = 0;
    for (const Crossing& each : crossings_) first = std::min(first, each.column), last = std::max(last, each.column);
    sorted_.resize(crossings_.size());
    if (crossings_.empty()) return;
    start_.assign(last - first + 2, 0);
    for (const Crossing& each : crossings_) ++start_[each.column - first + 1];
    for (size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
    for (const Crossing& each : crossings_) sorted_[start_[each.column - first]++] = each;
    const auto is_before = [](const Crossing& a, const Crossing& b) { return a.row < b.row; };
    constexpr uint32_t kFew = 16;
    for (uint32_t begin = 0, i = 0; i + 1 < start_.size(); begin = start_[i++]) {
        Crossing *const from = sorted_.data() + begin, *const to = sorted_.data() + start_[i];
        to - from > kFew ? std::sort(from, to, is_before) : insertion_sort(from, to, is_before);
    }
}

// Two crossings at one place are none.
void Rasterizer::cancel_pairs() {
    sort_crossings();
    crossings_.clear();
    for (const Crossing& each : sorted_) {
        if (!crossings_.empty() && crossings_.back().column == each.column && crossings_.back().row == each.row) {
            crossings_.pop_back();
        } else {
            crossings_.push_back(each);
        }
    }
    num_allowed_ = std::max(kMany, 2 * crossings_.size());
}

bool Rasterizer::rasterize(const double* points, size_t num_points, MaskSize size, Runs& runs) {
    size_ = size;
    num_allowed_ = kMany;
    crossings_.clear();
    grid_.clear();
    for (size_t i = 0; i < num_points; ++i) {
        grid_.push_back({rounded(kSteps * points[2 * i]), rounded(kSteps * points[2 * i + 1])});
    }
    if (count_crossings() > kMostCrossings) return false;
    for (size_t i = 0; i < num_points; ++i) {
        add_edge(grid_[i], grid_[i + 1 < num_points ? i + 1 : 0]);
        if (crossings_.size() > num_allowed_) cancel_pairs();
    }
    sort_crossings();
    edges_.clear();
    for (const Crossing& each : sorted_) {
        const uint32_t position = each.column * size.height + each.row;
        // The end of a column is the beginning of the next.
        if (!edges_.empty() && edges_.back() == position) {
            edges_.pop_back();
        } else {
            edges_.push_back(position);
        }
    }
    counts_of_edges(edges_, size, runs);
    return true;
}

}  // namespace boxscore
