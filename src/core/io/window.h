// A part of a source in memory, for files that are larger than memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "io/json.h"
#include "platform/source.h"

namespace boxscore {

// A part of a source in memory, followed by the zero bytes that scans need.
class Window {
public:
    Window(const Source& source, size_t block) : source_(&source), block_(std::max<size_t>(block, 1)) {}

    // Load at least `size` bytes from the offset `from` on, or all that the source has.
    void load(size_t from, size_t size) {
        if (from < base_ || from > base_ + size_) {
            base_ = from;
            size_ = 0;
        }
        const size_t num_dropped = from - base_, num_kept = size_ - num_dropped;
        if (num_kept >= size && has_loaded_) return;
        size = std::max(size, block_);
        if (size + json::kPadding > capacity_) {
            std::unique_ptr<char[]> larger(new char[size + json::kPadding]);
            if (num_kept > 0) std::memcpy(larger.get(), data_.get() + num_dropped, num_kept);
            data_ = std::move(larger);
            capacity_ = size + json::kPadding;
        } else if (num_kept > 0 && num_dropped > 0) {
            std::memmove(data_.get(), data_.get() + num_dropped, num_kept);
        }
        base_ = from;
        size_ = num_kept;
        const size_t num_wanted = size - num_kept;
        const size_t num_read = source_->read(from + num_kept, data_.get() + num_kept, num_wanted);
        size_ += num_read;
        // A file that is truncated while it is read ends at its new end.
        is_last_ = num_read < num_wanted || from + size_ >= source_->size();
        has_loaded_ = true;
        std::memset(data_.get() + size_, 0, json::kPadding);
    }

    // Load more bytes from the offset `from` on, after a scan reached the end of the window.
    void extend(size_t from) {
        const size_t num_kept = base_ + size_ - from;
        load(from, num_kept + std::max(block_, num_kept));
    }

    const char* at(size_t offset) const { return data_.get() + (offset - base_); }
    size_t offset(const char* p) const { return base_ + static_cast<size_t>(p - data_.get()); }
    const char* end() const { return data_.get() + size_; }
    bool is_last() const { return is_last_; }
    // Whether a scan that stopped at `p` reached the end of the window but not of the source.
    bool is_cut(const char* p) const { return !is_last_ && p >= end(); }

private:
    const Source* source_;
    size_t block_, base_ = 0, size_ = 0, capacity_ = 0;
    bool is_last_ = false, has_loaded_ = false;
    std::unique_ptr<char[]> data_;
};

}  // namespace boxscore
