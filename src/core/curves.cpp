#include "curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "memory.h"
#include "order.h"
#include "precision.h"

namespace boxscore {
namespace {

// A detection on its way to the curves: where it stands by score, and its verdict.
template <class State>
struct Row {
    uint64_t key;
    uint32_t hit;  // its place among the hits, if it is one
    uint8_t tier;
    State state;
};

// The detections of all classes, class by class, each by falling score, image and rank.
template <class State>
struct Rows {
    std::vector<uint32_t> start;  // of each class
    Buffer<Row<State>> row;
};

// A counting sort by class, stable, in blocks: where the rows of each block go follows from the counts of all of them.
template <class Score, class State>
Rows<State> by_class(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const Run& run) {
    struct Block {
        const TallyColumns<Score, State>* part;
        size_t begin, end;
    };
    std::vector<Block> blocks;
    size_t size = 0;
    const size_t num_in_part = parts.size() == 1 ? run.num_threads : 1;
    for (const auto& part : parts) {
        size += part.size;
        for (size_t i = 0; i < num_in_part; ++i) {
            blocks.push_back({&part, part.size * i / num_in_part, part.size * (i + 1) / num_in_part});
        }
    }
    auto for_each_block = [&](auto work) {
        for_each_task(blocks.size(), run, [] { return 0; }, [&](size_t block, int) { work(block, *blocks[block].part); });
    };
    const auto& first = parts.front();
    const size_t num_classes = first.num_classes;
    const Groups by_image = first.image == nullptr ? Groups{} : group(first.image, first.size, first.num_images);

    std::vector<uint32_t> next(blocks.size() * num_classes), first_hit(blocks.size() + 1);
    for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
        uint32_t num_hits = 0;
        for (size_t i = blocks[block].begin; i < blocks[block].end; ++i) {
            ++next[block * num_classes + part.label[by_image.at(static_cast<uint32_t>(i))]];
            num_hits += part.state[i] & 1;
        }
        first_hit[block + 1] = num_hits;
    });
    Rows<State> rows;
    uint32_t position = 0;
    for (size_t k = 0; k < num_classes; ++k) {
        rows.start.push_back(position);
        for (size_t block = 0; block < blocks.size(); ++block) {
            position += std::exchange(next[block * num_classes + k], position);
        }
    }
    rows.start.push_back(position);
    for (size_t block = 0; block < blocks.size(); ++block) first_hit[block + 1] += first_hit[block];

    // Hits are numbered in the order of rows; where that is not the order of images, the numbers are needed first.
    std::vector<uint32_t> hit(by_image.row.size());
    if (!hit.empty()) {
        for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
            uint32_t num_hits = first_hit[block];
            for (size_t i = blocks[block].begin; i < blocks[block].end; ++i) {
                hit[i] = num_hits;
                num_hits += part.state[i] & 1;
            }
        });
    }
    rows.row = Buffer<Row<State>>(size);
    // Columns are read again here; should another thread have changed them since, what is used stays within its bounds.
    const auto last_hit = static_cast<uint32_t>(std::max<size_t>(first.num_hits, 1) - 1);
    const auto last_tier = static_cast<uint8_t>(rules.num_limits() - 1);
    const auto known = static_cast<State>(((uint64_t{1} << rules.num_areas()) - 1) << 1 | (first.num_hits > 0));
    for_each_block([&](size_t block, const TallyColumns<Score, State>& part) {
        uint32_t num_hits = first_hit[block];
        for (size_t position = blocks[block].begin; position < blocks[block].end; ++position) {
            const uint32_t i = by_image.at(static_cast<uint32_t>(position));
            const auto state = static_cast<State>(part.state[i] & known);
            rows.row[next[block * num_classes + part.label[i]]++] = {
                falling_key(part.score[i]), std::min(hit.empty() ? num_hits : hit[i], last_hit),
                std::min(part.tier[i], last_tier), state};
            num_hits += state & 1;
        }
    });
    return rows;
}

// A true positive that waits to be drawn: how many detections counted up to it, and where it stands.
struct Mark {
    uint32_t num_counted;
    uint32_t row;
};

// True positives of one curve are drawn so many at a time.
constexpr uint32_t kMarks = 16;

// One curve while it is drawn: one cell within one limit.
struct Pen {
    uint32_t num_marks = 0;
    uint32_t num_counted = 0;  // among hits that count at some thresholds of their area range only
    uint32_t num_true = 0;     // drawn so far, those before the first row included
    uint32_t point = 0;        // recall points reached so far
    uint32_t next_needed = 0;  // true positives at which the next one is
    double best = 0;           // precision since the last recall point
    double before = 0;         // counted before the first row; added to counts, which stay short, as a float: exact to 2^53
};

