// The keypoints of a record: those of the body, and of a whole body also those of its other parts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "io/coco_json.h"
#include "io/json.h"
#include "io/record.h"

namespace boxscore {

// Reads the keypoints of one record after the other; what was read last is added.
class KeypointReader {
public:
    static constexpr size_t kNumParts = 5;
    static constexpr std::array<std::string_view, kNumParts> kParts{"keypoints", "foot_kpts", "face_kpts", "lefthand_kpts",
                                                                    "righthand_kpts"};

    void start_record() {
        for (std::vector<double>& numbers : parts_) numbers.clear();
    }

    // Reads a part, and returns its end. Throws InvalidRecord.
    const char* read(size_t part, const char* const begin, const Window& window) {
        std::vector<double>& numbers = parts_[part];
        if (*begin != '[') refuse_list(begin, window, part);
        bool is_finite = true;
        const char* p = begin;
        do {
            p = json::skip_space(p + 1);
            double number = 0;
            p = json::read_double(p, number);
            if (p == nullptr) refuse_list(begin, window, part);
            is_finite &= std::abs(number) <= std::numeric_limits<double>::max();
            numbers.push_back(number);
            p = json::skip_space(p);
        } while (*p == ',');
        if (*p != ']' || numbers.size() % 3 != 0) refuse_list(begin, window, part);
        if (!is_finite) refuse(begin, window, kParts[part], "must have finite numbers");
        return p + 1;
    }

    // Throws InvalidRecord unless the record has its keypoints: those of the body, or those of all parts.
    void finish_record() const {
        if (parts_[0].empty()) throw InvalidRecord{" must have `keypoints`"};
        const auto is_missing = [](const std::vector<double>& numbers) { return numbers.empty(); };
        const auto first_missing = std::find_if(parts_.begin() + 1, parts_.end(), is_missing);
        if (first_missing == parts_.end() || std::all_of(parts_.begin() + 1, parts_.end(), is_missing)) return;
        const std::string_view part = kParts[static_cast<size_t>(first_missing - parts_.begin())];
        throw InvalidRecord{" must have " + quoted(part) + ", as it has other parts of a whole body"};
    }

    // Adds what was read. Throws InvalidRecord if rows before it have another number of points; then nothing was added.
    void push(CocoKeypoints& column, bool keeps_third) const {
        size_t num_points = 0;
        for (const std::vector<double>& numbers : parts_) num_points += numbers.size() / 3;
        if (column.num_points == 0) column.num_points = num_points;
        if (column.num_points != num_points) {
            throw InvalidRecord{": `keypoints` must have " + std::to_string(column.num_points) +
                                " points, as in the rows before it; got " + std::to_string(num_points)};
        }
        for (const std::vector<double>& numbers : parts_) {
            for (size_t i = 0; i < numbers.size(); i += 3) {
                column.point.push_back(numbers[i]);
                column.point.push_back(numbers[i + 1]);
                if (keeps_third) column.third.push_back(numbers[i + 2]);
            }
        }
        column.area.push_back(area());
    }

private:
    // as in COCO: the area of the box around the points of the body
    double area() const {
        const std::vector<double>& body = parts_[0];
        double left = body[0], right = left, top = body[1], bottom = top;
        for (size_t i = 3; i < body.size(); i += 3) {
            left = std::min(left, body[i]), right = std::max(right, body[i]);
            top = std::min(top, body[i + 1]), bottom = std::max(bottom, body[i + 1]);
        }
        return (right - left) * (bottom - top);
    }

    [[noreturn]] static void refuse_list(const char* p, const Window& window, size_t part) {
        refuse(p, window, kParts[part], "must be a list of numbers x, y, v, x, y, v, …, three per point");
    }

    std::array<std::vector<double>, kNumParts> parts_;  // x, y and the visibility or the score of each point
};

}  // namespace boxscore
