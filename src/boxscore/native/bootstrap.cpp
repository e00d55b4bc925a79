#include "bootstrap.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "average.h"
#include "memory.h"
#include "order.h"
#include "precision.h"

namespace boxscore {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class Random {
public:
    explicit Random(uint64_t state) : state_(state) {}

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }

    // Below `bound`, each with the same probability: Lemire, "Fast random integer generation in an interval", 2019.
    uint32_t below(uint32_t bound) {
        uint64_t product = (next() >> 32) * bound;
        if (static_cast<uint32_t>(product) < bound) {
            const uint32_t unfair = (UINT32_MAX - bound + 1) % bound;
            while (static_cast<uint32_t>(product) < unfair) product = (next() >> 32) * bound;
        }
        return static_cast<uint32_t>(product >> 32);
    }

private:
    uint64_t state_;
};

void draw_into(std::vector<uint16_t>& weight, uint64_t seed, uint64_t resample) {
    Random random(Random(Random(seed).next() + resample).next());
    std::fill(weight.begin(), weight.end(), uint16_t{0});
    for (size_t i = 0; i < weight.size(); ++i) {
        if (++weight[random.below(static_cast<uint32_t>(weight.size()))] == 0) {
            throw std::overflow_error("an image was drawn 65536 times");  // with a probability of 1e-300000
        }
    }
}

// A true positive of a cell, and how many rows count up to it, itself included: of those that count at every threshold of the
// area range, and of those that do not.
struct Found {
    uint32_t image;
    uint32_t num_counted, num_extra;
};

// Detections of one class, image and score that count in one cell, and some of which are true. In a resample all of the first
// copy stand before all of the second, so the true ones are not in one row with their own copies.
struct Tie {
    uint32_t begin, end;              // of the true ones among all that were found
    uint32_t num_counted, num_extra;  // rows before it
    uint32_t size;                    // rows that count
};

// One threshold of one class and area range. Images stand for rows, by falling score.
struct Cell {
    std::vector<Found> found;
    std::vector<uint32_t> places;  // the same where every row counts at every threshold: `num_counted` says it all
    std::vector<Tie> ties;
    std::vector<uint32_t> extra;                // images of rows that count here, but not at every threshold
    std::vector<std::vector<uint32_t>> beyond;  // images of what is found beyond each limit but the last

    size_t num_found() const { return found.size() + places.size(); }
    Found at(size_t i) const { return places.empty() ? found[i] : Found{0, places[i], 0}; }
};

// One class in one area range.
struct Field {
    std::vector<uint32_t> truths;   // images of the truths that count
    std::vector<uint32_t> counted;  // images of the rows that count at every threshold
    std::vector<Cell> cells;        // a threshold each
};

struct Key {
    uint64_t key;
    uint32_t row;
};

// All that a resample needs, laid out once: lists of images, over which their weights are summed.
template <class Score, class State>
class Layout {
public:
    Layout(const TallyColumns<Score, State>& tally, const TruthStates<State>& truths, const Rules& rules,
           const BootstrapOptions& options, const Run& run)
        : tally_(tally), rules_(rules), is_wanted_(rules.num_areas()), has_early_(rules.num_areas()),
          hit_(tally.size), fields_(tally.num_classes * rules.num_areas()) {
        is_wanted_[0] = true;
        for (const Measure& measure : options.measures) {
            is_wanted_[measure.area] = true;
            if (measure.limit + 1 < rules.num_limits()) has_early_[measure.area] = true;
        }
        uint32_t num_hits = 0;
        for (size_t i = 0; i < tally.size; ++i) hit_[i] = num_hits, num_hits += tally.state[i] & 1;
        for (size_t g = 0; g < truths.size; ++g) {
            for (size_t a = 0; a < rules.num_areas(); ++a) {
                if (truths.state[g] >> a & 1) field(truths.label[g], a).truths.push_back(truths.image[g]);
            }
        }
        lay_out(run);
    }