// A thread's own memory for the curves of one class.
template <class State>
struct Board {
    Buffer<Row<State>> sorted;
    std::vector<Pen> pens;            // [A, T, M]
    std::vector<Mark> marks;          // kMarks a pen
    std::vector<uint64_t> lanes;      // counted since the last hit, by tier; a byte an area range
    uint32_t num_in_lanes = 0;
    std::vector<uint32_t> num_plain;  // counted at all thresholds of an area range: [A, M]
    std::vector<double> first_score;  // within each limit; 0 without detections
    std::vector<uint32_t> needed;     // true positives for each recall point: [A, R]
    std::vector<double> precision, scores;             // [T, R, A, M]
    std::vector<double> sums;                          // over recall points: [A, M]
    std::vector<double> trapezoids;                    // sums: [A, T, M]
    std::vector<std::vector<double>> every_precision;  // at each true positive, for the envelope: [A, T, M]
};

template <class Score, class State>
class Drawer {
public:
    Drawer(const TallyColumns<Score, State>& tally, const Rules& rules, const CurveStart* begin, const CurveArrays& out)
        : tally_(tally), rules_(rules), begin_(begin), out_(out), num_thresholds_(rules.num_thresholds()),
          num_areas_(rules.num_areas()), num_limits_(rules.num_limits()), num_points_(rules.recall_points.size()),
          num_words_(rules.num_words()), width_(num_areas_ * num_limits_) {
        for (size_t areas = 0; areas < spread_.size(); ++areas) {
            for (size_t a = 0; a < kLanes; ++a) spread_[areas] |= uint64_t{areas >> a & 1} << a * kLaneBits;
        }
    }

    Board<State> make_board(size_t num_rows) const {
        Board<State> board;
        board.sorted = Buffer<Row<State>>(num_rows);
        board.pens.resize(width_ * num_thresholds_);
        board.marks.resize(board.pens.size() * kMarks);
        board.lanes.resize(num_limits_);
        board.num_plain.resize(width_);
        board.first_score.resize(num_limits_);
        board.needed.resize(num_areas_ * num_points_);
        board.precision.resize(num_thresholds_ * num_points_ * width_);
        board.scores.resize(board.precision.size());
        board.sums.resize(width_);
        board.trapezoids.resize(board.pens.size());
        if (rules_.ap == ApRule::envelope) board.every_precision.resize(board.pens.size());
        return board;
    }

    void draw_class(size_t label, Row<State>* unsorted, size_t num_rows, Board<State>& board, const Run& run) const {
        sort_by_key(unsorted, board.sorted.data(), num_rows);
        const Row<State>* row = board.sorted.data();
        start(label, row, num_rows, board);
        constexpr size_t kAhead = 24;  // rows whose verdicts are asked for, as hits stand in the order of images
        for (size_t i = 0; i < num_rows; ++i) {
            if (i % (size_t{1} << 20) == 0) run.check();
            if (i + kAhead < num_rows && row[i + kAhead].state & 1) {
                prefetch(tally_.is_true + size_t{row[i + kAhead].hit} * num_words_);
                prefetch(tally_.is_counted + size_t{row[i + kAhead].hit} * num_words_);
            }
            if (row[i].state & 1) {
                take_hit(label, row, i, board);
            } else {
                take_plain(row[i], board);
            }
        }
        empty_lanes(board);
        finish(label, row, board);
    }

private:
    static constexpr size_t kLanes = 7, kLaneBits = 8;  // the areas of a state of one byte

    int64_t num_truths(size_t label, size_t area) const { return tally_.num_truths[label * num_areas_ + area]; }
    size_t pen_of(size_t area, size_t threshold, size_t limit) const {
        return (area * num_thresholds_ + threshold) * num_limits_ + limit;
    }
    size_t curve_of(size_t label, size_t area, size_t threshold, size_t limit) const {
        return ((threshold * tally_.num_classes + label) * num_areas_ + area) * num_limits_ + limit;
    }
    size_t sample_of(size_t threshold, size_t point, size_t area, size_t limit) const {
        return ((threshold * num_points_ + point) * num_areas_ + area) * num_limits_ + limit;
    }

