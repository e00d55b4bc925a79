// Oriented boxes as they are written, and the convex quadrilaterals that they are.
//
//     corners  x1 y1 x2 y2 x3 y3 x4 y4, in either direction around the box
//     angle    centre, width, height, and an angle that turns x towards y: clockwise as an image is seen
//
//                 (-w/2, -h/2) 0 ───── 1         turned by the angle, and moved to the centre
//                              │   +   │
//                              3 ───── 2
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace boxscore {

enum class OrientedFormat : uint8_t { corners, radians, degrees, radians_ccw, degrees_ccw };

inline size_t numbers_per_row(OrientedFormat format) { return format == OrientedFormat::corners ? 8 : 5; }

// The numbers of one box; the last three are of corners only.
using OrientedRow = std::array<double, 8>;

struct Point {
    double x, y;
};

using Quad = std::array<Point, 4>;

// Twice the area of the triangle a, b, c; positive if it turns as x does towards y.
inline double turn(const Point& a, const Point& b, const Point& c) {
    return (b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x);
}

// A convex quadrilateral of positive direction, with a corner repeated where it has fewer.
struct QuadShape {
    Quad corner;
    double left, top, right, bottom;  // of the upright box around it
    double area;                      // what decides the area range
    double surface;                   // the area of the corners, which IoU is made of
};

// Half the sum over the edges, with the first corner as the origin.
inline double surface_of(const Quad& quad) {
    const Point a{quad[1].x - quad[0].x, quad[1].y - quad[0].y}, b{quad[2].x - quad[0].x, quad[2].y - quad[0].y},
        c{quad[3].x - quad[0].x, quad[3].y - quad[0].y};
    return ((a.x * b.y - a.y * b.x) + (b.x * c.y - b.y * c.x)) / 2;
}

// The corners of a turned rectangle, and its axes.
struct TurnedBox {
    double x, y, width, height, cosine, sine;

    Quad corners() const {
        const double ax = width / 2 * cosine, ay = width / 2 * sine, bx = -(height / 2 * sine), by = height / 2 * cosine;
        return {{{x - ax - bx, y - ay - by}, {x + ax - bx, y + ay - by}, {x + ax + bx, y + ay + by}, {x - ax + bx, y - ay + by}}};
    }
};

inline TurnedBox turned_box(const OrientedRow& row, OrientedFormat format) {
    const bool is_degrees = format == OrientedFormat::degrees || format == OrientedFormat::degrees_ccw;
    const bool is_ccw = format == OrientedFormat::radians_ccw || format == OrientedFormat::degrees_ccw;
    const double given = is_ccw ? -row[4] : row[4];
    const double angle = is_degrees ? given * (3.14159265358979323846 / 180) : given;
    return {row[0], row[1], row[2], row[3], std::cos(angle), std::sin(angle)};
}

inline Quad corners_of(const OrientedRow& row, OrientedFormat format) {
    if (format != OrientedFormat::corners) return turned_box(row, format).corners();
    return {{{row[0], row[1]}, {row[2], row[3]}, {row[4], row[5]}, {row[6], row[7]}}};
}

// How many corners turn to the left and to the right, and by how much the polygon would change without those of either side.
struct Turns {
    int num_left = 0, num_right = 0;
    double dent = 0;  // the distance of a corner from the line between its neighbours: of the side with less of it

    bool is_convex() const { return num_left == 0 || num_right == 0; }
};

inline Turns turns_of(const Quad& quad) {
    Turns turns;
    double left = 0, right = 0;
    for (size_t i = 0; i < 4; ++i) {
        const Point &before = quad[(i + 3) % 4], &after = quad[(i + 1) % 4];
        const double twice = turn(before, quad[i], after);
        if (twice == 0) continue;
        const double distance = std::abs(twice) / std::hypot(after.x - before.x, after.y - before.y);
        ++(twice > 0 ? turns.num_right : turns.num_left);
        (twice > 0 ? right : left) = std::max(twice > 0 ? right : left, distance);
    }
    turns.dent = std::min(left, right);
    return turns;
}

// The convex hull of four points, of positive direction, with its last corner repeated.
inline Quad hull_of(Quad points) {
    const auto is_before = [](const Point& a, const Point& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); };
    std::sort(points.begin(), points.end(), is_before);
    std::array<Point, 9> chain{};
    size_t size = 0;
    for (const bool is_forth : {true, false}) {
        const size_t floor = size + 1;
        for (size_t i = 0; i < 4; ++i) {
            const Point& point = points[is_forth ? i : 3 - i];
            while (size > floor && !(turn(chain[size - 2], chain[size - 1], point) > 0)) --size;
            if (size < chain.size()) chain[size++] = point;
        }
        --size;  // the last point is where the way back begins
    }
    Quad hull;
    for (size_t i = 0; i < 4; ++i) hull[i] = chain[std::min(i, size == 0 ? 0 : size - 1)];
    return hull;
}

