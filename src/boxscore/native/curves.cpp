#include "curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "order.h"

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
    std::vector<Row<State>> row;
};

template <class Score, class State>
Rows<State> by_class(const TallyColumns<Score, State>& tally) {
    Rows<State> rows;
    rows.start.assign(tally.num_classes + 1, 0);
    for (size_t i = 0; i < tally.size; ++i) ++rows.start[tally.label[i] + 1];
    for (size_t k = 0; k < tally.num_classes; ++k) rows.start[k + 1] += rows.start[k];
    rows.row.resize(tally.size);
    std::vector<uint32_t> next(rows.start.begin(), rows.start.end() - 1);
    auto put = [&](size_t i, uint32_t hit) {
        rows.row[next[tally.label[i]]++] = {falling_key(tally.score[i]), hit, tally.tier[i], tally.state[i]};
    };
    const Groups by_image = tally.image == nullptr ? Groups{} : group(tally.image, tally.size, tally.num_images);
    uint32_t num_hits = 0;
    if (by_image.row.empty()) {
        for (size_t i = 0; i < tally.size; ++i) put(i, num_hits), num_hits += tally.state[i] & 1;
        return rows;
    }
    std::vector<uint32_t> hit(tally.size);
    for (size_t i = 0; i < tally.size; ++i) hit[i] = num_hits, num_hits += tally.state[i] & 1;
    for (const uint32_t i : by_image.row) put(i, hit[i]);
    return rows;
}

// The fewest true positives n with n / num_truths >= point, as floats have it.
uint32_t num_needed(double point, int64_t num_truths) {
    const double truths = static_cast<double>(num_truths);
    double guess = std::ceil(point * truths);  // right, or one off either way by rounding
    if ((guess - 1) / truths >= point) --guess;
    if (guess / truths < point) ++guess;
    return static_cast<uint32_t>(guess);
}

// One curve while it is drawn: one cell within one limit.
struct Pen {
    uint32_t num_true = 0;
    uint32_t num_counted = 0;  // among hits that count at some thresholds of their area range only
    uint32_t point = 0;        // recall points reached so far
    uint32_t next_needed = 0;  // true positives at which the next one is
    double best = 0;           // precision since the last recall point
    double ap = 0;             // for the rules that go through every point
    double last_precision = 0;
};

// A thread's own memory for the curves of one class.
template <class State>
struct Board {
    std::vector<Row<State>> spare;
    std::vector<Pen> pens;             // [A, T, M]
    std::vector<uint32_t> num_plain;   // counted at all thresholds of an area range: [A, M]
    std::vector<double> first_score;   // within each limit
    std::vector<uint8_t> has_first;
    std::vector<uint32_t> needed;      // true positives for each recall point: [A, R]
    std::vector<double> precision, scores;          // [T, R, A, M]
    std::vector<std::vector<double>> every_precision;  // at each true positive, for the envelope: [A, T, M]
};

template <class Score, class State>
class Drawer {
public:
    Drawer(const TallyColumns<Score, State>& tally, const Rules& rules, const CurveArrays& out)
        : tally_(tally), rules_(rules), out_(out), num_thresholds_(rules.num_thresholds()),
          num_areas_(rules.num_areas()), num_limits_(rules.num_limits()), num_points_(rules.recall_points.size()),
          num_words_(rules.num_words()), is_drawing_every_point_(rules.ap != ApRule::recall_points) {}

    Board<State> make_board() const {
        Board<State> board;
        board.pens.resize(num_areas_ * num_thresholds_ * num_limits_);
        board.num_plain.resize(num_areas_ * num_limits_);
        board.first_score.resize(num_limits_);
        board.has_first.resize(num_limits_);
        board.needed.resize(num_areas_ * num_points_);
        board.precision.resize(num_thresholds_ * num_points_ * num_areas_ * num_limits_);
        board.scores.resize(board.precision.size());
        if (rules_.ap == ApRule::envelope) board.every_precision.resize(board.pens.size());
        return board;
    }

    void draw_class(size_t label, Row<State>* row, size_t num_rows, Board<State>& board, const Run& run) const {
        sort_by_key(row, num_rows, board.spare);
        start(label, board);
        for (size_t i = 0; i < num_rows; ++i) {
            if (i % (size_t{1} << 20) == 0) run.check();
            if (board.has_first[num_limits_ - 1] == 0 || row[i].tier == 0) note_first(row[i], board);
            if (row[i].state & 1) {
                take_hit(label, row[i], board);
            } else if (row[i].state != 0) {
                take_plain(row[i], board);
            }
        }
        finish(label, board);
    }

private:
    int64_t num_truths(size_t label, size_t area) const { return tally_.num_truths[label * num_areas_ + area]; }
    size_t pen_of(size_t area, size_t threshold, size_t limit) const {
        return (area * num_thresholds_ + threshold) * num_limits_ + limit;
    }
    size_t sample_of(size_t threshold, size_t point, size_t area, size_t limit) const {
        return ((threshold * num_points_ + point) * num_areas_ + area) * num_limits_ + limit;
    }

