#include "curves/curves.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "curves/curve_workspace.h"
#include "curves/precision.h"
#include "rows/cells.h"
#include "rows/order.h"

namespace boxscore {
namespace {

class CurveBuilder {
public:
    CurveBuilder(const OrderedHits& hits, const int64_t* num_truths, const Rules& rules, const CurveArrays& out)
        : hits_(hits), truths_(num_truths), rules_(rules), out_(out), limits_(out.limits),
          num_classes_(hits.num_classes()), num_thresholds_(rules.num_thresholds()), num_areas_(rules.num_areas()),
          num_lanes_(num_area_lanes(num_areas_)), num_tiers_(rules.num_limits()), num_limits_(limits_.size()),
          num_points_(is_sampled(rules.ap) || out.precision != nullptr ? rules.recall_points.size() : 0),
          num_words_(rules.num_words()), width_(num_areas_ * num_limits_),
          is_every_precision_needed_(rules.ap == ApRule::envelope || is_linear(rules.ap)), has_scores_(out.scores != nullptr),
          cells_(rules) {
        defined_index_.resize((num_classes_ + 1) * num_areas_);
        for (size_t i = 0; i < num_classes_ * num_areas_; ++i) {
            defined_index_[i + num_areas_] = defined_index_[i] + (num_truths[i] > 0);
        }
        for (size_t cell = 0; cell < rules.num_cells(); ++cell) {
            const size_t area = cell / num_thresholds_;
            cell_index_.push_back({area, reached_index(cell % num_thresholds_, 0, area, 0)});
        }
        for (size_t tier = 0; tier < num_tiers_; ++tier) {
            first_limit_.push_back(std::lower_bound(limits_.begin(), limits_.end(), tier) - limits_.begin());
        }
    }

    CurveWorkspace make_workspace() const {
        CurveWorkspace work;
        const size_t num_curves = width_ * num_thresholds_;
        work.num_uniform.resize(num_limits_ * num_lanes_);
        work.curves.resize(num_curves);
        work.hits_counted.resize(num_tiers_ * num_words_);
        work.hits_true.resize(num_tiers_ * num_words_);
        work.num_reached.resize(num_areas_);
        work.passed_by.resize(num_areas_);
        work.num_used.resize(num_thresholds_);
        work.precision.resize(num_thresholds_ * (num_points_ + 1) * width_);
        if (has_scores_) work.scores.resize(work.precision.size());
        if (num_points_ > 0) work.waiting.resize(num_curves);
        work.means.resize(width_);
        work.trapezoids.resize(num_curves);
        if (is_every_precision_needed_) work.every_precision.resize(num_curves);
        if (is_linear(rules_.ap)) work.every_counted.resize(num_curves);
        return work;
    }

