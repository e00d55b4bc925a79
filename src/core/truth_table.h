// The truths in the order of matching, with what matching needs to know of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "candidates.h"
#include "cells.h"
#include "memory.h"
#include "order.h"
#include "rules.h"
#include "tasks.h"

namespace boxscore {

struct TruthColumns {
    size_t size;
    const int32_t* image;
    const int32_t* label;
    const double* area;   // may be null: those of the shapes
    const uint8_t* kind;  // may be null: all are regular
};

// Image by image, and in each class by class.
template <class Policy>
struct TruthTable {
    std::vector<uint32_t> start;  // of each image
    Buffer<uint32_t> row;         // where each was given
    Buffer<int32_t> label;
    Buffer<typename Policy::Shape> shape;
    Buffer<uint8_t> is_relative;  // as in TruthShapes
    Buffer<uint8_t> kind;
    Buffer<uint64_t> is_regular;  // by cell, num_words per truth; nowhere for a group
    Buffer<uint64_t> state;       // bit a where it counts in area range a
    TruthShapes<Policy> shapes;
    bool has_groups;

    TruthTable(const Policy& policy, const TruthColumns& columns, size_t num_images, size_t num_classes, const Rules& rules,
               const Cells& cells, const Run& run) {
        const size_t size = columns.size, num_words = rules.num_words(), num_areas = rules.num_areas();
        const Groups by_label = group(columns.label, size, num_classes);
        Buffer<int32_t> image(size);
        for (size_t i = 0; i < size; ++i) image[i] = columns.image[by_label.at(static_cast<uint32_t>(i))];
        Groups by_image = group(image.data(), size, num_images);
        row = Buffer<uint32_t>(size);
        label = Buffer<int32_t>(size);
        shape = Buffer<typename Policy::Shape>(size);
        is_relative = Buffer<uint8_t>(size);
        kind = Buffer<uint8_t>(size);
        is_regular = Buffer<uint64_t>(size * num_words);
        state = Buffer<uint64_t>(size);
        constexpr size_t kBlock = size_t{1} << 14;
        for_each_task((size + kBlock - 1) / kBlock, run, [] { return 0; }, [&](size_t block, int) {
            for (size_t g = block * kBlock, end = std::min(size, g + kBlock); g < end; ++g) {
                const uint32_t from = by_label.at(by_image.at(static_cast<uint32_t>(g)));
                row[g] = from;
                label[g] = columns.label[from];
                kind[g] = columns.kind == nullptr ? uint8_t{kRegular} : columns.kind[from];
                shape[g] = policy.truth(from);
                is_relative[g] = boxscore::is_relative(kind[g]);
                state[g] = 0;
                std::fill_n(is_regular.data() + g * num_words, num_words, 0);
                if (kind[g] != kRegular && !(kind[g] == kGroup && rules.is_group_counted)) continue;
                const double area = columns.area == nullptr ? policy.area(shape[g]) : columns.area[from];
                for (size_t a = 0; a < num_areas; ++a) {
                    const uint64_t is_inside = (rules.area_low[a] <= area) & (area <= rules.area_high[a]);
                    state[g] |= is_inside << a;
                    for (size_t w = 0; w < num_words && kind[g] == kRegular; ++w) {
                        is_regular[g * num_words + w] |= cells.of_area[a * num_words + w] & -is_inside;
                    }
                }
            }
        });
        start = std::move(by_image.start);
        shapes = {shape.data(), is_relative.data()};
        has_groups = std::find(kind.data(), kind.data() + size, kGroup) != kind.data() + size;
    }
};

}  // namespace boxscore
