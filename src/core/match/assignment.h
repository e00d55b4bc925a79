// The pairing of rows and columns with the largest sum of weights; a row or a column may stay alone.
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

// Adds one row after the other. A new row starts a chain: it takes a column, whose row takes another column, and so on, until a row
// takes a free column, or stays alone. The chain of the largest gain is carried out. What was best before plus this is best now.
class Assignment {
public:
    Assignment(const std::vector<WeightedPair>& pairs, size_t num_rows, size_t num_columns)
        : pairs_(pairs), first_(num_rows + 1), taken_(num_rows, kNone), holder_(num_columns, kNone), gain_(num_rows, kNoGain),
          via_(num_rows, kNone) {
        for (const WeightedPair& pair : pairs) ++first_[pair.row + 1];
        for (size_t row = 0; row < num_rows; ++row) first_[row + 1] += first_[row];
        for (size_t row = 0; row < num_rows; ++row) add(static_cast<int32_t>(row));
    }

    // The index of the pair that each row is in, or -1. Pairs are in order of their rows.
    const std::vector<int32_t>& taken() const { return taken_; }

private:
    static constexpr int32_t kNone = -1;
    static constexpr double kNoGain = -std::numeric_limits<double>::infinity();

    void add(int32_t start) {
        std::vector<int32_t> open{start}, touched{start};
        gain_[start] = 0;
        double best = 0;
        int32_t last_pair = kNone, last_row = start;  // where the best chain ends: at a pair with a free column, or at a row alone
        // Weights that differ in the last bit only could improve each other for ever: a chain is no longer than the rows in reach.
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

    // From the end of the chain to its start: each row gets its new pair, and the row before the column it had.
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
    std::vector<int32_t> first_;   // of each row, among the pairs
    std::vector<int32_t> taken_;   // the pair of each row
    std::vector<int32_t> holder_;  // the row of each column
    std::vector<double> gain_;     // what a chain has gained when its last row is without a column
    std::vector<int32_t> via_;     // the pair by which a chain takes the column of this row
};

}  // namespace boxscore
