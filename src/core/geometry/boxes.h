// The similarity policy of boxes: IoU with every bit of the references, and an index of left edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "geometry/window_index.h"
#include "geometry/policy.h"
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
    double shared = 0, whole = 1;

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
    if (width <= 0 || height <= 0) return {};
    const double shared = width * height;
    // as in COCO: a crowd is as large as what is found in it
    return {shared, is_relative ? box.area : box.area + truth.area - shared};
}

// Where the left edge of a truth may be: two boxes whose IoU is c overlap in c of either width or more, so at most 1 - c of a width
// is not shared.
struct UprightWindow {
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