    bool is_wanted(size_t area) const { return is_wanted_[area]; }
    const Field& field(size_t label, size_t area) const { return fields_[label * rules_.num_areas() + area]; }

private:
    Field& field(size_t label, size_t area) { return fields_[label * rules_.num_areas() + area]; }

    void lay_out(const Run& run) {
        const Groups by_image = group(tally_.image, tally_.size, tally_.num_images);
        std::vector<int32_t> label(tally_.size);
        for (size_t i = 0; i < tally_.size; ++i) label[i] = tally_.label[by_image.at(static_cast<uint32_t>(i))];
        const Groups by_class = group(label.data(), tally_.size, tally_.num_classes);
        for_each_task(tally_.num_classes, run, [] { return 0; }, [&](size_t k, int) {
            const size_t size = by_class.start[k + 1] - by_class.start[k];
            Buffer<Key> keys(size), sorted(size);
            for (size_t i = 0; i < size; ++i) {
                const uint32_t row = by_image.at(by_class.at(static_cast<uint32_t>(by_class.start[k] + i)));
                keys[i] = {falling_key(tally_.score[row]), row};
            }
            sort_by_key(keys.data(), sorted.data(), size);
            for (size_t a = 0; a < rules_.num_areas(); ++a) {
                if (is_wanted_[a]) lay_out_field(sorted, a, field(k, a));
            }
        });
    }

    void lay_out_field(const Buffer<Key>& rows, size_t area, Field& field) const {
        field.cells.resize(rules_.num_thresholds());
        if (has_early_[area]) {
            for (Cell& cell : field.cells) cell.beyond.resize(rules_.num_limits() - 1);
        }
        std::vector<Tie> ties(field.cells.size());
        for (size_t begin = 0, end; begin < rows.size(); begin = end) {
            for (end = begin + 1; end < rows.size() && is_tied(rows[begin], rows[end]);) ++end;
            if (end == begin + 1) {
                add_row(rows[begin].row, area, field);
                continue;
            }
            for (size_t t = 0; t < ties.size(); ++t) ties[t] = end_of(field, field.cells[t]);
            for (size_t i = begin; i < end; ++i) add_row(rows[i].row, area, field);
            for (size_t t = 0; t < ties.size(); ++t) {
                const Tie after = end_of(field, field.cells[t]);
                ties[t].end = after.begin;
                ties[t].size = after.num_counted - ties[t].num_counted + after.num_extra - ties[t].num_extra;
                if (ties[t].end > ties[t].begin && ties[t].size > 1) field.cells[t].ties.push_back(ties[t]);
            }
        }
        // What comes after the last true positive is on no curve.
        uint32_t num_counted = 0;
        for (Cell& cell : field.cells) {
            if (!cell.found.empty()) num_counted = std::max(num_counted, cell.found.back().num_counted);
            cell.extra.resize(cell.found.empty() ? 0 : cell.found.back().num_extra);
            shorten(field, cell);
        }
        field.counted.resize(num_counted);
    }

    // Most cells count the same rows as all others of their field.
    static void shorten(const Field& field, Cell& cell) {
        const bool is_plain = std::all_of(cell.found.begin(), cell.found.end(), [&](const Found& found) {
            return found.num_extra == 0 && found.num_counted > 0 && field.counted[found.num_counted - 1] == found.image;
        });
        if (!is_plain) return;
        for (const Found& found : cell.found) cell.places.push_back(found.num_counted);
        cell.found = {};
    }

    bool is_tied(const Key& a, const Key& b) const { return a.key == b.key && tally_.image[a.row] == tally_.image[b.row]; }

    static Tie end_of(const Field& field, const Cell& cell) {
        return {size_of(cell.found), 0, size_of(field.counted), size_of(cell.extra), 0};
    }
    template <class T>
    static uint32_t size_of(const std::vector<T>& list) {
        return static_cast<uint32_t>(list.size());
    }

