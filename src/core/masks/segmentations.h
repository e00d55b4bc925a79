// Segmentations as data sets have them, run lengths or polygons, on their way to masks.
//
//     mask_start   0         1              3        4     one entry per row, and the end: parts first .. last - 1 are its polygons
//     part_start   0         8              20  28   36    one entry per polygon, and the end, in numbers
//     points       x y x y … | x y … | x y … | …
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "masks/column.h"
#include "masks/polygons.h"
#include "platform/tasks.h"

namespace boxscore {

// A mask is invalid: which one, and the rule that it breaks.
struct MaskError : std::runtime_error {
    size_t row;

    MaskError(size_t row, const std::string& rule) : std::runtime_error(rule), row(row) {}
};

// The rule that the size of a mask breaks, if any.
inline const char* broken_rule(double height, double width) {
    constexpr double kMost = static_cast<double>(kMostPixels);
    if (!(height >= 0 && width >= 0 && height == std::floor(height) && width == std::floor(width))) {
        return "must have a `size` of two whole numbers, height and width";
    }
    return height > kMost || width > kMost || height * width > kMost ? "must have at most 4294967295 pixels" : nullptr;
}

struct PolygonColumn {
    std::vector<double> points;
    std::vector<size_t> part_start{0}, mask_start{0};

    size_t num_masks() const { return mask_start.size() - 1; }
    size_t num_parts() const { return part_start.size() - 1; }
    void finish_part() { part_start.push_back(points.size()); }
    void finish_mask() { mask_start.push_back(num_parts()); }
    bool has_polygons(size_t row) const { return mask_start[row] < mask_start[row + 1]; }

    void append(const PolygonColumn& other);
    void clear();
};

// The masks of polygons, each the union of its parts. Holds the memory that it needs from one mask to the next.
class MaskDrawer {
public:
    // The mask of one row. Throws MaskError for a coordinate outside of any image.
    Runs& draw(const PolygonColumn& polygons, size_t row, MaskSize size);

private:
    Rasterizer rasterizer_;
    Runs part_, runs_, merged_;
};

// Builds a column of masks in parallel. `build(row, column, scratch)` adds the mask of a row, or throws MaskError; the first row that
// does is the same for any number of threads.
template <class Scratch, class Build>
MaskColumn build_masks(size_t num_masks, size_t masks_per_task, const Run& run, Build build) {
    const size_t num_tasks = (num_masks + masks_per_task - 1) / masks_per_task;
    std::vector<MaskColumn> parts(num_tasks);
    const auto build_all = [&](const Run& own) {
        for_each_task(num_tasks, own, [] { return Scratch(); }, [&](size_t task, Scratch& scratch) {
            const size_t end = std::min(num_masks, (task + 1) * masks_per_task);
            for (size_t row = task * masks_per_task; row < end; ++row) build(row, parts[task], scratch);
        });
    };
    try {
        build_all(run);
    } catch (const MaskError&) {
        parts = std::vector<MaskColumn>(num_tasks);
        build_all(run.on_one_thread());
    }
    MaskColumn column;
    size_t num_bytes = 0;
    for (const MaskColumn& part : parts) num_bytes += part.counts.size();
    column.reserve(num_masks, num_bytes);
    for (MaskColumn& part : parts) {
        column.append(part);
        part = MaskColumn();
    }
    return column;
}

}  // namespace boxscore
