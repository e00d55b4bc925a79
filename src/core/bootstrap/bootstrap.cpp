#include "bootstrap/bootstrap.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "bootstrap/bootstrap_workspace.h"
#include "bootstrap/draws.h"
#include "curves/average.h"
#include "curves/precision.h"
#include "platform/lanes.h"
#include "platform/processor.h"

namespace boxscore {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// With vectors only where the processor has AVX2.
template <size_t kLanes, bool kIsVector>
class Resampler {
public:
    Resampler(const ResampleLayout& layout, const Rules& rules, const BootstrapOptions& options, const BootstrapArrays& out)
        : layout_(layout), rules_(rules), options_(options), out_(out), num_thresholds_(rules.num_thresholds()),
          num_points_(is_sampled(rules.ap) ? rules.recall_points.size() : 0),
          // Precision rises from one copy of a true positive to the next, so only the last is needed. With a larger epsilon
          // rounding might have it otherwise; and an area under a curve is a sum over all of them.
          is_every_copy_needed_(num_points_ == 0 || rules.epsilon > std::numeric_limits<double>::epsilon()),
          is_of_samples_(rules.ap == ApRule::recall_points), needs_ap_(rules.num_areas()) {
        for (const Measure& measure : options.wanted.measures) needs_ap_[measure.area] |= !measure.is_recall;
    }

    ResampleWorkspace<kLanes> make_workspace() const {
        ResampleWorkspace<kLanes> work;
        work.drawn.resize(layout_.num_images());
        work.weight.resize((layout_.num_images() + 1) * kLanes);
        work.num_truths.resize(layout_.num_classes * kLanes);
        work.best.resize((num_points_ + 1) * kLanes);
        work.samples = Buffer<double>(num_thresholds_ * num_points_ * layout_.num_classes * kLanes);
        work.class_samples.resize(is_of_samples_ ? num_thresholds_ * num_points_ * kLanes : 0);
        return work;
    }

    // The resamples from `first` on.
    void take(size_t first, ResampleWorkspace<kLanes>& work) const {
        const size_t num_lanes = std::min(kLanes, options_.num_resamples - first);
        for (size_t lane = 0; lane < num_lanes; ++lane) draw_images(first + lane, lane, work);
        for (size_t a = 0; a < rules_.num_areas(); ++a) {
            if (!layout_.is_wanted[a]) continue;
            count_truths(a, work);
            Indices index{};  // of the class among those that are defined
            for (size_t k = 0; k < layout_.num_classes; ++k) {
                const int32_t* num_truths = work.num_truths.data() + k * kLanes;
                if (std::any_of(num_truths, num_truths + kLanes, [](int32_t num) { return num > 0; })) {
                    build_class({k, a, num_truths, index}, work);
                }
                for (size_t lane = 0; lane < kLanes; ++lane) index[lane] += num_truths[lane] > 0;
            }
            write(first, num_lanes, a, work);
        }
    }

private:
    using Counts = std::array<int32_t, kLanes>;
    using Indices = std::array<size_t, kLanes>;
    using CountLanes = Lanes<int32_t, kLanes, kIsVector>;
    using FloatLanes = Lanes<double, kLanes, kIsVector>;

    // A class in an area range.
    struct Place {
        size_t label, area;
        const int32_t* num_truths;  // of each lane
        const Indices& index;       // among the classes that are defined in each lane
    };

    void draw_images(size_t resample, size_t lane, ResampleWorkspace<kLanes>& work) const {
        draw_into(work.drawn, options_.seed, resample);
        uint64_t num_boxes = 0;
        for (size_t i = 0; i < work.drawn.size(); ++i) {
            work.weight[i * kLanes + lane] = work.drawn[i];
            num_boxes += uint64_t{layout_.num_boxes[i]} * work.drawn[i];
        }
        if (num_boxes > INT32_MAX) throw std::overflow_error("more than 2**31 - 1 boxes in one resample");
    }

    BOXSCORE_INLINE static CountLanes sum_weights(const std::vector<uint32_t>& images, const ResampleWorkspace<kLanes>& work) {
        CountLanes sum{};
        for (const uint32_t image : images) sum += CountLanes(work.weight_of(image));
        return sum;
    }

    BOXSCORE_INLINE static Counts counts(const CountLanes& lanes) {
        Counts counts;
        lanes.store(counts.data());
        return counts;
    }