    void add_row(uint32_t row, size_t area, Field& field) const {
        const uint32_t image = tally_.image[row];
        if ((tally_.state[row] & 1) == 0) {
            if (tally_.state[row] >> (area + 1) & 1) field.counted.push_back(image);
            return;
        }
        const size_t num_thresholds = rules_.num_thresholds();
        size_t num_counted = 0;
        for (size_t t = 0; t < num_thresholds; ++t) num_counted += is_set(tally_.is_counted, row, area, t);
        if (num_counted == num_thresholds) field.counted.push_back(image);
        for (size_t t = 0; t < num_thresholds; ++t) {
            Cell& cell = field.cells[t];
            if (num_counted < num_thresholds && is_set(tally_.is_counted, row, area, t)) cell.extra.push_back(image);
            if (!is_set(tally_.is_true, row, area, t)) continue;
            cell.found.push_back({image, size_of(field.counted), size_of(cell.extra)});
            const size_t num_beyond = std::min<size_t>(tally_.tier[row], cell.beyond.size());
            for (size_t m = 0; m < num_beyond; ++m) cell.beyond[m].push_back(image);
        }
    }

    bool is_set(const uint64_t* words, uint32_t row, size_t area, size_t threshold) const {
        const size_t cell = area * rules_.num_thresholds() + threshold;
        return words[size_t{hit_[row]} * rules_.num_words() + cell / kBitsPerWord] >> cell % kBitsPerWord & 1;
    }

    const TallyColumns<Score, State>& tally_;
    const Rules& rules_;
    std::vector<uint8_t> is_wanted_, has_early_;  // by area range: any number, any recall within an earlier limit
    std::vector<uint32_t> hit_;                   // of each row: its place among the hits, if it is one
    std::vector<Field> fields_;                   // [K, A]
};

// The true positives of one curve: how many are true up to each, and how many count.
struct Marks {
    std::vector<int32_t> num_true, num_counted;
    std::vector<double> precision;
    size_t size = 0;
    int32_t total = 0;  // true positives noted so far

    void clear() { size = 0, total = 0; }

    // For so many more, and for one that is written and then not kept.
    void make_room(size_t num) {
        if (num_true.size() > size + num) return;
        num_true.resize(2 * (size + num) + 1);
        num_counted.resize(num_true.size());
        precision.resize(num_true.size());
    }
};

// A thread's own memory for one resample.
struct Desk {
    std::vector<uint16_t> weight;      // of each image
    std::vector<int32_t> num_counted;  // weights summed along a field's rows
    std::vector<int32_t> num_extra;    // and along a cell's own
    Marks marks;
    std::vector<uint32_t> reach;  // by the number of true positives: recall points reached
    std::vector<double> best;     // [R + 1, T]: precision where so many recall points are reached
    // Of the classes that have truths, in the area range at hand; rows of K.
    std::vector<uint32_t> defined;
    std::vector<double> num_truths;
    std::vector<double> samples;            // precisions at recall points: [T, K, R]
    std::vector<double> average_precision;  // [T, K]
    std::vector<double> recall;             // [M, T, K]
    std::vector<double> values;
};

template <class Score, class State>
class Resampler {
public:
    Resampler(const TallyColumns<Score, State>& tally, const TruthStates<State>& truths, const Layout<Score, State>& layout,
              const Rules& rules, const BootstrapOptions& options, const BootstrapArrays& out)
        : layout_(layout), rules_(rules), options_(options), out_(out), num_boxes_(tally.num_images),
          num_classes_(tally.num_classes), num_thresholds_(rules.num_thresholds()),
          num_points_(rules.ap == ApRule::recall_points ? rules.recall_points.size() : 0),
          // Precision rises from one copy of a true positive to the next, so only the last needs to be drawn. With a larger
          // epsilon rounding might have it otherwise; and an area under a curve is a sum over all of them.
          is_every_copy_drawn_(num_points_ == 0 || rules.epsilon > std::numeric_limits<double>::epsilon()) {
        for (size_t i = 0; i < tally.size; ++i) ++num_boxes_[tally.image[i]];
        for (size_t g = 0; g < truths.size; ++g) ++num_boxes_[truths.image[g]];
    }

