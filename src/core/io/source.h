// Where bytes come from: a file, of which only a part is in memory at a time, or memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "io/json.h"

namespace boxscore {

class Source {
public:
    virtual ~Source() = default;
    virtual size_t size() const = 0;
    // Copies up to `size` bytes from `offset` on and says how many there were; fewer only where the bytes end.
    virtual size_t read(size_t offset, char* to, size_t size) const = 0;
};

// Memory that somebody else owns.
class MemorySource : public Source {
public:
    MemorySource(const char* data, size_t size) : data_(data), size_(size) {}
    size_t size() const override { return size_; }
    size_t read(size_t offset, char* to, size_t size) const override {
        const size_t count = offset < size_ ? std::min(size, size_ - offset) : 0;
        if (count > 0) std::memcpy(to, data_ + offset, count);
        return count;
    }

private:
    const char* data_;
    size_t size_;
};

// A file by its name, in the file system's encoding (UTF-8 on Windows). Throws std::system_error. What is no regular file,
// such as a pipe, is read to its end at once.
std::unique_ptr<Source> open_source(const std::string& path);

// A part of a source in memory, with the zero bytes behind it that scanning needs.
class Window {
public:
    Window(const Source& source, size_t block) : source_(&source), block_(std::max<size_t>(block, 1)) {}

    // Holds the bytes from `from` on: at least `size` of them, if there are as many.
    void load(size_t from, size_t size) {
        if (from < base_ || from > base_ + size_held_) {
            base_ = from;
            size_held_ = 0;
        }
        const size_t num_gone = from - base_, num_kept = size_held_ - num_gone;
        if (num_kept >= size && has_loaded_) return;
        size = std::max(size, block_);
        if (size + json::kPadding > capacity_) {
            std::unique_ptr<char[]> larger(new char[size + json::kPadding]);
            if (num_kept > 0) std::memcpy(larger.get(), data_.get() + num_gone, num_kept);
            data_ = std::move(larger);
            capacity_ = size + json::kPadding;
        } else if (num_kept > 0 && num_gone > 0) {
            std::memmove(data_.get(), data_.get() + num_gone, num_kept);
        }
        base_ = from;
        size_held_ = num_kept;
        const size_t num_wanted = size - num_kept;
        const size_t num_read = source_->read(from + num_kept, data_.get() + num_kept, num_wanted);
        size_held_ += num_read;
        // A file that gets shorter while it is read ends where it ends now.
        is_last_ = num_read < num_wanted || from + size_held_ >= source_->size();
        has_loaded_ = true;
        std::memset(data_.get() + size_held_, 0, json::kPadding);
    }

    // Holds more than now, from `from` on, where the scan stopped short.
    void extend(size_t from) {
        const size_t num_kept = base_ + size_held_ - from;
        load(from, num_kept + std::max(block_, num_kept));
    }

    const char* at(size_t offset) const { return data_.get() + (offset - base_); }
    size_t offset(const char* p) const { return base_ + static_cast<size_t>(p - data_.get()); }
    const char* end() const { return data_.get() + size_held_; }
    bool is_last() const { return is_last_; }
    // Whether a scan that stopped at `p` did so because the source has more than this window.
    bool is_cut(const char* p) const { return !is_last_ && p >= end(); }

private:
    const Source* source_;
    size_t block_, base_ = 0, size_held_ = 0, capacity_ = 0;
    bool is_last_ = false, has_loaded_ = false;
    std::unique_ptr<char[]> data_;
};

}  // namespace boxscore
