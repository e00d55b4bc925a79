// The similarity policies of oriented boxes: exact IoU of convex quadrilaterals, and ProbIoU.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "geometry/policy.h"
#include "geometry/quadrilaterals.h"
#include "geometry/window_index.h"
#include "rows/rules.h"

namespace boxscore {

// A polygon that is cut smaller, with the first corner of the box it was as the origin. Each of four cuts adds at most one corner.
//
//          2 ───────── 1          distance from the line of each corner: 0 is farthest outside;
//           ╲          │          walking from it, 1 is the first inside and 2 the last.
//     ───────X─────────E─────     What remains is E, 1, 2, X, whatever rounding says of corners between 1 and 2.
//      outside ╲       │
//                ╲ ─── 0
class CutPolygon {
public:
    explicit CutPolygon(const Quad& quad) : size_(4) {
        for (size_t i = 0; i < 4; ++i) x_[i] = quad[i].x - quad[0].x, y_[i] = quad[i].y - quad[0].y;
    }

    // Keeps the part on the positive side of the line from a to b.
    void cut(const Point& a, const Point& b) {
        const double ex = b.x - a.x, ey = b.y - a.y;
        double distance[kMost];
        size_t farthest = 0;
        for (size_t i = 0; i < size_; ++i) {
            distance[i] = ex * (y_[i] - a.y) - ey * (x_[i] - a.x);
            if (distance[i] < distance[farthest]) farthest = i;
        }
        if (size_ == 0 || !(distance[farthest] < 0)) return;
        const auto next = [size = size_](size_t i) { return i + 1 == size ? 0 : i + 1; };
        const auto previous = [size = size_](size_t i) { return i == 0 ? size - 1 : i - 1; };
        size_t first = next(farthest), last = previous(farthest);
        while (first != farthest && !(distance[first] >= 0)) first = next(first);
        if (first == farthest) {
            size_ = 0;
            return;
        }
        while (!(distance[last] >= 0)) last = previous(last);
        double x[kMost], y[kMost];
        size_t size = 0;
        const auto put_crossing = [&](size_t inside, size_t outside) {
            const double share = distance[inside] / (distance[inside] - distance[outside]);
            x[size] = x_[inside] + (x_[outside] - x_[inside]) * share;
            y[size++] = y_[inside] + (y_[outside] - y_[inside]) * share;
        };
        put_crossing(first, previous(first));
        for (size_t i = first;; i = next(i)) {
            x[size] = x_[i], y[size++] = y_[i];
            if (i == last) break;
        }
        put_crossing(last, next(last));
        std::copy(x, x + size, x_), std::copy(y, y + size, y_);
        size_ = size;
    }

    double area() const {
        double twice = 0;
        for (size_t i = 0; i < size_; ++i) {
            const size_t j = i + 1 == size_ ? 0 : i + 1;
            twice += x_[i] * y_[j] - y_[i] * x_[j];
        }
        return twice / 2;
    }

private:
    static constexpr size_t kMost = 8;
    double x_[kMost], y_[kMost];
    size_t size_;
};

// The one of two that is cut: the smaller, or that whose corners come first, so that two boxes have one IoU.
inline bool is_cut_first(const QuadShape& a, const QuadShape& b) {
    if (a.surface != b.surface) return a.surface < b.surface;
    for (size_t i = 0; i < 4; ++i) {
        if (a.corner[i].x != b.corner[i].x) return a.corner[i].x < b.corner[i].x;
        if (a.corner[i].y != b.corner[i].y) return a.corner[i].y < b.corner[i].y;
    }
    return true;
}

// Bound on the rounding error of an area: up to it, a box is no larger than the upright box around it.
constexpr double kRounding = 1 + 1e-12;

// Intersection area of two boxes. `most`: the intersection of the upright boxes around them, an upper bound.
inline double shared_surface(const QuadShape& a, const QuadShape& b, double most) {
    const bool is_a_cut = is_cut_first(a, b);
    const QuadShape &small = is_a_cut ? a : b, &large = is_a_cut ? b : a;
    const Point origin = small.corner[0];
    Quad line;
    for (size_t i = 0; i < 4; ++i) line[i] = {large.corner[i].x - origin.x, large.corner[i].y - origin.y};
    CutPolygon polygon(small.corner);
    for (size_t i = 0; i < 4; ++i) polygon.cut(line[i], line[(i + 1) % 4]);
    return std::min(std::min(std::max(polygon.area(), 0.0), small.surface), most);
}

// Where the left edge of a truth may be. Two convex shapes whose IoU is c share at least c of the area of either. The part of a
// convex shape beyond a line across has at least the square of its share of the width as its share of the area, as a tip of a triangle
// has. So at most the square root of 1 - c of a width is not shared.
struct OrientedWindow {
    using Filter = NoFilter;
    double unshared;

