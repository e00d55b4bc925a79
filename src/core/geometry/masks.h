// The similarity policy of masks: mask IoU and boundary IoU, with every bit of the references.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "geometry/policy.h"
#include "masks/bitmap.h"
#include "masks/column.h"
#include "masks/runs.h"
#include "rows/rules.h"

namespace boxscore {

struct MaskShape {
    uint32_t row;
    uint32_t area;
    MaskBox box;
    MaskSize size;
};

// The width of a boundary in pixels, as a share of the image's diagonal; at least one.
inline uint32_t boundary_width(MaskSize size, double ratio) {
    constexpr double kMost = 1u << 30;
    const double height = size.height, width = size.width;
    return static_cast<uint32_t>(std::clamp(std::nearbyint(ratio * std::sqrt(height * height + width * width)), 1.0, kMost));
}

// as in COCO: the union with a crowd is the detection's own area
inline double union_of_pixels(uint64_t area, uint64_t truth_area, uint64_t shared, bool is_relative) {
    return static_cast<double>(is_relative ? area : area + truth_area - shared);
}

inline double ratio_of_pixels(uint64_t shared, uint64_t area, uint64_t truth_area, bool is_relative) {
    return shared == 0 ? 0.0 : static_cast<double>(shared) / union_of_pixels(area, truth_area, shared, is_relative);
}

// A mask while it is compared: its runs, and its bits once they are wanted, unless it is so large that they would take too much memory.
class DrawnMask {
public:
    // Whether it is this one already.
    bool is(uint32_t row) const { return row_ == row; }

    void decode(const MaskView& masks, uint32_t row) {
        row_ = row;
        box_ = masks.box[row], height_ = masks.size[row].height;
        has_bits_ = has_boundary_ = was_compared_ = false;
        masks.decode(row, runs_);
    }

    // Call it after `decode`.
    void draw_boundary(uint32_t width) {
        if (has_boundary_) return;
        has_boundary_ = true;
        boundary_.draw(runs_, height_, box_);
        boundary_.keep_boundary(width);
        boundary_area_ = boundary_.area();
    }

    const Bitmap& boundary() const { return boundary_; }
    uint64_t boundary_area() const { return boundary_area_; }

    // Bits of a truth are drawn at once, since many detections may be compared with it; bits of a detection, if it is compared again.
    friend uint64_t count_common(DrawnMask& detection, DrawnMask& truth) {
        if (!truth.draw_bits()) return count_common(detection.runs_, truth.runs_);
        if (std::exchange(detection.was_compared_, true) && detection.draw_bits()) {
            return count_common(detection.bits_, truth.bits_);
        }
        return truth.bits_.count_under(detection.runs_, detection.height_);
    }

private:
    static constexpr size_t kMostWords = size_t{1} << 16;  // 4 million pixels

    // False if they are too many.
    bool draw_bits() {
        if (!has_bits_ && Bitmap::num_words(box_) <= kMostWords) {
            bits_.draw(runs_, height_, box_);
            has_bits_ = true;
        }
        return has_bits_;
    }

    uint32_t row_ = UINT32_MAX, height_ = 0;
    MaskBox box_;
    bool has_bits_ = false, has_boundary_ = false, was_compared_ = false;
    Runs runs_;
    Bitmap bits_, boundary_;
    uint64_t boundary_area_ = 0;
};

// The masks that a thread has drawn: one detection, and some truths, as those of an image meet many detections.
class MaskWorkspace {
public:
    DrawnMask& detection(const MaskView& masks, uint32_t row) { return decoded(detection_, masks, row); }
    DrawnMask& truth(const MaskView& masks, uint32_t row) {
        if (truths_.empty()) truths_.resize(kSlots);
        return decoded(truths_[row % kSlots], masks, row);  // rows of an image are mostly adjacent
    }

private:
    static constexpr size_t kSlots = 256;

    static DrawnMask& decoded(DrawnMask& slot, const MaskView& masks, uint32_t row) {
        if (!slot.is(row)) slot.decode(masks, row);
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

    // The intersection is bounded by the outer boxes' and by either area: most pairs end here.
    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double least, Workspace& work, Use use) const {
        const uint64_t common = common_area(shape.box, truth.box);
        if (common == 0) return use(0.0);
        if (shape.size != truth.size) return use(-1.0);  // as in COCO
        const uint64_t most = std::min({common, uint64_t{shape.area}, uint64_t{truth.area}});
        if (static_cast<double>(most) < least * union_of_pixels(shape.area, truth.area, most, is_relative)) return;
        DrawnMask& mask = work.detection(detections_, shape.row);
        DrawnMask& truth_mask = work.truth(truths_, truth.row);
        const uint64_t shared = count_common(mask, truth_mask);
        const double iou = ratio_of_pixels(shared, shape.area, truth.area, is_relative);
        // As in the reference of boundary IoU: a region of many objects has no boundary that one of them would have, too.
        if (boundary_ratio_ == 0 || is_relative || iou < least || shared == 0) return use(iou);
        const uint32_t width = boundary_width(shape.size, boundary_ratio_);
        mask.draw_boundary(width);
        truth_mask.draw_boundary(width);
        use(std::min(iou, ratio_of_pixels(count_common(mask.boundary(), truth_mask.boundary()), mask.boundary_area(), truth_mask.boundary_area(),
                                false)));
    }

    Index make_index(double) const { return {}; }

private:
    static Shape shape_of(const MaskView& masks, size_t row) {
        return {static_cast<uint32_t>(row), masks.area[row], masks.box[row], masks.size[row]};
    }

    MaskView detections_, truths_;
    double boundary_ratio_;
};

}  // namespace boxscore
