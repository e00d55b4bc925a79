// Intervals on a line: a geometry that the engine knows nothing of, to see that a policy is all it takes.
#include <algorithm>
#include <utility>

#include "geometry/policy.h"
#include "python/geometry.h"

namespace boxscore {
namespace {

struct IntervalPolicy {
    struct Shape {
        double start, length;
    };
    using Index = NoIndex;
    using Workspace = NoWorkspace;

    const double *detections, *truths;  // start and end of each

    static Shape measure(const double* interval) { return {interval[0], interval[1] - interval[0]}; }
    Shape detection(size_t row) const { return measure(detections + row * 2); }
    Shape truth(size_t row) const { return measure(truths + row * 2); }
    double area(const Shape& shape) const { return shape.length; }
    void prefetch(size_t row) const { boxscore::prefetch(detections + row * 2); }
    template <class Use>
    void compare(const Shape& shape, const Shape& truth, bool is_relative, double, Workspace&, Use use) const {
        const double shared =
            std::min(shape.start + shape.length, truth.start + truth.length) - std::max(shape.start, truth.start);
        use(shared > 0 ? shared / (is_relative ? shape.length : shape.length + truth.length - shared) : 0.0);
    }
    Index make_index(double) const { return {}; }
};

class Intervals : public PolicyGeometry<Intervals> {
public:
    explicit Intervals(Input interval) : interval_(std::move(interval)) {
        typed<double>(interval_, size() * 2, "interval");
    }
    size_t size() const override { return interval_.size() / 2; }
    template <class Use>
    auto with_policy(const Intervals& truths, Use use) const {
        return use(IntervalPolicy{elements<double>(interval_), elements<double>(truths.interval_)});
    }

private:
    Input interval_;
};

}  // namespace
}  // namespace boxscore

NB_MODULE(boxscore_test_intervals, module) {
    nanobind::module_::import_("boxscore._compiled");  // has the class that geometries derive from
    boxscore::bind_geometry<boxscore::Intervals, boxscore::Input>(module, "Intervals", nanobind::arg("interval"));
}
