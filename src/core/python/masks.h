// Python class of masks.
#pragma once

#include <memory>
#include <utility>

#include "geometry/masks.h"
#include "masks/column.h"
#include "python/geometry.h"

namespace boxscore {

// An immutable column of masks, which several geometries and arrays may share.
class Masks : public PolicyGeometry<Masks> {
public:
    explicit Masks(MaskColumn&& column) : Masks(std::make_shared<const MaskColumn>(std::move(column))) {}
    explicit Masks(std::shared_ptr<const MaskColumn> column) : column_(std::move(column)) {}

    size_t size() const override { return column_->num_masks(); }
    const MaskColumn& column() const { return *column_; }
    const std::shared_ptr<const MaskColumn>& shared() const { return column_; }

    // These masks, to be compared by boundary IoU, too. `ratio`: width of boundaries as a share of the image's diagonal; 0: only mask IoU.
    Masks with_boundary(double ratio) const {
        Masks other = *this;
        other.boundary_ratio_ = ratio;
        return other;
    }

    template <class Use>
    auto with_policy(const Masks& truths, Use use) const {
        if (truths.boundary_ratio_ != boundary_ratio_) throw std::invalid_argument("boundary: must be the same for both sides");
        return use(MaskPolicy(column_->view(), truths.column_->view(), boundary_ratio_));
    }

private:
    std::shared_ptr<const MaskColumn> column_;
    double boundary_ratio_ = 0;
};

}  // namespace boxscore
