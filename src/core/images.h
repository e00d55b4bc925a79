// What pycocotools keeps of every image and class: the overlap of each pair of boxes, and who is matched with whom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tasks.h"

namespace boxscore {

// Groups of rows, one an image and class: detections start[n] .. start[n + 1] - 1 by falling score, and truths likewise.
struct ImageGroups {
    std::vector<int64_t> start, truth_start;

    size_t size() const { return start.size() - 1; }
    size_t num_detections(size_t n) const { return static_cast<size_t>(start[n + 1] - start[n]); }
    size_t num_truths(size_t n) const { return static_cast<size_t>(truth_start[n + 1] - truth_start[n]); }
    // Where the overlaps of each group begin, a row a detection and a column a truth; the last is how many there are.
    std::vector<size_t> overlap_starts() const;
};

// The IoU of every pair, in xywh; with a crowd the union is the detection's own area.
void measure_overlaps(const ImageGroups& groups, const double* box, const double* truth_box, const uint8_t* is_crowd,
                      const Run& run, double* overlap);

struct AssignmentRules {
    std::vector<double> thresholds;  // in any order
    std::vector<double> area_low, area_high;
};

struct AssignmentColumns {
    const double* overlap;
    const double *area, *id;  // of the detections
    const double *truth_area, *truth_id;
    const uint8_t *is_ignored, *is_crowd;  // of the truths
};

// By area range, and in it group by group. What belongs to thresholds, too, has a block a group: thresholds by rows.
struct Assignments {
    double *match, *truth_match;  // the id of the other one, or 0
    uint8_t* is_ignored;          // of detections
    int64_t* is_truth_ignored;    // of truths, in the order of matching
    int64_t* truth_order;         // places within the group: regular truths first
};

// Every detection takes its best truth, one after the other, as in COCO. The rules are those of the reference to the letter: an
// id of 0 says that there is none, whatever it is the id of.
void assign(const ImageGroups& groups, const AssignmentColumns& columns, const AssignmentRules& rules, const Run& run,
            const Assignments& out);

}  // namespace boxscore
