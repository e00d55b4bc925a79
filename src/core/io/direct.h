// From COCO files to plain numbers, without an array library in between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "curves/finish.h"
#include "io/coco_json.h"
#include "platform/tasks.h"
#include "rows/rules.h"

namespace boxscore {

// What tables show. By class, and by class and threshold, in the first area range and within the largest limit.
struct PlainResult {
    Averages averages;
    std::vector<int64_t> classes;
    std::vector<int64_t> num_truths, num_detections;
    size_t num_read = 0;                       // detections in the file, those beyond the limit included
    std::vector<double> ap_at;                 // [K, T]
    std::vector<int64_t> num_true, num_false;  // [K, T]
};

enum class IouType : uint8_t { bbox, segm, boundary, keypoints };

// How the shapes of files are taken.
struct ShapeRules {
    std::vector<IouType> iou_types;  // each gets its own result
    double largest;                  // the longest side that a box may have
    bool is_inclusive;               // the last pixel is inside the box
    uint8_t ignored_kind;            // of a truth that a file marks
    double boundary_ratio;           // the width of boundaries
    std::vector<double> sigmas;      // of keypoints

    bool has(IouType type) const { return std::find(iou_types.begin(), iou_types.end(), type) != iou_types.end(); }
    bool has_masks() const { return has(IouType::segm) || has(IouType::boundary); }
    CocoShapes file_shapes() const {
        if (has(IouType::keypoints)) return CocoShapes::keypoints;
        return has_masks() ? CocoShapes::masks : CocoShapes::boxes;
    }
};

// A file of truths, with their masks drawn if they are wanted. Throws CocoError, MaskError, std::system_error, Interrupted.
CocoFile read_plain_truths(const Source& source, const ShapeRules& shapes, const Run& run);

// The same for detections on the images of truths; of masks that no truth is compared with only the area is read.
CocoFile read_plain_detections(const Source& source, const CocoFile& truths, const ShapeRules& shapes, const Run& run);

// The result of detections for truths by each similarity, or none if there is anything in them that a person should be told about: this
// way has no words for it.
std::vector<PlainResult> evaluate_plainly(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                                          const std::vector<Measure>& measures, const ShapeRules& shapes, const Run& run);

}  // namespace boxscore