    void start(size_t label, const Row<State>* row, size_t num_rows, Board<State>& board) const {
        std::fill(board.pens.begin(), board.pens.end(), Pen{});
        std::fill(board.num_plain.begin(), board.num_plain.end(), 0);
        std::fill(board.precision.begin(), board.precision.end(), 0.0);
        std::fill(board.scores.begin(), board.scores.end(), 0.0);
        std::fill(board.trapezoids.begin(), board.trapezoids.end(), 0.0);
        for (auto& every : board.every_precision) every.clear();
        // as in COCO: recall 0 is reached by the first detection, whatever its verdict
        std::fill(board.first_score.begin(), board.first_score.end(), 0.0);
        for (size_t i = 0, end = num_limits_; i < num_rows && end > 0; ++i) {
            while (end > row[i].tier) board.first_score[--end] = score_of(row[i].key);
        }
        for (size_t a = 0; a < num_areas_; ++a) {
            const int64_t truths = num_truths(label, a);
            if (truths == 0) continue;
            for (size_t r = 0; r < num_points_; ++r) {
                board.needed[a * num_points_ + r] = num_needed(rules_.recall_points[r], truths);
            }
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t m = 0; m < num_limits_; ++m) {
                    board.pens[pen_of(a, t, m)].next_needed = board.needed[a * num_points_];
                }
            }
        }
        if (begin_ != nullptr) go_on(label, board);
    }

    // The pens where those of the detections before the first row stopped.
    void go_on(size_t label, Board<State>& board) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            const uint32_t* needed = board.needed.data() + a * num_points_;
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t m = 0; m < num_limits_; ++m) {
                    Pen& pen = board.pens[pen_of(a, t, m)];
                    const size_t place = curve_of(label, a, t, m);
                    pen.num_true = static_cast<uint32_t>(begin_->num_true[place]);
                    pen.before = static_cast<double>(begin_->num_counted[place]);
                    board.trapezoids[pen_of(a, t, m)] = begin_->sum[place * kSumState];
                    if (pen.num_true == 0 || num_truths(label, a) == 0) continue;
                    while (pen.point < num_points_ && needed[pen.point] <= pen.num_true) ++pen.point;
                    pen.next_needed = needed_at(needed, pen.point);
                }
            }
        }
    }

    uint32_t needed_at(const uint32_t* needed, size_t point) const {
        return point < num_points_ ? needed[point] : std::numeric_limits<uint32_t>::max();
    }

    // Most detections are no hits: they are counted in all of their area ranges with one addition.
    void take_plain(const Row<State>& row, Board<State>& board) const {
        if constexpr (sizeof(State) == 1) {
            board.lanes[row.tier] += spread_[row.state >> 1];
            if (++board.num_in_lanes == UINT8_MAX) empty_lanes(board);
        } else {
            for (uint64_t counted = row.state >> 1; counted != 0; counted &= counted - 1) {
                uint32_t* num_plain = board.num_plain.data() + count_trailing_zeros(counted) * num_limits_;
                for (size_t m = row.tier; m < num_limits_; ++m) ++num_plain[m];
            }
        }
    }

    void empty_lanes(Board<State>& board) const {
        if (board.num_in_lanes == 0) return;
        uint64_t counted = 0;  // up to this tier
        for (size_t m = 0; m < num_limits_; ++m) {
            counted += std::exchange(board.lanes[m], 0);
            for (size_t a = 0; a < num_areas_; ++a) {
                board.num_plain[a * num_limits_ + m] += counted >> a * kLaneBits & UINT8_MAX;
            }
        }
        board.num_in_lanes = 0;
    }

    void take_hit(size_t label, const Row<State>* rows, size_t place, Board<State>& board) const {
        empty_lanes(board);
        const Row<State>& row = rows[place];
        const uint64_t* is_true = tally_.is_true + size_t{row.hit} * num_words_;
        const uint64_t* is_counted = tally_.is_counted + size_t{row.hit} * num_words_;
        for (size_t a = 0; a < num_areas_; ++a) {
            uint32_t* const num_plain = board.num_plain.data() + a * num_limits_;
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
                        Pen* pens = board.pens.data() + pen_of(a, first + count_trailing_zeros(left), 0);
                        for (size_t m = row.tier; m < num_limits_; ++m) ++pens[m].num_counted;
                    }
                }
                for (uint64_t left = bits(is_true, a * num_thresholds_ + first) & all; left != 0; left &= left - 1) {
                    const size_t t = first + count_trailing_zeros(left);
                    for (size_t m = row.tier; m < num_limits_; ++m) {
                        Pen& pen = board.pens[pen_of(a, t, m)];
                        board.marks[pen_of(a, t, m) * kMarks + pen.num_marks] = {num_plain[m] + pen.num_counted,
                                                                                 static_cast<uint32_t>(place)};
                        if (++pen.num_marks == kMarks) draw_marks(label, rows, a, t, m, board);
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

    // Precision between two true positives only falls, and recall stands still; so these are all that a curve needs.
    void draw_marks(size_t label, const Row<State>* rows, size_t a, size_t t, size_t m, Board<State>& board) const {
        const size_t place = pen_of(a, t, m);
        Pen& pen = board.pens[place];
        const Mark* marks = board.marks.data() + place * kMarks;
        const uint32_t num = std::exchange(pen.num_marks, 0), before = pen.num_true;
        if (num == 0) return;
        std::array<double, kMarks> precision;
        for (uint32_t i = 0; i < num; ++i) {  // signed, which processors turn into floats at once
            precision[i] = static_cast<int32_t>(before + i + 1) /
                           (static_cast<int32_t>(marks[i].num_counted) + pen.before + rules_.epsilon);
        }
        pen.num_true = before + num;
        if (rules_.ap == ApRule::envelope) {
            board.every_precision[place].insert(board.every_precision[place].end(), precision.begin(), precision.begin() + num);
        }
        if (rules_.ap == ApRule::trapezoid) {
            const double truths = static_cast<double>(num_truths(label, a));
            for (uint32_t i = 0; i < num; ++i) {
                board.trapezoids[place] += trapezoid(before + i + 1, marks[i].num_counted + pen.before, truths, rules_.epsilon);
            }
        }
        uint32_t i = 0;
        while (pen.next_needed <= pen.num_true) {
            const uint32_t reaching = std::max(pen.next_needed, before + 1) - before - 1;
            for (; i < reaching; ++i) pen.best = std::max(pen.best, precision[i]);
            if (pen.point > 0) board.precision[sample_of(t, pen.point - 1, a, m)] = pen.best;
            pen.best = 0;  // what came before the first recall point is on no curve
            const double score = score_of(rows[marks[reaching].row].key);
            const uint32_t* needed = board.needed.data() + a * num_points_;
            for (; pen.point < num_points_ && needed[pen.point] <= before + reaching + 1; ++pen.point) {
                board.scores[sample_of(t, pen.point, a, m)] = score;
            }
            pen.next_needed = needed_at(needed, pen.point);
        }
        for (; i < num; ++i) pen.best = std::max(pen.best, precision[i]);
    }

    void finish(size_t label, const Row<State>* rows, Board<State>& board) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t m = 0; m < num_limits_; ++m) {
                    draw_marks(label, rows, a, t, m, board);
                    finish_curve(label, a, t, m, board);
                }
            }
        }
        for (size_t t = 0; t < num_thresholds_; ++t) {
            double* precision = board.precision.data() + t * num_points_ * width_;
            for (size_t r = num_points_ - 1; r-- > 0;) {  // the envelope: the best at this recall or beyond
                double *here = precision + r * width_, *beyond = here + width_;
                for (size_t i = 0; i < width_; ++i) here[i] = std::max(here[i], beyond[i]);
            }
            std::fill(board.sums.begin(), board.sums.end(), 0.0);
            for (size_t r = 0; r < num_points_; ++r) {
                const size_t from = (t * num_points_ + r) * width_;
                const size_t to = ((t * num_points_ + r) * tally_.num_classes + label) * width_;
                for (size_t i = 0; i < width_; ++i) {
                    board.sums[i] += board.precision[from + i];
                    out_.precision[to + i] = board.precision[from + i];
                    out_.scores[to + i] = board.scores[from + i];
                }
            }
            if (!is_sampled(rules_.ap)) continue;
            const double num_points = static_cast<double>(num_points_);
            if (rules_.ap == ApRule::interpolated) {  // as in py-faster-rcnn: shares are added, not divided in the end
                std::fill(board.sums.begin(), board.sums.end(), 0.0);
                for (size_t r = 0; r < num_points_; ++r) {
                    for (size_t i = 0; i < width_; ++i) board.sums[i] += precision[r * width_ + i] / num_points;
                }
            }
            double* average_precision = out_.average_precision + (t * tally_.num_classes + label) * width_;
            for (size_t i = 0; i < width_; ++i) {
                if (num_truths(label, i / num_limits_) == 0) continue;
                average_precision[i] = rules_.ap == ApRule::interpolated ? board.sums[i] : board.sums[i] / num_points;
            }
        }
    }

    void finish_curve(size_t label, size_t a, size_t t, size_t m, Board<State>& board) const {
        Pen& pen = board.pens[pen_of(a, t, m)];
        const int64_t truths = num_truths(label, a);
        const size_t place = curve_of(label, a, t, m);
        const int64_t num_before = begin_ == nullptr ? 0 : begin_->num_counted[place];
        out_.num_true[place] = pen.num_true;
        out_.num_false[place] = num_before + board.num_plain[a * num_limits_ + m] + pen.num_counted - pen.num_true;
        if (truths == 0) {
            out_.recall[place] = -1;
            out_.average_precision[place] = std::numeric_limits<double>::quiet_NaN();
            for (size_t r = 0; r < num_points_; ++r) {
                board.precision[sample_of(t, r, a, m)] = board.scores[sample_of(t, r, a, m)] = -1;
            }
            return;
        }
        if (pen.point > 0) board.precision[sample_of(t, pen.point - 1, a, m)] = pen.best;
        for (size_t r = 0; r < num_points_ && board.needed[a * num_points_ + r] == 0; ++r) {
            board.scores[sample_of(t, r, a, m)] = board.first_score[m];
        }
        out_.recall[place] = pen.num_true / static_cast<double>(truths);
        if (rules_.ap == ApRule::trapezoid) {
            out_.average_precision[place] = board.trapezoids[pen_of(a, t, m)];
            if (begin_ != nullptr) begin_->sum_after[place * kSumState] = board.trapezoids[pen_of(a, t, m)];
        }
        if (rules_.ap == ApRule::envelope) {
            std::vector<double>& precision = board.every_precision[pen_of(a, t, m)];
            out_.average_precision[place] = begin_ == nullptr ? area_under_envelope(precision, truths)
                                                              : continued_area(precision, place, truths);
        }
    }

    // The area under the envelope up to the last of these rows; it is that of all once their true positives are the last.
    double continued_area(std::vector<double>& precision, size_t place, int64_t truths) const {
        const size_t num_true = static_cast<size_t>(begin_->total_true[place]);
        const size_t num_before = static_cast<size_t>(begin_->num_true[place]);
        if (!precision.empty()) precision.back() = std::max(precision.back(), begin_->beyond[place]);
        precision.resize(std::min(precision.size(), num_true - num_before));
        PairwiseSum sum(num_steps(num_true, truths), num_before, begin_->sum + place * kSumState);
        add_area_under_envelope(precision, truths, sum);
        sum.save(begin_->sum_after + place * kSumState);
        return sum.position() == num_true ? area_of(sum, num_true, truths) : 0;
    }

    const TallyColumns<Score, State>& tally_;
    const Rules& rules_;
    const CurveStart* begin_;
    const CurveArrays& out_;
    const size_t num_thresholds_, num_areas_, num_limits_, num_points_, num_words_;
    const size_t width_;  // area ranges and limits, the innermost axes
    std::array<uint64_t, size_t{1} << kLanes> spread_{};  // bits of area ranges to lanes
};

}  // namespace

