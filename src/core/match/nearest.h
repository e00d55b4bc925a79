// Similarities outside of matching: the nearest truths of each detection, all similar pairs, and matches between different classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "match/candidates.h"
#include "platform/tasks.h"
#include "rows/order.h"

namespace boxscore {

// Rows of detections or truths; rows that are not used are skipped.
struct UsedRows {
    size_t size;
    const int32_t* image;  // indices among the images
    const int32_t* label;  // indices among the classes
    const uint8_t* is_used;
};

// Output, one element per detection: the most similar truth, the first one of a tie, and its similarity; -1 and 0 if all
// similarities are 0.
struct Nearest {
    int32_t* truth;
    double* similarity;
};

// Find candidates image by image: used detections against used truths of any class.
template <class Policy>
class ImageCandidates {
public:
    // `is_relative`: whether similarities are relative to the sizes of the detections.
    ImageCandidates(const Policy& policy, const UsedRows& detections, const UsedRows& truths, size_t num_images,
                    const CandidateFinder<Policy>& finder, bool is_relative = false)
        : policy_(policy), detections_(detections), truths_(truths), num_images_(num_images), finder_(finder),
          is_relative_(is_relative) {}

    // The truths of one image, and the candidates of one of its detections. Buffers of one thread.
    struct Workspace {
        CandidateList<Policy> candidates;
        std::vector<typename Policy::Shape> shape;  // of each truth
        std::vector<uint8_t> is_relative;           // as in TruthShapes
        std::vector<uint32_t> row;                  // of each truth

        TruthShapes<Policy> shapes() const { return {shape.data(), is_relative.data()}; }

        TruthGroup<Policy> group;
        std::vector<uint32_t> detection_rows;
        std::vector<uint8_t> is_free;  // of each truth
    };

    // Call `work(workspace)` for each image with used detections and used truths.
    template <class Work>
    void for_each_image(const Run& run, Work work) const {
        constexpr size_t kImagesPerTask = 64;
        const Groups by_image = group(detections_.image, detections_.size, num_images_);
        const Groups truths_by_image = group(truths_.image, truths_.size, num_images_);
        for_each_task(
            (num_images_ + kImagesPerTask - 1) / kImagesPerTask, run,
            [&] { return Workspace{finder_.make_list(), {}, {}, {}, {}, {}, {}}; },
            [&](size_t task, Workspace& space) {
                const size_t end = std::min(num_images_, (task + 1) * kImagesPerTask);
                for (size_t image = task * kImagesPerTask; image < end; ++image) {
                    collect(by_image, detections_.is_used, image, space.detection_rows);
                    collect(truths_by_image, truths_.is_used, image, space.row);
                    if (space.detection_rows.empty() || space.row.empty()) continue;
                    start_image(space);
                    work(space);
                }
            });
    }

    // Find the candidates of a detection, sorted by falling similarity, ties by row.
    void find(uint32_t detection_row, Workspace& space, const Run& run) const {
        constexpr size_t kMany = 1000;  // from here on, check for an interruption at each detection
        if (space.row.size() > kMany) run.check();
        const auto shape = policy_.detection(detection_row);
        finder_.look_up([&](uint32_t) BOXSCORE_INLINE -> const auto& { return shape; }, 1, space.group, space.candidates);
        finder_.find(0, shape, space.shapes(), space.group, space.candidates);
    }

private:
    static void collect(const Groups& by_image, const uint8_t* is_used, size_t image, std::vector<uint32_t>& rows) {
        rows.clear();
        for (uint32_t i = by_image.start[image]; i < by_image.start[image + 1]; ++i) {
            if (is_used[by_image.at(i)] != 0) rows.push_back(by_image.at(i));
        }
    }

    void start_image(Workspace& space) const {
        space.shape.clear();
        for (const uint32_t row : space.row) space.shape.push_back(policy_.truth(row));
        space.is_relative.assign(space.row.size(), is_relative_);
        space.is_free.assign(space.row.size(), 1);
        finder_.start_image(space.row.size(), space.candidates);
        space.group = finder_.add_group(space.shapes(), 0, static_cast<uint32_t>(space.row.size()), space.candidates);
    }