    Desk make_desk() const {
        Desk desk;
        desk.weight.resize(num_boxes_.size());
        desk.best.resize((num_points_ + 1) * num_thresholds_);
        desk.num_truths.resize(num_classes_);
        desk.samples.resize(num_thresholds_ * num_classes_ * num_points_);
        desk.average_precision.resize(num_thresholds_ * num_classes_);
        desk.recall.resize(rules_.num_limits() * num_thresholds_ * num_classes_);
        return desk;
    }

    void take(size_t resample, Desk& desk) const {
        draw_into(desk.weight, options_.seed, resample);
        uint64_t num_drawn = 0;
        for (size_t i = 0; i < num_boxes_.size(); ++i) num_drawn += uint64_t{num_boxes_[i]} * desk.weight[i];
        if (num_drawn > INT32_MAX) throw std::overflow_error("more than 2**31 - 1 boxes in one resample");
        for (size_t a = 0; a < rules_.num_areas(); ++a) {
            if (!layout_.is_wanted(a)) continue;
            desk.defined.clear();
            for (size_t k = 0; k < num_classes_; ++k) draw_class(k, a, desk);
            if (a == 0) write_classes(resample, desk);
            for (size_t i = 0; i < options_.measures.size(); ++i) {
                if (options_.measures[i].area == a) {
                    out_.numbers[resample * options_.measures.size() + i] = mean_of(options_.measures[i], desk);
                }
            }
        }
    }

private:
    size_t place(size_t threshold, size_t defined) const { return threshold * num_classes_ + defined; }
    size_t recall_place(size_t limit, size_t threshold, size_t defined) const {
        return (limit * num_thresholds_ + threshold) * num_classes_ + defined;
    }

    static int64_t sum_weights(const std::vector<uint32_t>& images, const Desk& desk) {
        int64_t sum = 0;
        for (const uint32_t image : images) sum += desk.weight[image];
        return sum;
    }

    // What the weights of the first so many images sum to.
    static void sum_along(const std::vector<uint32_t>& images, const Desk& desk, std::vector<int32_t>& sums) {
        if (sums.size() <= images.size()) sums.resize(images.size() + 1);
        int32_t sum = sums[0] = 0;
        for (size_t i = 0; i < images.size(); ++i) sums[i + 1] = sum += desk.weight[images[i]];
    }

    void draw_class(size_t label, size_t area, Desk& desk) const {
        const Field& field = layout_.field(label, area);
        const int64_t num_truths = sum_weights(field.truths, desk);
        if (num_truths == 0) return;
        const size_t defined = desk.defined.size();
        desk.defined.push_back(static_cast<uint32_t>(label));
        desk.num_truths[defined] = static_cast<double>(num_truths);
        sum_along(field.counted, desk, desk.num_counted);
        if (num_points_ > 0) {
            find_reach(num_truths, desk.reach);
            std::fill(desk.best.begin(), desk.best.end(), 0.0);
        }
        for (size_t t = 0; t < num_thresholds_; ++t) {
            const Cell& cell = field.cells[t];
            mark(cell, desk);
            for (size_t m = 0; m < cell.beyond.size(); ++m) {
                const auto num_true = static_cast<double>(desk.marks.total - sum_weights(cell.beyond[m], desk));
                desk.recall[recall_place(m, t, defined)] = num_true / desk.num_truths[defined];
            }
            desk.recall[recall_place(rules_.num_limits() - 1, t, defined)] = desk.marks.total / desk.num_truths[defined];
            if (num_points_ > 0) {
                draw_points(num_truths, t, desk);
            } else {
                desk.average_precision[place(t, defined)] = area_under(num_truths, desk);
            }
        }
        if (num_points_ > 0) sample_points(defined, desk);
    }

