#include "bootstrap/bootstrap_layout.h"

#include <algorithm>

#include "platform/memory.h"
#include "rows/order.h"

namespace boxscore {
namespace {

struct Key {
    uint64_t key;
    uint32_t row;
};

// A row of one class, by falling score.
template <class State>
struct PlannedRow {
    uint32_t row;
    uint32_t image : 31;
    uint32_t is_tied : 1;  // with the next row, by image and score
    State state;
};

template <class T>
uint32_t size_of(const std::vector<T>& list) {
    return static_cast<uint32_t>(list.size());
}

template <class Score, class State>
class Planner {
public:
    Planner(const TallyColumns<Score, State>& tally, const Rules& rules, const std::vector<Measure>& measures)
        : tally_(tally), rules_(rules), is_wanted_(rules.num_areas()), has_early_(rules.num_areas()), hit_(tally.size) {
        is_wanted_[0] = true;
        for (const Measure& measure : measures) {
            is_wanted_[measure.area] = true;
            if (measure.limit + 1 < rules.num_limits()) has_early_[measure.area] = true;
        }
        uint32_t num_hits = 0;
        for (size_t i = 0; i < tally.size; ++i) hit_[i] = num_hits, num_hits += tally.state[i] & 1;
    }

    ResampleLayout plan(const TruthStates<State>& truths, const Run& run) const {
        ResampleLayout layout{tally_.num_classes, std::vector<uint32_t>(tally_.num_images), is_wanted_,
                      std::vector<Field>(tally_.num_classes * rules_.num_areas())};
        for (size_t i = 0; i < tally_.size; ++i) ++layout.num_boxes[tally_.image[i]];
        for (size_t g = 0; g < truths.size; ++g) {
            ++layout.num_boxes[truths.image[g]];
            for (size_t a = 0; a < rules_.num_areas(); ++a) {
                if (truths.state[g] >> a & 1) field(layout, truths.label[g], a).truths.push_back(truths.image[g]);
            }
        }
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
            const Buffer<PlannedRow<State>> rows = planned_rows(sorted);
            for (size_t a = 0; a < rules_.num_areas(); ++a) {
                if (is_wanted_[a]) plan_field(rows, a, field(layout, k, a));
            }
        });
        return layout;
    }

private:
    Field& field(ResampleLayout& layout, size_t label, size_t area) const {
        return layout.fields[label * rules_.num_areas() + area];
    }

    Buffer<PlannedRow<State>> planned_rows(const Buffer<Key>& sorted) const {
        Buffer<PlannedRow<State>> rows(sorted.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            const uint32_t row = sorted[i].row;
            rows[i] = {row, static_cast<uint32_t>(tally_.image[row]), false, tally_.state[row]};
            if (i > 0) rows[i - 1].is_tied = sorted[i - 1].key == sorted[i].key && rows[i - 1].image == rows[i].image;
        }
        return rows;
    }

    void plan_field(const Buffer<PlannedRow<State>>& rows, size_t area, Field& field) const {
        field.cells.resize(rules_.num_thresholds());
        for (Cell& cell : field.cells) {
            if (has_early_[area]) cell.beyond.resize(rules_.num_limits() - 1);
        }
        std::vector<std::vector<uint32_t>> ranks(field.cells.size());  // of each true positive, among all rows that count
        uint32_t num_counted = 0;
        for (size_t begin = 0, end; begin < rows.size(); begin = end) {
            for (end = begin + 1; rows[end - 1].is_tied;) ++end;
            if (end == begin + 1) {
                add_row(rows[begin], area, field, num_counted, ranks);
                continue;
            }
            const uint32_t num_before = num_counted;
            std::vector<uint32_t> num_true, num_extra;
            for (size_t t = 0; t < field.cells.size(); ++t) {
                num_true.push_back(size_of(field.cells[t].true_positives));
                num_extra.push_back(size_of(field.cells[t].extra));
            }
            for (size_t i = begin; i < end; ++i) add_row(rows[i], area, field, num_counted, ranks);
            for (size_t t = 0; t < num_true.size(); ++t) {
                Cell& cell = field.cells[t];
                const uint32_t rank_before = num_before + num_extra[t];
                const uint32_t size = num_counted + size_of(cell.extra) - rank_before;
                if (size < 2 || size_of(cell.true_positives) == num_true[t]) continue;
                cell.ties.push_back({num_true[t], size_of(cell.true_positives), size, size_of(cell.ranks)});
                for (size_t i = num_true[t]; i < cell.true_positives.size(); ++i) cell.ranks.push_back(ranks[t][i] - rank_before);
            }
        }
        if (rules_.ap == ApRule::linear_points_to_end) return;
        // Rows after the last true positive are on no curve.
        while (!field.steps.empty() && !field.steps.back().is_stop) field.steps.pop_back();
        for (Cell& cell : field.cells) {
            cell.extra.resize(cell.true_positives.empty() ? 0 : cell.num_extra.back());
            if (cell.extra.empty()) cell.num_extra.clear();
        }
    }

