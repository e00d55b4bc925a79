// Masks as run lengths: pixels column by column, so many off, so many on, so many off, and so on.
//
//     pixels          counts           compressed (COCO's)
//     . . . .
//     . # # .    4 2 1 2 3             "42102": from the fourth on, the difference to the count two before
//     . # # .    off on off on off
//
// Compressed counts have five bits per character, the lowest first; the sixth bit says that another character follows, the fifth
// bit of the last one is the sign.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace boxscore {

using Runs = std::vector<uint32_t>;

// Positions of pixels have 32 bits.
inline constexpr uint64_t kMostPixels = std::numeric_limits<uint32_t>::max();

struct MaskSize {
    uint32_t height = 0, width = 0;

    uint64_t num_pixels() const { return uint64_t{height} * width; }
    bool operator==(const MaskSize& other) const { return height == other.height && width == other.width; }
    bool operator!=(const MaskSize& other) const { return !(*this == other); }
};

// Why counts are no mask of a size.
enum class RunsError : uint8_t { none, character, truncated, negative, beyond, short_of };
// The rule that was broken, as it follows the name of what has it.
std::string rule_of(RunsError error, MaskSize size);

// The smallest upright box around the pixels that are on.
struct MaskBox {
    uint32_t left = 0, top = 0, width = 0, height = 0;

    uint32_t right() const { return left + width; }
    uint32_t bottom() const { return top + height; }
};

// What two boxes have in common.
inline uint64_t common_area(const MaskBox& a, const MaskBox& b) {
    const uint32_t left = std::max(a.left, b.left), right = std::min(a.right(), b.right());
    const uint32_t top = std::max(a.top, b.top), bottom = std::min(a.bottom(), b.bottom());
    return left < right && top < bottom ? uint64_t{right - left} * (bottom - top) : 0;
}

// Area and box of a mask, from one count after the other.
class MaskMeter {
public:
    explicit MaskMeter(MaskSize size) : height_(size.height), left_(size.width), top_(size.height) {}

    void add(uint32_t count) {
        const size_t run = num_runs_++;
        if (count == 0) {
            has_empty_ |= run > 0;
            return;
        }
        const uint32_t column = x_, row = y_;
        move(count);
        if (run % 2 == 0) return;
        num_on_ += count;
        left_ = column < left_ ? column : left_;
        // The last pixel is one before where the next run begins.
        const bool is_at_top = y_ == 0;
        right_ = is_at_top ? x_ : x_ + 1;
        const uint32_t last_row = is_at_top ? height_ : y_;
        if (column + 1 < right_) {
            top_ = 0, bottom_ = height_;
        } else {
            top_ = row < top_ ? row : top_;
            bottom_ = last_row > bottom_ ? last_row : bottom_;
        }
    }

    uint32_t area() const { return num_on_; }
    // Whether a run other than the first has no pixels, so that the same mask has fewer runs.
    bool has_empty_run() const { return has_empty_; }
    MaskBox box() const { return num_on_ == 0 ? MaskBox{} : MaskBox{left_, top_, right_ - left_, bottom_ - top_}; }

private:
    void move(uint32_t count) {
        y_ += count;
        if (y_ < height_ && y_ >= count) return;
        // A run is seldom longer than a column; only then is it divided.
        uint64_t y = y_ >= count ? y_ : uint64_t{y_} + (uint64_t{1} << 32);
        if (height_ == 0) return;
        if (y < 2 * uint64_t{height_}) {
            ++x_;
            y_ = static_cast<uint32_t>(y - height_);
        } else {
            x_ += static_cast<uint32_t>(y / height_);
            y_ = static_cast<uint32_t>(y % height_);
        }
    }

    uint32_t height_;
    uint32_t x_ = 0, y_ = 0;  // of the next pixel
    uint32_t left_, top_, right_ = 0, bottom_ = 0;
    uint32_t num_on_ = 0;
    size_t num_runs_ = 0;
    bool has_empty_ = false;
};

// One compressed count from characters. `next()` gives the next character, or a negative number at the end.
struct CountReader {
    static constexpr int kFirst = 48, kMore = 32, kSign = 16, kBits = 5, kMostCharacters = 7;