    void find_reach(int64_t num_truths, std::vector<uint32_t>& reach) const {
        reach.resize(num_truths + 1);
        size_t num_true = 0;
        for (uint32_t r = 0; r < num_points_; ++r) {
            const size_t needed = num_needed(rules_.recall_points[r], num_truths);
            for (; num_true < needed; ++num_true) reach[num_true] = r;
        }
        for (; num_true < reach.size(); ++num_true) reach[num_true] = static_cast<uint32_t>(num_points_);
    }

    // Notes the true positives of a cell: all of them, or the last of each row's copies.
    void mark(const Cell& cell, Desk& desk) const {
        sum_along(cell.extra, desk, desk.num_extra);
        desk.marks.clear();
        uint32_t next = 0;
        for (const Tie& tie : cell.ties) {
            mark_rows(cell, next, tie.begin, desk);
            mark_tie(cell, tie, desk);
            next = tie.end;
        }
        mark_rows(cell, next, static_cast<uint32_t>(cell.num_found()), desk);
    }

    void mark_rows(const Cell& cell, uint32_t begin, uint32_t end, Desk& desk) const {
        if (is_every_copy_drawn_) return mark_rows_and_copies(cell, begin, end, desk);
        Marks& marks = desk.marks;
        marks.make_room(end - begin);
        const int32_t *num_counted = desk.num_counted.data(), *num_extra = desk.num_extra.data();
        int32_t *true_at = marks.num_true.data(), *counted_at = marks.num_counted.data();
        size_t size = marks.size;
        int32_t num_true = marks.total;
        if (!cell.places.empty()) {
            for (uint32_t i = begin; i < end; ++i) {
                const int32_t* up_to = num_counted + cell.places[i];
                const int32_t num_copies = up_to[0] - up_to[-1];
                true_at[size] = num_true += num_copies;
                counted_at[size] = up_to[0];
                size += num_copies != 0;
            }
        } else {
            for (uint32_t i = begin; i < end; ++i) {
                const Found& found = cell.found[i];
                const int32_t num_copies = desk.weight[found.image];
                true_at[size] = num_true += num_copies;
                counted_at[size] = num_counted[found.num_counted] + num_extra[found.num_extra];
                size += num_copies != 0;
            }
        }
        marks.size = size;
        marks.total = num_true;
    }

    // A copy of a row stands right behind it.
    void mark_rows_and_copies(const Cell& cell, uint32_t begin, uint32_t end, Desk& desk) const {
        for (uint32_t i = begin; i < end; ++i) {
            const Found found = cell.at(i);
            const int32_t num_copies = num_copies_of(cell, found, desk);
            const int32_t last = desk.num_counted[found.num_counted] + desk.num_extra[found.num_extra];
            desk.marks.make_room(num_copies);
            for (int32_t copy = 1; copy <= num_copies; ++copy) add_mark(last - num_copies + copy, desk.marks);
        }
    }

    // A copy of all rows stands behind the last of them.
    void mark_tie(const Cell& cell, const Tie& tie, Desk& desk) const {
        const int32_t num_copies = num_copies_of(cell, cell.at(tie.begin), desk);
        desk.marks.make_room(size_t(num_copies) * (tie.end - tie.begin));
        int32_t before = desk.num_counted[tie.num_counted] + desk.num_extra[tie.num_extra];
        for (int32_t copy = 0; copy < num_copies; ++copy, before += static_cast<int32_t>(tie.size)) {
            for (uint32_t i = tie.begin; i < tie.end; ++i) {
                const Found found = cell.at(i);
                const uint32_t own = found.num_counted - tie.num_counted + found.num_extra - tie.num_extra;
                add_mark(before + static_cast<int32_t>(own), desk.marks);
            }
        }
    }

