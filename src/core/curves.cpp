#include "curves.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "curve_rows.h"
#include "memory.h"
#include "order.h"
#include "precision.h"

namespace boxscore {
namespace {

// A true positive that waits to be added to its curve: how many detections count up to it, and the index of its row.
struct TruePositive {
    uint32_t num_counted;
    uint32_t row;
};

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

// True positives are added to a curve so many at a time.
constexpr uint32_t kBatch = 16;

// One curve while it is built: one cell within one limit.
struct CurveState {
    uint32_t num_waiting = 0;
    uint32_t num_counted = 0;  // among hits that count at some thresholds of their area range only
    uint32_t num_true = 0;     // added so far, those before the first row included
    uint32_t point = 0;        // recall points reached so far
    uint32_t next_needed = kNever;  // true positives at which the next one is reached
    double best = 0;           // precision since the last recall point
    double before = 0;         // counted before the first row; added to counts, which stay short, as a float: exact to 2^53
};

// A thread's own memory for the curves of one class.
template <class State>
struct CurveWorkspace {
    Buffer<Row<State>> sorted;
    std::vector<CurveState> curves;       // [A, T, M]
    std::vector<TruePositive> waiting;    // kBatch per curve
    std::vector<uint64_t> lanes;          // counted since the last hit, by tier; one byte per area range
    uint32_t num_in_lanes = 0;
    bool has_truths = false;              // in any area range
    std::vector<uint32_t> num_plain;      // counted at all thresholds of an area range: [A, M]
    std::vector<double> first_score;      // within each limit; 0 without detections
    std::vector<uint32_t> needed;         // true positives for each recall point: [A, R]
    std::vector<double> precision;        // [T, R, A, M]
    std::vector<double> scores;           // [T, R, A, M], or empty
    std::vector<double> sums;             // over recall points: [A, M]
    std::vector<double> trapezoids;       // sums: [A, T, M]
    std::vector<std::vector<double>> every_precision;  // at each true positive, for the envelope: [A, T, M]
    std::vector<std::vector<double>> every_counted;    // up to each true positive, for its interpolation: [A, T, M]
};

template <class Score, class State>
class CurveBuilder {
public:
    CurveBuilder(const TallyColumns<Score, State>& tally, const Rules& rules, const CurveStart* start, const CurveArrays& out)
        : tally_(tally), rules_(rules), start_(start), out_(out), num_thresholds_(rules.num_thresholds()),
          num_areas_(rules.num_areas()), num_limits_(rules.num_limits()),
          num_points_(is_sampled(rules.ap) || out.precision != nullptr ? rules.recall_points.size() : 0),
          num_words_(rules.num_words()), width_(num_areas_ * num_limits_) {
        for (size_t areas = 0; areas < spread_.size(); ++areas) {
            for (size_t a = 0; a < kLanes; ++a) spread_[areas] |= uint64_t{areas >> a & 1} << a * kLaneBits;
        }
        defined_index_.resize((tally.num_classes + 1) * num_areas_);
        for (size_t i = 0; i < tally.num_classes * num_areas_; ++i) {
            defined_index_[i + num_areas_] = defined_index_[i] + (tally.num_truths[i] > 0);
        }
    }

    CurveWorkspace<State> make_workspace(size_t num_rows) const {
        CurveWorkspace<State> work;
        work.sorted = Buffer<Row<State>>(num_rows);
        work.curves.resize(width_ * num_thresholds_);
        work.waiting.resize(work.curves.size() * kBatch);
        work.lanes.resize(num_limits_);
        work.num_plain.resize(width_);
        work.first_score.resize(num_limits_);
        work.needed.resize(num_areas_ * num_points_);
        work.precision.resize(num_thresholds_ * num_points_ * width_);
        if (out_.scores != nullptr) work.scores.resize(work.precision.size());
        work.sums.resize(width_);
        work.trapezoids.resize(work.curves.size());
        if (is_every_precision_needed()) work.every_precision.resize(work.curves.size());
        if (is_linear(rules_.ap)) work.every_counted.resize(work.curves.size());
        return work;
    }

