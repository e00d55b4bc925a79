// The Python side of keypoints.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "geometry/keypoints.h"
#include "python/geometry.h"

namespace boxscore {

using namespace nb::literals;

void bind_keypoints(nb::module_& module);

namespace {

// Truths have all columns; detections have points and, if it is not that of the box around these, an area.
class Keypoints : public PolicyGeometry<Keypoints> {
public:
    Keypoints(Input point, std::vector<double> sigmas, std::optional<Input> area, std::optional<Input> is_labelled, std::optional<Input> scale,
              std::optional<Input> region)
        : point_(std::move(point)), sigmas_(std::move(sigmas)), area_(std::move(area)), is_labelled_(std::move(is_labelled)),
          scale_(std::move(scale)), region_(std::move(region)) {
        if (point_.size() > 0 && (sigmas_.empty() || point_.size() % (sigmas_.size() * 2) != 0)) {
            throw std::invalid_argument("point: expected two numbers per sigma");
        }
        typed<double>(point_, point_.size(), "point");
        if (area_) typed<double>(*area_, size(), "area");
        if (!is_labelled_) return;
        if (!scale_ || !region_) throw std::invalid_argument("scale, region: must be given with is_labelled");
        typed<uint8_t>(*is_labelled_, size() * sigmas_.size(), "is_labelled");
        typed<double>(*scale_, size(), "scale");
        typed<double>(*region_, size() * 4, "region");
    }

    size_t size() const override { return point_.size() == 0 ? 0 : point_.size() / (sigmas_.size() * 2); }

    template <class Use>
    auto with_policy(const Keypoints& truths, Use use) const {
        if (size() > 0 && truths.size() > 0 && truths.sigmas_ != sigmas_) {
            throw std::invalid_argument("sigmas: must be the same for both sides");
        }
        if (!truths.is_labelled_) throw std::invalid_argument("is_labelled: must be given for truths");
        const LabelColumn labels{elements<uint8_t>(*truths.is_labelled_), elements<double>(*truths.scale_),
                                 elements<double>(*truths.region_)};
        return use(KeypointPolicy(column(), truths.column(), labels, truths.size(), truths.size() > 0 ? truths.sigmas_ : sigmas_));
    }

private:
    KeypointColumn column() const { return {elements<double>(point_), area_ ? elements<double>(*area_) : nullptr}; }

    Input point_;
    std::vector<double> sigmas_;
    std::optional<Input> area_, is_labelled_, scale_, region_;
};

}  // namespace

void bind_keypoints(nb::module_& module) {
    bind_geometry<Keypoints, Input, std::vector<double>, std::optional<Input>, std::optional<Input>, std::optional<Input>, std::optional<Input>>(
        module, "Keypoints", "point"_a, "sigmas"_a, "area"_a = nb::none(), "is_labelled"_a = nb::none(), "scale"_a = nb::none(),
        "region"_a = nb::none());
}

}  // namespace boxscore
