// The rows that matching writes, chunk by chunk of images, and what they add up to.
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

// The input rows behind a tally, written only if wanted.
struct TraceColumns {
    bool is_wanted = false;
    Buffer<int64_t> row;              // where each detection was given
    Buffer<int64_t> taken;            // where the truth was given that it takes in the first cell; -1: it takes none
    Buffer<double> taken_similarity;  // of the two; NaN: it takes none
    Buffer<int64_t> truth_row;        // where each truth was given

    TraceColumns() = default;
    TraceColumns(size_t num_detections, size_t num_truths)
        : is_wanted(true), row(num_detections), taken(num_detections), taken_similarity(num_detections), truth_row(num_truths) {}
};

// What becomes of each detection, one row each, images in order and each image class by class in order of rank. A state has bit 0
// for a hit; a detection that is none has bit 1 + a where it counts, as a false positive, in area range a. Hits have their
// verdicts cell by cell in words, in the order of their rows.
template <class Score, class State>
struct TallyRows {
    const int32_t *image_id, *label_id;  // what is written for each index
    int32_t* image;  // may be null: not wanted
    int32_t* label;
    Score* score;
    uint8_t* tier;  // the first limit that the detection's rank is within
    State* state;
    Buffer<uint64_t> is_true, is_counted;           // num_words per hit
    Buffer<int32_t> truth_image, truth_label;       // of each truth, images in order and each image class by class
    Buffer<State> truth_state;                      // bit a where it counts in area range a
    std::vector<double> similarity;                 // of each hit, if wanted: with the truth that makes it true in the first cell
    TraceColumns trace;
    size_t size = 0;
};

// Truths that count, by class and area range, from the indices of their classes and their states.
template <class State>
std::vector<int64_t> count_truths(const int32_t* label, const State* state, size_t size, size_t num_classes,
                                  size_t num_areas) {
    std::vector<int64_t> count(num_classes * num_areas);
    for (size_t g = 0; g < size; ++g) {
        for (size_t a = 0; a < num_areas; ++a) count[label[g] * num_areas + a] += state[g] >> a & 1;
    }
    return count;
}

// A run of images that one thread does in one go; its rows start where those of the images before would end.
struct MatchChunk {
    size_t first_image, end_image;
    size_t first_row, num_rows = 0;
    Buffer<uint64_t> words;  // of its hits: is_true of all of them, then is_counted
    std::vector<double> similarity;

    size_t num_words() const { return words.size() / 2; }
};

// Some chunks per thread, so that one slow image does not keep all waiting; the same for any number of threads.
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

// Closes the gaps that detections without a row left between chunks, and concatenates the verdicts of hits.
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
    constexpr size_t kFewWords = size_t{1} << 16;  // are copied before a thread is woken
    const Run run_words = first_word.back() < kFewWords ? run.on_one_thread() : run;
    for_each_task(chunks.size(), run_words, [] { return 0; }, [&](size_t task, int) {
        const uint64_t* const words = chunks[task].words.data();
        const size_t num_words = chunks[task].num_words();
        std::copy_n(words, num_words, tally.is_true.data() + first_word[task]);
        std::copy_n(words + num_words, num_words, tally.is_counted.data() + first_word[task]);
    });
}

}  // namespace boxscore
