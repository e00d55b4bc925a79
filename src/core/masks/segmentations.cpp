#include "masks/segmentations.h"

#include <algorithm>
#include <cmath>

namespace boxscore {

void PolygonColumn::append(const PolygonColumn& other) {
    const size_t num_numbers = points.size(), first_part = num_parts();
    points.insert(points.end(), other.points.begin(), other.points.end());
    for (size_t part = 1; part < other.part_start.size(); ++part) part_start.push_back(num_numbers + other.part_start[part]);
    for (size_t row = 1; row < other.mask_start.size(); ++row) mask_start.push_back(first_part + other.mask_start[row]);
}

void PolygonColumn::clear() {
    points.clear();
    part_start.assign(1, 0);
    mask_start.assign(1, 0);
}

Runs& MaskDrawer::draw(const PolygonColumn& polygons, size_t row, MaskSize size) {
    const size_t first = polygons.mask_start[row], last = polygons.mask_start[row + 1];
    for (size_t part = first; part < last; ++part) {
        const double* const points = polygons.points.data() + polygons.part_start[part];
        const size_t num = polygons.part_start[part + 1] - polygons.part_start[part];
        const auto is_far = [](double number) { return !(std::abs(number) <= kFarthestPoint); };
        if (std::any_of(points, points + num, is_far)) {
            throw MaskError(row, "must have polygons of finite numbers, none of them beyond 4e8; got another one");
        }
        if (!rasterizer_.rasterize(points, num / 2, size, part == first ? runs_ : part_)) {
            throw MaskError(row, "must have polygons that cross at most 10,000,000 columns of pixels; got one that crosses more");
        }
        if (part == first) continue;
        merge_runs(runs_, part_, false, merged_);
        std::swap(runs_, merged_);
    }
    return runs_;
}

}  // namespace boxscore
