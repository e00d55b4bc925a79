// Python bindings of matching: a tally from the columns of both sides.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "geometry/given.h"
#include "geometry/overlaps.h"
#include "match/assignment.h"
#include "python/boxes.h"
#include "python/geometry.h"

namespace boxscore {

using namespace nb::literals;

void bind_match(nb::module_& module);

namespace {

class Boxes : public PolicyGeometry<Boxes> {
public:
    Boxes(Input box, BoxFormat format, bool is_inclusive) : box_(std::move(box)), format_(format), is_inclusive_(is_inclusive) {
        if (box_.size() % 4 != 0) throw std::invalid_argument("box: expected four numbers per row");
        with_reals(box_, [](const auto*) {});
    }

    size_t size() const override { return box_.size() / 4; }

    template <class Use>
    auto with_policy(const Boxes& truths, Use use) const {
        if (truths.is_inclusive_ != is_inclusive_) throw std::invalid_argument("is_inclusive: must be the same for both sides");
        std::vector<double> copy;  // truths are few, so converting them to one type is cheap
        const double* truth_box = with_reals(truths.box_, [&](const auto* data) -> const double* {
            if constexpr (std::is_same_v<decltype(data), const double*>) return data;
            copy.assign(data, data + truths.box_.size());
            return copy.data();
        });
        return with_reals(box_, [&](const auto* data) {
            using Number = std::decay_t<decltype(*data)>;
            return use(BoxPolicy<Number>({data, format_}, {truth_box, truths.format_}, is_inclusive_));
        });
    }

private:
    Input box_;
    BoxFormat format_;
    bool is_inclusive_;
};

// Shapes whose similarities are given instead of computed. Detection d has the candidates start[d] .. start[d + 1] - 1, which ascend by
// the rows of their truths.
class GivenShapes : public PolicyGeometry<GivenShapes> {
public:
    GivenShapes(Input area, std::optional<Input> start, std::optional<Input> truth, std::optional<Input> similarity)
        : area_(std::move(area)) {
        typed<double>(area_, area_.size(), "area");
        if (!start) return;
        if (!truth || !similarity) throw std::invalid_argument("truth, similarity: must be given with start");
        start_ = copy_of<int64_t>(*start, size() + 1, "start");
        truth_ = copy_of<int32_t>(*truth, truth->size(), "truth");
        similarity_ = copy_of<double>(*similarity, truth_.size(), "similarity");
        bool is_valid = start_[0] == 0 && start_.back() == static_cast<int64_t>(truth_.size());
        for (size_t d = 0; d < size(); ++d) is_valid &= start_[d] <= start_[d + 1];
        if (!is_valid) throw std::invalid_argument("start: must ascend from 0 to the number of candidates");
    }

    size_t size() const override { return area_.size(); }

    template <class Use>
    auto with_policy(const GivenShapes& truths, Use use) const {
        if (start_.size() != size() + 1) throw std::invalid_argument("start: must be given for detections");
        return use(CandidatePolicy{start_.data(), truth_.data(), similarity_.data(), elements<double>(area_),
                                   elements<double>(truths.area_)});
    }

private:
    Input area_;
    std::vector<int64_t> start_;
    std::vector<int32_t> truth_;
    std::vector<double> similarity_;
};

// Shapes whose intersections are given, as OverlapPolicy reads them. `offset`: where the row of each detection starts in `common`, or the
// column of each truth; only detections have `common`.
class GivenOverlaps : public PolicyGeometry<GivenOverlaps> {
public:
    GivenOverlaps(Input area, Input offset, std::optional<Input> common)
        : area_(std::move(area)), offset_(std::move(offset)), common_(std::move(common)) {
        typed<double>(area_, area_.size(), "area");
        const int64_t* offsets = typed<int64_t>(offset_, size(), "offset");
        if (common_) typed<int32_t>(*common_, common_->size(), "common");
        if (std::any_of(offsets, offsets + size(), [](int64_t each) { return each < 0; })) {
            throw std::invalid_argument("offset: must not be negative");
        }
    }

    size_t size() const override { return area_.size(); }