    explicit OrientedWindow(double least) : unshared(std::sqrt(std::min(1.0, 1 - least + 1e-6))) {}

    double position(const QuadShape& shape) const { return shape.left; }
    double width(const QuadShape& shape) const { return (shape.right - shape.left) * (1 + 1e-5); }
    double before(const QuadShape& shape) const { return width(shape) * unshared / (1 - unshared); }
    double after(const QuadShape& shape) const { return width(shape) * unshared; }

    // Whether rounding can't change a share of the area by a millionth.
    bool is_solid(const QuadShape& shape) const {
        const double width = shape.right - shape.left, height = shape.bottom - shape.top;
        return shape.surface >= (width * width + height * height) * 1e-6;
    }
};

// Oriented boxes of one side as they were given, in single or double precision. A row is converted when it is read: comparing takes far
// longer, and a matcher per precision would double the size of the engine for nothing.
struct OrientedColumn {
    const float* single;  // null where the numbers are double
    const double* exact;
    OrientedFormat format;

    OrientedColumn(const float* box, OrientedFormat box_format) : single(box), exact(nullptr), format(box_format) {}
    OrientedColumn(const double* box, OrientedFormat box_format) : single(nullptr), exact(box), format(box_format) {}

    OrientedRow row(size_t index) const { return single != nullptr ? read(single, index) : read(exact, index); }

    void prefetch(size_t index) const {
        const size_t first = index * numbers_per_row(format);
        boxscore::prefetch(single != nullptr ? static_cast<const void*>(single + first) : exact + first);
    }

private:
    template <class Number>
    OrientedRow read(const Number* box, size_t index) const {
        OrientedRow row{};
        const Number* const from = box + index * numbers_per_row(format);
        for (size_t i = 0; i < 5; ++i) row[i] = from[i];
        if (format != OrientedFormat::corners) return row;
        for (size_t i = 5; i < 8; ++i) row[i] = from[i];
        return row;
    }
};

class OrientedPolicy {
public:
    using Shape = QuadShape;
    using Index = WindowIndex<OrientedWindow>;
    using Workspace = NoWorkspace;

    OrientedPolicy(OrientedColumn detections, OrientedColumn truths) : detections_(detections), truths_(truths) {}

    Shape detection(size_t row) const { return measure_quad(detections_.row(row), detections_.format); }
    Shape truth(size_t row) const { return measure_quad(truths_.row(row), truths_.format); }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t row) const { detections_.prefetch(row); }

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double least, Workspace&, Use use) const {
        const double width = std::min(shape.right, truth.right) - std::max(shape.left, truth.left);
        const double height = std::min(shape.bottom, truth.bottom) - std::max(shape.top, truth.top);
        const bool is_apart = width <= 0 || height <= 0 || shape.surface <= 0 || truth.surface <= 0;
        const double both = shape.surface + truth.surface, most = width * height * kRounding;
        const auto whole = [&](double shared) { return is_relative ? shape.surface : both - shared; };
        const double bound = is_apart ? 0 : std::min(most, std::min(shape.surface, truth.surface));
        if (bound < least * whole(bound)) return;
        if (is_apart) return use(0.0);
        const double shared = shared_surface(shape, truth, most);
        if (shared < least * whole(shared)) return;
        use(shared / whole(shared));
    }

    Index make_index(double least) const { return {OrientedWindow(least), least}; }

private:
    OrientedColumn detections_;
    OrientedColumn truths_;
};

// A box as a normal distribution: its centre, and the variances and covariance of points spread evenly over it.
struct GaussianShape {
    double x, y, xx, yy, xy;
    double determinant, area;
};

inline GaussianShape measure_gaussian(const OrientedRow& row, OrientedFormat format) {
    double area = 0;
    TurnedBox box;
    if (format == OrientedFormat::corners) {
        const QuadShape quad = measure_quad(row, format);
        box = least_rectangle(quad.corner), area = quad.area;
    } else {
        box = turned_box(row, format), area = box.width * box.height;
    }
    const double a = box.width * box.width / 12, b = box.height * box.height / 12;
    const double cc = box.cosine * box.cosine, ss = box.sine * box.sine;
    GaussianShape out{box.x, box.y, a * cc + b * ss, a * ss + b * cc, (a - b) * box.cosine * box.sine, 0, area};
    out.determinant = std::max(out.xx * out.yy - out.xy * out.xy, 0.0);
    return out;
}

