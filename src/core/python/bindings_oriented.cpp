// Python bindings of oriented boxes: their measures and their faults.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <utility>

#include "geometry/oriented_boxes.h"
#include "python/geometry.h"

namespace boxscore {

using namespace nb::literals;

void bind_oriented(nb::module_& module);

namespace {

class OrientedBoxes : public PolicyGeometry<OrientedBoxes> {
public:
    OrientedBoxes(Input box, OrientedFormat format, bool is_probabilistic)
        : box_(std::move(box)), format_(format), is_probabilistic_(is_probabilistic) {
        if (box_.size() % numbers_per_row(format_) != 0) throw std::invalid_argument("box: unexpected number of columns");
        with_reals(box_, [](const auto*) {});
    }

    OrientedColumn column() const {
        return with_reals(box_, [&](const auto* data) { return OrientedColumn(data, format_); });
    }

    size_t size() const override { return box_.size() / numbers_per_row(format_); }

    // The first row with a fault, and the fault; 0 and `none` if all rows are valid.
    std::pair<size_t, OrientedFault> find_fault(double largest) const {
        const OrientedColumn boxes = column();
        for (size_t i = 0; i < size(); ++i) {
            const OrientedFault fault = fault_of(boxes.row(i), format_, largest);
            if (fault != OrientedFault::none) return {i, fault};
        }
        return {0, OrientedFault::none};
    }

    // Fault of each row as a number; 0: valid.
    nb::object faults(double largest) const {
        Buffer<uint8_t> found(size());
        const OrientedColumn boxes = column();
        for (size_t i = 0; i < size(); ++i) found[i] = static_cast<uint8_t>(fault_of(boxes.row(i), format_, largest));
        const size_t num = size();
        return to_numpy(std::move(found), {num});
    }

    // Corners in positive direction, upright boxes around them, areas for area ranges, and areas for IoU.
    nb::object measured() const {
        Buffer<double> corners(size() * 8), outer(size() * 4), area(size()), surface(size());
        const OrientedColumn boxes = column();
        for (size_t i = 0; i < size(); ++i) {
            const QuadShape shape = measure_quad(boxes.row(i), format_);
            for (size_t k = 0; k < 4; ++k) {
                corners[i * 8 + k * 2] = shape.corner[k].x, corners[i * 8 + k * 2 + 1] = shape.corner[k].y;
            }
            const double box[4] = {shape.left, shape.top, shape.right, shape.bottom};
            std::copy(box, box + 4, outer.data() + i * 4);
            area[i] = shape.area, surface[i] = shape.surface;
        }
        const size_t num = size();
        return nb::make_tuple(to_numpy(std::move(corners), {num, 8}), to_numpy(std::move(outer), {num, 4}),
                              to_numpy(std::move(area), {num}), to_numpy(std::move(surface), {num}));
    }

    // Centre, variances, covariance and determinant of each box as a normal distribution.
    nb::object gaussians() const {
        Buffer<double> rows(size() * 6);
        const OrientedColumn boxes = column();
        for (size_t i = 0; i < size(); ++i) {
            const GaussianShape shape = measure_gaussian(boxes.row(i), format_);
            const double row[6] = {shape.x, shape.y, shape.xx, shape.yy, shape.xy, shape.determinant};
            std::copy(row, row + 6, rows.data() + i * 6);
        }
        const size_t num = size();
        return to_numpy(std::move(rows), {num, 6});
    }

    // Centre, width, height and angle of the smallest rectangle around each box; the angle is in radians, from x towards y.
    nb::object rectangles() const {
        Buffer<double> rows(size() * 5);
        const OrientedColumn boxes = column();
        for (size_t i = 0; i < size(); ++i) {
            const TurnedBox box = format_ == OrientedFormat::corners
                                      ? least_rectangle(measure_quad(boxes.row(i), format_).corner)
                                      : turned_box(boxes.row(i), format_);
            const double row[5] = {box.x, box.y, box.width, box.height, std::atan2(box.sine, box.cosine)};
            std::copy(row, row + 5, rows.data() + i * 5);
        }
        const size_t num = size();
        return to_numpy(std::move(rows), {num, 5});
    }

    template <class Use>
    auto with_policy(const OrientedBoxes& truths, Use use) const {
        if (truths.is_probabilistic_ != is_probabilistic_) {
            throw std::invalid_argument("is_probabilistic: must be the same for both sides");
        }
        return is_probabilistic_ ? use(GaussianPolicy(column(), truths.column())) : use(OrientedPolicy(column(), truths.column()));
    }

private:
    Input box_;
    OrientedFormat format_;
    bool is_probabilistic_;
};

}  // namespace

void bind_oriented(nb::module_& module) {
    nb::enum_<OrientedFormat>(module, "OrientedFormat")
        .value("corners", OrientedFormat::corners)
        .value("radians", OrientedFormat::radians)
        .value("degrees", OrientedFormat::degrees)
        .value("radians_ccw", OrientedFormat::radians_ccw)
        .value("degrees_ccw", OrientedFormat::degrees_ccw);
    nb::enum_<OrientedFault>(module, "OrientedFault")
        .value("none", OrientedFault::none)
        .value("not_finite", OrientedFault::not_finite)
        .value("negative_size", OrientedFault::negative_size)
        .value("large_side", OrientedFault::large_side)
        .value("large_angle", OrientedFault::large_angle)
        .value("self_crossing", OrientedFault::self_crossing)
        .value("not_convex", OrientedFault::not_convex);
    nb::class_<OrientedBoxes, Geometry>(module, "OrientedBoxes")
        .def(nb::init<Input, OrientedFormat, bool>(), "box"_a, "box_format"_a, "is_probabilistic"_a)
        .def("find_fault",
             [](const OrientedBoxes& boxes, double largest) {
                 const auto [row, fault] = boxes.find_fault(largest);
                 return nb::make_tuple(row, fault);
             },
             "largest"_a)
        .def("faults", &OrientedBoxes::faults, "largest"_a)
        .def("measured", &OrientedBoxes::measured)
        .def("gaussians", &OrientedBoxes::gaussians)
        .def("rectangles", &OrientedBoxes::rectangles);
}

}  // namespace boxscore