    void count_truths(size_t area, ResampleWorkspace<kLanes>& work) const {
        for (ResampleNumbers& numbers : work.numbers) numbers.classes.clear(), numbers.num_truths.clear();
        for (size_t k = 0; k < layout_.num_classes; ++k) {
            Counts num_truths;
            on_processor([&]() BOXSCORE_INLINE { num_truths = counts(sum_weights(layout_.field(k, area).truths, work)); });
            for (size_t lane = 0; lane < kLanes; ++lane) {
                work.num_truths[k * kLanes + lane] = num_truths[lane];
                if (num_truths[lane] == 0) continue;
                work.numbers[lane].classes.push_back(static_cast<uint32_t>(k));
                work.numbers[lane].num_truths.push_back(num_truths[lane]);
            }
        }
        work.most_defined = 0;
        for (ResampleNumbers& numbers : work.numbers) {
            work.most_defined = std::max(work.most_defined, numbers.num_defined());
            const size_t num_values = num_thresholds_ * numbers.num_defined();
            numbers.average_precision.resize(num_values);
            numbers.ap.resize(numbers.num_defined());
            numbers.recall.resize(num_values * rules_.num_limits());
        }
    }

    void build_class(const Place& place, ResampleWorkspace<kLanes>& work) const {
        on_processor([&]() BOXSCORE_INLINE { build_cells(place, work); });
        if (place.area == 0 && is_of_samples_) average_class(place, work);
    }

    template <class Work>
    static void on_processor(const Work& work) {
#if defined(BOXSCORE_HAS_NEWER_X86)
        if constexpr (kIsVector) return with_avx2(work);
#endif
        work();
    }

    BOXSCORE_INLINE void build_cells(const Place& place, ResampleWorkspace<kLanes>& work) const {
        const Field& field = layout_.field(place.label, place.area);
        walk(field, work);
        if (num_points_ > 0) find_reach(place.num_truths, work);
        for (size_t t = 0; t < num_thresholds_; ++t) {
            const Cell& cell = field.cells[t];
            const Counts num_true = find_points(cell, work);
            for (size_t m = 0; m < cell.beyond.size(); ++m) {
                Counts within = counts(sum_weights(cell.beyond[m], work));
                for (size_t lane = 0; lane < kLanes; ++lane) within[lane] = num_true[lane] - within[lane];
                write_recall(m, t, within, place, work);
            }
            write_recall(rules_.num_limits() - 1, t, num_true, place, work);
            if (num_points_ > 0) {
                find_best(num_true, work);
                use_envelope(t, num_true, place, work);
            } else {
                measure_areas(t, place, work);
            }
        }
    }

    // How many rows count up to each stop, and how often each of them stands there.
    BOXSCORE_INLINE static void walk(const Field& field, ResampleWorkspace<kLanes>& work) {
        // One extra slot: entries that are not stops are written there and dropped.
        if (work.num_counted.size() < (field.stops.size() + 1) * kLanes) {
            work.num_counted.resize(2 * (field.stops.size() + 1) * kLanes);
            work.num_copies.resize(work.num_counted.size());
        }
        CountLanes sum{};
        const uint16_t* const weight = work.weight.data();  // here and below: a store into an array does not change where others are
        int32_t* to = work.num_counted.data();
        for (const Step step : field.steps) {
            sum += CountLanes(weight + size_t{step.image} * kLanes);
            sum.store(to);
            to += step.is_stop * kLanes;
        }
        sum.store(work.total.data());
        uint16_t* copies = work.num_copies.data();
        for (const uint32_t image : field.stops) copies = std::copy_n(weight + size_t{image} * kLanes, kLanes, copies);
    }

    BOXSCORE_INLINE static void sum_extra(const Cell& cell, ResampleWorkspace<kLanes>& work) {
        if (cell.extra.empty()) return;
        const size_t size = (cell.extra.size() + 1) * kLanes;
        if (work.num_extra.size() < size) work.num_extra.resize(2 * size);
        CountLanes sum{};
        const uint16_t* const weight = work.weight.data();
        int32_t* to = work.num_extra.data();
        sum.store(to);
        for (const uint32_t image : cell.extra) {
            sum += CountLanes(weight + size_t{image} * kLanes);
            sum.store(to += kLanes);
        }
    }

