// The order of rows by several columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "platform/memory.h"
#include "rows/order.h"

namespace boxscore {

// Sorts by the last column first, then stably by the one before it. Columns whose numbers fit into one key together are sorted by at once.
class RowOrder {
public:
    explicit RowOrder(size_t size) : size_(size), number_(size), key_(size), record_(size), sorted_(size) {
        for (size_t row = 0; row < size; ++row) {
            key_[row] = 0;
            record_[row].row = static_cast<uint32_t>(row);
        }
    }

    // The next column from behind. `number_of(row)` ascends as the values do that rows are sorted by.
    template <class NumberOf>
    void add(const NumberOf& number_of) {
        uint64_t low = UINT64_MAX, high = 0;
        for (size_t row = 0; row < size_; ++row) {
            const uint64_t number = number_of(row);
            low = std::min(low, number), high = std::max(high, number);
            number_[row] = number;
        }
        if (low >= high) return;  // all are equal
        const unsigned num_bits = bit_width(high - low);
        if (num_bits_ + num_bits > kBitsPerWord) sort();
        for (size_t row = 0; row < size_; ++row) key_[row] |= (number_[row] - low) << num_bits_;
        num_bits_ += num_bits;
    }

    // Writes the rows in order.
    void finish(int64_t* order) {
        if (num_bits_ > 0) sort();
        for (size_t i = 0; i < size_; ++i) order[i] = record_[i].row;
    }

private:
    struct Record {
        uint64_t key;
        uint32_t row;
    };

    void sort() {
        bool is_sorted = true;
        uint64_t last = 0;
        for (size_t i = 0; i < size_; ++i) {
            const uint64_t key = key_[record_[i].row];
            is_sorted &= last <= key;
            last = record_[i].key = key;
        }
        if (!is_sorted) {
            sort_by_key(record_.data(), sorted_.data(), size_);
            std::swap(record_, sorted_);
        }
        std::fill_n(key_.data(), size_, uint64_t{0});
        num_bits_ = 0;
    }

    const size_t size_;
    Buffer<uint64_t> number_;  // of the column that is added
    Buffer<uint64_t> key_;     // of rows: the columns since they were sorted last
    unsigned num_bits_ = 0;    // of a key
    Buffer<Record> record_, sorted_;
};

}  // namespace boxscore
