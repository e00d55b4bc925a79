// Branch-free lookup of the area ranges that contain an area.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/branchless.h"
#include "rows/rules.h"

namespace boxscore {

class AreaRanges {
public:
    explicit AreaRanges(const Rules& rules) {
        low_.resize((rules.num_areas() + 3) / 4 * 4, std::numeric_limits<double>::infinity());
        high_.resize(low_.size(), -std::numeric_limits<double>::infinity());
        std::copy(rules.area_low.begin(), rules.area_low.end(), low_.begin());
        std::copy(rules.area_high.begin(), rules.area_high.end(), high_.begin());
    }

    // Bit set of the ranges that contain the area.
    uint64_t find(double area) const {
        uint64_t found = 0;
        for (size_t a = 0; a < low_.size(); a += 4) found |= uint64_t{in_ranges(low_.data() + a, high_.data() + a, area)} << a;
        return found;
    }

private:
    std::vector<double> low_, high_;
};

}  // namespace boxscore