    // Finds the points of a cell, and returns the number of its true positives.
    BOXSCORE_INLINE Counts find_points(const Cell& cell, ResampleWorkspace<kLanes>& work) const {
        sum_extra(cell, work);
        work.points.size = 0;
        Counts num_true{};
        size_t next = 0;
        for (const Tie& tie : cell.ties) {
            add_rows(cell, next, tie.begin, num_true, work);
            add_copies(cell, tie.begin, tie.end, cell.ranks.data() + tie.first_rank, tie.size, num_true, work);
            next = tie.end;
        }
        add_rows(cell, next, cell.true_positives.size(), num_true, work);
        return num_true;
    }

    BOXSCORE_INLINE void add_rows(const Cell& cell, size_t begin, size_t end, Counts& num_true, ResampleWorkspace<kLanes>& work) const {
        if (is_every_copy_needed_) {
            const uint32_t rank = 1;
            for (; begin < end; ++begin) add_copies(cell, begin, begin + 1, &rank, 1, num_true, work);
            return;
        }
        if (begin == end) return;
        CurvePoints<kLanes>& points = work.points;
        points.reserve(end - begin);
        CountLanes sum(num_true.data());
        const bool has_extra = !cell.extra.empty();
        const CellStop* const stops = cell.true_positives.data();
        const uint32_t* const extra_at = cell.num_extra.data();
        const uint16_t* const num_copies = work.num_copies.data();
        const int32_t *const num_counted = work.num_counted.data(), *const num_extra = work.num_extra.data();
        int32_t *const true_at = points.num_true.data(), *const counted_at = points.num_counted.data();
        size_t at = points.size * kLanes;
        for (size_t i = begin; i < end; ++i) {
            const size_t stop = size_t{stops[i].stop} * kLanes;
            sum += CountLanes(num_copies + stop);
            sum.store(true_at + at);
            CountLanes counted(num_counted + stop);
            if (has_extra) counted += CountLanes(num_extra + size_t{extra_at[i]} * kLanes);
            counted.store(counted_at + at);
            at += stops[i].is_followed ? 0 : kLanes;
        }
        // Rows after the last one may be in no lane.
        points.size = at / kLanes + cell.true_positives[end - 1].is_followed;
        num_true = counts(sum);
    }

    // Every copy of the true positives from `begin` to `end`, which stand at `ranks` among `size` rows of one image and score.
    // A copy of all these rows stands behind the last of them.
    void add_copies(const Cell& cell, size_t begin, size_t end, const uint32_t* ranks, uint32_t size,
                     Counts& num_true, ResampleWorkspace<kLanes>& work) const {
        Counts num_copies, num_before, num_counted;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const size_t stop = size_t{cell.true_positives[begin].stop} * kLanes + lane;
            num_copies[lane] = work.num_copies[stop];
            num_counted[lane] = work.num_counted[stop];
            if (!cell.extra.empty()) num_counted[lane] += work.num_extra[size_t{cell.num_extra[begin]} * kLanes + lane];
            num_before[lane] = num_counted[lane] -= num_copies[lane] * static_cast<int32_t>(ranks[0]);
        }
        CurvePoints<kLanes>& points = work.points;
        const int32_t most = *std::max_element(num_copies.begin(), num_copies.end());
        points.reserve(size_t(most) * (end - begin));
        for (int32_t copy = 0; copy < most; ++copy) {
            for (size_t i = 0; i < end - begin; ++i, ++points.size) {
                for (size_t lane = 0; lane < kLanes; ++lane) {
                    if (copy < num_copies[lane]) {
                        ++num_true[lane];
                        num_counted[lane] = num_before[lane] + static_cast<int32_t>(copy * size + ranks[i]);
                    }
                    points.num_true[points.size * kLanes + lane] = num_true[lane];
                    points.num_counted[points.size * kLanes + lane] = num_counted[lane];
                }
            }
        }
    }

