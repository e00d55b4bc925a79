// Images drawn with replacement. The bits depend on how many there are, on the seed and on the resample's number alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace boxscore {

// How often each image is drawn, as many times as there are images: one entry per image.
void draw_into(std::vector<uint16_t>& weight, uint64_t seed, uint64_t resample);

std::vector<uint16_t> draw_images(size_t num_images, uint64_t seed, uint64_t resample);

}  // namespace boxscore
