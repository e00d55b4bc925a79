// The similarity policy of boxes: IoU with every bit of the references, and an index of left edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "geometry/policy.h"
#include "geometry/window_index.h"
#include "platform/branchless.h"
#include "platform/lanes.h"
#include "rows/rules.h"

namespace boxscore {

enum class BoxFormat : uint8_t { xyxy, xywh, cxcywh };

struct BoxShape {
    double left, top, right, bottom, area;
};

// The order of operations follows the references, so that every bit is equal.
template <class Number>
inline BoxShape measure_box(const Number* box, BoxFormat format, bool is_inclusive) {
    const double a = box[0], b = box[1], c = box[2], d = box[3];
    if (!is_inclusive) {  // as in COCO: xywh decides, so a far corner is left + width even where it was given
        const double width = format == BoxFormat::xyxy ? c - a : c, height = format == BoxFormat::xyxy ? d - b : d;
        const double left = format == BoxFormat::cxcywh ? a - width / 2 : a;
        const double top = format == BoxFormat::cxcywh ? b - height / 2 : b;
        return {left, top, left + width, top + height, width * height};
    }
    BoxShape out{a, b, c, d, 0};
    if (format == BoxFormat::xywh) out = {a, b, a + c, b + d, 0};
    if (format == BoxFormat::cxcywh) out = {a - c / 2, b - d / 2, a + c / 2, b + d / 2, 0};
    out.area = (out.right - out.left + 1) * (out.bottom - out.top + 1);
    return out;
}

// Intersection of two boxes, and the divisor of their IoU.
struct Overlap {
    double shared, whole;

    double iou() const { return shared <= 0 ? 0 : shared / whole; }
};

// Finite numbers are compared in one instruction. As in COCO, where a number is no number the other one counts: that is only
// for what nobody has validated.
struct FiniteBounds {
    static double lower(double a, double b) { return std::min(a, b); }
    static double upper(double a, double b) { return std::max(a, b); }
};
struct AnyBounds {
    static double lower(double a, double b) { return std::fmin(a, b); }
    static double upper(double a, double b) { return std::fmax(a, b); }
};

// `extent`: length that the last pixel adds, 1 for inclusive pixels.
template <class Bounds>
inline Overlap overlap(const BoxShape& box, const BoxShape& truth, bool is_relative, double extent) {
    const double width = Bounds::lower(box.right, truth.right) - Bounds::upper(box.left, truth.left) + extent;
    const double height = Bounds::lower(box.bottom, truth.bottom) - Bounds::upper(box.top, truth.top) + extent;
    const double shared = not_negative(width) * not_negative(height);
    // as in COCO: the union with a crowd is the detection's own area
    return {shared, is_relative ? box.area : box.area + truth.area - shared};
}

// Boxes in columns, so that one instruction compares a box with several of them.
class OverlapFilter {
public:
    void clear() { num_rows_ = 0; }

    // Adds the boxes of some indices, one row each.
    void add(const BoxShape* boxes, const uint32_t* index, size_t num) {
        if (num_rows_ + num + kMostLanes > area_.size()) {
            for (auto* column : {&left_, &top_, &right_, &bottom_, &area_}) column->resize(2 * (num_rows_ + num + kMostLanes));
        }
        for (size_t i = 0; i < num; ++i, ++num_rows_) {
            const BoxShape& box = boxes[index[i]];
            left_[num_rows_] = box.left, top_[num_rows_] = box.top;
            right_[num_rows_] = box.right, bottom_[num_rows_] = box.bottom;
            area_[num_rows_] = box.area;
        }
    }