// ProbIoU: one minus the Hellinger distance of two normal distributions (Murrugarra-Llerena et al. 2021), with every epsilon where
// Ultralytics' `batch_probiou` has it.
class GaussianPair {
public:
    static constexpr double kEpsilon = 1e-7;

    GaussianPair(const GaussianShape& a, const GaussianShape& b) {
        const double xx = a.xx + b.xx, yy = a.yy + b.yy, xy = a.xy + b.xy, dx = a.x - b.x, dy = a.y - b.y;
        determinant_ = std::max(xx * yy - xy * xy, 0.0);  // rounding: theirs would be no number
        const double divisor = determinant_ + kEpsilon;
        of_means_ = (xx * (dy * dy) + yy * (dx * dx)) / divisor * 0.25 + xy * (-dx) * dy / divisor * 0.5;
        product_ = a.determinant * b.determinant;
    }

    // Part of the Bhattacharyya distance that comes from the distance of the centres.
    double of_means() const { return of_means_; }

    double similarity() const {
        const double of_shapes = std::log(determinant_ / (4 * std::sqrt(product_) + kEpsilon) + kEpsilon) * 0.5;
        const double distance = std::min(std::max(of_means_ + of_shapes, kEpsilon), 100.0);
        return std::max(1 - std::sqrt(1 - std::exp(-distance) + kEpsilon), 0.0);
    }

private:
    double determinant_, of_means_, product_;
};

// Bound on the error of a Bhattacharyya distance by epsilons and rounding, unless a box is tiny or extremely thin.
constexpr double kSlack = 1e-3;
inline bool is_solid(const GaussianShape& shape) { return shape.determinant >= std::max(1e-3, shape.xx * shape.yy * 1e-6); }

// Where the centre of a truth may be. The Bhattacharyya distance of two distributions is at least that along x alone, for variances v
// and r² v and centres that are d apart: log((1 + r²) / 2r) / 2 + d² / (4 v (1 + r²)). If it is at most b, then r is at most k + √(k² - 1)
// with k = exp(2 b), and d² at most 4 b v (1 + r²).
struct GaussianWindow {
    using Filter = NoFilter;
    double reach;  // d for a variance of 1

    explicit GaussianWindow(double least) {
        const double unlike = 1 - least;
        const double farthest = -std::log(1 - unlike * unlike) + kSlack;
        const double k = std::exp(2 * farthest), r = k + std::sqrt(k * k - 1);
        reach = 2 * std::sqrt(farthest * (1 + r * r)) * (1 + 1e-5);
    }

    double position(const GaussianShape& shape) const { return shape.x; }
    double before(const GaussianShape& shape) const { return reach * std::sqrt(shape.xx); }
    double after(const GaussianShape& shape) const { return reach * std::sqrt(shape.xx); }

    bool is_solid(const GaussianShape& shape) const { return boxscore::is_solid(shape); }
};

class GaussianPolicy {
public:
    using Shape = GaussianShape;
    using Index = WindowIndex<GaussianWindow>;
    using Workspace = NoWorkspace;

    GaussianPolicy(OrientedColumn detections, OrientedColumn truths) : detections_(detections), truths_(truths) {}

    Shape detection(size_t row) const { return measure_gaussian(detections_.row(row), detections_.format); }
    Shape truth(size_t row) const { return measure_gaussian(truths_.row(row), truths_.format); }
    double area(const Shape& shape) const { return shape.area; }
    void prefetch(size_t row) const { detections_.prefetch(row); }

    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool, double least, Workspace&, Use use) const {
        const GaussianPair pair(shape, truth);
        if (is_too_far(pair, shape, truth, least)) return;
        use(pair.similarity());
    }

    Index make_index(double least) const { return {GaussianWindow(least), least}; }

private:
    // Whether the centres are too far apart already, which takes no logarithm: exp(-b) is below 1 / (1 + b).
    static bool is_too_far(const GaussianPair& pair, const Shape& shape, const Shape& truth, double least) {
        const double unlike = 1 - least, distance = pair.of_means() - kSlack;
        const bool is_far = least > 0 && distance > 0 && (1 - unlike * unlike) * (1 + distance) > 1 + 1e-9;
        return is_far && is_solid(shape) && is_solid(truth);
    }

    OrientedColumn detections_;
    OrientedColumn truths_;
};

}  // namespace boxscore
