// Candidates: the truths whose similarity to a detection reaches the lowest threshold. They are the interface between geometry and
// matching: matching doesn't know shapes, and geometry doesn't know verdicts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/branchless.h"
#include "rows/order.h"

namespace boxscore {

struct Candidate {
    double similarity;
    uint32_t truth;
    uint32_t num_reached;  // number of thresholds that the similarity reaches
};

// The truths of one image that belong to one class, or to any.
template <class Policy>
struct TruthGroup {
    uint32_t first = 0, end = 0;  // 0, 0 if empty
    typename Policy::Index::Range range;
};

// Truths in the order that breaks ties between candidates.
template <class Policy>
struct TruthShapes {
    const typename Policy::Shape* shape;
    const uint8_t* is_relative;  // whether similarities are relative to the size of the detection
};

// The candidates of one detection. Buffers of one thread.
template <class Policy>
struct CandidateList {
    typename Policy::Index index;
    typename Policy::Workspace workspace;
    std::vector<Candidate> items;
    size_t size = 0;

    const Candidate* begin() const { return items.data(); }
    const Candidate* end() const { return items.data() + size; }
};

template <class Policy>
class CandidateFinder {
public:
    using Shape = typename Policy::Shape;

    // `is_last_first`: whether the last of equally similar truths comes first, else the first.
    CandidateFinder(const Policy& policy, const std::vector<double>& cutoffs, bool is_strict, bool is_last_first)
        : policy_(policy), cutoffs_(cutoffs), is_strict_(is_strict), is_last_first_(is_last_first),
          surely_below_(cutoffs[0] * (1 - 1e-9)) {
        cutoffs_.resize((cutoffs.size() + 1) / 2 * 2, std::numeric_limits<double>::quiet_NaN());  // padding that no similarity reaches
    }

    CandidateList<Policy> make_list() const { return {policy_.make_index(surely_below_), {}, {}}; }

    // Clear the groups of the previous image and make room for `num_truths` candidates.
    void start_image(size_t num_truths, CandidateList<Policy>& list) const {
        list.index.clear();
        if (list.items.size() < num_truths) list.items.resize(num_truths);
    }

    TruthGroup<Policy> add_group(const TruthShapes<Policy>& truths, uint32_t first, uint32_t end,
                                 CandidateList<Policy>& list) const {
        return {first, end, list.index.add(truths.shape, truths.is_relative, first, end)};
    }

    // Look up `num` detections in a group; `shape_at(i)` is the shape of detection i.
    template <class ShapeAt>
    void look_up(const ShapeAt& shape_at, uint32_t num, const TruthGroup<Policy>& group, CandidateList<Policy>& list) const {
        list.index.look_up(shape_at, num, group.range);
    }

    // Find the candidates of detection i of the last `look_up`, sorted by falling similarity.
    void find(uint32_t i, const Shape& shape, const TruthShapes<Policy>& truths, const TruthGroup<Policy>& group,
              CandidateList<Policy>& list) const {
        list.size = 0;
        list.index.visit(i, shape, group.first, group.end, group.range, [&](uint32_t g) { consider(shape, truths, g, list); });
        Candidate* const items = list.items.data();
        auto is_better = [is_last_first = is_last_first_](const Candidate& a, const Candidate& b) {
            return a.similarity > b.similarity || (a.similarity == b.similarity && (a.truth > b.truth) == is_last_first);
        };
        if (list.size > kFew) {
            std::sort(items, items + list.size, is_better);
        } else {
            insertion_sort(items, items + list.size, is_better);
        }
    }

private:
    void consider(const Shape& shape, const TruthShapes<Policy>& truths, uint32_t g, CandidateList<Policy>& list) const {
        const auto use = [&](double similarity) {
            // The number is unpredictable, so compare with all cutoffs instead of branching.
            const uint32_t num = num_reached(cutoffs_.data(), cutoffs_.size(), similarity, is_strict_);
            if (num > 0) list.items[list.size++] = {similarity, g, num};
        };
        policy_.compare(shape, truths.shape[g], truths.is_relative[g] != 0, surely_below_, list.workspace, use);
    }

    const Policy& policy_;
    std::vector<double> cutoffs_;  // ascending, padded to an even number
    bool is_strict_, is_last_first_;
    double surely_below_;  // a similarity below this can't reach the lowest threshold, whatever the rounding of its division
};

}  // namespace boxscore