    void build_class(size_t label, Row<State>* unsorted, size_t num_rows, CurveWorkspace<State>& work, const Run& run) const {
        sort_by_key(unsorted, work.sorted.data(), num_rows);
        const Row<State>* row = work.sorted.data();
        begin(label, row, num_rows, work);
        constexpr size_t kAhead = 24;  // rows whose verdicts are prefetched, as hits are stored in the order of images
        for (size_t i = 0; i < num_rows; ++i) {
            if (i % (size_t{1} << 20) == 0) run.check();
            if (i + kAhead < num_rows && row[i + kAhead].state & 1) {
                prefetch(tally_.is_true + size_t{row[i + kAhead].hit} * num_words_);
                prefetch(tally_.is_counted + size_t{row[i + kAhead].hit} * num_words_);
            }
            if (row[i].state & 1) {
                count_hit(label, row, i, work);
            } else {
                count_plain(row[i], work);
            }
        }
        empty_lanes(work);
        end(label, row, work);
    }

private:
    static constexpr size_t kLanes = 7, kLaneBits = 8;  // the areas of a state of one byte

    bool is_every_precision_needed() const { return rules_.ap == ApRule::envelope || is_linear(rules_.ap); }

    int64_t num_truths(size_t label, size_t area) const { return tally_.num_truths[label * num_areas_ + area]; }
    // Of a curve in the workspace.
    size_t state_index(size_t area, size_t threshold, size_t limit) const {
        return (area * num_thresholds_ + threshold) * num_limits_ + limit;
    }
    // Of a curve in arrays [T, K, A, M].
    size_t curve_index(size_t label, size_t area, size_t threshold, size_t limit) const {
        return ((threshold * tally_.num_classes + label) * num_areas_ + area) * num_limits_ + limit;
    }
    // Of a recall point of a curve in the workspace.
    size_t point_index(size_t threshold, size_t point, size_t area, size_t limit) const {
        return ((threshold * num_points_ + point) * num_areas_ + area) * num_limits_ + limit;
    }

