#include "bootstrap.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "average.h"
#include "draws.h"
#include "lanes.h"
#include "precision.h"

namespace boxscore {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Where a curve goes through in each lane: how many are true up to some true positive, and how many count. Lanes in which it
// was not drawn, or less often, say what they have said, or less.
template <size_t kLanes>
struct Marks {
    std::vector<int32_t> num_true, num_counted;  // [size, lanes]
    std::vector<double> precision;
    size_t size = 0;

    void make_room(size_t num) {
        if (num_true.size() >= (size + num) * kLanes) return;
        num_true.resize(2 * (size + num) * kLanes);
        num_counted.resize(num_true.size());
        precision.resize(num_true.size());
    }
};

// The numbers of one resample in the area range at hand, of the classes that have truths there: D of them.
struct Numbers {
    std::vector<uint32_t> classes;          // their places, ascending
    std::vector<double> num_truths;         // [D]
    std::vector<double> samples;            // precisions at recall points: [T, D, R]
    std::vector<double> average_precision;  // [T, D]
    std::vector<double> recall;             // [M, T, D]

    size_t num_defined() const { return classes.size(); }
};

// A thread's own memory for several resamples at once. What is of all of them has them side by side, a lane each, so that one
// instruction works on many.
template <size_t kLanes>
struct Desk {
    std::vector<uint16_t> drawn;      // how often each image is, in one resample
    std::vector<uint16_t> weight;     // [N + 1, lanes]: the same in all, and of an image that is none
    std::vector<int32_t> num_truths;  // [K, lanes]
    // Of the class at hand.
    std::vector<int32_t> num_copies;   // [stops, lanes]
    std::vector<int32_t> num_counted;  // [stops, lanes]: rows up to each that count at every threshold
    std::vector<uint32_t> reach;       // [true positives, lanes]: recall points reached, times the lanes
    // Of the threshold at hand.
    std::vector<int32_t> num_extra;  // [rows, lanes]: up to each of a cell's own
    Marks<kLanes> marks;
    std::vector<double> best;  // [R + 1, lanes]: precision where so many recall points are reached
    std::vector<double> values;
    std::vector<double> nowhere;  // [R]: for lanes in which the class has no truths
    Numbers numbers[kLanes];
};

template <size_t kLanes>
class Resampler {
public:
    Resampler(const Layout& layout, const Rules& rules, const BootstrapOptions& options, const BootstrapArrays& out)
        : layout_(layout), rules_(rules), options_(options), out_(out), num_thresholds_(rules.num_thresholds()),
          num_points_(is_sampled(rules.ap) ? rules.recall_points.size() : 0),
          // Precision rises from one copy of a true positive to the next, so only the last needs to be drawn. With a larger
          // epsilon rounding might have it otherwise; and an area under a curve is a sum over all of them.
          is_every_copy_drawn_(num_points_ == 0 || rules.epsilon > std::numeric_limits<double>::epsilon()) {}

    Desk<kLanes> make_desk() const {
        Desk<kLanes> desk;
        desk.drawn.resize(layout_.num_images());
        desk.weight.resize((layout_.num_images() + 1) * kLanes);
        desk.num_truths.resize(layout_.num_classes * kLanes);
        desk.best.resize((num_points_ + 1) * kLanes);
        desk.nowhere.resize(num_points_);
        return desk;
    }

    // The resamples from `first` on.
    void take(size_t first, Desk<kLanes>& desk) const {
        const size_t num_lanes = std::min(kLanes, options_.num_resamples - first);
        for (size_t lane = 0; lane < num_lanes; ++lane) draw_lane(first + lane, lane, desk);
        for (size_t a = 0; a < rules_.num_areas(); ++a) {
            if (!layout_.is_wanted[a]) continue;
            count_truths(a, desk);
            Places place{};  // of the class among those that are defined
            for (size_t k = 0; k < layout_.num_classes; ++k) {
                draw_class(layout_.field(k, a), desk.num_truths.data() + k * kLanes, place, desk);
                for (size_t lane = 0; lane < kLanes; ++lane) place[lane] += desk.num_truths[k * kLanes + lane] > 0;
            }
            for (size_t lane = 0; lane < num_lanes; ++lane) write(first + lane, a, desk.numbers[lane], desk.values);
        }
    }

private:
    using Counts = std::array<int32_t, kLanes>;
    using Places = std::array<size_t, kLanes>;

