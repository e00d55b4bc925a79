// Images drawn with replacement. The bits depend only on the number of images, the seed and the resample's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace boxscore {

// Draws N of N images; returns how often each was drawn.
void draw_into(std::vector<uint16_t>& weight, uint64_t seed, uint64_t resample);

std::vector<uint16_t> draw_images(size_t num_images, uint64_t seed, uint64_t resample);

}  // namespace boxscore
