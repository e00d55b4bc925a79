// The truths of one image in the order of matching, with their shapes, kinds and area ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "match/candidates.h"
#include "rows/area_ranges.h"
#include "rows/cells.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

struct TruthColumns {
    size_t size;
    const Groups* by_image;
    const int32_t* label;  // indices among the classes
    const double* area;   // null: the areas of the shapes
    const uint8_t* kind;  // null: all are regular
};

// Sort key of a truth.
struct TruthEntry {
    int32_t label;
    uint32_t index;  // in its image
};

// Truths sorted by class, then row. Buffers of one thread.
template <class Policy>
struct ImageTruths {
    uint32_t first = 0;  // position of the first one among the truths of all images, sorted by image
    std::vector<TruthEntry> entries;
    std::vector<typename Policy::Shape> given_shape;  // in the order of rows
    std::vector<typename Policy::Shape> shape;
    std::vector<uint8_t> is_relative;  // as in TruthShapes
    std::vector<uint8_t> kind;
    std::vector<uint64_t> is_regular;  // bits by cell, num_words per truth: a regular truth within the area range; 0 for other kinds
    std::vector<uint64_t> state;       // bit a: the truth counts in area range a
    bool has_groups = false;

    std::vector<TruthEntry> spare;  // scratch of the sort by class
    std::vector<uint32_t> next;     // of each class: the position of its next truth, while sorting

    // Resize all columns to `size` truths; existing elements stay.
    void grow(size_t size, size_t num_words) {
        given_shape.resize(size);
        shape.resize(size);
        is_relative.resize(size);
        kind.resize(size);
        is_regular.resize(size * num_words);
        state.resize(size);
    }

    uint32_t size() const { return static_cast<uint32_t>(entries.size()); }
    TruthShapes<Policy> shapes() const { return {shape.data(), is_relative.data()}; }
};

template <class Policy>
class TruthReader {
public:
    TruthReader(const Policy& policy, const TruthColumns& columns, size_t num_classes, const Rules& rules, const Cells& cells)
        : policy_(policy), columns_(columns), num_classes_(num_classes), rules_(rules), cells_(cells), ranges_(rules),
          by_image_(*columns.by_image) {}

    // Input row of the truth at this position among the truths of all images, sorted by image.
    uint32_t row(uint32_t position) const { return by_image_.at(position); }

    void read(size_t image, ImageTruths<Policy>& truths) const {
        const uint32_t begin = by_image_.start[image], size = by_image_.start[image + 1] - begin;
        truths.first = begin;
        truths.entries.resize(size);
        if (truths.state.size() < size) truths.grow(size, cells_.num_words);
        for (uint32_t i = 0; i < size; ++i) {  // sequential reads
            const uint32_t row = by_image_.at(begin + i);
            truths.entries[i] = {columns_.label[row], i};
            truths.given_shape[i] = policy_.truth(row);
        }
        sort_by_class(truths);
        truths.has_groups = false;
        for (uint32_t g = 0; g < size; ++g) measure(begin, g, truths);
    }

private:
    // Sort by class, stably: an insertion sort of few truths, a counting sort of many.
    void sort_by_class(ImageTruths<Policy>& truths) const {
        std::vector<TruthEntry>& entries = truths.entries;
        const auto is_before = [](const TruthEntry& a, const TruthEntry& b) { return a.label < b.label; };
        if (entries.size() <= kFew) return insertion_sort(entries.data(), entries.data() + entries.size(), is_before);
        if (std::is_sorted(entries.begin(), entries.end(), is_before)) return;
        truths.spare.assign(entries.begin(), entries.end());
        truths.next.assign(num_classes_ + 1, 0);
        for (const TruthEntry& entry : truths.spare) ++truths.next[entry.label + 1];
        for (size_t k = 0; k < num_classes_; ++k) truths.next[k + 1] += truths.next[k];
        for (const TruthEntry& entry : truths.spare) entries[truths.next[entry.label]++] = entry;
    }

    void measure(uint32_t begin, uint32_t g, ImageTruths<Policy>& truths) const {
        const uint32_t index = truths.entries[g].index, row = by_image_.at(begin + index);
        const uint8_t kind = columns_.kind == nullptr ? uint8_t{kRegular} : columns_.kind[row];
        const auto shape = truths.given_shape[index];
        const bool is_counted = kind == kRegular || (kind == kGroup && rules_.is_group_counted);
        const double area = columns_.area == nullptr ? policy_.area(shape) : columns_.area[row];
        const uint64_t state = is_counted ? ranges_.find(area) : 0;
        truths.shape[g] = shape;
        truths.kind[g] = kind;
        truths.is_relative[g] = boxscore::is_relative(kind);
        truths.state[g] = state;
        truths.has_groups |= kind == kGroup;
        for (size_t w = 0; w < cells_.num_words; ++w) {
            truths.is_regular[g * cells_.num_words + w] = kind == kRegular ? cells_.of_areas(state, w) : 0;
        }
    }

    const Policy& policy_;
    const TruthColumns& columns_;
    const size_t num_classes_;
    const Rules& rules_;
    const Cells& cells_;
    const AreaRanges ranges_;
    const Groups& by_image_;
};

}  // namespace boxscore