    void draw_lane(size_t resample, size_t lane, Desk<kLanes>& desk) const {
        draw_into(desk.drawn, options_.seed, resample);
        uint64_t num_boxes = 0;
        for (size_t i = 0; i < desk.drawn.size(); ++i) {
            desk.weight[i * kLanes + lane] = desk.drawn[i];
            num_boxes += uint64_t{layout_.num_boxes[i]} * desk.drawn[i];
        }
        if (num_boxes > INT32_MAX) throw std::overflow_error("more than 2**31 - 1 boxes in one resample");
    }

    static Lanes<kLanes> weight_of(uint32_t image, const Desk<kLanes>& desk) {
        return Lanes<kLanes>(desk.weight.data() + size_t{image} * kLanes);
    }

    static Counts sum_weights(const std::vector<uint32_t>& images, const Desk<kLanes>& desk) {
        Lanes<kLanes> sum;
        for (const uint32_t image : images) sum += weight_of(image, desk);
        return counts(sum);
    }

    static Counts counts(const Lanes<kLanes>& lanes) {
        Counts counts;
        lanes.store(counts.data());
        return counts;
    }

    void count_truths(size_t area, Desk<kLanes>& desk) const {
        for (Numbers& numbers : desk.numbers) numbers.classes.clear(), numbers.num_truths.clear();
        for (size_t k = 0; k < layout_.num_classes; ++k) {
            const Counts num_truths = sum_weights(layout_.field(k, area).truths, desk);
            for (size_t lane = 0; lane < kLanes; ++lane) {
                desk.num_truths[k * kLanes + lane] = num_truths[lane];
                if (num_truths[lane] == 0) continue;
                desk.numbers[lane].classes.push_back(static_cast<uint32_t>(k));
                desk.numbers[lane].num_truths.push_back(num_truths[lane]);
            }
        }
        for (Numbers& numbers : desk.numbers) {
            const size_t num_values = num_thresholds_ * numbers.num_defined();
            numbers.samples.resize(num_values * num_points_);
            numbers.average_precision.resize(num_values);
            numbers.recall.resize(num_values * rules_.num_limits());
        }
    }

    void draw_class(const Field& field, const int32_t* num_truths, const Places& place, Desk<kLanes>& desk) const {
        if (std::all_of(num_truths, num_truths + kLanes, [](int32_t num) { return num == 0; })) return;
        walk(field, desk);
        if (num_points_ > 0) find_reach(num_truths, desk);
        for (size_t t = 0; t < num_thresholds_; ++t) {
            const Cell& cell = field.cells[t];
            const Counts num_true = mark(cell, desk);
            for (size_t m = 0; m < cell.beyond.size(); ++m) {
                Counts within = sum_weights(cell.beyond[m], desk);
                for (size_t lane = 0; lane < kLanes; ++lane) within[lane] = num_true[lane] - within[lane];
                note_recall(m, t, within, num_truths, place, desk);
            }
            note_recall(rules_.num_limits() - 1, t, num_true, num_truths, place, desk);
            if (rules_.ap != ApRule::trapezoid) find_precision(desk.marks);
            if (num_points_ > 0) {
                draw_points(num_true, desk);
                sample_points(t, num_truths, place, desk);
                continue;
            }
            for (size_t lane = 0; lane < kLanes; ++lane) {
                if (num_truths[lane] == 0) continue;
                Numbers& numbers = desk.numbers[lane];
                numbers.average_precision[t * numbers.num_defined() + place[lane]] = area_under(lane, num_truths[lane], desk);
            }
        }
    }

    // How many rows count up to each stop, and how often each of them stands there.
    static void walk(const Field& field, Desk<kLanes>& desk) {
        // One more, as what is not a stop is written there and then not kept.
        if (desk.num_counted.size() < (field.stops.size() + 1) * kLanes) {
            desk.num_counted.resize(2 * (field.stops.size() + 1) * kLanes);
            desk.num_copies.resize(desk.num_counted.size());
        }
        Lanes<kLanes> sum;
        int32_t* to = desk.num_counted.data();
        for (const Step step : field.steps) {
            sum += weight_of(step.image, desk);
            sum.store(to);
            to += step.is_stop * kLanes;
        }
        to = desk.num_copies.data();
        for (const uint32_t image : field.stops) weight_of(image, desk).store(to), to += kLanes;
    }