    template <class Work>
    void for_each_curve(Work work) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t m = 0; m < num_limits_; ++m) work(a, t, m);
            }
        }
    }

    bool has_truths(size_t label) const {
        const int64_t* first = tally_.num_truths + label * num_areas_;
        return std::any_of(first, first + num_areas_, [](int64_t num) { return num > 0; });
    }

    void begin(size_t label, const Row<State>* row, size_t num_rows, CurveWorkspace<State>& work) const {
        std::fill(work.curves.begin(), work.curves.end(), CurveState{});
        std::fill(work.num_plain.begin(), work.num_plain.end(), 0);
        std::fill(work.trapezoids.begin(), work.trapezoids.end(), 0.0);
        for (auto& every : work.every_precision) every.clear();
        for (auto& every : work.every_counted) every.clear();
        if (start_ != nullptr) continue_curves(label, work);
        work.has_truths = has_truths(label);
        const double initial = work.has_truths ? 0.0 : -1.0;
        if (!work.has_truths && out_.precision == nullptr) return;
        std::fill(work.precision.begin(), work.precision.end(), initial);
        std::fill(work.scores.begin(), work.scores.end(), initial);
        // as in COCO: recall 0 is reached by the first detection, whatever its verdict
        std::fill(work.first_score.begin(), work.first_score.end(), 0.0);
        for (size_t i = 0, end = num_limits_; i < num_rows && end > 0; ++i) {
            while (end > row[i].tier) work.first_score[--end] = score_of(row[i].key);
        }
        for (size_t a = 0; a < num_areas_; ++a) {
            const int64_t truths = num_truths(label, a);
            if (truths == 0) continue;
            uint32_t* const needed = work.needed.data() + a * num_points_;
            for (size_t r = 0; r < num_points_; ++r) needed[r] = num_needed(rules_.recall_points[r], truths);
            CurveState* const curves = work.curves.data() + state_index(a, 0, 0);
            for (size_t i = 0; i < num_thresholds_ * num_limits_; ++i) {
                uint32_t& point = curves[i].point;
                while (curves[i].num_true > 0 && point < num_points_ && needed[point] <= curves[i].num_true) ++point;
                curves[i].next_needed = needed_at(needed, point);
            }
        }
    }

    // Continues where the curves of the detections before the first row ended.
    void continue_curves(size_t label, CurveWorkspace<State>& work) const {
        for_each_curve([&](size_t a, size_t t, size_t m) {
            CurveState& curve = work.curves[state_index(a, t, m)];
            const size_t index = curve_index(label, a, t, m);
            curve.num_true = static_cast<uint32_t>(start_->num_true[index]);
            curve.before = static_cast<double>(start_->num_counted[index]);
            work.trapezoids[state_index(a, t, m)] = start_->sum[index * kSumState];
        });
    }

    uint32_t needed_at(const uint32_t* needed, size_t point) const {
        return point < num_points_ ? needed[point] : kNever;
    }

    // Most detections are no hits: they are counted in all of their area ranges with one addition.
    void count_plain(const Row<State>& row, CurveWorkspace<State>& work) const {
        if constexpr (sizeof(State) == 1) {
            work.lanes[row.tier] += spread_[row.state >> 1];
            if (++work.num_in_lanes == UINT8_MAX) empty_lanes(work);
        } else {
            for (uint64_t counted = row.state >> 1; counted != 0; counted &= counted - 1) {
                uint32_t* num_plain = work.num_plain.data() + count_trailing_zeros(counted) * num_limits_;
                for (size_t m = row.tier; m < num_limits_; ++m) ++num_plain[m];
            }
        }
    }

    void empty_lanes(CurveWorkspace<State>& work) const {
        if (work.num_in_lanes == 0) return;
        uint64_t counted = 0;  // up to this tier
        for (size_t m = 0; m < num_limits_; ++m) {
            counted += std::exchange(work.lanes[m], 0);
            for (size_t a = 0; a < num_areas_; ++a) {
                work.num_plain[a * num_limits_ + m] += counted >> a * kLaneBits & UINT8_MAX;
            }
        }
        work.num_in_lanes = 0;
    }

    void count_hit(size_t label, const Row<State>* rows, size_t index, CurveWorkspace<State>& work) const {
        empty_lanes(work);
        const Row<State>& row = rows[index];
        const uint64_t* is_true = tally_.is_true + size_t{row.hit} * num_words_;
        const uint64_t* is_counted = tally_.is_counted + size_t{row.hit} * num_words_;
        for (size_t a = 0; a < num_areas_; ++a) {
            uint32_t* const num_plain = work.num_plain.data() + a * num_limits_;
            // Thresholds come in runs of up to a word's bits.
            for (size_t first = 0; first < num_thresholds_; first += kBitsPerWord) {
                const size_t num = std::min(num_thresholds_ - first, kBitsPerWord);
                const uint64_t all = ~uint64_t{0} >> (kBitsPerWord - num);
                const uint64_t counted = bits(is_counted, a * num_thresholds_ + first) & all;
                if (counted == 0) continue;
                if (counted == all && num == num_thresholds_) {
                    for (size_t m = row.tier; m < num_limits_; ++m) ++num_plain[m];
                } else {
                    for (uint64_t left = counted; left != 0; left &= left - 1) {
                        CurveState* curves = work.curves.data() + state_index(a, first + count_trailing_zeros(left), 0);
                        for (size_t m = row.tier; m < num_limits_; ++m) ++curves[m].num_counted;
                    }
                }
                for (uint64_t left = bits(is_true, a * num_thresholds_ + first) & all; left != 0; left &= left - 1) {
                    const size_t t = first + count_trailing_zeros(left);
                    for (size_t m = row.tier; m < num_limits_; ++m) {
                        CurveState& curve = work.curves[state_index(a, t, m)];
                        work.waiting[state_index(a, t, m) * kBatch + curve.num_waiting] = {num_plain[m] + curve.num_counted,
                                                                                          static_cast<uint32_t>(index)};
                        if (++curve.num_waiting == kBatch) add_waiting(label, rows, a, t, m, work);
                    }
                }
            }
        }
    }

    // The bits from `cell` on, which may begin in one word and end in the next.
    uint64_t bits(const uint64_t* words, size_t cell) const {
        const size_t word = cell / kBitsPerWord, shift = cell % kBitsPerWord;
        uint64_t found = words[word] >> shift;
        if (shift != 0 && word + 1 < num_words_) found |= words[word + 1] << (kBitsPerWord - shift);
        return found;
    }

    // Adds the true positives that wait to their curve. They are all that a curve needs: between two of them precision only
    // falls, and recall does not change.
    void add_waiting(size_t label, const Row<State>* rows, size_t a, size_t t, size_t m, CurveWorkspace<State>& work) const {
        const size_t index = state_index(a, t, m);
        CurveState& curve = work.curves[index];
        const TruePositive* waiting = work.waiting.data() + index * kBatch;
        const uint32_t num = std::exchange(curve.num_waiting, 0), before = curve.num_true;
        if (num == 0) return;
        std::array<double, kBatch> precision;
        for (uint32_t i = 0; i < num; ++i) {
            precision[i] = precision_at(static_cast<int32_t>(before + i + 1),
                                        static_cast<int32_t>(waiting[i].num_counted) + curve.before, rules_.epsilon);
        }
        curve.num_true = before + num;
        if (is_every_precision_needed()) {
            work.every_precision[index].insert(work.every_precision[index].end(), precision.begin(), precision.begin() + num);
        }
        if (is_linear(rules_.ap)) {
            for (uint32_t i = 0; i < num; ++i) work.every_counted[index].push_back(waiting[i].num_counted + curve.before);
        }
        if (is_trapezoid(rules_.ap)) {
            const double truths = static_cast<double>(num_truths(label, a));
            for (uint32_t i = 0; i < num; ++i) {
                work.trapezoids[index] += trapezoid(before + i + 1, waiting[i].num_counted + curve.before, truths, rules_.epsilon,
                                                    rules_.ap == ApRule::trapezoid_from_first);
            }
        }
        uint32_t i = 0;
        while (curve.next_needed <= curve.num_true) {
            const uint32_t reaching = std::max(curve.next_needed, before + 1) - before - 1;
            for (; i < reaching; ++i) curve.best = std::max(curve.best, precision[i]);
            if (curve.point > 0) work.precision[point_index(t, curve.point - 1, a, m)] = curve.best;
            curve.best = 0;  // what came before the first recall point is on no curve
            const size_t first = curve.point;
            const uint32_t* needed = work.needed.data() + a * num_points_;
            while (curve.point < num_points_ && needed[curve.point] <= before + reaching + 1) ++curve.point;
            if (!work.scores.empty()) {
                const double score = score_of(rows[waiting[reaching].row].key);
                for (size_t r = first; r < curve.point; ++r) work.scores[point_index(t, r, a, m)] = score;
            }
            curve.next_needed = needed_at(needed, curve.point);
        }
        for (; i < num; ++i) curve.best = std::max(curve.best, precision[i]);
    }

    void end(size_t label, const Row<State>* rows, CurveWorkspace<State>& work) const {
        for_each_curve([&](size_t a, size_t t, size_t m) {
            add_waiting(label, rows, a, t, m, work);
            end_curve(label, a, t, m, work);
        });
        if (num_points_ == 0) return;
        for (size_t t = 0; t < num_thresholds_; ++t) {
            if (work.has_truths) {
                raise_to_envelope(work.precision.data() + point_index(t, 0, 0, 0), num_points_, width_);
                if (is_sampled(rules_.ap)) average_points(label, t, work);
                write_samples(label, t, work);
            }
            if (out_.precision != nullptr) write_points(label, t, work);
        }
    }

    void end_curve(size_t label, size_t a, size_t t, size_t m, CurveWorkspace<State>& work) const {
        CurveState& curve = work.curves[state_index(a, t, m)];
        const int64_t truths = num_truths(label, a);
        const size_t index = curve_index(label, a, t, m);
        const int64_t num_before = start_ == nullptr ? 0 : start_->num_counted[index];
        out_.num_true[index] = curve.num_true;
        out_.num_false[index] = num_before + work.num_plain[a * num_limits_ + m] + curve.num_counted - curve.num_true;
        if (truths == 0) {
            out_.recall[index] = -1;
            out_.average_precision[index] = std::numeric_limits<double>::quiet_NaN();
            for (size_t r = 0; work.has_truths && r < num_points_; ++r) {
                work.precision[point_index(t, r, a, m)] = -1;
                if (!work.scores.empty()) work.scores[point_index(t, r, a, m)] = -1;
            }
            return;
        }
        if (curve.point > 0) work.precision[point_index(t, curve.point - 1, a, m)] = curve.best;
        for (size_t r = 0; !work.scores.empty() && r < num_points_ && work.needed[a * num_points_ + r] == 0; ++r) {
            work.scores[point_index(t, r, a, m)] = work.first_score[m];
        }
        out_.recall[index] = curve.num_true / static_cast<double>(truths);
        if (is_trapezoid(rules_.ap)) {
            out_.average_precision[index] = work.trapezoids[state_index(a, t, m)];
            if (start_ != nullptr) start_->sum_after[index * kSumState] = work.trapezoids[state_index(a, t, m)];
        }
        if (rules_.ap == ApRule::envelope) {
            std::vector<double>& precision = work.every_precision[state_index(a, t, m)];
            out_.average_precision[index] = start_ == nullptr ? area_under_envelope(precision, truths)
                                                              : continued_area(precision, index, truths);
        }
        if (is_linear(rules_.ap)) {
            const size_t state = state_index(a, t, m);
            const CurveEnd end{truths, static_cast<double>(out_.num_true[index] + out_.num_false[index]), rules_.epsilon,
                               rules_.ap == ApRule::linear_points_to_end};
            out_.average_precision[index] =
                area_through_points(work.every_precision[state], work.every_counted[state], end, rules_.recall_points);
        }
    }

    // The area under the envelope up to the last of these rows; it is that of all once their true positives are the last.
    double continued_area(std::vector<double>& precision, size_t index, int64_t truths) const {
        const size_t num_true = static_cast<size_t>(start_->total_true[index]);
        const size_t num_before = static_cast<size_t>(start_->num_true[index]);
        if (!precision.empty()) precision.back() = std::max(precision.back(), start_->beyond[index]);
        precision.resize(std::min(precision.size(), num_true - num_before));
        PairwiseSum sum(num_steps(num_true, truths), num_before, start_->sum + index * kSumState);
        add_area_under_envelope(precision, truths, sum);
        sum.save(start_->sum_after + index * kSumState);
        return sum.position() == num_true ? area_of(sum, num_true, truths) : 0;
    }

    void average_points(size_t label, size_t t, CurveWorkspace<State>& work) const {
        const PointMean mean(rules_.ap, num_points_);
        std::fill(work.sums.begin(), work.sums.end(), 0.0);
        for (size_t r = 0; r < num_points_; ++r) {
            const double* precision = work.precision.data() + point_index(t, r, 0, 0);
            for (size_t i = 0; i < width_; ++i) work.sums[i] += mean.share(precision[i]);
        }
        double* average_precision = out_.average_precision + curve_index(label, 0, t, 0);
        for (size_t i = 0; i < width_; ++i) {
            if (num_truths(label, i / num_limits_) > 0) average_precision[i] = mean.mean(work.sums[i]);
        }
    }

    void write_samples(size_t label, size_t t, const CurveWorkspace<State>& work) const {
        const double* precision = work.precision.data() + point_index(t, 0, 0, 0);
        for (size_t i = 0; i < out_.samples.size(); ++i) {
            const size_t area = i / num_limits_;
            if (out_.samples[i] == nullptr || num_truths(label, area) == 0) continue;
            const size_t num_defined = defined_index_[tally_.num_classes * num_areas_ + area];
            const size_t row = t * num_defined + defined_index_[label * num_areas_ + area];
            double* to = out_.samples[i] + row * num_points_;
            for (size_t r = 0; r < num_points_; ++r) to[r] = precision[r * width_ + i];
        }
    }

    void write_points(size_t label, size_t t, const CurveWorkspace<State>& work) const {
        for (size_t r = 0; r < num_points_; ++r) {
            const size_t from = point_index(t, r, 0, 0), to = ((t * num_points_ + r) * tally_.num_classes + label) * width_;
            std::copy_n(work.precision.data() + from, width_, out_.precision + to);
            std::copy_n(work.scores.data() + from, width_, out_.scores + to);
        }
    }

    const TallyColumns<Score, State>& tally_;
    const Rules& rules_;
    const CurveStart* start_;
    const CurveArrays& out_;
    const size_t num_thresholds_, num_areas_, num_limits_, num_points_, num_words_;
    const size_t width_;  // area ranges and limits, the innermost axes
    std::vector<size_t> defined_index_;  // [K + 1, A]: of each class among those with truths in an area range; then their number
    std::array<uint64_t, size_t{1} << kLanes> spread_{};  // bits of area ranges to lanes
};

}  // namespace