    template <class Use>
    auto with_policy(const GivenOverlaps& truths, Use use) const {
        if (!common_) throw std::invalid_argument("common: must be given for detections");
        return use(OverlapPolicy{elements<int32_t>(*common_), common_->size(), elements<int64_t>(offset_),
                                 elements<int64_t>(truths.offset_), elements<double>(area_), elements<double>(truths.area_)});
    }

private:
    Input area_, offset_;
    std::optional<Input> common_;
};

nb::object match_objects(const DetectionsObject& detections, const TruthsObject& truths, const Input& class_ids,
                         const Rules& rules, size_t num_threads, bool is_traced) {
    const int64_t* ids = typed<int64_t>(class_ids, class_ids.size(), "class_ids");
    return detections.geometry->match(detections, truths, distinct(ids, class_ids.size()), rules, is_traced, nullptr, num_threads);
}

nb::object evaluate_objects(const DetectionsObject& detections, const TruthsObject& truths, const Input& class_ids,
                            const Rules& rules, const WantedNumbers& wanted, size_t num_threads) {
    const int64_t* ids = typed<int64_t>(class_ids, class_ids.size(), "class_ids");
    return detections.geometry->match(detections, truths, distinct(ids, class_ids.size()), rules, false, &wanted, num_threads);
}

nb::object find_nearest_of(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                           const Input& is_truth_used, size_t num_threads) {
    return detections.geometry->find_nearest(detections, truths, is_used, is_truth_used, num_threads);
}

nb::object find_pairs_of(const DetectionsObject& detections, const TruthsObject& truths, bool is_relative, const Rules& rules,
                         size_t num_threads) {
    if (rules.num_thresholds() != 1) throw std::invalid_argument("rules: expected one threshold");
    return detections.geometry->find_pairs(detections, truths, is_relative, rules, num_threads);
}

// Maximum-weight matching: the index of the pair of each row, or -1. Pairs must be sorted by row.
nb::object assign_pairs(const Input& row, const Input& column, const Input& weight, size_t num_rows, size_t num_columns) {
    const size_t size = row.size();
    const int32_t *rows = typed<int32_t>(row, size, "row"), *columns = typed<int32_t>(column, size, "column");
    const double* weights = typed<double>(weight, size, "weight");
    std::vector<WeightedPair> pairs;
    for (size_t i = 0; i < size; ++i) {
        const bool is_valid = rows[i] >= 0 && size_t(rows[i]) < num_rows && columns[i] >= 0 && size_t(columns[i]) < num_columns &&
                              weights[i] > 0 && (i == 0 || rows[i - 1] <= rows[i]);
        if (!is_valid) throw std::invalid_argument("row, column, weight: expected pairs in order of rows, with weights above 0");
        pairs.push_back({rows[i], columns[i], weights[i]});
    }
    std::vector<int32_t> taken;
    {
        const Unlocked unlocked;
        taken = Assignment(pairs, num_rows, num_columns).taken();
    }
    return to_numpy(taken, {num_rows});
}

nb::object match_across_of(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                           const Input& is_truth_used, const Rules& rules, size_t num_threads) {
    if (rules.num_thresholds() != 1) throw std::invalid_argument("rules: expected one threshold");
    return detections.geometry->match_across(detections, truths, is_used, is_truth_used, rules, num_threads);
}

}  // namespace

nb::object make_boxes(Input box, BoxFormat format, bool is_inclusive) {
    return nb::cast(Boxes(std::move(box), format, is_inclusive));
}

void bind_match(nb::module_& module) {
    nb::class_<Geometry>(module, "Geometry").def("__len__", &Geometry::size);
    bind_geometry<Boxes, Input, BoxFormat, bool>(module, "Boxes", "box"_a, "box_format"_a, "is_inclusive"_a);
    using Column = std::optional<Input>;
    bind_geometry<GivenShapes, Input, Column, Column, Column>(module, "GivenShapes", "area"_a, "start"_a = nb::none(),
                                                              "truth"_a = nb::none(), "similarity"_a = nb::none());
    bind_geometry<GivenOverlaps, Input, Input, Column>(module, "GivenOverlaps", "area"_a, "offset"_a, "common"_a = nb::none());
    nb::class_<DetectionsObject>(module, "Detections")
        .def(nb::init<Input, Input, Input, nb::object, Column, Column>(), "image"_a, "label"_a, "score"_a, "geometry"_a,
             "coverage"_a = nb::none(), "area"_a = nb::none())
        .def("__len__", &DetectionsObject::size);
    nb::class_<TruthsObject>(module, "Truths")
        .def(nb::init<Input, Input, nb::object, std::optional<Input>, std::optional<Input>>(), "image"_a, "label"_a,
             "geometry"_a, "area"_a = nb::none(), "kind"_a = nb::none())
        .def("__len__", &TruthsObject::size);
    module.def("match", &match_objects, "detections"_a, "truths"_a, "class_ids"_a, "rules"_a, "num_threads"_a,
               "is_traced"_a = false);
    module.def("evaluate", &evaluate_objects, "detections"_a, "truths"_a, "class_ids"_a, "rules"_a, "wanted"_a, "num_threads"_a);
    module.def("find_nearest", &find_nearest_of, "detections"_a, "truths"_a, "is_used"_a, "is_truth_used"_a, "num_threads"_a);
    module.def("find_pairs", &find_pairs_of, "detections"_a, "truths"_a, "is_relative"_a, "rules"_a, "num_threads"_a);
    module.def("assign_pairs", &assign_pairs, "row"_a, "column"_a, "weight"_a, "num_rows"_a, "num_columns"_a);
    module.def("match_across", &match_across_of, "detections"_a, "truths"_a, "is_used"_a, "is_truth_used"_a, "rules"_a,
               "num_threads"_a);
}

}  // namespace boxscore