template <class Score, class State>
void draw_curves(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const CurveStart* begin,
                 const Run& run, const CurveArrays& out) {
    Rows<State> rows = by_class(parts, rules, run);
    run.check();
    const Drawer<Score, State> drawer(parts.front(), rules, begin, out);
    // The largest classes first, so that no thread is left with one at the end.
    auto size_of = [&](size_t k) { return rows.start[k + 1] - rows.start[k]; };
    std::vector<uint32_t> order(parts.front().num_classes);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return size_of(a) > size_of(b); });
    const size_t largest = order.empty() ? 0 : size_of(order[0]);
    for_each_task(
        order.size(), run, [&] { return drawer.make_board(largest); },
        [&](size_t task, Board<State>& board) {
            const uint32_t label = order[task];
            drawer.draw_class(label, rows.row.data() + rows.start[label], size_of(label), board, run);
        });
}

template void draw_curves(const std::vector<TallyColumns<float, uint8_t>>&, const Rules&, const CurveStart*, const Run&,
                          const CurveArrays&);
template void draw_curves(const std::vector<TallyColumns<float, uint64_t>>&, const Rules&, const CurveStart*, const Run&,
                          const CurveArrays&);
template void draw_curves(const std::vector<TallyColumns<double, uint8_t>>&, const Rules&, const CurveStart*, const Run&,
                          const CurveArrays&);
template void draw_curves(const std::vector<TallyColumns<double, uint64_t>>&, const Rules&, const CurveStart*, const Run&,
                          const CurveArrays&);

}  // namespace boxscore
