#include "images.h"

#include <algorithm>
#include <cmath>

namespace boxscore {
namespace {

constexpr size_t kGroupsPerTask = 256;

// Calls `work` with each group, some groups a task.
template <class Work>
void for_each_group(const ImageGroups& groups, const Run& run, Work work) {
    const size_t num_tasks = (groups.size() + kGroupsPerTask - 1) / kGroupsPerTask;
    for_each_task(num_tasks, run, [] { return std::vector<int64_t>(); }, [&](size_t task, std::vector<int64_t>& scratch) {
        const size_t end = std::min(groups.size(), (task + 1) * kGroupsPerTask);
        for (size_t n = task * kGroupsPerTask; n < end; ++n) work(n, scratch);
    });
}

double overlap_of(const double* box, const double* truth, bool is_crowd) {
    const double width = std::fmin(box[2] + box[0], truth[2] + truth[0]) - std::fmax(box[0], truth[0]);
    if (width <= 0) return 0;
    const double height = std::fmin(box[3] + box[1], truth[3] + truth[1]) - std::fmax(box[1], truth[1]);
    if (height <= 0) return 0;
    const double shared = width * height, own = box[2] * box[3];
    return shared / (is_crowd ? own : own + truth[2] * truth[3] - shared);
}

// One area range of one group.
struct Block {
    size_t num_detections, num_truths;
    const double* overlap;
    const double *area, *id, *truth_id;
    const uint8_t* is_crowd;
    const int64_t *order, *is_truth_ignored;
    double low, high;
};

void assign_at(double threshold, const Block& block, double* match, uint8_t* is_ignored, double* truth_match) {
    for (size_t d = 0; d < block.num_detections; ++d) {
        double best = std::min(threshold, 1 - 1e-10);  // as in COCO
        size_t taken = block.num_truths;
        for (size_t g = 0; g < block.num_truths; ++g) {
            const int64_t place = block.order[g];
            if (truth_match[g] > 0 && block.is_crowd[place] == 0) continue;
            // A regular truth is not given up for an ignored one.
            if (taken < block.num_truths && block.is_truth_ignored[taken] == 0 && block.is_truth_ignored[g] == 1) break;
            const double overlap = block.overlap[d * block.num_truths + static_cast<size_t>(place)];
            if (overlap < best) continue;
            best = overlap;
            taken = g;
        }
        if (taken < block.num_truths) {
            match[d] = block.truth_id[block.order[taken]];
            truth_match[taken] = block.id[d];
            is_ignored[d] = block.is_truth_ignored[taken] != 0;
        }
        // What met nothing is ignored outside of the area range; so is what met a truth whose id is 0.
        if (match[d] == 0 && (block.area[d] < block.low || block.area[d] > block.high)) is_ignored[d] = 1;
    }
}

}  // namespace

std::vector<size_t> ImageGroups::overlap_starts() const {
    std::vector<size_t> starts(size() + 1);
    for (size_t n = 0; n < size(); ++n) starts[n + 1] = starts[n] + num_detections(n) * num_truths(n);
    return starts;
}

void measure_overlaps(const ImageGroups& groups, const double* box, const double* truth_box, const uint8_t* is_crowd,
                      const Run& run, double* overlap) {
    const std::vector<size_t> starts = groups.overlap_starts();
    for_each_group(groups, run, [&](size_t n, std::vector<int64_t>&) {
        double* out = overlap + starts[n];
        for (int64_t d = groups.start[n]; d < groups.start[n + 1]; ++d) {
            for (int64_t g = groups.truth_start[n]; g < groups.truth_start[n + 1]; ++g) {
                *out++ = overlap_of(box + d * 4, truth_box + g * 4, is_crowd[g] != 0);
            }
        }
    });
}

void assign(const ImageGroups& groups, const AssignmentColumns& columns, const AssignmentRules& rules, const Run& run,
            const Assignments& out) {
    const std::vector<size_t> starts = groups.overlap_starts();
    const size_t num_thresholds = rules.thresholds.size();
    const size_t num_detections = static_cast<size_t>(groups.start.back());
    const size_t num_truths = static_cast<size_t>(groups.truth_start.back());
    for_each_group(groups, run, [&](size_t n, std::vector<int64_t>& ignored) {
        const size_t first = static_cast<size_t>(groups.start[n]), first_truth = static_cast<size_t>(groups.truth_start[n]);
        const size_t num = groups.num_detections(n), num_there = groups.num_truths(n);
        ignored.resize(num_there);
        for (size_t a = 0; a < rules.area_low.size(); ++a) {
            const double low = rules.area_low[a], high = rules.area_high[a];
            int64_t* order = out.truth_order + a * num_truths + first_truth;
            int64_t* is_truth_ignored = out.is_truth_ignored + a * num_truths + first_truth;
            for (size_t g = 0; g < num_there; ++g) {
                const double area = columns.truth_area[first_truth + g];
                ignored[g] = columns.is_ignored[first_truth + g] != 0 || area < low || area > high;
            }
            size_t position = 0;
            for (const int64_t part : {0, 1}) {
                for (size_t g = 0; g < num_there; ++g) {
                    if (ignored[g] != part) continue;
                    order[position] = static_cast<int64_t>(g);
                    is_truth_ignored[position++] = part;
                }
            }
            const Block block{num,
                              num_there,
                              columns.overlap + starts[n],
                              columns.area + first,
                              columns.id + first,
                              columns.truth_id + first_truth,
                              columns.is_crowd + first_truth,
                              order,
                              is_truth_ignored,
                              low,
                              high};
            for (size_t t = 0; t < num_thresholds; ++t) {
                const size_t at = (a * num_detections + first) * num_thresholds + t * num;
                const size_t truth_at = (a * num_truths + first_truth) * num_thresholds + t * num_there;
                std::fill_n(out.match + at, num, 0.0);
                std::fill_n(out.is_ignored + at, num, uint8_t{0});
                std::fill_n(out.truth_match + truth_at, num_there, 0.0);
                assign_at(rules.thresholds[t], block, out.match + at, out.is_ignored + at, out.truth_match + truth_at);
            }
        }
    });
}

}  // namespace boxscore