    BOXSCORE_INLINE void write_recall(size_t limit, size_t threshold, const Counts& num_true, const Place& place,
                                      ResampleWorkspace<kLanes>& work) const {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (place.num_truths[lane] == 0) continue;
            ResampleNumbers& numbers = work.numbers[lane];
            const size_t row = limit * num_thresholds_ + threshold;
            numbers.recall[row * numbers.num_defined() + place.index[lane]] = num_true[lane] / double(place.num_truths[lane]);
        }
    }

    BOXSCORE_INLINE void find_reach(const int32_t* num_truths, ResampleWorkspace<kLanes>& work) const {
        const size_t size = size_t(*std::max_element(num_truths, num_truths + kLanes)) + 1;
        work.reach.assign(size * kLanes, 0);
        uint32_t* const reach = work.reach.data();
        for (const double point : rules_.recall_points) {
            for (size_t lane = 0; lane < kLanes; ++lane) {
                if (num_truths[lane] > 0) reach[num_needed(point, num_truths[lane]) * kLanes + lane] += kLanes;
            }
        }
        for (size_t i = kLanes; i < size * kLanes; ++i) reach[i] += reach[i - kLanes];
    }

    // The best precision for each number of reached recall points, from the end of each curve to its beginning.
    BOXSCORE_INLINE void find_best(const Counts& total, ResampleWorkspace<kLanes>& work) const {
        const size_t size = size_t(*std::max_element(total.begin(), total.end())) + 1;
        if (work.reach.size() < size * kLanes) {  // more true positives than truths, where a truth may be matched twice
            work.reach.resize(size * kLanes, static_cast<uint32_t>(num_points_ * kLanes));
        }
        const uint32_t* const reach = work.reach.data();
        double* const to = work.best.data();
        FloatLanes best{};
        for (size_t i = work.points.size; i-- > 0;) {
            const int32_t* num_true = work.points.num_true.data() + i * kLanes;
            const int32_t* num_counted = work.points.num_counted.data() + i * kLanes;
            best.raise_to(precision_at(FloatLanes(num_true), FloatLanes(num_counted), rules_.epsilon));
            for (size_t lane = 0; lane < kLanes; ++lane) {
                to[reach[size_t(num_true[lane]) * kLanes + lane] + lane] = best[lane];
            }
        }
    }

    // The envelope, the best precision at each recall or beyond, of which numbers are means. Beyond the last true positives it is 0.
    BOXSCORE_INLINE void use_envelope(size_t threshold, const Counts& num_true, const Place& place,
                                      ResampleWorkspace<kLanes>& work) const {
        uint32_t end = 0;
        for (size_t lane = 0; lane < kLanes; ++lane) end = std::max(end, work.reach[size_t(num_true[lane]) * kLanes + lane]);
        const size_t num_reached = end / kLanes;
        double* const best = work.best.data() + kLanes;  // no precision is needed before the first recall point
        raise_to_envelope<FloatLanes>(best, num_reached);
        if (!is_of_samples_) {
            average_points(best, threshold, place, work);
        } else {
            if (needs_ap_[place.area]) keep_samples(best, threshold, place, work);
            if (place.area == 0) std::copy_n(best, num_points_ * kLanes, work.class_samples.data() + threshold * num_points_ * kLanes);
        }
        std::fill_n(work.best.data(), (num_reached + 1) * kLanes, 0.0);
    }

    BOXSCORE_INLINE void keep_samples(const double* best, size_t threshold, const Place& place, ResampleWorkspace<kLanes>& work) const {
        const size_t stride = work.most_defined * kLanes;
        double* to = work.samples.data() + threshold * num_points_ * stride;
        bool is_aligned = true;
        for (size_t lane = 0; lane < kLanes; ++lane) is_aligned &= place.num_truths[lane] > 0 && place.index[lane] == place.index[0];
        if (is_aligned) {
            to += place.index[0] * kLanes;
            for (size_t r = 0; r < num_points_; ++r, to += stride) FloatLanes(best + r * kLanes).store(to);
            return;
        }
        for (size_t r = 0; r < num_points_; ++r, to += stride) {
            for (size_t lane = 0; lane < kLanes; ++lane) {
                if (place.num_truths[lane] > 0) to[place.index[lane] * kLanes + lane] = best[r * kLanes + lane];
            }
        }
    }

    // AP of a class, the mean of its precisions at all thresholds and recall points.
    void average_class(const Place& place, ResampleWorkspace<kLanes>& work) const {
        const auto means = mean_side_by_side<kLanes>({work.class_samples.data(), num_thresholds_ * num_points_, 1, 1});
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (place.num_truths[lane] > 0) work.numbers[lane].ap[place.index[lane]] = means[lane];
        }
    }

    void average_points(const double* best, size_t threshold, const Place& place, ResampleWorkspace<kLanes>& work) const {
        double means[kLanes];
        mean_over_points(best, num_points_, kLanes, rules_.ap, means);
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (place.num_truths[lane] == 0) continue;
            ResampleNumbers& numbers = work.numbers[lane];
            numbers.average_precision[threshold * numbers.num_defined() + place.index[lane]] = means[lane];
        }
    }

    void measure_areas(size_t threshold, const Place& place, ResampleWorkspace<kLanes>& work) const {
        const Cell& cell = layout_.field(place.label, place.area).cells[threshold];
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (place.num_truths[lane] == 0) continue;
            ResampleNumbers& numbers = work.numbers[lane];
            numbers.average_precision[threshold * numbers.num_defined() + place.index[lane]] =
                area_under(cell, lane, place.num_truths[lane], work);
        }
    }

    double area_under(const Cell& cell, size_t lane, int32_t num_truths, ResampleWorkspace<kLanes>& work) const {
        const CurvePoints<kLanes>& points = work.points;
        double sum = 0;
        int32_t num_true = 0;
        work.values.clear();
        work.counted.clear();
        for (size_t i = lane; i < points.size * kLanes; i += kLanes) {
            if (points.num_true[i] == num_true) continue;
            num_true = points.num_true[i];
            if (is_trapezoid(rules_.ap)) {
                sum += trapezoid(num_true, points.num_counted[i], static_cast<double>(num_truths), rules_.epsilon,
                                 rules_.ap == ApRule::trapezoid_from_first);
            } else {
                work.values.push_back(precision_at(num_true, points.num_counted[i], rules_.epsilon));
                work.counted.push_back(points.num_counted[i]);
            }
        }
        if (is_trapezoid(rules_.ap)) return sum;
        if (is_linear(rules_.ap)) {
            const int32_t num_extra = cell.extra.empty() ? 0 : work.num_extra[cell.extra.size() * kLanes + lane];
            const CurveEnd end{num_truths, static_cast<double>(work.total[lane] + num_extra), rules_.epsilon,
                               rules_.ap == ApRule::linear_points_to_end};
            return area_through_points(work.values, work.counted, end, rules_.recall_points);
        }
        return area_under_envelope(work.values, num_truths);
    }

    void write(size_t first, size_t num_lanes, size_t area, const ResampleWorkspace<kLanes>& work) const {
        for (size_t lane = 0; lane < num_lanes && area == 0; ++lane) write_classes(first + lane, work.numbers[lane]);
        const std::vector<Measure>& measures = options_.wanted.measures;
        for (size_t i = 0; i < measures.size(); ++i) {
            if (measures[i].area != area) continue;
            const std::array<double, kLanes> averages = averages_of(measures[i], work);
            for (size_t lane = 0; lane < num_lanes; ++lane) out_.numbers[(first + lane) * measures.size() + i] = averages[lane];
        }
    }

    void write_classes(size_t resample, const ResampleNumbers& numbers) const {
        double *ap = out_.ap + resample * layout_.num_classes, *ar = out_.ar + resample * layout_.num_classes;
        std::fill(ap, ap + layout_.num_classes, kNaN);
        std::fill(ar, ar + layout_.num_classes, kNaN);
        std::vector<size_t> every(num_thresholds_);
        for (size_t t = 0; t < num_thresholds_; ++t) every[t] = t;
        const Samples average_precision = over_classes(numbers, numbers.average_precision.data());
        const Samples recall = over_classes(numbers, recall_of(numbers, rules_.num_limits() - 1));
        for (size_t i = 0; i < numbers.num_defined(); ++i) {
            ap[numbers.classes[i]] = is_of_samples_ ? numbers.ap[i] : mean_class_by_class(average_precision, {i}, every);
            ar[numbers.classes[i]] = mean_class_by_class(recall, {i}, every);
        }
    }

    static Samples over_classes(const ResampleNumbers& numbers, const double* values) {
        return {values, 1, numbers.num_defined(), numbers.num_defined(), 0, 1};
    }

    const double* recall_of(const ResampleNumbers& numbers, size_t limit) const {
        return numbers.recall.data() + limit * num_thresholds_ * numbers.num_defined();
    }

    // Whether each class with truths counts in a measure.
    static std::vector<uint8_t> members_of(const Measure& measure, const ResampleNumbers& numbers) {
        std::vector<uint8_t> is_member;
        for (const uint32_t label : numbers.classes) is_member.push_back(measure.has(label));
        return is_member;
    }

    std::array<double, kLanes> averages_of(const Measure& measure, const ResampleWorkspace<kLanes>& work) const {
        std::array<double, kLanes> averages{};
        const std::vector<size_t>& thresholds = measure.thresholds;
        bool are_in_a_row = true;
        for (size_t i = 0; i < thresholds.size(); ++i) are_in_a_row &= thresholds[i] == thresholds[0] + i;
        const bool is_of_all = !measure.is_recall && is_of_samples_ && !options_.wanted.is_weighted && measure.is_member.empty() && are_in_a_row;
        std::array<bool, kLanes> is_done{};
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const size_t num_defined = work.numbers[lane].num_defined();
            if (!is_of_all || num_defined == 0) {
                averages[lane] = average_of(measure, lane, work);
                continue;
            }
            if (is_done[lane]) continue;
            const auto means = mean_side_by_side<kLanes>(
                {work.samples.data() + thresholds[0] * num_points_ * work.most_defined * kLanes, thresholds.size() * num_points_, num_defined,
                 work.most_defined});
            for (size_t other = lane; other < kLanes; ++other) {
                if (work.numbers[other].num_defined() == num_defined) averages[other] = means[other], is_done[other] = true;
            }
        }
        return averages;
    }

    double average_of(const Measure& measure, size_t lane, const ResampleWorkspace<kLanes>& work) const {
        const ResampleNumbers& numbers = work.numbers[lane];
        const size_t num_defined = numbers.num_defined();
        const size_t point_stride = work.most_defined * kLanes;
        const Averaged averaged{{work.samples.data() + lane, num_points_, num_defined, num_points_ * point_stride, point_stride, kLanes},
                                over_classes(numbers, numbers.average_precision.data()),
                                over_classes(numbers, recall_of(numbers, measure.limit)),
                                numbers.num_truths,
                                measure.is_member.empty() ? std::vector<uint8_t>{} : members_of(measure, numbers)};
        return average(measure, averaged, rules_.ap, options_.wanted.is_weighted);
    }

    const ResampleLayout& layout_;
    const Rules& rules_;
    const BootstrapOptions& options_;
    const BootstrapArrays& out_;
    const size_t num_thresholds_, num_points_;
    const bool is_every_copy_needed_;
    const bool is_of_samples_;       // AP is made from precisions at recall points, all of them at once
    std::vector<uint8_t> needs_ap_;  // by area range: whether a measure is a mean of AP
};