    void add_row(const PlannedRow<State>& each, size_t area, Field& field, uint32_t& num_counted,
                 std::vector<std::vector<uint32_t>>& ranks) const {
        const uint32_t image = each.image;
        if ((each.state & 1) == 0) {
            if (each.state >> (area + 1) & 1) field.steps.push_back({image, false}), ++num_counted;
            return;
        }
        size_t num_times = 0;
        bool is_stop = false;
        for_each_threshold(tally_.is_counted, each.row, area, [&](size_t) { ++num_times; });
        for_each_threshold(tally_.is_true, each.row, area, [&](size_t) { is_stop = true; });
        const bool is_always_counted = num_times == rules_.num_thresholds();
        num_counted += is_always_counted;
        if (is_always_counted || is_stop) {
            const auto none = static_cast<uint32_t>(tally_.num_images);
            field.steps.push_back({is_always_counted ? image : none, is_stop});
        }
        if (is_stop) field.stops.push_back(image);
        if (!is_always_counted) {
            for_each_threshold(tally_.is_counted, each.row, area, [&](size_t t) { field.cells[t].extra.push_back(image); });
        }
        for_each_threshold(tally_.is_true, each.row, area, [&](size_t t) {
            Cell& cell = field.cells[t];
            const uint32_t rank = num_counted + size_of(cell.extra);
            if (!ranks[t].empty()) cell.true_positives.back().is_followed = ranks[t].back() + 1 == rank;
            cell.true_positives.push_back({size_of(field.stops) - 1, false});
            cell.num_extra.push_back(size_of(cell.extra));
            ranks[t].push_back(rank);
            const size_t num_beyond = std::min<size_t>(tally_.tier[each.row], cell.beyond.size());
            for (size_t m = 0; m < num_beyond; ++m) cell.beyond[m].push_back(image);
        });
    }

    // Calls `use(t)` for each threshold at which the bit of a hit is set, ascending.
    template <class Use>
    void for_each_threshold(const uint64_t* words, uint32_t row, size_t area, Use use) const {
        const uint64_t* const of_row = words + size_t{hit_[row]} * rules_.num_words();
        const size_t num_thresholds = rules_.num_thresholds();
        for (size_t t = 0; t < num_thresholds;) {
            const size_t cell = area * num_thresholds + t, shift = cell % kBitsPerWord;
            const size_t num = std::min(kBitsPerWord - shift, num_thresholds - t);  // of those in one word
            uint64_t bits = of_row[cell / kBitsPerWord] >> shift << (kBitsPerWord - num) >> (kBitsPerWord - num);
            for (; bits != 0; bits &= bits - 1) use(t + count_trailing_zeros(bits));
            t += num;
        }
    }

    const TallyColumns<Score, State>& tally_;
    const Rules& rules_;
    std::vector<uint8_t> is_wanted_, has_early_;  // by area range: any number, any recall within an earlier limit
    std::vector<uint32_t> hit_;                   // of each row: its index among the hits, if it is one
};

}  // namespace

template <class Score, class State>
ResampleLayout lay_out(const TallyColumns<Score, State>& tally, const TruthStates<State>& truths, const Rules& rules,
               const std::vector<Measure>& measures, const Run& run) {
    return Planner<Score, State>(tally, rules, measures).plan(truths, run);
}

template ResampleLayout lay_out(const TallyColumns<float, uint8_t>&, const TruthStates<uint8_t>&, const Rules&,
                        const std::vector<Measure>&, const Run&);
template ResampleLayout lay_out(const TallyColumns<float, uint64_t>&, const TruthStates<uint64_t>&, const Rules&,
                        const std::vector<Measure>&, const Run&);
template ResampleLayout lay_out(const TallyColumns<double, uint8_t>&, const TruthStates<uint8_t>&, const Rules&,
                        const std::vector<Measure>&, const Run&);
template ResampleLayout lay_out(const TallyColumns<double, uint64_t>&, const TruthStates<uint64_t>&, const Rules&,
                        const std::vector<Measure>&, const Run&);

}  // namespace boxscore
