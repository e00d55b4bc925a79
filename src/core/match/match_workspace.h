// Buffers of the matcher for one image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "match/candidates.h"
#include "match/image_truths.h"
#include "match/ranking.h"
#include "rows/rules.h"

namespace boxscore {

// Buffers of one thread, reused for all of its images.
template <class Policy>
struct MatchWorkspace {
    std::vector<uint32_t> start, end;            // by class: the range of its entries; 0, 0 if it has none
    std::vector<uint64_t> is_present;            // bit set of the classes with detections in this image
    std::vector<int32_t> present;                // these classes, ascending
    std::vector<int32_t> pairs;                  // classes with exactly two detections: the first `num_pairs` elements
    size_t num_pairs = 0;
    std::vector<int32_t> larger;                 // classes with more than two detections
    std::vector<typename Policy::Shape> shapes;  // of this image's detections, in the order of rows
    std::vector<RankEntry> entries;              // of this image's detections, sorted by class, then rank
    std::vector<RankEntry> spare;
    bool is_ranked = false;            // whether scores already descend in the order of rows
    std::vector<uint32_t> limit_rank;  // of each detection; unused where it equals the index among the entries of the class
    ImageTruths<Policy> truths;        // of this image
    std::vector<uint64_t> is_free;     // bits by truth of this image and cell
    CandidateList<Policy> candidates;            // of one detection
    std::vector<Candidate> group_candidates;     // the group truths among them
    std::vector<uint64_t> is_true, is_counted;   // of one detection
    uint32_t taken = 0;                          // the truth that the detection takes in the first cell
    double similarity = 0;                       // with this truth
    std::vector<uint64_t> hit_true, hit_counted;  // words of all hits of the chunk
    std::vector<double> hit_similarity;

    MatchWorkspace(size_t num_classes, size_t num_words, CandidateList<Policy> list)
        : start(num_classes), end(num_classes), is_present(num_classes / kBitsPerWord + 1), pairs(num_classes + 1), candidates(std::move(list)),
          is_true(num_words), is_counted(num_words) {}
};

}  // namespace boxscore
