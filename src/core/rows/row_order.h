// Sort of rows by several columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "platform/memory.h"
#include "rows/order.h"

namespace boxscore {

// Sorts stably from the last column to the first. Consecutive columns whose numbers fit into one 64-bit key are sorted together.
class RowOrder {
public:
    explicit RowOrder(size_t size) : size_(size), number_(size), key_(size), record_(size), sorted_(size) {
        for (size_t row = 0; row < size; ++row) {
            key_[row] = 0;
            record_[row].row = static_cast<uint32_t>(row);
        }
    }

    // Add a column, from the last to the first. `number_of(row)` must ascend with the values to sort by.
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

    // Write the sorted rows.
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
    Buffer<uint64_t> number_;  // scratch: the numbers of the added column
    Buffer<uint64_t> key_;     // of each row: the columns that were added since the last sort
    unsigned num_bits_ = 0;    // used bits of the keys
    Buffer<Record> record_, sorted_;
};

}  // namespace boxscore