    // Reads a count that begins with `c`, without what is added to it.
    template <class Next>
    static RunsError read(int c, Next next, int64_t& value) {
        c -= kFirst;
        if (static_cast<unsigned>(c) >= 64) return RunsError::character;
        value = c & 31;
        int shift = kBits;
        while ((c & kMore) != 0) {
            const int more = next();
            if (more < 0) return RunsError::truncated;
            c = more - kFirst;
            if (static_cast<unsigned>(c) >= 64) return RunsError::character;
            if (shift >= kBits * kMostCharacters) return RunsError::beyond;
            value |= int64_t{c & 31} << shift;
            shift += kBits;
        }
        if ((c & kSign) != 0) value -= int64_t{1} << shift;
        return RunsError::none;
    }
};

// Validates compressed counts and calls `use(count)` with each. `next()` gives the next character, or a negative number at the end.
template <class Next, class Use>
RunsError read_counts(Next next, MaskSize size, Use use) {
    uint64_t num_left = size.num_pixels();
    uint32_t last[2] = {0, 0};  // the counts one and two before, by turns
    size_t num_runs = 0;
    for (int c; (c = next()) >= 0; ++num_runs) {
        int64_t value = 0;
        const RunsError error = CountReader::read(c, next, value);
        if (error != RunsError::none) return error;
        uint32_t& before = last[num_runs & 1];
        if (num_runs > 2) value += before;
        if (value < 0) return RunsError::negative;
        if (static_cast<uint64_t>(value) > num_left) return RunsError::beyond;
        num_left -= static_cast<uint64_t>(value);
        before = static_cast<uint32_t>(value);
        use(before);
    }
    return num_left == 0 ? RunsError::none : RunsError::short_of;
}

// The counts of compressed ones that were validated.
void decode_runs(const char* begin, const char* end, Runs& runs);

// Calls `put(character)` with each character of the compressed counts.
template <class Put>
void encode_runs(const uint32_t* counts, size_t num, Put put) {
    for (size_t i = 0; i < num; ++i) {
        int64_t value = counts[i];
        if (i > 2) value -= counts[i - 2];
        for (bool has_more = true; has_more;) {
            const int bits = static_cast<int>(value & 31);
            value >>= CountReader::kBits;
            has_more = (bits & CountReader::kSign) != 0 ? value != -1 : value != 0;
            put(static_cast<char>(CountReader::kFirst + (bits | (has_more ? CountReader::kMore : 0))));
        }
    }
}

// Counts from the positions where pixels change, which ascend; the first pixel follows one that is off. `edges` may have the
// number of pixels as its last.
void counts_of_edges(const std::vector<uint32_t>& edges, MaskSize size, Runs& runs);

// Where a walk through the runs of a mask is.
class RunCursor {
public:
    explicit RunCursor(const Runs& runs) : runs_(runs) {
        if (!runs.empty()) num_left_ = runs[0];
    }

    uint32_t num_left() const { return num_left_; }  // in this run
    bool is_on() const { return is_on_; }
    bool is_at_end() const { return num_left_ == 0 && next_ >= runs_.size(); }

    void move(uint32_t num) {
        num_left_ -= num;
        if (num_left_ != 0 || next_ >= runs_.size()) return;
        num_left_ = runs_[next_++];
        is_on_ = !is_on_;
    }

private:
    const Runs& runs_;
    size_t next_ = 1;
    uint32_t num_left_ = 0;
    bool is_on_ = false;
};

// Walks through two masks at once: calls `use(num, is_on, is_other_on)` with pixels that are alike in both, then `after(is_on,
// is_other_on, has_more)` with where both go on. False if one of them has more pixels than the other.
template <class Use, class After>
bool walk(const Runs& a, const Runs& b, Use use, After after) {
    RunCursor first(a), second(b);
    for (bool has_more = true; has_more;) {
        const uint32_t step = std::min(first.num_left(), second.num_left());
        if (step == 0 && (first.is_at_end() ? second.num_left() != 0 : second.is_at_end() && first.num_left() != 0)) return false;
        use(step, first.is_on(), second.is_on());
        first.move(step);
        second.move(step);
        has_more = first.num_left() != 0 || second.num_left() != 0;
        after(first.is_on(), second.is_on(), has_more);
    }
    return true;
}

// Pixels that are in any of two masks, or in both; false if one of them has more pixels than the other.
bool merge_runs(const Runs& a, const Runs& b, bool is_intersection, Runs& merged);

// The number of pixels that are in both masks, which are of one size.
uint64_t count_common(const Runs& a, const Runs& b);

uint32_t area_of(const Runs& runs);

}  // namespace boxscore
