// Counters of the set bits of words, for all 64 positions at once: plane i holds bit i of the 64 counts.
//
//     added      0110        planes   2^0   1010      counts of the bits   1  2  1  0
//                1100                 2^1   0100 …                        (from the highest)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace boxscore {

class BitCounter {
public:
    void add(uint64_t word) {
        for (size_t plane = 0; plane < kFewPlanes; ++plane) word = add_to(plane, word);
        for (size_t plane = kFewPlanes; word != 0; ++plane) word = add_to(plane, word);
    }

    // Number of added words with this bit set. `num_words`: at least the number of added words.
    uint32_t count(size_t bit, size_t num_words) const {
        uint32_t sum = 0;
        for (size_t plane = 0; num_words >> plane != 0; ++plane) sum |= static_cast<uint32_t>(planes_[plane] >> bit & 1) << plane;
        return sum;
    }

private:
    static constexpr size_t kFewPlanes = 5;  // beyond these a carry is rare, so a branch is cheap

    // Add to one plane; return the carry into the next.
    uint64_t add_to(size_t plane, uint64_t word) {
        const uint64_t carry = planes_[plane] & word;
        planes_[plane] ^= word;
        return carry;
    }

    std::array<uint64_t, 32> planes_{};  // one per bit of a 32-bit count
};

}  // namespace boxscore
