// The rows that matching writes, by chunks of images, and functions that count and concatenate them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "platform/memory.h"
#include "platform/tasks.h"
#include "rows/order.h"

namespace boxscore {

// Indices of the input rows behind a tally; empty unless `is_wanted`.
struct TraceColumns {
    bool is_wanted = false;
    Buffer<int64_t> row;              // the input row of each detection
    Buffer<int64_t> taken;            // the input row of the truth that it takes in the first cell; -1: none
    Buffer<double> taken_similarity;  // with this truth; NaN: none
    Buffer<int64_t> truth_row;        // the input row of each truth

    TraceColumns() = default;
    TraceColumns(size_t num_detections, size_t num_truths)
        : is_wanted(true), row(num_detections), taken(num_detections), taken_similarity(num_detections), truth_row(num_truths) {}
};

// Verdicts, one row per detection: sorted by image, then class, then rank. Bit 0 of a state marks a hit. A state without it has
// bit 1 + a set if the detection is a false positive in area range a. The verdicts of hits are in `is_true` and `is_counted`, one
// bit per cell, in the order of their rows.
template <class Score, class State>
struct TallyRows {
    const int32_t *image_id, *label_id;  // the id that is written for each index
    int32_t* image;  // null: not written
    int32_t* label;
    Score* score;
    uint8_t* tier;  // the first limit that the detection's rank is within
    State* state;
    Buffer<uint64_t> is_true, is_counted;           // num_words per hit
    Buffer<int32_t> truth_image, truth_label;       // of each truth, sorted by image, then class
    Buffer<State> truth_state;                      // bit a: the truth counts in area range a
    std::vector<double> similarity;                 // of each hit in the first cell; 0 if not true there; empty if not wanted
    TraceColumns trace;
    size_t size = 0;
};

// Number of truths that count, by class and area range. `label` holds class indices.
template <class State>
std::vector<int64_t> count_truths(const int32_t* label, const State* state, size_t size, size_t num_classes,
                                  size_t num_areas) {
    std::vector<int64_t> count(num_classes * num_areas);
    for (size_t g = 0; g < size; ++g) {
        for (size_t a = 0; a < num_areas; ++a) count[label[g] * num_areas + a] += state[g] >> a & 1;
    }
    return count;
}

// Consecutive images that one thread matches as one task. `first_row` assumes that every detection of earlier images has a row.
struct MatchChunk {
    size_t first_image, end_image;
    size_t first_row, num_rows = 0;
    Buffer<uint64_t> words;  // `is_true` of all hits, then `is_counted` of all hits
    std::vector<double> similarity;

    size_t num_words() const { return words.size() / 2; }
};

// Cut the images into chunks: small enough that threads finish at about the same time, and independent of the number of threads.
inline std::vector<MatchChunk> cut_into_chunks(const Groups& by_image, size_t num_images) {
    constexpr size_t kLeastRows = size_t{1} << 11, kMostRows = size_t{1} << 14;
    const size_t rows_per_chunk = std::min(std::max(size_t{by_image.start[num_images]} / 32, kLeastRows), kMostRows);
    std::vector<MatchChunk> chunks;
    for (size_t image = 0; image < num_images;) {
        MatchChunk chunk{};
        chunk.first_image = image;
        chunk.first_row = by_image.start[image];
        while (image < num_images && by_image.start[image + 1] - chunk.first_row <= rows_per_chunk) ++image;
        if (image == chunk.first_image) ++image;
        chunk.end_image = image;
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

// Close the gaps that dropped detections leave between chunks, and concatenate the verdicts of hits.
template <class Score, class State>
void close_gaps(const std::vector<MatchChunk>& chunks, const Run& run, TallyRows<Score, State>& tally) {
    std::vector<size_t> first_word{0};
    for (const MatchChunk& chunk : chunks) {
        if (chunk.first_row != tally.size) {
            auto move = [&](auto* column) {
                std::copy(column + chunk.first_row, column + chunk.first_row + chunk.num_rows, column + tally.size);
            };
            if (tally.image != nullptr) move(tally.image);
            move(tally.label), move(tally.score), move(tally.tier), move(tally.state);
            if (tally.trace.is_wanted) {
                move(tally.trace.row.data()), move(tally.trace.taken.data()), move(tally.trace.taken_similarity.data());
            }
        }
        tally.size += chunk.num_rows;
        tally.similarity.insert(tally.similarity.end(), chunk.similarity.begin(), chunk.similarity.end());
        first_word.push_back(first_word.back() + chunk.num_words());
    }
    tally.is_true = Buffer<uint64_t>(first_word.back());
    tally.is_counted = Buffer<uint64_t>(first_word.back());
    constexpr size_t kFewWords = size_t{1} << 16;  // copying these takes less time than waking a thread
    const Run run_words = first_word.back() < kFewWords ? run.on_one_thread() : run;
    for_each_task(chunks.size(), run_words, [] { return 0; }, [&](size_t task, int) {
        const uint64_t* const words = chunks[task].words.data();
        const size_t num_words = chunks[task].num_words();
        std::copy_n(words, num_words, tally.is_true.data() + first_word[task]);
        std::copy_n(words + num_words, num_words, tally.is_counted.data() + first_word[task]);
    });
}

}  // namespace boxscore