    void start(size_t label, Board<State>& board) const {
        std::fill(board.pens.begin(), board.pens.end(), Pen{});
        std::fill(board.num_plain.begin(), board.num_plain.end(), 0);
        std::fill(board.has_first.begin(), board.has_first.end(), 0);
        std::fill(board.precision.begin(), board.precision.end(), 0.0);
        std::fill(board.scores.begin(), board.scores.end(), 0.0);
        for (auto& every : board.every_precision) every.clear();
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
    }

    // as in COCO: recall 0 is reached by the first detection, whatever its verdict
    void note_first(const Row<State>& row, Board<State>& board) const {
        for (size_t m = row.tier; m < num_limits_ && board.has_first[m] == 0; ++m) {
            board.has_first[m] = 1;
            board.first_score[m] = score_of(row.key);
        }
    }

    void take_plain(const Row<State>& row, Board<State>& board) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            const uint32_t is_counted = row.state >> (a + 1) & 1;
            for (size_t m = row.tier; m < num_limits_; ++m) board.num_plain[a * num_limits_ + m] += is_counted;
        }
    }

    void take_hit(size_t label, const Row<State>& row, Board<State>& board) const {
        const uint64_t* is_true = tally_.is_true + size_t{row.hit} * num_words_;
        const uint64_t* is_counted = tally_.is_counted + size_t{row.hit} * num_words_;
        const double score = score_of(row.key);
        for (size_t a = 0; a < num_areas_; ++a) {
            size_t num_counted = 0, num_true = 0;
            for (size_t cell = a * num_thresholds_; cell < (a + 1) * num_thresholds_; ++cell) {
                num_counted += bit(is_counted, cell);
                num_true += bit(is_true, cell);
            }
            if (num_counted == 0) continue;
            const bool is_plain = num_counted == num_thresholds_;
            for (size_t m = row.tier; m < num_limits_ && is_plain; ++m) ++board.num_plain[a * num_limits_ + m];
            for (size_t t = 0; t < num_thresholds_ && !is_plain; ++t) {
                if (!bit(is_counted, a * num_thresholds_ + t)) continue;
                for (size_t m = row.tier; m < num_limits_; ++m) ++board.pens[pen_of(a, t, m)].num_counted;
            }
            if (num_true == 0) continue;
            const double truths = static_cast<double>(num_truths(label, a));
            for (size_t t = 0; t < num_thresholds_; ++t) {
                if (!bit(is_true, a * num_thresholds_ + t)) continue;
                for (size_t m = row.tier; m < num_limits_; ++m) draw_point(a, t, m, score, truths, board);
            }
        }
    }

    static bool bit(const uint64_t* words, size_t cell) {
        return words[cell / kBitsPerWord] >> cell % kBitsPerWord & 1;
    }

    // One more true positive on one curve. Precision between two of them only falls, and recall stands still.
    void draw_point(size_t a, size_t t, size_t m, double score, double truths, Board<State>& board) const {
        Pen& pen = board.pens[pen_of(a, t, m)];
        const uint32_t num_true = ++pen.num_true;
        const uint32_t num_counted = board.num_plain[a * num_limits_ + m] + pen.num_counted;
        const double precision = num_true / (num_counted + rules_.epsilon);
        if (num_true >= pen.next_needed) reach_points(pen, a, t, m, score, board);
        pen.best = std::max(pen.best, precision);
        if (!is_drawing_every_point_) return;
        if (rules_.ap == ApRule::envelope) {
            board.every_precision[pen_of(a, t, m)].push_back(precision);
            return;
        }
        const double before = num_counted == 1 ? 1.0 : (num_true - 1) / (num_counted - 1 + rules_.epsilon);
        const double gain = num_true / truths - (num_true - 1) / truths;
        pen.ap += (precision + before) * gain / 2;
    }

    void reach_points(Pen& pen, size_t a, size_t t, size_t m, double score, Board<State>& board) const {
        if (pen.point > 0) close_point(pen, a, t, m, board);
        pen.best = 0;  // what came before the first recall point is on no curve
        const uint32_t* needed = board.needed.data() + a * num_points_;
        while (pen.point < num_points_ && needed[pen.point] <= pen.num_true) {
            board.scores[sample_of(t, pen.point++, a, m)] = score;
        }
        pen.next_needed = pen.point < num_points_ ? needed[pen.point] : std::numeric_limits<uint32_t>::max();
    }

    void close_point(Pen& pen, size_t a, size_t t, size_t m, Board<State>& board) const {
        board.precision[sample_of(t, pen.point - 1, a, m)] = pen.best;
    }

    void finish(size_t label, Board<State>& board) const {
        for (size_t a = 0; a < num_areas_; ++a) {
            const int64_t truths = num_truths(label, a);
            for (size_t t = 0; t < num_thresholds_; ++t) {
                for (size_t m = 0; m < num_limits_; ++m) finish_curve(label, a, t, m, truths, board);
            }
        }
        const size_t width = num_areas_ * num_limits_;
        for (size_t t = 0; t < num_thresholds_; ++t) {
            double* rows = board.precision.data() + t * num_points_ * width;
            for (size_t r = num_points_ - 1; r-- > 0;) {  // the envelope: the best at this recall or beyond
                for (size_t i = 0; i < width; ++i) {
                    if (rows[r * width + i] < rows[(r + 1) * width + i]) rows[r * width + i] = rows[(r + 1) * width + i];
                }
            }
        }
        for (size_t t = 0; t < num_thresholds_; ++t) {
            for (size_t r = 0; r < num_points_; ++r) {
                const size_t from = (t * num_points_ + r) * width;
                const size_t to = ((t * num_points_ + r) * tally_.num_classes + label) * width;
                std::copy_n(board.precision.data() + from, width, out_.precision + to);
                std::copy_n(board.scores.data() + from, width, out_.scores + to);
            }
        }
        if (!is_drawing_every_point_) average_points(label, board);
    }

    void finish_curve(size_t label, size_t a, size_t t, size_t m, int64_t truths, Board<State>& board) const {
        Pen& pen = board.pens[pen_of(a, t, m)];
        const size_t place = ((t * tally_.num_classes + label) * num_areas_ + a) * num_limits_ + m;
        const uint32_t num_counted = board.num_plain[a * num_limits_ + m] + pen.num_counted;
        out_.num_true[place] = pen.num_true;
        out_.num_false[place] = num_counted - pen.num_true;
        if (truths == 0) {
            out_.recall[place] = -1;
            out_.average_precision[place] = std::numeric_limits<double>::quiet_NaN();
            for (size_t r = 0; r < num_points_; ++r) {
                board.precision[sample_of(t, r, a, m)] = board.scores[sample_of(t, r, a, m)] = -1;
            }
            return;
        }
        if (pen.point > 0) close_point(pen, a, t, m, board);
        for (size_t r = 0; r < num_points_ && board.needed[a * num_points_ + r] == 0; ++r) {
            board.scores[sample_of(t, r, a, m)] = board.has_first[m] ? board.first_score[m] : 0;
        }
        out_.recall[place] = pen.num_true / static_cast<double>(truths);
        if (rules_.ap == ApRule::envelope) pen.ap = area_under_envelope(board.every_precision[pen_of(a, t, m)], truths);
        if (is_drawing_every_point_) out_.average_precision[place] = pen.ap;
    }

    static double area_under_envelope(std::vector<double>& precision, int64_t num_truths) {
        for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
        const double truths = static_cast<double>(num_truths);
        double area = 0, reached = 0;
        for (size_t i = 0; i < precision.size(); ++i) {
            const double recall = static_cast<double>(i + 1) / truths;
            area += precision[i] * (recall - reached);
            reached = recall;
        }
        return area;
    }

    void average_points(size_t label, const Board<State>& board) const {
        for (size_t t = 0; t < num_thresholds_; ++t) {
            for (size_t a = 0; a < num_areas_; ++a) {
                if (num_truths(label, a) == 0) continue;
                for (size_t m = 0; m < num_limits_; ++m) {
                    double sum = 0;
                    for (size_t r = 0; r < num_points_; ++r) sum += board.precision[sample_of(t, r, a, m)];
                    const size_t place = ((t * tally_.num_classes + label) * num_areas_ + a) * num_limits_ + m;
                    out_.average_precision[place] = sum / static_cast<double>(num_points_);
                }
            }
        }
    }

    const TallyColumns<Score, State>& tally_;
    const Rules& rules_;
    const CurveArrays& out_;
    const size_t num_thresholds_, num_areas_, num_limits_, num_points_, num_words_;
    const bool is_drawing_every_point_;
};

}  // namespace