    const Policy& policy_;
    const UsedRows &detections_, &truths_;
    size_t num_images_;
    const CandidateFinder<Policy>& finder_;
    const bool is_relative_;
};

// Write the nearest truth of each detection in its own class, and in the other classes. Rows that are not used get -1 and 0.
template <class Policy>
void find_nearest(const Policy& policy, const UsedRows& detections, const UsedRows& truths, size_t num_images, const Run& run,
                  const Nearest& own, const Nearest& other) {
    for (const Nearest& nearest : {own, other}) {
        std::fill(nearest.truth, nearest.truth + detections.size, -1);
        std::fill(nearest.similarity, nearest.similarity + detections.size, 0.0);
    }
    const std::vector<double> cutoffs{0};
    const CandidateFinder<Policy> finder(policy, cutoffs, /* is_strict = */ true, /* is_last_first = */ false);
    const ImageCandidates<Policy> images(policy, detections, truths, num_images, finder);
    images.for_each_image(run, [&](auto& space) {
        for (const uint32_t row : space.detection_rows) {
            images.find(row, space, run);
            for (const Candidate& candidate : space.candidates) {
                const uint32_t truth_row = space.row[candidate.truth];
                const Nearest& nearest = truths.label[truth_row] == detections.label[row] ? own : other;
                if (nearest.truth[row] >= 0) continue;
                nearest.truth[row] = static_cast<int32_t>(truth_row);
                nearest.similarity[row] = candidate.similarity;
            }
        }
    });
}

// Pairs of rows with their similarities.
struct SimilarPairs {
    std::vector<int32_t> detection, truth;
    std::vector<double> similarity;
};

// All pairs of the same image and class that reach the cutoff, of which `rules` has one; sorted by detection row, then falling similarity.
template <class Policy>
SimilarPairs find_pairs(const Policy& policy, const UsedRows& detections, const UsedRows& truths, size_t num_images,
                        bool is_relative, const Rules& rules, const Run& run) {
    const CandidateFinder<Policy> finder(policy, rules.cutoffs, rules.is_strict, /* is_last_first = */ false);
    const ImageCandidates<Policy> images(policy, detections, truths, num_images, finder, is_relative);
    std::vector<std::vector<Candidate>> found(detections.size);  // by detection; `truth` is a row of the truths
    images.for_each_image(run, [&](auto& space) {
        for (const uint32_t row : space.detection_rows) {
            images.find(row, space, run);
            for (const Candidate& candidate : space.candidates) {
                const uint32_t truth_row = space.row[candidate.truth];
                if (truths.label[truth_row] == detections.label[row]) found[row].push_back({candidate.similarity, truth_row, 1});
            }
        }
    });
    SimilarPairs pairs;
    for (size_t row = 0; row < found.size(); ++row) {
        for (const Candidate& candidate : found[row]) {
            pairs.detection.push_back(static_cast<int32_t>(row));
            pairs.truth.push_back(static_cast<int32_t>(candidate.truth));
            pairs.similarity.push_back(candidate.similarity);
        }
    }
    return pairs;
}

// Match detections with truths of other classes. In order of falling score, ties by row, each detection takes the most similar free
// truth that reaches the cutoff, of which `rules` has one. Writes the row of the truth of each detection, or -1.
template <class Policy>
void match_across(const Policy& policy, const UsedRows& detections, const double* score, const UsedRows& truths,
                  size_t num_images, const Rules& rules, const Run& run, int32_t* taken) {
    std::fill(taken, taken + detections.size, -1);
    const CandidateFinder<Policy> finder(policy, rules.cutoffs, rules.is_strict, /* is_last_first = */ false);
    const ImageCandidates<Policy> images(policy, detections, truths, num_images, finder);
    images.for_each_image(run, [&](auto& space) {
        std::stable_sort(space.detection_rows.begin(), space.detection_rows.end(),
                         [&](uint32_t a, uint32_t b) { return score[a] > score[b]; });
        for (const uint32_t row : space.detection_rows) {
            images.find(row, space, run);
            for (const Candidate& candidate : space.candidates) {
                const uint32_t truth_row = space.row[candidate.truth];
                if (space.is_free[candidate.truth] == 0 || truths.label[truth_row] == detections.label[row]) continue;
                space.is_free[candidate.truth] = 0;
                taken[row] = static_cast<int32_t>(truth_row);
                break;
            }
        }
    });
}

}  // namespace boxscore
