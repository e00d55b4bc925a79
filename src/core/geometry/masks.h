// The similarity policy of masks: mask IoU and boundary IoU, with every bit of the references.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "geometry/policy.h"
#include "masks/bitmap.h"
#include "masks/column.h"
#include "masks/runs.h"
#include "rules.h"

namespace boxscore {

struct MaskShape {
    uint32_t row;
    uint32_t area;
    MaskBox box;
    MaskSize size;
};

// The width of a boundary in pixels, as a share of the image's diagonal; at least one.
inline uint32_t boundary_width(MaskSize size, double ratio) {
    const double height = size.height, width = size.width;
    return std::max<uint32_t>(static_cast<uint32_t>(std::nearbyint(ratio * std::sqrt(height * height + width * width))), 1);
}

// A mask while it is compared: its bits, or its runs if it is so large that bits would take too much memory.
class DrawnMask {
public:
    // Whether it is this one already.
    bool is(uint32_t row) const { return row_ == row; }

    void draw(const MaskView& masks, uint32_t row) {
        row_ = row;
        has_boundary_ = false;
        masks.decode(row, runs_);
        is_small_ = Bitmap::num_words(masks.box[row]) <= kMostWords;
        if (is_small_) bits_.draw(runs_, masks.size[row].height, masks.box[row]);
    }

    // Call it after `draw`.
    void draw_boundary(const MaskView& masks, uint32_t width) {
        if (has_boundary_) return;
        has_boundary_ = true;
        boundary_.draw(runs_, masks.size[row_].height, masks.box[row_]);
        boundary_.keep_boundary(width);
        boundary_area_ = boundary_.area();
    }

    const Bitmap& boundary() const { return boundary_; }
    uint64_t boundary_area() const { return boundary_area_; }

    friend uint64_t count_common(const DrawnMask& a, const DrawnMask& b) {
        return a.is_small_ && b.is_small_ ? count_common(a.bits_, b.bits_) : count_common(a.runs_, b.runs_);
    }

private:
    static constexpr size_t kMostWords = size_t{1} << 16;  // 4 million pixels

    uint32_t row_ = UINT32_MAX;
    bool is_small_ = false, has_boundary_ = false;
    Runs runs_;
    Bitmap bits_, boundary_;
    uint64_t boundary_area_ = 0;
};

// The masks that a thread has drawn: one detection, and some truths, as those of an image meet many detections.
class MaskWorkspace {
public:
    const DrawnMask& detection(const MaskView& masks, uint32_t row) { return drawn(detection_, masks, row); }
    const DrawnMask& truth(const MaskView& masks, uint32_t row) {
        if (truths_.empty()) truths_.resize(kSlots);
        return drawn(truths_[row % kSlots], masks, row);  // rows of an image are mostly adjacent
    }
    // Both must have been drawn last.
    const DrawnMask& detection_boundary(const MaskView& masks, uint32_t width) {
        detection_.draw_boundary(masks, width);
        return detection_;
    }
    const DrawnMask& truth_boundary(const MaskView& masks, uint32_t row, uint32_t width) {
        truths_[row % kSlots].draw_boundary(masks, width);
        return truths_[row % kSlots];
    }

private:
    static constexpr size_t kSlots = 256;

    static const DrawnMask& drawn(DrawnMask& slot, const MaskView& masks, uint32_t row) {
        if (!slot.is(row)) slot.draw(masks, row);
        return slot;
    }

    DrawnMask detection_;
    std::vector<DrawnMask> truths_;
};

// `boundary_ratio`: 0 for mask IoU; else the smaller one of mask IoU and boundary IoU, with boundaries so wide.
class MaskPolicy {
public:
    using Shape = MaskShape;
    using Index = NoIndex;
    using Workspace = MaskWorkspace;

    MaskPolicy(const MaskView& detections, const MaskView& truths, double boundary_ratio)
        : detections_(detections), truths_(truths), boundary_ratio_(boundary_ratio) {}

    Shape detection(size_t row) const { return shape_of(detections_, row); }
    Shape truth(size_t row) const { return shape_of(truths_, row); }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t row) const {
        boxscore::prefetch(detections_.area + row);
        boxscore::prefetch(detections_.box + row);
        boxscore::prefetch(detections_.size + row);
    }

    // What two masks share is at most what their outer boxes share, and at most either area: most pairs end there.
    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double least, Workspace& work, Use use) const {
        const uint64_t common = common_area(shape.box, truth.box);
        if (common == 0) return use(0.0);
        if (shape.size != truth.size) return use(-1.0);  // as in COCO
        const uint64_t most = std::min({common, uint64_t{shape.area}, uint64_t{truth.area}});
        if (static_cast<double>(most) < least * whole(shape.area, truth.area, most, is_relative)) return;
        const uint64_t shared = count_common(work.detection(detections_, shape.row), work.truth(truths_, truth.row));
        const double iou = ratio(shared, shape.area, truth.area, is_relative);
        // As in the reference of boundary IoU: a region of many objects has no boundary that one of them would have, too.
        if (boundary_ratio_ == 0 || is_relative || iou < least || shared == 0) return use(iou);
        const uint32_t width = boundary_width(shape.size, boundary_ratio_);
        const DrawnMask& one = work.detection_boundary(detections_, width);
        const DrawnMask& other = work.truth_boundary(truths_, truth.row, width);
        use(std::min(iou, ratio(count_common(one.boundary(), other.boundary()), one.boundary_area(), other.boundary_area(),
                                false)));
    }

    Index make_index(double) const { return {}; }

private:
    static Shape shape_of(const MaskView& masks, size_t row) {
        return {static_cast<uint32_t>(row), masks.area[row], masks.box[row], masks.size[row]};
    }

    // as in COCO: a crowd is as large as what is found in it
    static double whole(uint64_t area, uint64_t truth_area, uint64_t shared, bool is_relative) {
        return static_cast<double>(is_relative ? area : area + truth_area - shared);
    }

    static double ratio(uint64_t shared, uint64_t area, uint64_t truth_area, bool is_relative) {
        return shared == 0 ? 0.0 : static_cast<double>(shared) / whole(area, truth_area, shared, is_relative);
    }

    MaskView detections_, truths_;
    double boundary_ratio_;
};

}  // namespace boxscore