    static void sum_extra(const Cell& cell, Desk<kLanes>& desk) {
        if (cell.extra.empty()) return;
        const size_t size = (cell.extra.size() + 1) * kLanes;
        if (desk.num_extra.size() < size) desk.num_extra.resize(2 * size);
        Lanes<kLanes> sum;
        int32_t* to = desk.num_extra.data();
        sum.store(to);
        for (const uint32_t image : cell.extra) {
            sum += weight_of(image, desk);
            sum.store(to += kLanes);
        }
    }

    // Notes the true positives of a cell, and says how many there are.
    Counts mark(const Cell& cell, Desk<kLanes>& desk) const {
        sum_extra(cell, desk);
        desk.marks.size = 0;
        Counts num_true{};
        size_t next = 0;
        for (const Tie& tie : cell.ties) {
            mark_rows(cell, next, tie.begin, num_true, desk);
            mark_copies(cell, tie.begin, tie.end, cell.ranks.data() + tie.first_rank, tie.size, num_true, desk);
            next = tie.end;
        }
        mark_rows(cell, next, cell.found.size(), num_true, desk);
        return num_true;
    }

    void mark_rows(const Cell& cell, size_t begin, size_t end, Counts& num_true, Desk<kLanes>& desk) const {
        if (is_every_copy_drawn_) {
            const uint32_t rank = 1;
            for (; begin < end; ++begin) mark_copies(cell, begin, begin + 1, &rank, 1, num_true, desk);
            return;
        }
        Marks<kLanes>& marks = desk.marks;
        marks.make_room(end - begin);
        Lanes<kLanes> sum(num_true.data());
        int32_t* true_at = marks.num_true.data() + marks.size * kLanes;
        int32_t* counted_at = marks.num_counted.data() + marks.size * kLanes;
        for (size_t i = begin; i < end; ++i, true_at += kLanes, counted_at += kLanes) {
            const size_t stop = size_t{cell.found[i]} * kLanes;
            sum += Lanes<kLanes>(desk.num_copies.data() + stop);
            sum.store(true_at);
            Lanes<kLanes> num_counted(desk.num_counted.data() + stop);
            if (!cell.extra.empty()) num_counted += Lanes<kLanes>(desk.num_extra.data() + size_t{cell.num_extra[i]} * kLanes);
            num_counted.store(counted_at);
        }
        marks.size += end - begin;
        num_true = counts(sum);
    }

    // Every copy of the true positives from `begin` to `end`, which stand at `ranks` among `size` rows of one image and score.
    // A copy of all these rows stands behind the last of them.
    void mark_copies(const Cell& cell, size_t begin, size_t end, const uint32_t* ranks, uint32_t size,
                     Counts& num_true, Desk<kLanes>& desk) const {
        Counts num_copies, num_before, num_counted;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const size_t stop = size_t{cell.found[begin]} * kLanes + lane;
            num_copies[lane] = desk.num_copies[stop];
            num_counted[lane] = desk.num_counted[stop];
            if (!cell.extra.empty()) num_counted[lane] += desk.num_extra[size_t{cell.num_extra[begin]} * kLanes + lane];
            num_before[lane] = num_counted[lane] -= num_copies[lane] * static_cast<int32_t>(ranks[0]);
        }
        Marks<kLanes>& marks = desk.marks;
        const int32_t most = *std::max_element(num_copies.begin(), num_copies.end());
        marks.make_room(size_t(most) * (end - begin));
        for (int32_t copy = 0; copy < most; ++copy) {
            for (size_t i = 0; i < end - begin; ++i, ++marks.size) {
                for (size_t lane = 0; lane < kLanes; ++lane) {
                    if (copy < num_copies[lane]) {
                        ++num_true[lane];
                        num_counted[lane] = num_before[lane] + static_cast<int32_t>(copy * size + ranks[i]);
                    }
                    marks.num_true[marks.size * kLanes + lane] = num_true[lane];
                    marks.num_counted[marks.size * kLanes + lane] = num_counted[lane];
                }
            }
        }
    }

