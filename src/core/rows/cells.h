// Cells: one bit per area range and threshold, in words of 64.
//
//     bit   0 … T - 1            T … 2T - 1           …   A·T - 1
//           area range 0,        area range 1,            area range A - 1,
//           all thresholds       all thresholds           last threshold
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows/rules.h"

namespace boxscore {

// Bit sets of cells, num_words each.
struct Cells {
    size_t num_words, num_areas;
    std::vector<uint64_t> of_area;  // by area range: the cells of all its thresholds
    std::vector<uint64_t> reached;  // by number of reached thresholds: their cells in all area ranges

    explicit Cells(const Rules& rules) : num_words(rules.num_words()), num_areas(rules.num_areas()) {
        const size_t num_thresholds = rules.num_thresholds();
        of_area.resize(num_areas * num_words);
        reached.resize((num_thresholds + 1) * num_words);
        for (size_t cell = 0; cell < rules.num_cells(); ++cell) {
            const uint64_t bit = uint64_t{1} << cell % kBitsPerWord;
            const size_t word = cell / kBitsPerWord;
            of_area[cell / num_thresholds * num_words + word] |= bit;
            for (size_t num = cell % num_thresholds + 1; num <= num_thresholds; ++num) {
                reached[num * num_words + word] |= bit;
            }
        }
    }

    // One word of the cells of the area ranges in the bit set `ranges`.
    uint64_t of_areas(uint64_t ranges, size_t word) const {
        uint64_t cells = 0;
        for (size_t a = 0; a < num_areas; ++a) cells |= of_area[a * num_words + word] & -(ranges >> a & 1);
        return cells;
    }
};

}  // namespace boxscore
