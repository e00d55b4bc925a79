#include "masks/bitmap.h"

#include <algorithm>

#include "platform/processor.h"

namespace boxscore {
namespace {

BOXSCORE_INLINE inline uint64_t count_common_words(const uint64_t* a, const uint64_t* b, size_t num) {
    uint64_t count = 0;
    for (size_t i = 0; i < num; ++i) count += count_bits(a[i] & b[i]);
    return count;
}

BOXSCORE_INLINE inline uint64_t count_words(const uint64_t* words, size_t num) {
    uint64_t count = 0;
    for (size_t i = 0; i < num; ++i) count += count_bits(words[i]);
    return count;
}

// Calls `work(x, y, end)` for the pixels that are on of every column before `end_column`: rows y to end - 1 of column x.
template <class Work>
BOXSCORE_INLINE inline void for_each_piece(const Runs& runs, uint32_t height, uint32_t end_column, Work work) {
    uint32_t x = 0, y = 0;  // of the next pixel
    for (size_t i = 0; i + 1 < runs.size(); i += 2) {
        y += runs[i];
        if (y >= height) {
            y -= height, ++x;
            if (y >= height) x += y / height, y %= height;
        }
        uint32_t num_left = runs[i + 1];
        // A run may go on in the next column.
        for (; num_left > height - y && x < end_column; y = 0, ++x) {
            num_left -= height - y;
            work(x, y, height);
        }
        if (x >= end_column) return;
        if (num_left == 0) continue;
        work(x, y, y + num_left);
        y += num_left;
    }
}

// Calls `use(word, bits)` for the words of a column that have rows y to end - 1, with these rows as bits. `word` is the first of them,
// `stride` the number of words from one stripe to the next.
template <class Word, class Use>
BOXSCORE_INLINE inline void for_each_word(Word* word, size_t stride, uint32_t y, uint32_t end, Use use) {
    constexpr uint32_t kRows = Bitmap::kRows;
    const uint64_t from = ~uint64_t{0} << y % kRows, to = ~uint64_t{0} >> (kRows - 1 - (end - 1) % kRows);
    const uint32_t num_more = (end - 1) / kRows - y / kRows;
    if (num_more == 0) return use(*word, from & to);
    use(*word, from);
    for (uint32_t i = 1; i < num_more; ++i) use(*(word += stride), ~uint64_t{0});
    use(*(word + stride), to);
}

}  // namespace

void Bitmap::draw(const Runs& runs, uint32_t height, const MaskBox& box) {
    left_ = box.left, num_columns_ = box.width;
    first_stripe_ = box.top / kRows, end_stripe_ = stripes_end(box);
    words_.assign(num_words(box), 0);
    if (words_.empty()) return;
    for_each_piece(runs, height, left_ + num_columns_, [&](uint32_t x, uint32_t y, uint32_t end) {
        for_each_word(stripe(y / kRows) + (x - left_), num_columns_, y, end, [](uint64_t& word, uint64_t bits) { word |= bits; });
    });
}

// Ands every pixel with the one `distance` columns to the right, outside of the bitmap off.
void Bitmap::and_with_right(uint32_t distance) {
    const uint32_t num_kept = num_columns_ - std::min(distance, num_columns_);
    for (uint32_t i = first_stripe_; i < end_stripe_; ++i) {
        uint64_t* const words = stripe(i);
        for (uint32_t x = 0; x < num_kept; ++x) words[x] &= words[x + distance];
        std::fill(words + num_kept, words + num_columns_, 0);
    }
}

// Combines each pixel with the one `distance` rows below.
void Bitmap::and_with_below(uint32_t distance) {
    const uint32_t num_stripes = distance / kRows, shift = distance % kRows;
    for (uint32_t i = first_stripe_; i < end_stripe_; ++i) {
        uint64_t* const words = stripe(i);
        const uint64_t* const below = i + num_stripes < end_stripe_ ? stripe(i + num_stripes) : nullptr;
        const uint64_t* const next = i + num_stripes + 1 < end_stripe_ ? stripe(i + num_stripes + 1) : nullptr;
        for (uint32_t x = 0; x < num_columns_; ++x) {
            uint64_t moved = below == nullptr ? 0 : below[x] >> shift;
            if (next != nullptr && shift != 0) moved |= next[x] << (kRows - shift);
            words[x] &= moved;
        }
    }
}

// Moves all pixels to the right and down by `distance`; those beyond the bitmap are lost.
void Bitmap::shift(uint32_t distance) {
    const uint32_t num_kept = num_columns_ - std::min(distance, num_columns_);
    const uint32_t num_stripes = distance / kRows, shift = distance % kRows;
    for (uint32_t i = end_stripe_; i-- > first_stripe_;) {
        uint64_t* const words = stripe(i);
        const uint64_t* const above = i >= first_stripe_ + num_stripes ? stripe(i - num_stripes) : nullptr;
        const uint64_t* const before = i >= first_stripe_ + num_stripes + 1 ? stripe(i - num_stripes - 1) : nullptr;
        for (uint32_t x = num_kept; x-- > 0;) {
            uint64_t moved = above == nullptr ? 0 : above[x] << shift;
            if (before != nullptr && shift != 0) moved |= before[x] >> (kRows - shift);
            words[x + num_columns_ - num_kept] = moved;
        }
        std::fill(words, words + (num_columns_ - num_kept), 0);
    }
}

// A pixel stays inside if all of the square around it is on. A square of side n is on at its upper left corner, if those of side m
// are on at that corner and n - m further to the right and down; so its side doubles with each step.
void Bitmap::keep_boundary(uint32_t width) {
    if (words_.empty()) return;
    std::vector<uint64_t> all = words_;
    uint32_t side = 1;
    for (const uint32_t whole = 2 * width + 1; side < whole;) {
        const uint32_t step = std::min(side, whole - side);
        and_with_right(step);
        and_with_below(step);
        side += step;
    }
    shift(width);
    for (size_t i = 0; i < words_.size(); ++i) words_[i] = all[i] & ~words_[i];
}

uint64_t Bitmap::count_under(const Runs& runs, uint32_t height) const {
    const uint64_t top = uint64_t{first_stripe_} * kRows, bottom = uint64_t{end_stripe_} * kRows;
    return per_processor([&]() BOXSCORE_INLINE {
        uint64_t count = 0;
        const auto count_word = [&](uint64_t word, uint64_t bits) BOXSCORE_INLINE { count += count_bits(word & bits); };
        for_each_piece(runs, height, left_ + num_columns_, [&](uint32_t x, uint32_t y, uint32_t end) BOXSCORE_INLINE {
            y = static_cast<uint32_t>(std::max<uint64_t>(y, top)), end = static_cast<uint32_t>(std::min<uint64_t>(end, bottom));
            if (x < left_ || y >= end) return;
            for_each_word(stripe(y / kRows) + (x - left_), num_columns_, y, end, count_word);
        });
        return count;
    });
}

uint64_t Bitmap::area() const {
    return per_processor([&]() BOXSCORE_INLINE { return count_words(words_.data(), words_.size()); });
}

uint64_t count_common(const Bitmap& a, const Bitmap& b) {
    const uint32_t left = std::max(a.left_, b.left_);
    const uint32_t right = std::min(a.left_ + a.num_columns_, b.left_ + b.num_columns_);
    if (left >= right) return 0;
    const uint32_t first = std::max(a.first_stripe_, b.first_stripe_), end = std::min(a.end_stripe_, b.end_stripe_);
    return per_processor([&]() BOXSCORE_INLINE {
        uint64_t count = 0;
        for (uint32_t i = first; i < end; ++i) {
            count += count_common_words(a.stripe(i) + (left - a.left_), b.stripe(i) + (left - b.left_), right - left);
        }
        return count;
    });
}

}  // namespace boxscore
