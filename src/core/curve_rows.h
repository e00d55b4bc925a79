// The rows of a tally, grouped by class for the curve builder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "curves.h"
#include "memory.h"
#include "order.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

// A detection as curves need it: the key that it is sorted by, and its verdict.
template <class State>
struct Row {
    uint64_t key;  // ascends as scores fall
    uint32_t hit;  // its index among the hits, if it is one
    uint8_t tier;
    State state;
};

// The detections of all classes, class by class, each class by image and rank.
template <class State>
struct Rows {
    std::vector<uint32_t> start;  // of each class
    Buffer<Row<State>> row;
};

// A counting sort by class, stable, in blocks: the offsets of the rows of each block follow from the counts of all blocks.
template <class Score, class State>
Rows<State> group_by_class(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const Run& run) {
    struct Block {
        const TallyColumns<Score, State>* part;
        size_t begin, end;
    };
    std::vector<Block> blocks;
    size_t size = 0;
    const size_t num_in_part = parts.size() == 1 ? run.num_threads : 1;
    for (const auto& part : parts) {
        size += part.size;
        for (size_t i = 0; i < num_in_part; ++i) {
            blocks.push_back({&part, part.size * i / num_in_part, part.size * (i + 1) / num_in_part});
        }
    }
    auto for_each_block = [&](auto work) {
        for_each_task(blocks.size(), run, [] { return 0; }, [&](size_t block, int) { work(block, *blocks[block].part); });
    };
    const auto& first = parts.front();
    const size_t num_classes = first.num_classes;
    const Groups by_image = first.image == nullptr ? Groups{} : group(first.image, first.size, first.num_images);

    std::vector<uint32_t> next(blocks.size() * num_classes), first_hit(blocks.size() + 1);
    for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
        uint32_t num_hits = 0;
        for (size_t i = blocks[block].begin; i < blocks[block].end; ++i) {
            ++next[block * num_classes + part.label[by_image.at(static_cast<uint32_t>(i))]];
            num_hits += part.state[i] & 1;
        }
        first_hit[block + 1] = num_hits;
    });
    Rows<State> rows;
    uint32_t position = 0;
    for (size_t k = 0; k < num_classes; ++k) {
        rows.start.push_back(position);
        for (size_t block = 0; block < blocks.size(); ++block) {
            position += std::exchange(next[block * num_classes + k], position);
        }
    }
    rows.start.push_back(position);
    for (size_t block = 0; block < blocks.size(); ++block) first_hit[block + 1] += first_hit[block];

    // Hits are numbered in the order of rows. Where that is not the order of images, the numbers are needed first.
    std::vector<uint32_t> hit(by_image.row.size());
    if (!hit.empty()) {
        for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
            uint32_t num_hits = first_hit[block];
            for (size_t i = blocks[block].begin; i < blocks[block].end; ++i) {
                hit[i] = num_hits;
                num_hits += part.state[i] & 1;
            }
        });
    }
    rows.row = Buffer<Row<State>>(size);
    // Columns are read again here. Should another thread have changed them since, indices stay within their bounds.
    const auto last_hit = static_cast<uint32_t>(std::max<size_t>(first.num_hits, 1) - 1);
    const auto last_tier = static_cast<uint8_t>(rules.num_limits() - 1);
    const auto known = static_cast<State>(((uint64_t{1} << rules.num_areas()) - 1) << 1 | (first.num_hits > 0));
    for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
        uint32_t num_hits = first_hit[block];
        for (size_t position = blocks[block].begin; position < blocks[block].end; ++position) {
            const uint32_t i = by_image.at(static_cast<uint32_t>(position));
            const auto state = static_cast<State>(part.state[i] & known);
            rows.row[next[block * num_classes + part.label[i]]++] = {
                falling_key(part.score[i]), std::min(hit.empty() ? num_hits : hit[i], last_hit),
                std::min(part.tier[i], last_tier), state};
            num_hits += state & 1;
        }
    });
    return rows;
}

}  // namespace boxscore
