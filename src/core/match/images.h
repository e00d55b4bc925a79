// The arrays that pycocotools keeps per image and class: the similarity of each pair, and the matches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/tasks.h"

namespace boxscore {

// Groups of rows, one per image and class. Group n has the detections start[n] .. start[n + 1] - 1, by falling score, and the truths
// truth_start[n] .. truth_start[n + 1] - 1.
struct ImageGroups {
    std::vector<int64_t> start, truth_start;

    size_t size() const { return start.size() - 1; }
    size_t num_detections(size_t n) const { return static_cast<size_t>(start[n + 1] - start[n]); }
    size_t num_truths(size_t n) const { return static_cast<size_t>(truth_start[n + 1] - truth_start[n]); }
    // Offset of each group's matrix (one row per detection, one column per truth); the last element is the total number of pairs.
    std::vector<size_t> matrix_starts() const {
        std::vector<size_t> starts(size() + 1);
        for (size_t n = 0; n < size(); ++n) starts[n + 1] = starts[n] + num_detections(n) * num_truths(n);
        return starts;
    }
};

// Call `work(n, workspace)` for each group n, in parallel; each thread has one workspace.
template <class Workspace, class Work>
void for_each_group(const ImageGroups& groups, const Run& run, Work work) {
    constexpr size_t kGroupsPerTask = 256;
    const size_t num_tasks = (groups.size() + kGroupsPerTask - 1) / kGroupsPerTask;
    for_each_task(num_tasks, run, [] { return Workspace(); }, [&](size_t task, Workspace& workspace) {
        const size_t end = std::min(groups.size(), (task + 1) * kGroupsPerTask);
        for (size_t n = task * kGroupsPerTask; n < end; ++n) work(n, workspace);
    });
}

// Write the similarity of every pair of each group; 0 where the policy reports none.
template <class Policy>
void measure_pairs(const Policy& policy, const ImageGroups& groups, const uint8_t* is_crowd, const Run& run, double* values) {
    const std::vector<size_t> starts = groups.matrix_starts();
    std::vector<typename Policy::Shape> truths;
    for (size_t g = 0; g < static_cast<size_t>(groups.truth_start.back()); ++g) truths.push_back(policy.truth(g));
    using Workspace = typename Policy::Workspace;
    for_each_group<Workspace>(groups, run, [&](size_t n, Workspace& workspace) {
        double* out = values + starts[n];
        for (int64_t d = groups.start[n]; d < groups.start[n + 1]; ++d) {
            const typename Policy::Shape shape = policy.detection(static_cast<size_t>(d));
            for (auto g = static_cast<size_t>(groups.truth_start[n]); g < static_cast<size_t>(groups.truth_start[n + 1]); ++g) {
                constexpr double kAny = -std::numeric_limits<double>::infinity();
                *out = 0;
                policy.compare(shape, truths[g], is_crowd[g] != 0, kAny, workspace,
                               [out](double similarity) { *out = similarity; });
                ++out;
            }
        }
    });
}

// Write the IoU of every pair of boxes in xywh.
void measure_overlaps(const ImageGroups& groups, const double* box, const double* truth_box, const uint8_t* is_crowd,
                      const Run& run, double* overlap);

struct AssignmentRules {
    std::vector<double> thresholds;  // in any order
    std::vector<double> area_low, area_high;
};

struct AssignmentColumns {
    const double* overlap;
    const double *area, *id;  // of detections
    const double *truth_area, *truth_id;
    const uint8_t *is_ignored, *is_crowd;  // of truths
};

// Output arrays: sorted by area range, then group. Arrays with a threshold axis have one block per group, shape (thresholds, rows).
struct Assignments {
    double *match, *truth_match;  // the id of the matched truth, or of the matched detection; 0: unmatched
    uint8_t* is_ignored;          // of detections
    int64_t* is_truth_ignored;    // of truths, in `truth_order`
    int64_t* truth_order;         // indices within the group: regular truths first
};

// Match in every cell and write pycocotools' arrays, in which an id of 0 means unmatched even if a row has this id.
void assign(const ImageGroups& groups, const AssignmentColumns& columns, const AssignmentRules& rules, const Run& run,
            const Assignments& out);

}  // namespace boxscore
