// Reader of the keypoints of a record: of the body, and, for whole-body keypoints, of the other parts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "geometry/box_around.h"
#include "io/coco_json.h"
#include "io/columns.h"
#include "io/json.h"
#include "io/record.h"

namespace boxscore {

// Reads the keypoints of one record at a time; the last ones can be appended to columns.
class KeypointReader {
public:
    static constexpr size_t kNumParts = 5;
    static constexpr std::array<std::string_view, kNumParts> kParts{"keypoints", "foot_kpts", "face_kpts", "lefthand_kpts",
                                                                    "righthand_kpts"};

    // `keeps_third`: whether to keep the third number of each point.
    explicit KeypointReader(bool keeps_third) : keeps_third_(keeps_third) {}

    void start_record() {
        for (Part& part : parts_) part.point.clear(), part.third.clear();
    }

    // Read the keypoints of one part and return the end of the list. Throws InvalidRecord.
    const char* read(size_t part, const char* const begin, const Window& window) {
        Part& numbers = parts_[part];
        if (*begin != '[') refuse_list(begin, window, part);
        const char* p = begin;
        bool is_finite = true;
        const auto read_number = [&](char before) {
            if (*p != before) refuse_list(begin, window, part);
            double number = 0;
            p = json::read_double(json::skip_space(p + 1), number);
            if (p == nullptr) refuse_list(begin, window, part);
            is_finite &= std::abs(number) <= std::numeric_limits<double>::max();
            p = json::skip_space(p);
            return number;
        };
        do {
            const double x = read_number(numbers.point.empty() ? '[' : ','), y = read_number(',');
            numbers.point.push_back(x);
            numbers.point.push_back(y);
            if (keeps_third_) {
                numbers.third.push_back(read_number(','));
            } else {
                p = skip_number(p, begin, window, part);
            }
        } while (*p == ',');
        if (*p != ']') refuse_list(begin, window, part);
        if (!is_finite) refuse(begin, window, kParts[part], "must have finite numbers");
        return p + 1;
    }

    // Throw InvalidRecord unless the record has the keypoints of the body only, or of all parts.
    void finish_record() const {
        if (parts_[0].point.empty()) throw InvalidRecord{" must have `keypoints`"};
        const auto is_missing = [](const Part& part) { return part.point.empty(); };
        const auto first_missing = std::find_if(parts_.begin() + 1, parts_.end(), is_missing);
        if (first_missing == parts_.end() || std::all_of(parts_.begin() + 1, parts_.end(), is_missing)) return;
        const std::string_view part = kParts[static_cast<size_t>(first_missing - parts_.begin())];
        throw InvalidRecord{" must have " + quoted(part) + ", as it has other parts of a whole body"};
    }

    // Append the last keypoints, or only the box around them unless `is_stored`. `has_slots`: whether some rows may not be stored. Throws
    // InvalidRecord, and appends nothing, if earlier rows have another number of points.
    void push(CocoKeypoints& column, bool has_slots, bool is_stored) const {
        size_t num_points = 0;
        for (const Part& part : parts_) num_points += part.point.size() / 2;
        if (column.num_points == 0) column.num_points = num_points;
        if (column.num_points != num_points) {
            throw InvalidRecord{": `keypoints` must have " + std::to_string(column.num_points) +
                                " points, as in the rows before it; got " + std::to_string(num_points)};
        }
        if (has_slots) column.slot.push_back(static_cast<uint32_t>(column.point.size() / (2 * num_points)));
        // as in COCO: the box around the points of the body
        const std::array<double, 4> around = box_around(parts_[0].point.data(), parts_[0].point.size() / 2);
        column.around.insert(column.around.end(), around.begin(), around.end());
        if (!is_stored) return;
        for (const Part& part : parts_) {
            append_all(column.point, part.point);
            append_all(column.third, part.third);
        }
    }

private:
    struct Part {
        std::vector<double> point, third;  // x and y; visibility or score, if kept
    };

    static const char* skip_number(const char* p, const char* begin, const Window& window, size_t part) {
        if (*p != ',') refuse_list(begin, window, part);
        p = json::skip_space(p + 1);
        if (*p != '-' && (*p < '0' || *p > '9')) refuse_list(begin, window, part);
        return json::skip_space(json::skip_number(p));
    }

    [[noreturn]] static void refuse_list(const char* p, const Window& window, size_t part) {
        refuse(p, window, kParts[part], "must be a list of numbers x, y, v, x, y, v, …, three per point");
    }

    bool keeps_third_;
    std::array<Part, kNumParts> parts_;
};

}  // namespace boxscore
