// The similarity policy of keypoints: OKS, with pycocotools' bits where its exp is the C library's.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "geometry/box_around.h"
#include "geometry/policy.h"
#include "platform/pairwise_sum.h"
#include "rows/rules.h"

namespace boxscore {

// The keypoints of one side: x and y of each point, row after row.
struct KeypointColumn {
    const double* point;
    const double* area;  // what decides the area range; null: the area of the box around the points
    const uint32_t* slot = nullptr;  // where the points of each row are; null: in the order of rows
};

// Further columns of truths.
struct LabelColumn {
    const uint8_t* is_labelled;  // of each point
    const double* scale;         // of each row: what squared distances are relative to
    const double* region;        // of each row: left, top, right, bottom of where points are free if none is labelled
};

struct KeypointShape {
    const double* point;
    const double* area;  // may be null
    size_t row;
};

// Differences of the points that are compared.
struct KeypointWorkspace {
    std::vector<double> error;
};

class KeypointPolicy {
public:
    using Shape = KeypointShape;
    using Index = NoIndex;
    using Workspace = KeypointWorkspace;

    KeypointPolicy(KeypointColumn detections, KeypointColumn truths, LabelColumn labels, size_t num_truths,
                   const std::vector<double>& sigmas)
        : detections_(detections), truths_(truths), labels_(labels), num_points_(sigmas.size()) {
        for (const double sigma : sigmas) variance_.push_back((sigma * 2) * (sigma * 2));
        num_labelled_.resize(num_truths);
        for (size_t row = 0; row < num_truths; ++row) {
            const uint8_t* const is_labelled = labels_.is_labelled + row * num_points_;
            num_labelled_[row] = static_cast<uint32_t>(std::count(is_labelled, is_labelled + num_points_, 1));
        }
    }

    Shape detection(size_t row) const { return shape_of(detections_, row); }
    Shape truth(size_t row) const { return shape_of(truths_, row); }
    double area(const Shape& shape) const { return shape.area == nullptr ? area_around(shape.point) : *shape.area; }
    void prefetch(size_t row) const { boxscore::prefetch(points_of(detections_, row)); }

    // As in COCO, a crowd makes no difference.
    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool, double least, Workspace& work, Use use) const {
        if (work.error.size() < num_points_) work.error.resize(num_points_);
        double* const error = work.error.data();
        const size_t num = num_labelled_[truth.row] > 0 ? compare_labelled(shape, truth, error) : compare_region(shape, truth, error);
        const auto count = static_cast<double>(num);
        if (most_similar(error, num) < least * count) return;
        for (size_t i = 0; i < num; ++i) error[i] = std::exp(-error[i]);
        use(pairwise_sum(error, num) / count);
    }

    Index make_index(double) const { return {}; }

private:
    static constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

    const double* points_of(const KeypointColumn& column, size_t row) const {
        return column.point + (column.slot == nullptr ? row : column.slot[row]) * num_points_ * 2;
    }

    Shape shape_of(const KeypointColumn& column, size_t row) const {
        return {points_of(column, row), column.area == nullptr ? nullptr : column.area + row, row};
    }

    double area_around(const double* point) const {
        const std::array<double, 4> box = box_around(point, num_points_);
        return box[2] * box[3];
    }

    // Squared distances to the labelled points, relative to the truth and to how far apart annotators place them; returns how many.
    size_t compare_labelled(const Shape& shape, const Shape& truth, double* error) const {
        const double scale = labels_.scale[truth.row] + kEpsilon;
        for (size_t k = 0; k < num_points_; ++k) {
            const double dx = shape.point[2 * k] - truth.point[2 * k], dy = shape.point[2 * k + 1] - truth.point[2 * k + 1];
            error[k] = (dx * dx + dy * dy) / variance_[k] / scale / 2;
        }
        if (num_labelled_[truth.row] == num_points_) return num_points_;
        const uint8_t* const is_labelled = labels_.is_labelled + truth.row * num_points_;
        size_t num = 0;
        for (size_t k = 0; k < num_points_; ++k) {
            error[num] = error[k];
            num += is_labelled[k];
        }
        return num;
    }

    // Distances to the region of a truth without labelled points, for all points.
    size_t compare_region(const Shape& shape, const Shape& truth, double* error) const {
        const double scale = labels_.scale[truth.row] + kEpsilon;
        const double* const region = labels_.region + truth.row * 4;
        for (size_t k = 0; k < num_points_; ++k) {
            const double x = shape.point[2 * k], y = shape.point[2 * k + 1];
            const double dx = std::max(0.0, region[0] - x) + std::max(0.0, x - region[2]);
            const double dy = std::max(0.0, region[1] - y) + std::max(0.0, y - region[3]);
            error[k] = (dx * dx + dy * dy) / variance_[k] / scale / 2;
        }
        return num_points_;
    }

    // At least the sum of exp(-e): 1 / (1 + e + e²/2) is larger, and takes a tenth of the time. Most pairs end here.
    static double most_similar(const double* error, size_t num) {
        constexpr size_t kLanes = 4;
        std::array<double, kLanes> lane{};
        size_t i = 0;
        for (; i + kLanes <= num; i += kLanes) {
            for (size_t j = 0; j < kLanes; ++j) lane[j] += 1 / (1 + error[i + j] * (1 + error[i + j] / 2));
        }
        for (; i < num; ++i) lane[0] += 1 / (1 + error[i] * (1 + error[i] / 2));
        return (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }

    KeypointColumn detections_, truths_;
    LabelColumn labels_;
    size_t num_points_;
    std::vector<double> variance_;
    std::vector<uint32_t> num_labelled_;
};

}  // namespace boxscore