    // The boxes that may reach the window's least IoU: with a margin, as it is computed in another way than IoU itself. Rows are compared
    // in vectors of so many bytes; what the last vector has beyond them is left out at the end.
    template <size_t kVectorBytes, class Window>
    BOXSCORE_INLINE uint64_t mask(const Window& window, const BoxShape& box, uint32_t first, uint32_t num) const {
#if BOXSCORE_HAS_VECTORS
        using Numbers = typename VectorOf<double, kVectorBytes>::Type;
        using Bits = typename VectorOf<uint64_t, kVectorBytes>::Type;
        constexpr uint32_t kLanes = kVectorBytes / sizeof(double);
        const Numbers none{}, extent = none + window.extent, part = none + window.part, area = none + box.area;
        const Numbers left = none + box.left, top = none + box.top, right = none + box.right, bottom = none + box.bottom;
        const auto load = [](const double* from, Numbers& numbers) BOXSCORE_INLINE { std::memcpy(&numbers, from, sizeof numbers); };
        // What is shared of a length. Vectors are not returned: how that is done depends on the processor.
        const auto share = [&](const Numbers& low, const Numbers& high, const double* lows, const double* highs, Numbers& length)
                               BOXSCORE_INLINE {
            Numbers from, to;
            load(lows, from), load(highs, to);
            length = (to < high ? to : high) - (from > low ? from : low) + extent;
            length = length > none ? length : none;
        };
        Bits bit{}, found{};
        for (uint32_t lane = 0; lane < kLanes; ++lane) bit[lane] = uint64_t{1} << lane;
        for (uint32_t i = 0; i < num; i += kLanes) {
            const size_t row = first + i;
            Numbers width, height, areas;
            share(left, right, left_.data() + row, right_.data() + row, width);
            share(top, bottom, top_.data() + row, bottom_.data() + row, height);
            load(area_.data() + row, areas);
            found |= (Bits)(width * height >= (areas + area) * part) & bit;
            bit <<= kLanes;
        }
        uint64_t all = 0;
        for (uint32_t lane = 0; lane < kLanes; ++lane) all |= found[lane];
        return all & ~uint64_t{0} >> (64 - num);
#else
        uint64_t found = 0;
        for (uint32_t i = 0; i < num; ++i) {
            const size_t row = first + i;
            const double width = std::min(box.right, right_[row]) - std::max(box.left, left_[row]) + window.extent;
            const double height = std::min(box.bottom, bottom_[row]) - std::max(box.top, top_[row]) + window.extent;
            const double shared = not_negative(width) * not_negative(height);
            found |= uint64_t{shared >= (box.area + area_[row]) * window.part} << i;
        }
        return found;
#endif
    }

private:
    static constexpr size_t kMostLanes = 8;  // a vector may be read from the last row on

    std::vector<double> left_, top_, right_, bottom_, area_;  // of more rows than there are
    size_t num_rows_ = 0;
};

// Where the left edge of a truth may be: two boxes whose IoU is c overlap in c of either width or more, so at most 1 - c of a width
// is not shared.
struct UprightWindow {
    using Filter = OverlapFilter;
    double extent;
    double before_share, after_share;  // of a detection's width; a little more than it must be
    double part;                       // of both areas together, that boxes share: a little less than it must be

    UprightWindow(double extent, double least) : extent(extent) {
        before_share = (1 - least) / least * (1 + 1e-5);
        after_share = (1 - least) * (1 + 1e-5);
        part = least / (1 + least) * (1 - 1e-6);
    }

    double position(const BoxShape& box) const { return box.left; }
    double width(const BoxShape& box) const { return box.right - box.left + extent; }
    double before(const BoxShape& box) const { return width(box) * before_share; }
    double after(const BoxShape& box) const { return width(box) * after_share; }

    // Whether rounding can't move the edges of a box by more than a millionth of its size.
    bool is_solid(const BoxShape& box) const {
        const double least = std::min(box.right - box.left, box.bottom - box.top) + extent;
        const auto is_near = [&](double edge) { return least >= std::abs(edge) * 1e-6; };
        return is_near(box.left) & is_near(box.right) & is_near(box.top) & is_near(box.bottom);
    }
};

// Boxes of one side as they were given: four numbers per row.
template <class Number>
struct BoxColumn {
    const Number* box;
    BoxFormat format;
};

template <class Number, class Bounds = FiniteBounds>
class BoxPolicy {
public:
    using Shape = BoxShape;
    using Index = WindowIndex<UprightWindow>;
    using Workspace = NoWorkspace;

    BoxPolicy(BoxColumn<Number> detections, BoxColumn<double> truths, bool is_inclusive)
        : detections_(detections), truths_(truths), is_inclusive_(is_inclusive), extent_(is_inclusive ? 1.0 : 0.0) {}

    Shape detection(size_t row) const { return measure_box(detections_.box + row * 4, detections_.format, is_inclusive_); }
    Shape truth(size_t row) const { return measure_box(truths_.box + row * 4, truths_.format, is_inclusive_); }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t row) const { boxscore::prefetch(detections_.box + row * 4); }

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double least, Workspace&, Use use) const {
        const Overlap pair = overlap<Bounds>(shape, truth, is_relative, extent_);
        if (pair.shared < least * pair.whole) return;
        use(pair.iou());
    }

    Index make_index(double least) const { return {UprightWindow(extent_, least), least}; }

private:
    BoxColumn<Number> detections_;
    BoxColumn<double> truths_;
    bool is_inclusive_;
    double extent_;
};

}  // namespace boxscore
