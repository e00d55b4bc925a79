// Measures as they come from Python.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "rules.h"

namespace boxscore {

inline void check_measures(const std::vector<Measure>& measures, const Rules& rules) {
    for (const Measure& measure : measures) {
        bool is_valid = measure.area < rules.num_areas() && measure.limit < rules.num_limits() && !measure.thresholds.empty();
        for (const size_t t : measure.thresholds) is_valid &= t < rules.num_thresholds();
        if (!is_valid) throw std::invalid_argument("measures: beyond the thresholds, area ranges or limits of the rules");
    }
}

}  // namespace boxscore
