// Python class of measures.
#pragma once

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rows/rules.h"

namespace boxscore {

// A measure with the labels of the classes that count; none: all classes.
struct MeasureObject {
    bool is_recall;
    std::vector<size_t> thresholds;
    size_t area, limit;
    std::optional<std::vector<int64_t>> labels;
};

// Measures with class indices instead of labels; `classes` ascend. Labels that are not among them are skipped.
inline std::vector<Measure> measures_of(const std::vector<MeasureObject>& objects, const std::vector<int64_t>& classes) {
    std::vector<Measure> measures;
    for (const MeasureObject& object : objects) {
        Measure measure{object.is_recall, object.thresholds, object.area, object.limit, {}};
        if (object.labels && !classes.empty()) {
            measure.is_member.resize(classes.size());
            for (const int64_t label : *object.labels) {
                const auto found = std::lower_bound(classes.begin(), classes.end(), label);
                if (found != classes.end() && *found == label) measure.is_member[found - classes.begin()] = 1;
            }
        }
        measures.push_back(std::move(measure));
    }
    return measures;
}

inline void check_measures(const std::vector<MeasureObject>& measures, const Rules& rules) {
    for (const MeasureObject& measure : measures) {
        bool is_valid = measure.area < rules.num_areas() && measure.limit < rules.num_limits() && !measure.thresholds.empty();
        for (const size_t t : measure.thresholds) is_valid &= t < rules.num_thresholds();
        if (!is_valid) throw std::invalid_argument("measures: beyond the thresholds, area ranges or limits of the rules");
    }
}

}  // namespace boxscore
