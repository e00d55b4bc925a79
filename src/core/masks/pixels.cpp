#include "masks/pixels.h"

#include <algorithm>
#include <cstring>

#include "rows/rules.h"

namespace boxscore {
namespace {

inline uint64_t load(const uint8_t* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

// Whether two blocks differ in any byte.
constexpr size_t kBlock = 64;
inline bool differs(const uint8_t* a, const uint8_t* b) { return std::memcmp(a, b, kBlock) != 0; }

}  // namespace

// Where a pixel is on and the one above it is off, or the other way round. Most rows are like the one above, so a block of bytes is
// compared at once.
void RowEncoder::add_changes(const uint8_t* row, const uint8_t* above, uint32_t width, uint32_t y) {
    const auto add_byte = [&](uint32_t x) {
        if ((row[x] != 0) != (above[x] != 0)) changes_.push_back({x, y});
    };
    uint32_t x = 0;
    for (; x + kBlock <= width; x += kBlock) {
        if (!differs(row + x, above + x)) continue;
        for (uint32_t i = x; i < x + kBlock; i += 8) {
            if (load(row + i) == load(above + i)) continue;
            for (uint32_t j = i; j < i + 8; ++j) add_byte(j);
        }
    }
    for (; x < width; ++x) add_byte(x);
}

void RowEncoder::encode(const uint8_t* pixels, MaskSize size, Runs& runs) {
    const uint32_t height = size.height, width = size.width;
    changes_.clear();
    edges_.clear();
    if (size.num_pixels() == 0) return counts_of_edges(edges_, size, runs);
    // The pixel above the first of a column is the last of the column before; that above the first of all is off.
    const uint8_t* const last = pixels + size_t{height - 1} * width;
    for (uint32_t x = 0; x < width; ++x) {
        if ((pixels[x] != 0) != (x > 0 && last[x - 1] != 0)) changes_.push_back({x, 0});
    }
    for (uint32_t y = 1; y < height; ++y) {
        const uint8_t* const row = pixels + size_t{y} * width;
        add_changes(row, row - width, width, y);
    }
    // Rows are in order; so a stable sort by column is all that is left.
    start_.assign(size_t{width} + 1, 0);
    for (const Change& each : changes_) ++start_[each.column + 1];
    for (uint32_t x = 0; x < width; ++x) start_[x + 1] += start_[x];
    edges_.resize(changes_.size());
    for (const Change& each : changes_) edges_[start_[each.column]++] = each.column * height + each.row;
    counts_of_edges(edges_, size, runs);
}

void encode_columns(const uint8_t* pixels, MaskSize size, Runs& runs) {
    runs.clear();
    const size_t num_pixels = size.num_pixels();
    uint8_t before = 0;
    size_t start = 0;
    for (size_t i = 0; i < num_pixels;) {
        // Eight bytes at a time while nothing changes.
        const uint64_t same = 0x0101010101010101u * before;
        while (i + 8 <= num_pixels && load(pixels + i) == same) i += 8;
        while (i < num_pixels && pixels[i] == before) ++i;
        if (i == num_pixels) break;
        runs.push_back(static_cast<uint32_t>(i - start));
        start = i;
        before = pixels[i];
    }
    runs.push_back(static_cast<uint32_t>(num_pixels - start));
}

bool decode_columns(const Runs& runs, MaskSize size, uint8_t* pixels) {
    uint64_t num_left = size.num_pixels();
    uint8_t value = 0;
    for (const uint32_t count : runs) {
        if (count > num_left) return false;
        std::memset(pixels, value, count);
        pixels += count;
        num_left -= count;
        value ^= 1;
    }
    std::memset(pixels, 0, num_left);
    return true;
}

void decode_rows(const Runs& runs, MaskSize size, uint8_t* pixels) {
    std::memset(pixels, 0, size.num_pixels());
    uint64_t position = 0;
    for (size_t i = 0; i < runs.size(); position += runs[i++]) {
        if (i % 2 == 0) continue;
        for (uint64_t p = position, end = position + runs[i]; p < end; ++p) {
            pixels[p % size.height * size.width + p / size.height] = 1;
        }
    }
}

}  // namespace boxscore
