// COCO's input rules: what the rows of a dataset and of results mean. Every way to read COCO files completes its rows here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/coco_json.h"
#include "platform/tasks.h"

namespace boxscore {

// Width and height of each image, in pairs; 0, 0 where a file has no valid size: whole numbers from 1 on.
std::vector<int64_t> image_sizes(const CocoImages& images);

// Completes the annotations of a dataset:
// - masks: draws the polygons if the sizes of all images with annotations are known, else clears `is_drawn`;
// - boxes: takes a missing one from the mask, or from the points of polygons that are not drawn;
// - areas: takes a missing one from the mask, else from the box; drops all where one stays unknown;
// - keypoints: drops `num_labelled` unless each row has it.
// Throws MaskError, Interrupted.
void complete_truths(CocoFile& file, const Run& run);

// Completes results on these images: masks and boxes as above, boxes around keypoints. `area` becomes each row's own area where it
// differs from its box's, else empty; results don't say it. Throws MaskError, Interrupted.
void complete_detections(CocoBoxes& boxes, const CocoImages& images, const Run& run);

// The masks of rows: those that are drawn from polygons, else the given ones. `sizes`: of the rows' images; one without pixels is
// unknown. Throws MaskError, Interrupted.
MaskColumn draw_masks(const MaskColumn& masks, const PolygonColumn& polygons, const std::vector<MaskSize>& sizes, const Run& run);

enum class IouType : uint8_t { bbox, segm, boundary, keypoints };

// How the shapes of both files are compared.
struct ShapeRules {
    std::vector<IouType> iou_types;
    double largest;              // the longest side that a box may have
    bool is_inclusive;           // the last pixel is inside the box
    uint8_t ignored_kind;        // of a truth that a file marks
    double boundary_ratio;       // the width of boundaries
    std::vector<double> sigmas;  // of keypoints

    bool has(IouType type) const { return std::find(iou_types.begin(), iou_types.end(), type) != iou_types.end(); }
    bool has_masks() const { return has(IouType::segm) || has(IouType::boundary); }
};

// Whether completed rows can be matched as they are, and nothing in them needs an error or a warning.
bool are_ready(const CocoFile& truths, const CocoFile& detections, const ShapeRules& shapes, const Run& run);

// The kind of each truth that is ready; empty: all are regular. Where keypoints are compared, a regular truth without a labelled one
// is difficult.
std::vector<uint8_t> truth_kinds(const CocoBoxes& truths, const ShapeRules& shapes);

}  // namespace boxscore