    static int32_t num_copies_of(const Cell& cell, const Found& found, const Desk& desk) {
        if (cell.places.empty()) return desk.weight[found.image];
        return desk.num_counted[found.num_counted] - desk.num_counted[found.num_counted - 1];
    }

    static void add_mark(int32_t num_counted, Marks& marks) {
        marks.num_true[marks.size] = ++marks.total;
        marks.num_counted[marks.size++] = num_counted;
    }

    void find_precision(Marks& marks) const {
        const int32_t *num_true = marks.num_true.data(), *num_counted = marks.num_counted.data();
        double* precision = marks.precision.data();
        for (size_t i = 0; i < marks.size; ++i) precision[i] = num_true[i] / (num_counted[i] + rules_.epsilon);
    }

    void draw_points(int64_t num_truths, size_t threshold, Desk& desk) const {
        find_precision(desk.marks);
        const int32_t most = static_cast<int32_t>(num_truths);
        const int32_t* num_true = desk.marks.num_true.data();
        const uint32_t* reach = desk.reach.data();
        const double* precision = desk.marks.precision.data();
        double* best = desk.best.data() + threshold;
        auto draw = [&](size_t i) {
            double& here = best[reach[std::min(num_true[i], most)] * num_thresholds_];
            here = std::max(here, precision[i]);
        };
        // In four runs at once, as one mark often waits for the one before it.
        const size_t quarter = desk.marks.size / 4;
        for (size_t i = 0; i < quarter; ++i) draw(i), draw(i + quarter), draw(i + 2 * quarter), draw(i + 3 * quarter);
        for (size_t i = 4 * quarter; i < desk.marks.size; ++i) draw(i);
    }

    // The envelope, the best precision at each recall or beyond, at all thresholds; its mean is the average precision.
    void sample_points(size_t defined, Desk& desk) const {
        for (size_t r = num_points_; r-- > 1;) {
            double *here = desk.best.data() + r * num_thresholds_, *beyond = here + num_thresholds_;
            for (size_t t = 0; t < num_thresholds_; ++t) here[t] = std::max(here[t], beyond[t]);
        }
        for (size_t t = 0; t < num_thresholds_; ++t) {
            double* samples = desk.samples.data() + place(t, defined) * num_points_;
            double sum = 0;
            for (size_t r = 0; r < num_points_; ++r) sum += samples[r] = desk.best[(r + 1) * num_thresholds_ + t];
            desk.average_precision[place(t, defined)] = sum / static_cast<double>(num_points_);
        }
    }

    double area_under(int64_t num_truths, Desk& desk) const {
        Marks& marks = desk.marks;
        if (rules_.ap == ApRule::trapezoid) {
            double sum = 0;
            for (size_t i = 0; i < marks.size; ++i) {
                sum += trapezoid(marks.num_true[i], marks.num_counted[i], static_cast<double>(num_truths), rules_.epsilon);
            }
            return sum;
        }
        find_precision(marks);
        desk.values.assign(marks.precision.begin(), marks.precision.begin() + marks.size);
        return area_under_envelope(desk.values, desk.values.size(), num_truths, 0);
    }

    void write_classes(size_t resample, const Desk& desk) const {
        double *ap = out_.ap + resample * num_classes_, *ar = out_.ar + resample * num_classes_;
        std::fill(ap, ap + num_classes_, kNaN);
        std::fill(ar, ar + num_classes_, kNaN);
        std::vector<size_t> every(num_thresholds_);
        for (size_t t = 0; t < num_thresholds_; ++t) every[t] = t;
        for (size_t i = 0; i < desk.defined.size(); ++i) {
            ap[desk.defined[i]] = mean_over(every, desk.average_precision.data() + i);
            ar[desk.defined[i]] = mean_over(every, desk.recall.data() + recall_place(rules_.num_limits() - 1, 0, i));
        }
    }

