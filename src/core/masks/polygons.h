// Polygons to masks, with every pixel where pycocotools has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/runs.h"

namespace boxscore {

// Coordinates beyond this are no pixels; the grid has five steps per pixel, in 32 bits.
inline constexpr double kFarthestPoint = 4e8;

// Columns of pixels that an outline may cross, each counted as often as it is: memory grows with them, and a few numbers of a file
// may cross hundreds of millions.
inline constexpr uint64_t kMostCrossings = 10000000;

// Rasterizes polygons. Holds the memory that it needs from one polygon to the next.
class Rasterizer {
public:
    // The mask of the polygon through `num_points` points x, y, which is closed. No coordinate is beyond kFarthestPoint. False if there
    // are more than kMostCrossings; there is no mask then.
    [[nodiscard]] bool rasterize(const double* points, size_t num_points, MaskSize size, Runs& runs);

private:
    struct GridPoint {
        int64_t x, y;
    };
    // Where the outline crosses the centre line of a column of pixels.
    struct Crossing {
        uint32_t column, row;
    };

    uint64_t count_crossings() const;
    void add_edge(GridPoint from, GridPoint to);
    void add_flat_edge(GridPoint left, GridPoint right);
    void add_steep_edge(GridPoint upper, GridPoint lower);
    void add_crossing(int64_t column, int64_t y);
    void sort_crossings();
    void cancel_pairs();

    static constexpr size_t kMany = size_t{1} << 20;  // crossings after which pairs are cancelled, so that they don't pile up
    MaskSize size_;
    size_t num_allowed_ = kMany;
    std::vector<GridPoint> grid_;
    std::vector<Crossing> crossings_, sorted_;
    std::vector<uint32_t> start_;  // of each column among the sorted ones
    std::vector<uint32_t> edges_;
};

}  // namespace boxscore
