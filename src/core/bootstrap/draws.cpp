#include "bootstrap/draws.h"

#include <algorithm>
#include <stdexcept>

namespace boxscore {
namespace {

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class Random {
public:
    explicit Random(uint64_t state) : state_(state) {}

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }

    // Below `bound`, each with the same probability: Lemire, "Fast random integer generation in an interval", 2019.
    uint32_t below(uint32_t bound) {
        uint64_t product = (next() >> 32) * bound;
        if (static_cast<uint32_t>(product) < bound) {
            const uint32_t unfair = (UINT32_MAX - bound + 1) % bound;
            while (static_cast<uint32_t>(product) < unfair) product = (next() >> 32) * bound;
        }
        return static_cast<uint32_t>(product >> 32);
    }

private:
    uint64_t state_;
};

}  // namespace

void draw_into(std::vector<uint16_t>& weight, uint64_t seed, uint64_t resample) {
    Random random(Random(Random(seed).next() + resample).next());
    std::fill(weight.begin(), weight.end(), uint16_t{0});
    for (size_t i = 0; i < weight.size(); ++i) {
        if (++weight[random.below(static_cast<uint32_t>(weight.size()))] == 0) {
            throw std::overflow_error("an image was drawn 65536 times");  // with a probability of 1e-300000
        }
    }
}

std::vector<uint16_t> draw_images(size_t num_images, uint64_t seed, uint64_t resample) {
    std::vector<uint16_t> weight(num_images);
    draw_into(weight, seed, resample);
    return weight;
}

}  // namespace boxscore