template <size_t kLanes, bool kIsVector>
void take_all(const ResampleLayout& layout, const Rules& rules, const BootstrapOptions& options, const Run& run,
              const BootstrapArrays& out) {
    const Resampler<kLanes, kIsVector> resampler(layout, rules, options, out);
    for_each_task(
        (options.num_resamples + kLanes - 1) / kLanes, run, [&] { return resampler.make_workspace(); },
        [&](size_t task, ResampleWorkspace<kLanes>& work) { resampler.take(task * kLanes, work); });
}

}  // namespace

void bootstrap(const ResampleLayout& layout, const Rules& rules, const BootstrapOptions& options, const Run& run,
               const BootstrapArrays& out) {
    // The fast path: eight resamples side by side take 0.7 ms each on COCO val2017 and one thread, one by one 1.9 (`one-lane` in
    // benchmarks/bootstrap.py). It pays where curves are sampled at recall points, as long as the samples of all lanes are near.
    constexpr size_t kLanes = 8, kMostSamples = size_t{1} << 20;
    const size_t num_samples = layout.num_classes * rules.num_thresholds() * rules.recall_points.size();
    const bool has_lanes = options.max_lanes >= kLanes && is_sampled(rules.ap) && num_samples * kLanes <= kMostSamples;
    if (!has_lanes) return take_all<1, false>(layout, rules, options, run, out);
#if defined(BOXSCORE_HAS_NEWER_X86)
    if (processor().has_avx2) return take_all<kLanes, true>(layout, rules, options, run, out);
#endif
    take_all<kLanes, false>(layout, rules, options, run, out);
}

}  // namespace boxscore