inline QuadShape measure_quad(const OrientedRow& row, OrientedFormat format) {
    QuadShape out;
    out.corner = corners_of(row, format);
    double known_area = -1;
    if (format != OrientedFormat::corners) known_area = row[2] * row[3];
    Quad& corner = out.corner;
    if (format == OrientedFormat::corners && !turns_of(corner).is_convex()) corner = hull_of(corner);
    out.surface = surface_of(corner);
    if (out.surface < 0) {
        std::swap(corner[1], corner[3]);
        out.surface = surface_of(corner);
    }
    if (known_area == 0) out.surface = 0;
    out.area = known_area >= 0 ? known_area : out.surface;
    out.left = std::min(std::min(corner[0].x, corner[1].x), std::min(corner[2].x, corner[3].x));
    out.right = std::max(std::max(corner[0].x, corner[1].x), std::max(corner[2].x, corner[3].x));
    out.top = std::min(std::min(corner[0].y, corner[1].y), std::min(corner[2].y, corner[3].y));
    out.bottom = std::max(std::max(corner[0].y, corner[1].y), std::max(corner[2].y, corner[3].y));
    return out;
}

// The rectangle of least area around a quadrilateral that has a side along one of its edges; the first of equal ones.
inline TurnedBox least_rectangle(const Quad& quad) {
    TurnedBox best{quad[0].x, quad[0].y, 0, 0, 1, 0};
    double least = std::numeric_limits<double>::infinity();
    for (size_t edge = 0; edge < 4; ++edge) {
        const double ex = quad[(edge + 1) % 4].x - quad[edge].x, ey = quad[(edge + 1) % 4].y - quad[edge].y;
        const double length = std::hypot(ex, ey);
        if (!(length > 0)) continue;
        const double cosine = ex / length, sine = ey / length;
        double low[2] = {0, 0}, high[2] = {0, 0};  // along the edge and across it, from its first corner
        for (const Point& point : quad) {
            const double x = point.x - quad[edge].x, y = point.y - quad[edge].y;
            const double along = x * cosine + y * sine, across = y * cosine - x * sine;
            low[0] = std::min(low[0], along), high[0] = std::max(high[0], along);
            low[1] = std::min(low[1], across), high[1] = std::max(high[1], across);
        }
        const double width = high[0] - low[0], height = high[1] - low[1];
        if (!(width * height < least)) continue;
        least = width * height;
        const double along = (low[0] + high[0]) / 2, across = (low[1] + high[1]) / 2;
        best = {quad[edge].x + (along * cosine - across * sine), quad[edge].y + (along * sine + across * cosine),
                width, height, cosine, sine};
    }
    return best;
}

// Reasons why a row is invalid.
enum class OrientedFault : uint8_t { none, not_finite, negative_size, large_side, large_angle, self_crossing, not_convex };

// A corner that is dented by no more than this share of the diagonal may be due to rounding: the convex hull counts.
constexpr double kLargestDent = 0.05;

inline OrientedFault fault_of(const OrientedRow& row, OrientedFormat format, double largest) {
    for (size_t i = 0; i < numbers_per_row(format); ++i) {
        if (!(std::abs(row[i]) <= std::numeric_limits<double>::max())) return OrientedFault::not_finite;
    }
    if (format != OrientedFormat::corners) {
        if (row[2] < 0 || row[3] < 0) return OrientedFault::negative_size;
        if (row[2] > largest || row[3] > largest) return OrientedFault::large_side;
        const bool is_degrees = format == OrientedFormat::degrees || format == OrientedFormat::degrees_ccw;
        const double whole_turn = is_degrees ? 360 : 2 * 3.14159265358979323846;
        return std::abs(row[4]) <= whole_turn * (1 + 1e-6) ? OrientedFault::none : OrientedFault::large_angle;
    }
    const Quad quad = corners_of(row, format);
    double width = 0, height = 0;
    for (const Point& a : quad) {
        for (const Point& b : quad) width = std::max(width, a.x - b.x), height = std::max(height, a.y - b.y);
    }
    if (width > largest || height > largest) return OrientedFault::large_side;
    const Turns turns = turns_of(quad);
    if (turns.is_convex() || turns.dent <= kLargestDent * std::hypot(width, height)) return OrientedFault::none;
    return turns.num_left == turns.num_right ? OrientedFault::self_crossing : OrientedFault::not_convex;
}

}  // namespace boxscore
