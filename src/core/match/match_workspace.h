// What the matcher writes while it matches one image.
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

// A thread's own memory; sized once, cleaned up after each image.
template <class Policy>
struct MatchWorkspace {
    std::vector<uint32_t> start, end;            // by class: its entries; both 0 for classes without any
    std::vector<uint64_t> is_present;            // classes with detections in this image, in bits
    std::vector<int32_t> present;                // the same, ascending
    std::vector<int32_t> pairs;                  // the first `num_pairs` are those of them with exactly two
    size_t num_pairs = 0;
    std::vector<int32_t> larger;                 // those of them with more than two
    std::vector<typename Policy::Shape> shapes;  // of the detections of this image
    std::vector<RankEntry> entries;              // of this image, class by class
    std::vector<RankEntry> spare;
    bool is_ranked = false;            // whether scores fall in the order of rows, as many detectors give them
    std::vector<uint32_t> limit_rank;  // of each detection, where it is not its index among the entries of its class
    ImageTruths<Policy> truths;        // of this image
    std::vector<uint64_t> is_free;     // by truth of this image and cell
    CandidateList<Policy> candidates;            // of one detection
    std::vector<Candidate> group_candidates;     // the groups among them
    std::vector<uint64_t> is_true, is_counted;   // of one detection
    uint32_t taken = 0;                          // the truth of this image that one detection takes in the first cell
    double similarity = 0;                       // of the two
    std::vector<uint64_t> hit_true, hit_counted;  // the words of all hits of a chunk
    std::vector<double> hit_similarity;

    MatchWorkspace(size_t num_classes, size_t num_words, CandidateList<Policy> list)
        : start(num_classes), end(num_classes), is_present(num_classes / kBitsPerWord + 1), pairs(num_classes + 1), candidates(std::move(list)),
          is_true(num_words), is_counted(num_words) {}
};

}  // namespace boxscore