template <class Score, class State>
void draw_curves(const TallyColumns<Score, State>& tally, const Rules& rules, const Run& run, const CurveArrays& out) {
    Rows<State> rows = by_class(tally);
    run.check();
    const Drawer<Score, State> drawer(tally, rules, out);
    // The largest classes first, so that no thread is left with one at the end.
    std::vector<uint32_t> order(tally.num_classes);
    for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<uint32_t>(k);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return rows.start[a + 1] - rows.start[a] > rows.start[b + 1] - rows.start[b];
    });
    for_each_task(
        order.size(), run, [&] { return drawer.make_board(); },
        [&](size_t task, Board<State>& board) {
            const uint32_t label = order[task];
            const size_t first = rows.start[label];
            drawer.draw_class(label, rows.row.data() + first, rows.start[label + 1] - first, board, run);
        });
}

template void draw_curves(const TallyColumns<float, uint8_t>&, const Rules&, const Run&, const CurveArrays&);
template void draw_curves(const TallyColumns<float, uint64_t>&, const Rules&, const Run&, const CurveArrays&);
template void draw_curves(const TallyColumns<double, uint8_t>&, const Rules&, const Run&, const CurveArrays&);
template void draw_curves(const TallyColumns<double, uint64_t>&, const Rules&, const Run&, const CurveArrays&);

}  // namespace boxscore
