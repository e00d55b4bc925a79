// Boxes and their overlap, with every bit of the references.
#pragma once

#include <algorithm>

#include "rules.h"

namespace boxscore {

struct Box4 {
    double left, top, right, bottom, area;
};

// The order of operations is that of the references, so that every bit is theirs.
template <class Number>
inline Box4 measure(const Number* box, BoxFormat format, bool is_inclusive) {
    const double a = box[0], b = box[1], c = box[2], d = box[3];
    if (!is_inclusive) {  // as in COCO: xywh decides, so a far corner is left + width even where it was given
        const double width = format == BoxFormat::xyxy ? c - a : c, height = format == BoxFormat::xyxy ? d - b : d;
        const double left = format == BoxFormat::cxcywh ? a - width / 2 : a;
        const double top = format == BoxFormat::cxcywh ? b - height / 2 : b;
        return {left, top, left + width, top + height, width * height};
    }
    Box4 out{a, b, c, d, 0};
    if (format == BoxFormat::xywh) out = {a, b, a + c, b + d, 0};
    if (format == BoxFormat::cxcywh) out = {a - c / 2, b - d / 2, a + c / 2, b + d / 2, 0};
    out.area = (out.right - out.left + 1) * (out.bottom - out.top + 1);
    return out;
}

// What two boxes share, and what IoU divides that by. `extent`: what the last pixel adds to a length.
struct Overlap {
    double shared = 0, whole = 1;

    double iou() const { return shared > 0 ? shared / whole : 0; }
};

inline Overlap overlap(const Box4& box, const Box4& truth, bool is_crowd, double extent) {
    const double width = std::min(box.right, truth.right) - std::max(box.left, truth.left) + extent;
    const double height = std::min(box.bottom, truth.bottom) - std::max(box.top, truth.top) + extent;
    if (!(width > 0 && height > 0)) return {};
    const double shared = width * height;
    // as in COCO: a crowd is as large as what is found in it
    return {shared, is_crowd ? box.area : box.area + truth.area - shared};
}

}  // namespace boxscore
