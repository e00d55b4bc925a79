#include "nearest.h"

#include <algorithm>
#include <vector>

#include "order.h"
#include "overlap.h"

namespace boxscore {
namespace {

// Pairs of an image with which one detection takes long enough to ask whether to go on.
constexpr size_t kMany = 1000;

// Images that one thread does in one go.
constexpr size_t kImagesPerTask = 64;

struct Truth {
    Box4 box;
    int32_t label;
    int32_t row;
    bool is_free;
};

// Calls `work(begin, end, truths)` for each image with detections: their places in `by_image`, and the truths in use.
template <class Work>
void for_each_image(const Groups& by_image, const BoxColumns& truths, size_t num_images, bool is_inclusive, const Run& run,
                    Work work) {
    const Groups truths_by_image = group(truths.image, truths.size, num_images);
    const size_t num_tasks = (num_images + kImagesPerTask - 1) / kImagesPerTask;
    for_each_task(
        num_tasks, run, [] { return std::vector<Truth>(); },
        [&](size_t task, std::vector<Truth>& there) {
            const size_t end = std::min(num_images, (task + 1) * kImagesPerTask);
            for (size_t image = task * kImagesPerTask; image < end; ++image) {
                there.clear();
                for (uint32_t i = truths_by_image.start[image]; i < truths_by_image.start[image + 1]; ++i) {
                    const uint32_t row = truths_by_image.at(i);
                    if (truths.is_used[row] == 0) continue;
                    const Box4 box = measure(truths.box + size_t{row} * 4, truths.box_format, is_inclusive);
                    there.push_back({box, truths.label[row], static_cast<int32_t>(row), true});
                }
                work(by_image.start[image], by_image.start[image + 1], there);
            }
        });
}

}  // namespace

void find_nearest(const BoxColumns& detections, const BoxColumns& truths, size_t num_images, bool is_inclusive,
                  const Run& run, const Nearest& own, const Nearest& other) {
    const double extent = is_inclusive ? 1.0 : 0.0;
    const Groups by_image = group(detections.image, detections.size, num_images);
    for_each_image(by_image, truths, num_images, is_inclusive, run,
                   [&](uint32_t begin, uint32_t end, const std::vector<Truth>& there) {
        for (uint32_t i = begin; i < end; ++i) {
            const uint32_t row = by_image.at(i);
            own.truth[row] = other.truth[row] = -1;
            own.iou[row] = other.iou[row] = 0;
            if (detections.is_used[row] == 0) continue;
            if (there.size() > kMany) run.check();
            const Box4 box = measure(detections.box + size_t{row} * 4, detections.box_format, is_inclusive);
            for (const Truth& truth : there) {
                const Overlap pair = overlap(box, truth.box, false, extent);
                if (pair.shared <= 0) continue;
                const Nearest& nearest = truth.label == detections.label[row] ? own : other;
                const double iou = pair.iou();
                if (iou > nearest.iou[row]) nearest.iou[row] = iou, nearest.truth[row] = truth.row;
            }
        }
    });
}

void match_across(const BoxColumns& detections, const double* score, const BoxColumns& truths, size_t num_images,
                  const Rules& rules, const Run& run, int32_t* taken) {
    const double extent = rules.is_inclusive ? 1.0 : 0.0, cutoff = rules.cutoffs[0];
    const Groups by_image = group(detections.image, detections.size, num_images);
    std::fill(taken, taken + detections.size, -1);
    for_each_image(by_image, truths, num_images, rules.is_inclusive, run,
                   [&](uint32_t begin, uint32_t end, std::vector<Truth>& there) {
        std::vector<uint32_t> rows;
        for (uint32_t i = begin; i < end && !there.empty(); ++i) {
            if (detections.is_used[by_image.at(i)] != 0) rows.push_back(by_image.at(i));
        }
        std::stable_sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) { return score[a] > score[b]; });
        for (const uint32_t row : rows) {
            if (there.size() > kMany) run.check();
            const Box4 box = measure(detections.box + size_t{row} * 4, detections.box_format, rules.is_inclusive);
            Truth* best = nullptr;
            double best_iou = 0;
            for (Truth& truth : there) {
                if (!truth.is_free || truth.label == detections.label[row]) continue;
                const double iou = overlap(box, truth.box, false, extent).iou();
                const bool is_reached = rules.is_strict ? iou > cutoff : iou >= cutoff;
                if (is_reached && (best == nullptr || iou > best_iou)) best = &truth, best_iou = iou;
            }
            if (best == nullptr) continue;
            best->is_free = false;
            taken[row] = best->row;
        }
    });
}

}  // namespace boxscore
