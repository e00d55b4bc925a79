// Masks as run lengths, column by column: the number of pixels that are off, then on, then off, and so on.
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
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace boxscore {

// Elements that are about to be written are not set to 0 before.
template <class T>
struct UninitializedAllocator : std::allocator<T> {
    UninitializedAllocator() = default;
    template <class U>
    UninitializedAllocator(const UninitializedAllocator<U>&) noexcept {}
    template <class U>
    struct rebind {
        using other = UninitializedAllocator<U>;
    };
    template <class U>
    void construct(U* element) noexcept {
        ::new (static_cast<void*>(element)) U;
    }
    template <class U, class... Values>
    void construct(U* element, Values&&... values) {
        ::new (static_cast<void*>(element)) U(std::forward<Values>(values)...);
    }
};

using Runs = std::vector<uint32_t, UninitializedAllocator<uint32_t>>;

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
// The broken rule, worded to follow the name of the column.
std::string rule_of(RunsError error, MaskSize size);

// The smallest upright box around the pixels that are on.
struct MaskBox {
    uint32_t left = 0, top = 0, width = 0, height = 0;

    uint32_t right() const { return left + width; }
    uint32_t bottom() const { return top + height; }
};

// The intersection of two boxes.
inline uint64_t common_area(const MaskBox& a, const MaskBox& b) {
    const uint32_t left = std::max(a.left, b.left), right = std::min(a.right(), b.right());
    const uint32_t top = std::max(a.top, b.top), bottom = std::min(a.bottom(), b.bottom());
    return left < right && top < bottom ? uint64_t{right - left} * (bottom - top) : 0;
}

// The box of counts for exactly the pixels of an image of this height.
MaskBox box_of_runs(const Runs& runs, uint32_t height);

// Whether a run other than the first has no pixels: the same mask has fewer runs.
bool has_empty_run(const Runs& runs);

// The bits of a character of compressed counts.
struct CountCode {
    static constexpr int kFirst = 48, kMore = 32, kSign = 16, kBits = 5, kMostCharacters = 7;
};

// Facts about counts once they are decoded.
struct DecodedRuns {
    bool is_valid = true;  // the text does not end within a count, and has none of more than 30 bits
    uint64_t num_off = 0, num_on = 0;

    // Whether they are surely for exactly the pixels of the size. A negative count was taken for one of billions.
    bool are_surely_for(MaskSize size) const {
        return is_valid && num_off + num_on == size.num_pixels() && num_off + num_on < uint64_t{1} << 31;
    }
};

// The counts of compressed ones. If the text is not valid they are anything, but no more than it has characters.
DecodedRuns decode_runs(const char* text, size_t num, Runs& runs);

// Whether compressed counts are a mask of the size, and if not, why.
RunsError validate_runs(const char* text, size_t num, MaskSize size);

// Calls `put(character)` with each character of the compressed counts.
template <class Put>
void encode_runs(const uint32_t* counts, size_t num, Put put) {
    for (size_t i = 0; i < num; ++i) {
        int64_t value = counts[i];
        if (i > 2) value -= counts[i - 2];
        for (bool has_more = true; has_more;) {
            const int bits = static_cast<int>(value & 31);
            value >>= CountCode::kBits;
            has_more = (bits & CountCode::kSign) != 0 ? value != -1 : value != 0;
            put(static_cast<char>(CountCode::kFirst + (bits | (has_more ? CountCode::kMore : 0))));
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
