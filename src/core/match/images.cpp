#include "match/images.h"

#include <cmath>
#include <numeric>

#include "geometry/boxes.h"
#include "geometry/given.h"
#include "match/match.h"

namespace boxscore {
namespace {

// Group index of each row.
std::vector<int32_t> groups_of(const std::vector<int64_t>& start) {
    std::vector<int32_t> group(static_cast<size_t>(start.back()));
    for (size_t n = 0; n + 1 < start.size(); ++n) {
        std::fill(group.begin() + start[n], group.begin() + start[n + 1], static_cast<int32_t>(n));
    }
    return group;
}

// Indices of the thresholds in ascending order of their cutoffs.
std::vector<size_t> ascending_order(const std::vector<double>& cutoffs) {
    std::vector<size_t> order(cutoffs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cutoffs[a] < cutoffs[b]; });
    return order;
}

// Recorder of the matcher that writes the takes to pycocotools' arrays.
class AssignmentWriter {
public:
    static constexpr bool kIsActive = true;

    AssignmentWriter(const ImageGroups& groups, const AssignmentColumns& columns, const AssignmentRules& rules,
                     const Assignments& out)
        : groups_(groups), columns_(columns), rules_(rules), out_(out), num_thresholds_(rules.thresholds.size()),
          num_detections_(static_cast<size_t>(groups.start.back())),
          num_truths_(static_cast<size_t>(groups.truth_start.back())), group_(groups_of(groups.start)),
          truth_group_(groups_of(groups.truth_start)), position_(rules.area_low.size() * num_truths_) {
        std::fill_n(out.match, rules.area_low.size() * num_thresholds_ * num_detections_, 0.0);
        std::fill_n(out.is_ignored, rules.area_low.size() * num_thresholds_ * num_detections_, uint8_t{0});
        std::fill_n(out.truth_match, rules.area_low.size() * num_thresholds_ * num_truths_, 0.0);
        order_truths();
    }

    // pycocotools' rules, with cutoffs in ascending order; sets `threshold_`.
    Rules make_rules() {
        Rules rules;
        for (const double threshold : rules_.thresholds) {
            rules.cutoffs.push_back(cutoff_of(threshold));
        }
        threshold_ = ascending_order(rules.cutoffs);
        std::sort(rules.cutoffs.begin(), rules.cutoffs.end());
        rules.area_low = rules_.area_low, rules.area_high = rules_.area_high;
        rules.limits = {kNoLimit};
        return rules;
    }

    void match_all(const Run& run) {
        const Rules rules = make_rules();
        if (rules.num_cells() == 0) return;
        std::vector<size_t> row_start(num_detections_);
        std::vector<uint32_t> column(num_truths_);
        std::vector<uint8_t> kind(num_truths_);
        const std::vector<size_t> starts = groups_.matrix_starts();
        for (size_t d = 0; d < num_detections_; ++d) {
            const auto n = static_cast<size_t>(group_[d]);
            row_start[d] = starts[n] + (d - static_cast<size_t>(groups_.start[n])) * groups_.num_truths(n);
        }
        for (size_t g = 0; g < num_truths_; ++g) {
            column[g] = static_cast<uint32_t>(g - static_cast<size_t>(groups_.truth_start[truth_group_[g]]));
            kind[g] = columns_.is_ignored[g] == 0 ? kRegular : columns_.is_crowd[g] != 0 ? kCrowd : kDifficult;
        }
        // Each group is passed as an image with one class; rows are already sorted by falling score, so scores are all 0.
        const std::vector<int32_t> label(std::max(num_detections_, num_truths_));
        const std::vector<double> score(num_detections_);
        const MatrixPolicy policy{columns_.overlap, row_start.data(), column.data()};
        const Groups by_image{{groups_.start.begin(), groups_.start.end()}, {}};
        const Groups truths_by_image{{groups_.truth_start.begin(), groups_.truth_start.end()}, {}};
        match_into(*this, policy, {num_detections_, &by_image, label.data(), score.data(), nullptr, nullptr},
                   {num_truths_, &truths_by_image, label.data(), columns_.truth_area, kind.data()}, {groups_.size(), 1}, rules, run);
        for (size_t n = 0; n < groups_.size(); ++n) {
            const double* const overlap = columns_.overlap + starts[n];
            const size_t num_pairs = static_cast<size_t>(groups_.start[n + 1] - groups_.start[n]) * groups_.num_truths(n);
            if (std::any_of(overlap, overlap + num_pairs, [](double each) { return std::isnan(each); })) match_in_order(n, overlap);
        }
        ignore_outside();
    }

    void take(uint32_t row, size_t word, uint64_t taken, uint32_t truth_row) const {
        const auto n = static_cast<size_t>(group_[row]);
        for (; taken != 0; taken &= taken - 1) {
            const size_t cell = word * kBitsPerWord + count_trailing_zeros(taken);
            const size_t a = cell / num_thresholds_, t = threshold_[cell % num_thresholds_];
            const size_t at = index_of(a, t, groups_.start, n, row, num_detections_);
            const size_t position = position_[a * num_truths_ + truth_row];
            out_.match[at] = columns_.truth_id[truth_row];
            out_.is_ignored[at] = out_.is_truth_ignored[a * num_truths_ + position] != 0;
            out_.truth_match[index_of(a, t, groups_.truth_start, n, position, num_truths_)] = columns_.id[row];
        }
    }

