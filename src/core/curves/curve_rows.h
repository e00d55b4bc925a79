// The rows of a tally, grouped by class, whose hits are to be ordered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "curves/tally_columns.h"
#include "platform/memory.h"
#include "platform/tasks.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

// A detection as curves need it: the key that it is sorted by, and its verdict.
template <class State>
struct Row {
    uint64_t key;  // ascends as scores fall
    uint32_t hit;  // hits before it, of all classes, in the order of images: the number of a hit
    uint8_t tier;
    State state;
};

// The detections of all classes, class by class: the hits of a class, then its others, both by image and rank.
//
//     row     [ hits of class 0 | others of class 0 | hits of class 1 | others of class 1 | … ]
//     start     0                 1                   2                 3                   …
template <class State>
struct Rows {
    std::vector<uint32_t> start;
    Buffer<Row<State>> row;
    std::vector<uint32_t> word_indices;  // of each hit; empty: words are in the order of hits

    size_t num_hits(size_t label) const { return start[2 * label + 1] - start[2 * label]; }
    size_t num_others(size_t label) const { return start[2 * label + 2] - start[2 * label + 1]; }
    // Where the words of a hit stand.
    size_t word_index(const Row<State>& row) const { return word_indices.empty() ? row.hit : word_indices[row.hit]; }
    const Row<State>* hits(size_t label) const { return row.data() + start[2 * label]; }
    const Row<State>* others(size_t label) const { return row.data() + start[2 * label + 1]; }
};

// A counting sort by class and by whether a row is a hit, stable, in blocks of rows: the offsets of the rows of each block follow
// from the counts of all blocks.
template <class Score, class State>
Rows<State> group_by_class(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const Run& run) {
    using Part = TallyColumns<Score, State>;
    std::vector<size_t> part_start{0};
    for (const Part& part : parts) part_start.push_back(part_start.back() + part.size);
    const Part& first = parts.front();
    const size_t size = part_start.back(), num_blocks = run.num_threads, num_groups = 2 * first.num_classes;
    const Groups by_image = first.image == nullptr ? Groups{} : group(first.image, first.size, first.num_images);
    // Calls `work` with the parts of the rows of a block.
    auto for_each_block = [&](auto work) {
        for_each_task(num_blocks, run, [] { return 0; }, [&](size_t block, int) {
            const size_t begin = size * block / num_blocks, end = size * (block + 1) / num_blocks;
            size_t p = std::upper_bound(part_start.begin(), part_start.end(), begin) - part_start.begin() - 1;
            for (; p < parts.size() && part_start[p] < end; ++p) {
                work(block, parts[p], std::max(begin, part_start[p]) - part_start[p], std::min(end, part_start[p + 1]) - part_start[p]);
            }
        });
    };

    std::vector<std::vector<uint32_t>> next(num_blocks);  // rows of each group, then where the next of them goes
    std::vector<uint32_t> first_hit(num_blocks + 1);
    for_each_block([&](size_t block, const Part& part, size_t begin, size_t end) {
        next[block].resize(num_groups);  // by the thread that counts in it: so no two threads write to one line of the cache
        uint32_t* const num_rows = next[block].data();
        uint32_t num_hits = 0;
        for (size_t position = begin; position < end; ++position) {
            const uint32_t i = by_image.at(static_cast<uint32_t>(position));
            ++num_rows[2 * part.label[i] + !(part.state[i] & 1)];
            num_hits += part.state[i] & 1;
        }
        first_hit[block + 1] += num_hits;
    });
    Rows<State> rows;
    uint32_t position = 0;
    for (size_t k = 0; k < num_groups; ++k) {
        rows.start.push_back(position);
        for (std::vector<uint32_t>& of_block : next) {
            if (!of_block.empty()) position += std::exchange(of_block[k], position);
        }
    }
    rows.start.push_back(position);
    for (size_t block = 0; block < num_blocks; ++block) first_hit[block + 1] += first_hit[block];

    // Words are in the order of rows. Where that is not the order of images, it is remembered where the words of each hit are.
    if (!by_image.row.empty()) {
        std::vector<uint32_t> num_before(size + 1);
        for (size_t i = 0; i < size; ++i) num_before[i + 1] = num_before[i] + (first.state[i] & 1);
        for (const uint32_t i : by_image.row) {
            if (num_before[i] < num_before[i + 1]) rows.word_indices.push_back(num_before[i]);
        }
    }
    rows.row = Buffer<Row<State>>(size);
    const auto last_tier = static_cast<uint8_t>(rules.num_limits() - 1);  // whatever another thread has written meanwhile
    for_each_block([&](size_t block, const Part& part, size_t begin, size_t end) {
        constexpr size_t kAhead = 8;  // rows of a group: those to come are asked for, as writing waits for memory, too
        // `uint8_t` stores may alias anything; hoist loads into locals so that the loop vectorizes.
        const uint32_t* const order = by_image.row.empty() ? nullptr : by_image.row.data();
        const int32_t* const labels = part.label;
        const Score* const scores = part.score;
        const uint8_t* const tiers = part.tier;
        const State* const states = part.state;
        uint32_t* const next_of_group = next[block].data();
        Row<State>* const row = rows.row.data();
        uint32_t num_hits = first_hit[block];
        for (size_t position = begin; position < end; ++position) {
            const size_t i = order == nullptr ? position : order[position];
            const State state = states[i];
            const uint32_t to = next_of_group[2 * labels[i] + !(state & 1)]++;
            prefetch(row + to + kAhead);
            row[to] = {falling_key(scores[i]), num_hits, std::min(tiers[i], last_tier), state};
            num_hits += state & 1;
        }
        first_hit[block] = num_hits;
    });
    return rows;
}

}  // namespace boxscore