template <class Score, class State>
void build_curves(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const CurveStart* start,
                  const Run& run, const CurveArrays& out) {
    Rows<State> rows = group_by_class(parts, rules, run);
    run.check();
    const CurveBuilder<Score, State> builder(parts.front(), rules, start, out);
    // The largest classes first, so that no thread is left with one at the end.
    auto size_of = [&](size_t k) { return rows.start[k + 1] - rows.start[k]; };
    std::vector<uint32_t> order(parts.front().num_classes);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return size_of(a) > size_of(b); });
    const size_t largest = order.empty() ? 0 : size_of(order[0]);
    for_each_task(
        order.size(), run, [&] { return builder.make_workspace(largest); },
        [&](size_t task, CurveWorkspace<State>& work) {
            const uint32_t label = order[task];
            builder.build_class(label, rows.row.data() + rows.start[label], size_of(label), work, run);
        });
}

template void build_curves(const std::vector<TallyColumns<float, uint8_t>>&, const Rules&, const CurveStart*, const Run&,
                           const CurveArrays&);
template void build_curves(const std::vector<TallyColumns<float, uint64_t>>&, const Rules&, const CurveStart*, const Run&,
                           const CurveArrays&);
template void build_curves(const std::vector<TallyColumns<double, uint8_t>>&, const Rules&, const CurveStart*, const Run&,
                           const CurveArrays&);
template void build_curves(const std::vector<TallyColumns<double, uint64_t>>&, const Rules&, const CurveStart*, const Run&,
                           const CurveArrays&);

}  // namespace boxscore