    // The mean over thresholds, one after the other.
    double mean_over(const std::vector<size_t>& thresholds, const double* first) const {
        double sum = 0;
        for (const size_t t : thresholds) sum += first[t * num_classes_];
        return sum / static_cast<double>(thresholds.size());
    }

    // As `average` has it in Python.
    double mean_of(const Measure& measure, Desk& desk) const {
        const size_t num_defined = desk.defined.size();
        if (num_defined == 0) return kNaN;
        const double* values = desk.average_precision.data();
        if (measure.is_recall) values = desk.recall.data() + recall_place(measure.limit, 0, 0);
        if (options_.is_weighted) {
            double num_truths = 0;
            desk.values.resize(num_defined);
            for (size_t i = 0; i < num_defined; ++i) {
                desk.values[i] = mean_over(measure.thresholds, values + i) * desk.num_truths[i];
                num_truths += desk.num_truths[i];
            }
            return pairwise_sum(desk.values.data(), num_defined) / num_truths;
        }
        // One mean over thresholds, recall points and classes together, classes innermost.
        const bool has_points = !measure.is_recall && num_points_ > 0;
        const size_t num_points = has_points ? num_points_ : 1;
        if (has_points) values = desk.samples.data();
        size_t t = 0, r = 0, i = 0;
        auto fill = [&](double* to, size_t num) {
            while (num > 0) {
                const double* from = values + place(measure.thresholds[t], 0) * num_points + r;
                const size_t end = std::min(i + num, num_defined);
                num -= end - i;
                for (; i < end; ++i) *to++ = from[i * num_points];
                if (i < num_defined) return;
                i = 0;
                if (++r == num_points) r = 0, ++t;
            }
        };
        const size_t num_values = measure.thresholds.size() * num_points * num_defined;
        return pairwise_sum_of(num_values, fill) / static_cast<double>(num_values);
    }

    const Layout<Score, State>& layout_;
    const Rules& rules_;
    const BootstrapOptions& options_;
    const BootstrapArrays& out_;
    std::vector<uint32_t> num_boxes_;  // of each image
    const size_t num_classes_, num_thresholds_, num_points_;
    const bool is_every_copy_drawn_;
};

}  // namespace

std::vector<uint16_t> draw_images(size_t num_images, uint64_t seed, uint64_t resample) {
    std::vector<uint16_t> weight(num_images);
    draw_into(weight, seed, resample);
    return weight;
}

template <class Score, class State>
void bootstrap(const TallyColumns<Score, State>& tally, const TruthStates<State>& truths, const Rules& rules,
               const BootstrapOptions& options, const Run& run, const BootstrapArrays& out) {
    const Layout<Score, State> layout(tally, truths, rules, options, run);
    const Resampler<Score, State> resampler(tally, truths, layout, rules, options, out);
    for_each_task(
        options.num_resamples, run, [&] { return resampler.make_desk(); },
        [&](size_t resample, Desk& desk) { resampler.take(resample, desk); });
}

template void bootstrap(const TallyColumns<float, uint8_t>&, const TruthStates<uint8_t>&, const Rules&,
                        const BootstrapOptions&, const Run&, const BootstrapArrays&);
template void bootstrap(const TallyColumns<float, uint64_t>&, const TruthStates<uint64_t>&, const Rules&,
                        const BootstrapOptions&, const Run&, const BootstrapArrays&);
template void bootstrap(const TallyColumns<double, uint8_t>&, const TruthStates<uint8_t>&, const Rules&,
                        const BootstrapOptions&, const Run&, const BootstrapArrays&);
template void bootstrap(const TallyColumns<double, uint64_t>&, const TruthStates<uint64_t>&, const Rules&,
                        const BootstrapOptions&, const Run&, const BootstrapArrays&);

}  // namespace boxscore