    void note_recall(size_t limit, size_t threshold, const Counts& num_true, const int32_t* num_truths,
                     const Places& place, Desk<kLanes>& desk) const {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (num_truths[lane] == 0) continue;
            Numbers& numbers = desk.numbers[lane];
            const size_t row = limit * num_thresholds_ + threshold;
            numbers.recall[row * numbers.num_defined() + place[lane]] = num_true[lane] / double(num_truths[lane]);
        }
    }

    void find_reach(const int32_t* num_truths, Desk<kLanes>& desk) const {
        const size_t size = size_t(*std::max_element(num_truths, num_truths + kLanes)) + 1;
        desk.reach.assign(size * kLanes, 0);
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (num_truths[lane] == 0) continue;
            for (const double point : rules_.recall_points) {
                desk.reach[num_needed(point, num_truths[lane]) * kLanes + lane] += kLanes;
            }
        }
        for (size_t i = kLanes; i < desk.reach.size(); ++i) desk.reach[i] += desk.reach[i - kLanes];
    }

    void find_precision(Marks<kLanes>& marks) const {
        const int32_t *num_true = marks.num_true.data(), *num_counted = marks.num_counted.data();
        double* precision = marks.precision.data();
        const double epsilon = rules_.epsilon;
        for (size_t i = 0; i < marks.size * kLanes; ++i) precision[i] = num_true[i] / (num_counted[i] + epsilon);
    }

    // Draws curves from their ends to their begins, so that what is best so far is the envelope.
    void draw_points(const Counts& num_true, Desk<kLanes>& desk) const {
        const size_t size = size_t(*std::max_element(num_true.begin(), num_true.end())) + 1;
        if (desk.reach.size() < size * kLanes) {  // more were found than there are truths, where one may be found twice
            desk.reach.resize(size * kLanes, static_cast<uint32_t>(num_points_ * kLanes));
        }
        std::fill(desk.best.begin(), desk.best.end(), 0.0);
        const uint32_t* reach = desk.reach.data();
        double* to = desk.best.data();
        std::array<double, kLanes> best{};
        for (size_t i = desk.marks.size; i-- > 0;) {
            const int32_t* num_true = desk.marks.num_true.data() + i * kLanes;
            const double* precision = desk.marks.precision.data() + i * kLanes;
            for (size_t lane = 0; lane < kLanes; ++lane) {
                best[lane] = std::max(best[lane], precision[lane]);
                to[reach[size_t(num_true[lane]) * kLanes + lane] + lane] = best[lane];
            }
        }
    }

    // The envelope, the best precision at each recall or beyond; its mean is the average precision.
    void sample_points(size_t threshold, const int32_t* num_truths, const Places& place, Desk<kLanes>& desk) const {
        std::array<double*, kLanes> to;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            Numbers& numbers = desk.numbers[lane];
            const size_t row = threshold * numbers.num_defined() + place[lane];
            to[lane] = num_truths[lane] == 0 ? desk.nowhere.data() : numbers.samples.data() + row * num_points_;
        }
        std::array<double, kLanes> best{}, sum{};
        for (size_t r = num_points_; r-- > 0;) {
            const double* here = desk.best.data() + (r + 1) * kLanes;
            for (size_t lane = 0; lane < kLanes; ++lane) to[lane][r] = best[lane] = std::max(best[lane], here[lane]);
        }
        const bool is_interpolated = rules_.ap == ApRule::interpolated;
        const double num_points = double(num_points_), divisor = is_interpolated ? 1.0 : num_points;
        for (size_t r = 0; r < num_points_; ++r) {
            if (is_interpolated) {
                for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += to[lane][r] / num_points;
            } else {
                for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += to[lane][r];
            }
        }
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (num_truths[lane] == 0) continue;
            Numbers& numbers = desk.numbers[lane];
            numbers.average_precision[threshold * numbers.num_defined() + place[lane]] = sum[lane] / divisor;
        }
    }

    double area_under(size_t lane, int32_t num_truths, Desk<kLanes>& desk) const {
        const Marks<kLanes>& marks = desk.marks;
        double sum = 0;
        int32_t num_true = 0;
        desk.values.clear();
        for (size_t i = lane; i < marks.size * kLanes; i += kLanes) {
            if (marks.num_true[i] == num_true) continue;
            num_true = marks.num_true[i];
            if (rules_.ap == ApRule::trapezoid) {
                sum += trapezoid(num_true, marks.num_counted[i], static_cast<double>(num_truths), rules_.epsilon);
            } else {
                desk.values.push_back(marks.precision[i]);
            }
        }
        if (rules_.ap == ApRule::trapezoid) return sum;
        return area_under_envelope(desk.values, num_truths);
    }

    void write(size_t resample, size_t area, const Numbers& numbers, std::vector<double>& values) const {
        if (area == 0) write_classes(resample, numbers);
        for (size_t i = 0; i < options_.measures.size(); ++i) {
            if (options_.measures[i].area != area) continue;
            out_.numbers[resample * options_.measures.size() + i] = mean_of(options_.measures[i], numbers, values);
        }
    }

    void write_classes(size_t resample, const Numbers& numbers) const {
        double *ap = out_.ap + resample * layout_.num_classes, *ar = out_.ar + resample * layout_.num_classes;
        std::fill(ap, ap + layout_.num_classes, kNaN);
        std::fill(ar, ar + layout_.num_classes, kNaN);
        std::vector<size_t> every(num_thresholds_);
        for (size_t t = 0; t < num_thresholds_; ++t) every[t] = t;
        const size_t num_defined = numbers.num_defined();
        for (size_t i = 0; i < num_defined; ++i) {
            ap[numbers.classes[i]] = mean_over(every, numbers.average_precision.data() + i, num_defined);
            ar[numbers.classes[i]] = mean_over(every, recall_of(numbers, rules_.num_limits() - 1) + i, num_defined);
        }
    }

    const double* recall_of(const Numbers& numbers, size_t limit) const {
        return numbers.recall.data() + limit * num_thresholds_ * numbers.num_defined();
    }

    // The mean over thresholds, one after the other.
    static double mean_over(const std::vector<size_t>& thresholds, const double* first, size_t num_defined) {
        double sum = 0;
        for (const size_t t : thresholds) sum += first[t * num_defined];
        return sum / static_cast<double>(thresholds.size());
    }

    // As `average` has it in Python.
    double mean_of(const Measure& measure, const Numbers& numbers, std::vector<double>& values) const {
        const size_t num_defined = numbers.num_defined();
        if (num_defined == 0) return kNaN;
        const double* from = measure.is_recall ? recall_of(numbers, measure.limit) : numbers.average_precision.data();
        if (options_.is_weighted) {
            double num_truths = 0;
            values.clear();
            for (size_t i = 0; i < num_defined; ++i) {
                values.push_back(mean_over(measure.thresholds, from + i, num_defined) * numbers.num_truths[i]);
                num_truths += numbers.num_truths[i];
            }
            return pairwise_sum(values.data(), num_defined) / num_truths;
        }
        // One mean over thresholds, recall points and classes together, classes innermost.
        const bool has_points = !measure.is_recall && rules_.ap == ApRule::recall_points;
        const size_t num_points = has_points ? num_points_ : 1;
        if (has_points) from = numbers.samples.data();
        size_t t = 0, r = 0, i = 0;
        auto fill = [&](double* to, size_t num) {
            while (num > 0) {
                const double* row = from + measure.thresholds[t] * num_defined * num_points + r;
                const size_t end = std::min(i + num, num_defined);
                num -= end - i;
                for (; i < end; ++i) {
                    prefetch(row + i * num_points + 8);  // what comes soon
                    *to++ = row[i * num_points];
                }
                if (i < num_defined) return;
                i = 0;
                if (++r == num_points) r = 0, ++t;
            }
        };
        const size_t num_values = measure.thresholds.size() * num_points * num_defined;
        return pairwise_sum_of(num_values, fill) / static_cast<double>(num_values);
    }

    const Layout& layout_;
    const Rules& rules_;
    const BootstrapOptions& options_;
    const BootstrapArrays& out_;
    const size_t num_thresholds_, num_points_;
    const bool is_every_copy_drawn_;
};

template <size_t kLanes>
void take_all(const Layout& layout, const Rules& rules, const BootstrapOptions& options, const Run& run,
              const BootstrapArrays& out) {
    const Resampler<kLanes> resampler(layout, rules, options, out);
    for_each_task(
        (options.num_resamples + kLanes - 1) / kLanes, run, [&] { return resampler.make_desk(); },
        [&](size_t task, Desk<kLanes>& desk) { resampler.take(task * kLanes, desk); });
}

}  // namespace

void bootstrap(const Layout& layout, const Rules& rules, const BootstrapOptions& options, const Run& run,
               const BootstrapArrays& out) {
    // Lanes pay where curves are drawn at recall points, and as long as the samples of all of them stay near.
    constexpr size_t kLanes = 8, kMostSamples = size_t{1} << 20;
    const size_t num_samples = layout.num_classes * rules.num_thresholds() * rules.recall_points.size();
    const bool has_lanes = is_sampled(rules.ap) && num_samples * kLanes <= kMostSamples;
    has_lanes ? take_all<kLanes>(layout, rules, options, run, out) : take_all<1>(layout, rules, options, run, out);
}

}  // namespace boxscore