    void build_class(size_t label, CurveWorkspace& work, const Run& run) const {
        begin(label, work);
        const int32_t* between = hits_.between(label);
        for (size_t hit = hits_.start[label]; hit < hits_.start[label + 1]; ++hit, between += hits_.num_counts) {
            if (hit % (size_t{1} << 20) == 0) run.check();
            count_others(between, work);
            count_hit(label, hit, work);
            if (work.waiting.size >= WaitingPoints::kMany) add_waiting(work);
        }
        add_waiting(work);
        end(label, work);
    }

private:
    int64_t num_truths(size_t label, size_t area) const { return truths_[label * num_areas_ + area]; }
    // Of a curve in the workspace; `limit` is an index among the limits whose curves are built.
    size_t state_index(size_t area, size_t threshold, size_t limit) const {
        return (area * num_thresholds_ + threshold) * num_limits_ + limit;
    }
    // Of a curve in arrays [T, K, A, M].
    size_t curve_index(size_t label, size_t area, size_t threshold, size_t tier) const {
        return ((threshold * num_classes_ + label) * num_areas_ + area) * num_tiers_ + tier;
    }
    // Index of a curve's entry in the workspace once `num_reached` recall points are reached.
    size_t reached_index(size_t threshold, size_t num_reached, size_t area, size_t limit) const {
        return ((threshold * (num_points_ + 1) + num_reached) * num_areas_ + area) * num_limits_ + limit;
    }
    size_t point_index(size_t threshold, size_t point, size_t area, size_t limit) const {
        return reached_index(threshold, point + 1, area, limit);
    }
    template <class Work>
    void for_each_curve(Work work) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t i = 0; i < num_limits_; ++i) work(a, t, i);
            }
        }
    }

    bool has_truths(size_t label) const {
        const int64_t* first = truths_ + label * num_areas_;
        return std::any_of(first, first + num_areas_, [](int64_t num) { return num > 0; });
    }

    void begin(size_t label, CurveWorkspace& work) const {
        std::fill(work.curves.begin(), work.curves.end(), CurveState{});
        std::fill(work.hits_counted.begin(), work.hits_counted.end(), BitCounter{});
        std::fill(work.hits_true.begin(), work.hits_true.end(), BitCounter{});
        std::fill(work.num_uniform.begin(), work.num_uniform.end(), 0);
        std::fill(work.trapezoids.begin(), work.trapezoids.end(), 0.0);
        for (auto& every : work.every_precision) every.clear();
        for (auto& every : work.every_counted) every.clear();
        work.has_truths = has_truths(label);
        if (num_points_ == 0) return;
        clear_points(work);
        for (size_t a = 0; a < num_areas_; ++a) find_points(label, a, work);
    }

    // Clears the entries that the previous class has written.
    void clear_points(CurveWorkspace& work) const {
        for (size_t t = 0; t < num_thresholds_; ++t) {
            const size_t first = reached_index(t, 0, 0, 0), num = (work.num_used[t] + 1) * width_;
            std::fill_n(work.precision.begin() + first, num, 0.0);
            if (has_scores_) std::fill_n(work.scores.begin() + first, num, 0.0);
        }
    }

    // How many recall points are reached by how many true positives, as many as there can be.
    void find_points(size_t label, size_t a, CurveWorkspace& work) const {
        std::vector<uint32_t>&num_reached = work.num_reached[a], &passed_by = work.passed_by[a];
        const int64_t truths = num_truths(label, a);
        num_reached.assign(hits_.num_hits(label) + 1, 0);
        passed_by.clear();
        if (truths == 0) return;
        uint32_t point = 0;
        const auto needed = [&] { return point < num_points_ ? num_needed(rules_.recall_points[point], truths) : UINT32_MAX; };
        uint32_t next = needed();  // so many true positives reach the next recall point
        for (size_t i = 0; i < num_reached.size(); ++i) {
            const uint32_t before = point;
            for (; point < num_points_ && next <= i; next = needed()) ++point;
            num_reached[i] = point;
            for (uint32_t passed = before + 1; i > 0 && passed < point; ++passed) passed_by.push_back(passed);
        }
    }

    // Adds the detections between two hits: a tier's detections are within its limit and all later ones.
    void count_others(const int32_t* between, CurveWorkspace& work) const {
        for (size_t tier = 0; tier < num_tiers_; ++tier) {
            for (size_t i = first_limit_[tier]; i < num_limits_; ++i) {
                add_lanes(work.num_uniform.data() + i * num_lanes_, between + tier * num_lanes_, num_lanes_);
            }
        }
    }

    void count_hit(size_t label, size_t hit, CurveWorkspace& work) const {
        const uint64_t *is_true = hits_.is_true.data() + hit * num_words_, *is_counted = hits_.is_counted.data() + hit * num_words_;
        const size_t tier = hits_.tier[hit], first_limit = first_limit_[tier];
        count_areas(is_counted, first_limit, work);
        for (size_t w = 0; w < num_words_; ++w) {
            work.hits_true[tier * num_words_ + w].add(is_true[w]);
            work.hits_counted[tier * num_words_ + w].add(is_counted[w]);
            for (size_t i = first_limit; i < num_limits_; ++i) add_true(label, hit, w, is_true[w], i, work);
        }
    }

    // Counts a hit in its area ranges. Mostly that is at all thresholds of a range, or at none.
    void count_areas(const uint64_t* is_counted, size_t first_limit, CurveWorkspace& work) const {
        bool is_mixed = false;
        for (size_t a = 0; a < num_areas_; ++a) {
            const auto [is_all, is_any] = counted_in(a, is_counted);
            for (size_t i = first_limit; i < num_limits_; ++i) work.num_uniform[i * num_lanes_ + a] += is_all;
            is_mixed |= is_any != is_all;
        }
        for (size_t a = 0; a < num_areas_ && is_mixed; ++a) {
            if (counted_in(a, is_counted).first) continue;
            for (size_t w = 0; w < num_words_; ++w) {
                for (uint64_t left = is_counted[w] & cells_.of_area[a * num_words_ + w]; left != 0; left &= left - 1) {
                    CurveState* const curves = work.curves.data() + (w * kBitsPerWord + count_trailing_zeros(left)) * num_limits_;
                    for (size_t i = first_limit; i < num_limits_; ++i) ++curves[i].num_counted;
                }
            }
        }
    }

    // Whether a hit counts at all thresholds of an area range, and whether at any.
    std::pair<bool, bool> counted_in(size_t area, const uint64_t* is_counted) const {
        bool is_all = true, is_any = false;
        for (size_t w = 0; w < num_words_; ++w) {
            const uint64_t cells = cells_.of_area[area * num_words_ + w];
            is_all &= (is_counted[w] & cells) == cells;
            is_any |= (is_counted[w] & cells) != 0;
        }
        return {is_all, is_any};
    }

    // Adds a true positive to its curves. They are all that a curve needs: between two of them precision only falls, and recall does
    // not change. So the precision at a recall point is the best from the true positive that reaches it up to the one that reaches the
    // next; the envelope does the rest.
    void add_true(size_t label, size_t hit, size_t word, uint64_t is_true, size_t i, CurveWorkspace& work) const {
        const CellIndex* const cells = cell_index_.data() + word * kBitsPerWord;
        const size_t first_curve = word * kBitsPerWord * num_limits_ + i, stride = num_limits_, width = width_;
        CurveState* const curves = work.curves.data() + first_curve;
        const int32_t* const num_uniform = work.num_uniform.data() + i * num_lanes_;
        WaitingPoints& waiting = work.waiting;
        int32_t* num_waiting_true = waiting.num_true.data() + waiting.size;
        double* num_waiting_counted = waiting.num_counted.data() + waiting.size;
        uint32_t* to = waiting.to.data() + waiting.size;
        const std::vector<uint32_t>* const num_reached_by = work.num_reached.data();
        double* const scores = has_scores_ ? work.scores.data() : nullptr;
        const double score = score_of(hits_.key[hit]);
        for (; is_true != 0; is_true &= is_true - 1) {
            const size_t bit = count_trailing_zeros(is_true);
            const CellIndex at = cells[bit];
            CurveState& curve = curves[bit * stride];
            const uint32_t num_true = ++curve.num_true;
            const double num_counted = num_uniform[at.area] + static_cast<int32_t>(curve.num_counted);
            if (num_points_ > 0) {
                const uint32_t* const num_reached = num_reached_by[at.area].data() + num_true;
                const size_t point = at.first_point + i;
                *num_waiting_true++ = static_cast<int32_t>(num_true);
                *num_waiting_counted++ = num_counted;
                *to++ = static_cast<uint32_t>(point + *num_reached * width);
                if (scores != nullptr) {
                    // An entry that reaches no further recall point is written to an unused slot: a product is faster than a branch.
                    const bool is_further = num_reached[0] != num_reached[-1];
                    scores[point + *num_reached * is_further * width] = score;
                }
            }
            if (!is_sampled(rules_.ap)) add_to_area(label, first_curve + bit * stride, at.area, num_true, num_counted, work);
        }
        waiting.size = to - waiting.to.data();
    }

    void add_waiting(CurveWorkspace& work) const {
        WaitingPoints& waiting = work.waiting;
        const size_t num = std::exchange(waiting.size, 0);
        for (size_t j = 0; j < num; ++j) {
            waiting.precision[j] = precision_at(waiting.num_true[j], waiting.num_counted[j], rules_.epsilon);
        }
        for (size_t j = 0; j < num; ++j) {
            double& best = work.precision[waiting.to[j]];
            best = std::max(best, waiting.precision[j]);
        }
    }

    // Adds a true positive under the rules that sum over all of them.
    void add_to_area(size_t label, size_t index, size_t a, uint32_t num_true, double num_counted, CurveWorkspace& work) const {
        if (is_every_precision_needed_) {
            work.every_precision[index].push_back(precision_at(static_cast<int32_t>(num_true), num_counted, rules_.epsilon));
        }
        if (is_linear(rules_.ap)) work.every_counted[index].push_back(num_counted);
        if (is_trapezoid(rules_.ap)) {
            work.trapezoids[index] += trapezoid(num_true, num_counted, static_cast<double>(num_truths(label, a)), rules_.epsilon,
                                                rules_.ap == ApRule::trapezoid_from_first);
        }
    }

    void end(size_t label, CurveWorkspace& work) const {
        count_all(label, work);
        for_each_curve([&](size_t a, size_t t, size_t i) { end_curve(label, a, t, i, work); });
        for (size_t t = 0; t < num_thresholds_ && num_points_ > 0; ++t) {
            // Beyond the last recall point that any curve reaches, all are 0.
            work.num_used[t] = 0;
            for (size_t a = 0; a < num_areas_; ++a) {
                for (size_t i = 0; i < num_limits_; ++i) {
                    const uint32_t num_true = work.curves[state_index(a, t, i)].num_true;
                    work.num_used[t] = std::max<size_t>(work.num_used[t], work.num_reached[a][num_true]);
                }
            }
            raise_to_envelope(work.precision.data() + point_index(t, 0, 0, 0), work.num_used[t], width_);
            if (work.has_truths && is_sampled(rules_.ap)) average_points(label, t, work);
            if (work.has_truths) write_samples(label, t, work);
            if (out_.precision != nullptr) write_points(label, t, work);
        }
    }

    // Counts and recall, within every limit.
    void count_all(size_t label, const CurveWorkspace& work) const {
        const int32_t* const num_others = hits_.num_in_tier.data() + label * hits_.num_counts;
        for (size_t a = 0; a < num_areas_; ++a) {
            const int64_t truths = num_truths(label, a);
            for (size_t t = 0; t < num_thresholds_; ++t) {
                const size_t cell = a * num_thresholds_ + t, word = cell / kBitsPerWord, bit = cell % kBitsPerWord;
                int64_t num_true = 0, num_counted = 0;
                for (size_t m = 0; m < num_tiers_; ++m) {
                    const size_t index = curve_index(label, a, t, m), counter = m * num_words_ + word;
                    num_true += work.hits_true[counter].count(bit, hits_.num_hits(label));
                    num_counted += num_others[m * num_lanes_ + a] + int64_t{work.hits_counted[counter].count(bit, hits_.num_hits(label))};
                    out_.num_true[index] = num_true;
                    out_.num_false[index] = num_counted - num_true;
                    out_.recall[index] = truths == 0 ? -1 : static_cast<double>(num_true) / static_cast<double>(truths);
                }
            }
        }
    }

    void end_curve(size_t label, size_t a, size_t t, size_t i, CurveWorkspace& work) const {
        const size_t state = state_index(a, t, i), index = curve_index(label, a, t, limits_[i]);
        const int64_t truths = num_truths(label, a);
        if (truths == 0) {
            out_.average_precision[index] = std::numeric_limits<double>::quiet_NaN();
            return;
        }
        if (has_scores_) end_scores(label, a, t, i, work);
        if (is_trapezoid(rules_.ap)) out_.average_precision[index] = work.trapezoids[state];
        if (rules_.ap == ApRule::envelope) out_.average_precision[index] = area_under_envelope(work.every_precision[state], truths);
        if (is_linear(rules_.ap)) {
            const CurveEnd end{truths, static_cast<double>(out_.num_true[index] + out_.num_false[index]), rules_.epsilon,
                               rules_.ap == ApRule::linear_points_to_end};
            out_.average_precision[index] =
                area_through_points(work.every_precision[state], work.every_counted[state], end, rules_.recall_points);
        }
    }

    void end_scores(size_t label, size_t a, size_t t, size_t i, CurveWorkspace& work) const {
        // A true positive that reached several recall points was written to the last of them.
        const std::vector<uint32_t>& passed_by = work.passed_by[a];
        for (size_t k = passed_by.size(); k-- > 0;) {
            work.scores[reached_index(t, passed_by[k], a, i)] = work.scores[reached_index(t, passed_by[k] + 1, a, i)];
        }
        // as in COCO: recall 0 is reached by the first detection, whatever its verdict
        const uint64_t* const first_key = hits_.first_key.data() + label * num_tiers_;
        const uint64_t key = *std::min_element(first_key, first_key + limits_[i] + 1);
        for (size_t r = 0; r < num_points_ && num_needed(rules_.recall_points[r], num_truths(label, a)) == 0; ++r) {
            work.scores[point_index(t, r, a, i)] = key == OrderedHits::kNoKey ? 0.0 : score_of(key);
        }
    }

    void average_points(size_t label, size_t t, CurveWorkspace& work) const {
        mean_over_points(work.precision.data() + point_index(t, 0, 0, 0), num_points_, width_, rules_.ap, work.means.data());
        for (size_t cell = 0; cell < width_; ++cell) {
            const size_t a = cell / num_limits_, m = limits_[cell % num_limits_];
            if (num_truths(label, a) > 0) out_.average_precision[curve_index(label, a, t, m)] = work.means[cell];
        }
    }

    void write_samples(size_t label, size_t t, const CurveWorkspace& work) const {
        const double* precision = work.precision.data() + point_index(t, 0, 0, 0);
        for (size_t cell = 0; cell < width_ && !out_.samples.empty(); ++cell) {
            const size_t area = cell / num_limits_;
            double* to = out_.samples[area * num_tiers_ + limits_[cell % num_limits_]];
            if (to == nullptr || num_truths(label, area) == 0) continue;
            const size_t num_defined = defined_index_[num_classes_ * num_areas_ + area];
            to += (t * num_defined + defined_index_[label * num_areas_ + area]) * num_points_;
            for (size_t r = 0; r < num_points_; ++r) to[r] = precision[r * width_ + cell];
        }
    }

    // Where curves are built within all limits.
    void write_points(size_t label, size_t t, const CurveWorkspace& work) const {
        for (size_t r = 0; r < num_points_; ++r) {
            const size_t from = point_index(t, r, 0, 0), to = ((t * num_points_ + r) * num_classes_ + label) * width_;
            std::copy_n(work.precision.data() + from, width_, out_.precision + to);
            std::copy_n(work.scores.data() + from, width_, out_.scores + to);
            for (size_t a = 0; a < num_areas_; ++a) {
                if (num_truths(label, a) > 0) continue;
                std::fill_n(out_.precision + to + a * num_limits_, num_limits_, -1.0);
                std::fill_n(out_.scores + to + a * num_limits_, num_limits_, -1.0);
            }
        }
    }

    const OrderedHits& hits_;
    const int64_t* const truths_;  // [K, A]
    const Rules& rules_;
    const CurveArrays& out_;
    const std::vector<size_t>& limits_;  // those whose curves are built
    const size_t num_classes_, num_thresholds_, num_areas_, num_lanes_;
    const size_t num_tiers_;   // all limits
    const size_t num_limits_;  // those whose curves are built
    const size_t num_points_, num_words_;
    const size_t width_;  // area ranges and limits, the innermost axes
    const bool is_every_precision_needed_, has_scores_;
    // Of one area range and threshold.
    struct CellIndex {
        size_t area;
        size_t first_point;  // of the precisions in the workspace
    };
    const Cells cells_;
    std::vector<CellIndex> cell_index_;
    std::vector<size_t> first_limit_;    // that the detections of a tier are within, among those whose curves are built
    std::vector<size_t> defined_index_;  // [K + 1, A]: of each class among those with truths in an area range; then their number
};

}  // namespace

void build_curves(const OrderedHits& hits, const int64_t* num_truths, const Rules& rules, const Run& run, const CurveArrays& out) {
    const CurveBuilder builder(hits, num_truths, rules, out);
    std::vector<size_t> num_hits;
    for (size_t k = 0; k < hits.num_classes(); ++k) num_hits.push_back(hits.num_hits(k));
    const std::vector<uint32_t> classes = by_falling(num_hits);
    for_each_task(
        classes.size(), run, [&] { return builder.make_workspace(); },
        [&](size_t task, CurveWorkspace& work) { builder.build_class(classes[task], work, run); });
}

}  // namespace boxscore
