// COCO's input rules: how missing boxes, areas and masks are derived. All readers of COCO files complete their rows here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/coco_json.h"
#include "platform/tasks.h"

namespace boxscore {

// Width and height of each image, in pairs. 0, 0 where the file has no valid size, which is two whole numbers from 1 on.
std::vector<int64_t> image_sizes(const CocoImages& images);

// Complete the annotations of a dataset:
// - masks: draws the polygons if the sizes of all images with annotations are known, else clears `is_drawn`;
// - boxes: takes a missing one from the mask, or from the points of polygons that are not drawn;
// - areas: takes a missing one from the mask, else from the box; drops all where one stays unknown;
// - keypoints: drops `num_labelled` unless each row has it.
// Throws MaskError, Interrupted.
void complete_truths(CocoFile& file, const Run& run);

// Complete results on these images: masks and boxes as above; missing boxes around keypoints. Replaces `area`, which results don't
// state: for keypoints by the areas of the boxes, for masks without boxes by the areas of the masks, else by an empty column. Throws
// MaskError, Interrupted.
void complete_detections(CocoBoxes& boxes, const CocoImages& images, const Run& run);

enum class IouType : uint8_t { bbox, segm, boundary, keypoints };

// How the shapes of both files are compared.
struct ShapeRules {
    std::vector<IouType> iou_types;
    double largest;              // largest allowed side of a box
    bool is_inclusive;           // whether the last pixel is inside the box
    uint8_t ignored_kind;        // the kind of truths with `iscrowd`
    double boundary_ratio;       // the width of boundaries
    std::vector<double> sigmas;  // of keypoints

    bool has(IouType type) const { return std::find(iou_types.begin(), iou_types.end(), type) != iou_types.end(); }
    bool has_masks() const { return has(IouType::segm) || has(IouType::boundary); }
};

// Whether completed rows can be matched as they are, without any error or warning.
bool are_ready(const CocoFile& truths, const CocoFile& detections, const ShapeRules& shapes, const Run& run);

// Kind of each truth; empty if all are regular. If keypoints are compared, a regular truth without labelled keypoints becomes
// difficult. `are_ready` must hold.
std::vector<uint8_t> truth_kinds(const CocoBoxes& truths, const ShapeRules& shapes);

}  // namespace boxscore
