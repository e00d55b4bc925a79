// The similarity policy of boxes: IoU with every bit of the references, and an index of left edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "branchless.h"
#include "geometry/policy.h"
#include "geometry/window_index.h"
#include "rules.h"

namespace boxscore {

enum class BoxFormat : uint8_t { xyxy, xywh, cxcywh };

struct BoxShape {
    double left, top, right, bottom, area;
};

// The order of operations is that of the references, so that every bit is theirs.
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

// What two boxes share, and what IoU divides that by.
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

// `extent`: what the last pixel adds to a length.
template <class Bounds>
inline Overlap overlap(const BoxShape& box, const BoxShape& truth, bool is_relative, double extent) {
    const double width = Bounds::lower(box.right, truth.right) - Bounds::upper(box.left, truth.left) + extent;
    const double height = Bounds::lower(box.bottom, truth.bottom) - Bounds::upper(box.top, truth.top) + extent;
    const double shared = not_negative(width) * not_negative(height);
    // as in COCO: a crowd is as large as what is found in it
    return {shared, is_relative ? box.area : box.area + truth.area - shared};
}

// Boxes in columns, so that one instruction compares a box with two of them.
class OverlapFilter {
public:
    void clear() {
        for (auto* column : {&left_, &top_, &right_, &bottom_, &area_}) column->clear();
    }

    void add(const BoxShape& box) {
        left_.push_back(box.left), top_.push_back(box.top), right_.push_back(box.right), bottom_.push_back(box.bottom);
        area_.push_back(box.area);
    }

    // The boxes that may reach the window's least IoU: with a margin, as it is computed in another way than IoU itself.
    template <class Window>
    uint64_t mask(const Window& window, const BoxShape& box, uint32_t first, uint32_t num) const {
        const double share = window.least * (1 - 1e-6), part = share / (1 + share);
        uint64_t found = 0;
        uint32_t i = 0;
#if defined(BOXSCORE_HAS_SSE2)
        const __m128d left = _mm_set1_pd(box.left), top = _mm_set1_pd(box.top), right = _mm_set1_pd(box.right);
        const __m128d bottom = _mm_set1_pd(box.bottom), area = _mm_set1_pd(box.area), extent = _mm_set1_pd(window.extent);
        const auto length = [&](__m128d low, __m128d high, const double* lows, const double* highs) {
            const __m128d inside = _mm_sub_pd(_mm_min_pd(high, _mm_loadu_pd(highs)), _mm_max_pd(low, _mm_loadu_pd(lows)));
            return _mm_max_pd(_mm_add_pd(inside, extent), _mm_setzero_pd());
        };
        for (; i + 2 <= num; i += 2) {
            const size_t row = first + i;
            const __m128d shared = _mm_mul_pd(length(left, right, left_.data() + row, right_.data() + row),
                                              length(top, bottom, top_.data() + row, bottom_.data() + row));
            const __m128d least = _mm_mul_pd(_mm_add_pd(area, _mm_loadu_pd(area_.data() + row)), _mm_set1_pd(part));
            found |= uint64_t(_mm_movemask_pd(_mm_cmpge_pd(shared, least))) << i;
        }
#endif
        for (; i < num; ++i) {
            const size_t row = first + i;
            const double width = std::min(box.right, right_[row]) - std::max(box.left, left_[row]) + window.extent;
            const double height = std::min(box.bottom, bottom_[row]) - std::max(box.top, top_[row]) + window.extent;
            const double shared = not_negative(width) * not_negative(height);
            found |= uint64_t{shared >= (box.area + area_[row]) * part} << i;
        }
        return found;
    }

private:
    std::vector<double> left_, top_, right_, bottom_, area_;
};

// Where the left edge of a truth may be: two boxes whose IoU is c overlap in c of either width or more, so at most 1 - c of a width
// is not shared.
struct UprightWindow {
    using Filter = OverlapFilter;
    double extent, least;

    double position(const BoxShape& box) const { return box.left; }
    double width(const BoxShape& box) const { return (box.right - box.left + extent) * (1 + 1e-5); }
    double before(const BoxShape& box) const { return width(box) * (1 - least) / least; }
    double after(const BoxShape& box) const { return width(box) * (1 - least); }

    // Whether rounding can't move the edges of a box by more than a millionth of its size.
    bool is_solid(const BoxShape& box) const {
        const double farthest = std::max(std::max(std::abs(box.left), std::abs(box.right)),
                                         std::max(std::abs(box.top), std::abs(box.bottom)));
        return std::min(box.right - box.left, box.bottom - box.top) + extent >= farthest * 1e-6;
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

    Index make_index(double least) const { return {UprightWindow{extent_, least}, least}; }

private:
    BoxColumn<Number> detections_;
    BoxColumn<double> truths_;
    bool is_inclusive_;
    double extent_;
};

}  // namespace boxscore
