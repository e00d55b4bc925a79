// A column of masks: compressed counts one after the other, with size, area and box of each mask.
//
//     counts   ┌─ mask 0 ─┬─ mask 1 ───┬─ mask 2 ─┐      about one byte per run
//     start    0          5            12         17
//     size, area, box     one of each per mask
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "masks/runs.h"

namespace boxscore {

// Bytes that grow at their end; the system moves large ones without a copy.
class Bytes {
public:
    Bytes() = default;
    Bytes(const Bytes& other) { append(other.data_, other.size_); }
    Bytes(Bytes&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    Bytes& operator=(Bytes other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Bytes() { std::free(data_); }

    char* data() { return data_; }
    const char* data() const { return data_; }
    size_t size() const { return size_; }
    void clear() { size_ = 0; }
    void truncate(size_t size) { size_ = size; }

    void reserve(size_t capacity) {
        if (capacity <= capacity_) return;
        void* const grown = std::realloc(data_, capacity);
        if (grown == nullptr) throw std::bad_alloc();
        data_ = static_cast<char*>(grown);
        capacity_ = capacity;
    }
    void push_back(char byte) {
        if (size_ == capacity_) grow(size_ + 1);
        data_[size_++] = byte;
    }
    void append(const char* bytes, size_t num) {
        if (num == 0) return;
        if (size_ + num > capacity_) grow(size_ + num);
        std::memcpy(data_ + size_, bytes, num);
        size_ += num;
    }

private:
    void grow(size_t size) { reserve(size + size / 2 + 64); }

    char* data_ = nullptr;
    size_t size_ = 0, capacity_ = 0;
};

// Masks that somebody else holds.
struct MaskView {
    const char* counts = nullptr;
    const int64_t* start = nullptr;  // of each mask, and the end of the last
    const MaskSize* size = nullptr;
    const uint32_t* area = nullptr;
    const MaskBox* box = nullptr;

    void decode(size_t row, Runs& runs) const {
        decode_runs(counts + start[row], static_cast<size_t>(start[row + 1] - start[row]), runs);
    }
};

struct MaskColumn {
    Bytes counts;
    std::vector<int64_t> start{0};
    std::vector<MaskSize> size;
    std::vector<uint32_t> area;
    std::vector<MaskBox> box;
    bool has_joined_runs = false;  // a mask came with a run of no pixels between two others, which are one run here

    size_t num_masks() const { return size.size(); }
    MaskView view() const { return {counts.data(), start.data(), size.data(), area.data(), box.data()}; }

    // Adds a mask of counts for exactly the pixels of its size. Runs without pixels are dropped, and those on both sides joined.
    void push(Runs& runs, MaskSize mask_size);

    // Adds a mask of compressed counts; nothing is added if they are not valid.
    RunsError push_text(const char* text, size_t num, MaskSize mask_size, Runs& scratch);

    // Ends the mask whose compressed counts were appended to `counts`; takes them away again if they are not valid. `scratch` is
    // memory from one call to the next.
    RunsError finish_text(MaskSize mask_size, Runs& scratch);

    // Finishes a mask of which only the area is kept.
    RunsError finish_area(MaskSize mask_size, Runs& scratch);

    // Adds a row that gets its mask later, or never.
    void push_nothing(uint32_t mask_area = 0, MaskSize mask_size = {}) { finish_row(mask_area, {}, mask_size); }

    // Ends the mask whose compressed counts were appended to `counts`, and measured.
    void finish_row(uint32_t mask_area, MaskBox mask_box, MaskSize mask_size);

    void append(const MaskColumn& other);
    void append_row(const MaskColumn& other, size_t row);
    void reserve(size_t num_masks, size_t num_bytes);
    void clear();
};

}  // namespace boxscore