    // as in COCO: a truth stays free if the id of the detection that takes it is not above 0, and a crowd always does
    bool leaves_free(uint32_t row, uint32_t truth_row) const {
        return !(columns_.id[row] > 0) || columns_.is_crowd[truth_row] != 0;
    }

private:
    // as in COCO: thresholds are capped at 1 - 1e-10; no similarity is below NaN, so all reach it
    static double cutoff_of(double threshold) {
        return std::isnan(threshold) ? -std::numeric_limits<double>::infinity() : std::min(threshold, 1 - 1e-10);
    }

    // Index of a row in an array with one block per group, shape (thresholds, rows).
    size_t index_of(size_t area, size_t threshold, const std::vector<int64_t>& start, size_t n, size_t row, size_t size) const {
        const auto first = static_cast<size_t>(start[n]), num = static_cast<size_t>(start[n + 1]) - first;
        return (area * size + first) * num_thresholds_ + threshold * num + (row - first);
    }

    bool is_outside(double area, size_t a) const { return area < rules_.area_low[a] || area > rules_.area_high[a]; }

    // Order the truths of each group: first the ones that count, then the ignored ones; stably.
    void order_truths() {
        for (size_t a = 0; a < rules_.area_low.size(); ++a) {
            int64_t* const order = out_.truth_order + a * num_truths_;
            int64_t* const is_ignored = out_.is_truth_ignored + a * num_truths_;
            for (size_t n = 0; n < groups_.size(); ++n) {
                const auto first = static_cast<size_t>(groups_.truth_start[n]);
                size_t position = first;
                for (const bool part : {false, true}) {
                    for (size_t g = first; g < first + groups_.num_truths(n); ++g) {
                        if ((columns_.is_ignored[g] != 0 || is_outside(columns_.truth_area[g], a)) != part) continue;
                        position_[a * num_truths_ + g] = position;
                        order[position] = static_cast<int64_t>(g - first);
                        is_ignored[position++] = part;
                    }
                }
            }
        }
    }

    // Match a group with a NaN overlap again. As in COCO: NaN is not below any other overlap, nor any other below NaN, so later truths win.
    void match_in_order(size_t n, const double* overlap) const {
        const auto first = static_cast<size_t>(groups_.truth_start[n]), first_row = static_cast<size_t>(groups_.start[n]);
        const size_t num = groups_.num_truths(n), end_row = static_cast<size_t>(groups_.start[n + 1]);
        for (size_t a = 0; a < rules_.area_low.size(); ++a) {
            const int64_t* const order = out_.truth_order + a * num_truths_ + first;
            const int64_t* const is_ignored = out_.is_truth_ignored + a * num_truths_ + first;
            for (size_t t = 0; t < num_thresholds_; ++t) {
                double* const taken = out_.truth_match + index_of(a, t, groups_.truth_start, n, first, num_truths_);
                std::fill(taken, taken + num, 0.0);
                for (size_t row = first_row; row < end_row; ++row) {
                    const size_t at = index_of(a, t, groups_.start, n, row, num_detections_);
                    out_.match[at] = 0;
                    out_.is_ignored[at] = 0;
                    double best = cutoff_of(rules_.thresholds[t]);
                    size_t chosen = num;
                    for (size_t i = 0; i < num; ++i) {
                        const auto g = static_cast<size_t>(order[i]);
                        if (taken[i] > 0 && columns_.is_crowd[first + g] == 0) continue;
                        if (chosen < num && is_ignored[chosen] == 0 && is_ignored[i] != 0) break;
                        const double value = overlap[(row - first_row) * num + g];
                        if (value < best) continue;
                        best = value;
                        chosen = i;
                    }
                    if (chosen == num) continue;
                    out_.match[at] = columns_.truth_id[first + static_cast<size_t>(order[chosen])];
                    out_.is_ignored[at] = is_ignored[chosen] != 0;
                    taken[chosen] = columns_.id[row];
                }
            }
        }
    }

    // Ignore unmatched detections outside of the area range; one whose truth has the id 0 reads as unmatched.
    void ignore_outside() const {
        for (size_t a = 0; a < rules_.area_low.size(); ++a) {
            for (size_t d = 0; d < num_detections_; ++d) {
                if (!is_outside(columns_.area[d], a)) continue;
                for (size_t t = 0; t < num_thresholds_; ++t) {
                    const size_t at = index_of(a, t, groups_.start, static_cast<size_t>(group_[d]), d, num_detections_);
                    if (out_.match[at] == 0) out_.is_ignored[at] = 1;
                }
            }
        }
    }

    const ImageGroups& groups_;
    const AssignmentColumns& columns_;
    const AssignmentRules& rules_;
    const Assignments& out_;
    const size_t num_thresholds_, num_detections_, num_truths_;
    const std::vector<int32_t> group_, truth_group_;
    std::vector<size_t> position_;   // of each truth in the order of matching, by area range
    std::vector<size_t> threshold_;  // indices of the thresholds in ascending order of their cutoffs
};

}  // namespace

void measure_overlaps(const ImageGroups& groups, const double* box, const double* truth_box, const uint8_t* is_crowd,
                      const Run& run, double* overlap) {
    const BoxPolicy<double, AnyBounds> policy({box, BoxFormat::xywh}, {truth_box, BoxFormat::xywh}, false);
    measure_pairs(policy, groups, is_crowd, run, overlap);
}

void assign(const ImageGroups& groups, const AssignmentColumns& columns, const AssignmentRules& rules, const Run& run,
            const Assignments& out) {
    AssignmentWriter(groups, columns, rules, out).match_all(run);
}

}  // namespace boxscore
