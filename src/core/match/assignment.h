// Maximum-weight bipartite matching of rows and columns; a row or a column may stay unmatched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace boxscore {

struct WeightedPair {
    int32_t row, column;
    double weight;  // above 0
};

// Adds one row at a time along the augmenting path of the largest gain: the new row takes a column, whose row takes another column,
// and so on, until a row takes a free column or stays unmatched. An optimal matching plus its best path is optimal for one more row.
class Assignment {
public:
    Assignment(const std::vector<WeightedPair>& pairs, size_t num_rows, size_t num_columns)
        : pairs_(pairs), first_(num_rows + 1), taken_(num_rows, kNone), holder_(num_columns, kNone), gain_(num_rows, kNoGain),
          via_(num_rows, kNone) {
        for (const WeightedPair& pair : pairs) ++first_[pair.row + 1];
        for (size_t row = 0; row < num_rows; ++row) first_[row + 1] += first_[row];
        for (size_t row = 0; row < num_rows; ++row) add(static_cast<int32_t>(row));
    }

    // Index of the pair of each row, or -1. The given pairs must be sorted by row.
    const std::vector<int32_t>& taken() const { return taken_; }

private:
    static constexpr int32_t kNone = -1;
    static constexpr double kNoGain = -std::numeric_limits<double>::infinity();

    void add(int32_t start) {
        std::vector<int32_t> open{start}, touched{start};
        gain_[start] = 0;
        double best = 0;
        int32_t last_pair = kNone, last_row = start;  // end of the best path: a pair with a free column, or an unmatched row
        // A path visits each touched row once at most; without this bound, rounding errors could make a cycle look like a gain for ever.
        for (size_t round = 0; !open.empty() && round <= touched.size(); ++round) {
            std::vector<int32_t> next;
            for (const int32_t row : open) {
                for (int32_t i = first_[row]; i < first_[row + 1]; ++i) {
                    const WeightedPair& pair = pairs_[i];
                    const double gain = gain_[row] + pair.weight;
                    const int32_t other = holder_[pair.column];
                    if (other == row) continue;
                    if (other == kNone) {
                        if (gain > best) best = gain, last_pair = i, last_row = row;
                        continue;
                    }
                    const double left = gain - pairs_[taken_[other]].weight;
                    if (left <= gain_[other]) continue;
                    if (gain_[other] == kNoGain) touched.push_back(other);
                    gain_[other] = left, via_[other] = i;
                    next.push_back(other);
                    if (left > best) best = left, last_pair = kNone, last_row = other;
                }
            }
            open = std::move(next);
        }
        if (best > 0) carry_out(start, last_pair, last_row);
        for (const int32_t row : touched) gain_[row] = kNoGain, via_[row] = kNone;
    }

    // Walk from the end of the path to its start; each row gets its new pair, and leaves its column to the row before it.
    void carry_out(int32_t start, int32_t pair, int32_t row) {
        for (size_t step = 0; step <= taken_.size(); ++step) {
            taken_[row] = pair;
            if (pair != kNone) holder_[pairs_[pair].column] = row;
            if (row == start) return;
            pair = via_[row];
            row = pairs_[pair].row;
        }
    }

    const std::vector<WeightedPair>& pairs_;
    std::vector<int32_t> first_;   // of each row: its first pair
    std::vector<int32_t> taken_;   // of each row: its pair
    std::vector<int32_t> holder_;  // of each column: its row
    std::vector<double> gain_;     // of each row: the largest gain of a path that leaves it without a column
    std::vector<int32_t> via_;     // of each row: the pair by which this path takes its column
};

}  // namespace boxscore
