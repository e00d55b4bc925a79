// Masks as bits, for as long as they are compared: what two have in common is an AND and a count of bits.
//
// A bitmap has the pixels of an outer box, in stripes of 64 rows: a word is a part of a column. Stripes begin at multiples of 64 of
// the image, so the words of two masks of one image lie one upon the other.
//
//     row 0 … 63     ┌────┬────┬────┬────┐    words, stripe by stripe:  first stripe, all columns | second stripe, all columns | …
//     row 64 … 127   ├────┼────┼────┼────┤
//                    └────┴────┴────┴────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/runs.h"

namespace boxscore {

class Bitmap {
public:
    static constexpr uint32_t kRows = 64;  // of a stripe

    // How many words the pixels of a box take.
    static size_t num_words(const MaskBox& box) { return size_t{stripes_end(box) - box.top / kRows} * box.width; }

    // The pixels of validated counts; `box` is around those that are on.
    void draw(const Runs& runs, uint32_t height, const MaskBox& box);

    // Takes away what is inside by more than `width` pixels: what is left is as near as that to a pixel that is off, or to the
    // border of the image. Distances are along the longer axis.
    void keep_boundary(uint32_t width);

    uint64_t area() const;
    // The number of pixels that are in this mask and in validated counts, which need not be drawn for it.
    uint64_t count_under(const Runs& runs, uint32_t height) const;
    friend uint64_t count_common(const Bitmap& a, const Bitmap& b);

private:
    static uint32_t stripes_end(const MaskBox& box) { return box.height == 0 ? box.top / kRows : (box.bottom() - 1) / kRows + 1; }
    void and_with_right(uint32_t distance);
    void and_with_below(uint32_t distance);
    void shift(uint32_t distance);
    uint64_t* stripe(uint32_t index) { return words_.data() + size_t{index - first_stripe_} * num_columns_; }
    const uint64_t* stripe(uint32_t index) const { return words_.data() + size_t{index - first_stripe_} * num_columns_; }

    uint32_t left_ = 0, num_columns_ = 0;
    uint32_t first_stripe_ = 0, end_stripe_ = 0;
    std::vector<uint64_t> words_;
};

// The number of pixels that are in both.
uint64_t count_common(const Bitmap& a, const Bitmap& b);

}  // namespace boxscore
