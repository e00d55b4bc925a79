// Python bindings of keypoints.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "geometry/keypoints.h"
#include "python/geometry.h"
#include "python/keypoints.h"

namespace boxscore {

using namespace nb::literals;

void bind_keypoints(nb::module_& module);

namespace {

// Truths have all columns except `slot`. Detections have points, an optional `slot`, and an area if it differs from the area of the box
// around the points.
class Keypoints : public PolicyGeometry<Keypoints> {
public:
    Keypoints(KeypointArrays arrays, std::vector<double> sigmas) : arrays_(std::move(arrays)), sigmas_(std::move(sigmas)) {
        const size_t num_numbers = arrays_.point.size();
        if (num_numbers > 0 && (sigmas_.empty() || num_numbers % (sigmas_.size() * 2) != 0)) {
            throw std::invalid_argument("point: expected two numbers per sigma");
        }
        typed<double>(arrays_.point, num_numbers, "point");
        if (arrays_.area) typed<double>(*arrays_.area, size(), "area");
        if (!arrays_.is_labelled) return;
        if (!arrays_.scale) throw std::invalid_argument("scale: must be given with is_labelled");
        typed<uint8_t>(*arrays_.is_labelled, size() * sigmas_.size(), "is_labelled");
        typed<double>(*arrays_.scale, size(), "scale");
        put_regions();
    }

    size_t size() const override {
        if (arrays_.slot) return arrays_.slot->size();
        return arrays_.point.size() == 0 ? 0 : arrays_.point.size() / (sigmas_.size() * 2);
    }

    template <class Use>
    auto with_policy(const Keypoints& truths, Use use) const {
        if (size() > 0 && truths.size() > 0 && truths.sigmas_ != sigmas_) {
            throw std::invalid_argument("sigmas: must be the same for both sides");
        }
        if (!truths.arrays_.is_labelled) throw std::invalid_argument("is_labelled: must be given for truths");
        const LabelColumn labels{elements<uint8_t>(*truths.arrays_.is_labelled), elements<double>(*truths.arrays_.scale),
                                 truths.region_.data()};
        return use(KeypointPolicy(column(), truths.column(), labels, truths.size(), truths.size() > 0 ? truths.sigmas_ : sigmas_));
    }

private:
    KeypointColumn column() const {
        return {elements<double>(arrays_.point), arrays_.area ? elements<double>(*arrays_.area) : nullptr,
                arrays_.slot ? elements<uint32_t>(*arrays_.slot) : nullptr};
    }

    // as in COCO: regions are boxes three times as wide and high; without boxes they are empty
    void put_regions() {
        constexpr double kNowhere = std::numeric_limits<double>::infinity();
        const double* const box = arrays_.box ? typed<double>(*arrays_.box, size() * 4, "box") : nullptr;
        region_.resize(size() * 4);
        for (size_t i = 0; i < region_.size(); i += 4) {
            for (size_t axis = 0; axis < 2; ++axis) {
                region_[i + axis] = box == nullptr ? kNowhere : box[i + axis] - box[i + axis + 2];
                region_[i + axis + 2] = box == nullptr ? -kNowhere : box[i + axis] + box[i + axis + 2] * 2;
            }
        }
    }

    KeypointArrays arrays_;
    std::vector<double> sigmas_, region_;
};

}  // namespace

nb::object make_keypoints(KeypointArrays arrays, std::vector<double> sigmas) {
    return nb::cast(Keypoints(std::move(arrays), std::move(sigmas)));
}

void bind_keypoints(nb::module_& module) {
    using Column = std::optional<Input>;
    nb::class_<Keypoints, Geometry>(module, "Keypoints")
        .def(
            "__init__",
            [](Keypoints* self, Input point, std::vector<double> sigmas, Column area, Column is_labelled, Column scale, Column box) {
                new (self) Keypoints({std::move(point), std::move(area), std::move(is_labelled), std::move(scale), std::move(box), {}},
                                     std::move(sigmas));
            },
            "point"_a, "sigmas"_a, "area"_a = nb::none(), "is_labelled"_a = nb::none(), "scale"_a = nb::none(), "box"_a = nb::none());
}

}  // namespace boxscore
