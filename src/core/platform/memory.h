// Large uninitialized arrays. Most of the cost of new memory is per page in the system, so arrays use huge pages if possible, and freed
// memory is cached for the next array, up to a limit.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/system.h"

namespace boxscore {

// Memory and its size, which may exceed the requested one.
struct Block {
    void* memory = nullptr;
    size_t num_bytes = 0;
};

inline constexpr size_t kLeastKept = size_t{1} << 16;  // bytes per block; smaller ones are freed at once
inline constexpr size_t kMostKept = size_t{1} << 26;   // bytes of all cached blocks together

// Cache of freed blocks, the oldest first. A thread that can't get the lock at once bypasses the cache, so that a process that was
// forked while another thread held the lock doesn't wait for ever.
class KeptBlocks {
public:
    // Take the smallest block that is large enough and at most four times the requested size; an empty one if none fits.
    Block take(size_t num_bytes) {
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) return {};
        auto best = blocks_.end();
        for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
            const bool is_fitting = num_bytes <= block->num_bytes && block->num_bytes <= 4 * num_bytes;
            if (is_fitting && (best == blocks_.end() || block->num_bytes < best->num_bytes)) best = block;
        }
        if (best == blocks_.end()) return {};
        const Block found = *best;
        blocks_.erase(best);
        num_bytes_ -= found.num_bytes;
        return found;
    }

    // Cache a block and free the oldest ones beyond the limit. Return whether the cache owns the block now.
    bool keep(Block block) noexcept {
        if (block.num_bytes > kMostKept) return false;
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) return false;
        try {
            blocks_.push_back(block);
        } catch (const std::bad_alloc&) {
            return false;
        }
        num_bytes_ += block.num_bytes;
        auto end = blocks_.begin();
        for (; num_bytes_ > kMostKept; ++end) {
            num_bytes_ -= end->num_bytes;
            std::free(end->memory);
        }
        blocks_.erase(blocks_.begin(), end);
        return true;
    }

private:
    std::mutex mutex_;
    std::vector<Block> blocks_;
    size_t num_bytes_ = 0;
};

inline KeptBlocks& kept_blocks() {
    static KeptBlocks* const blocks = new KeptBlocks;  // never destroyed: arrays may be freed when the process ends
    return *blocks;
}

// Take a cached block, or allocate one. Throws std::bad_alloc.
inline Block take_block(size_t num_bytes) {
    if (num_bytes >= kLeastKept) {
        const Block kept = kept_blocks().take(num_bytes);
        if (kept.memory != nullptr) return kept;
    }
    return {allocate(num_bytes), num_bytes};
}

inline void give_back(Block block) noexcept {
    if (block.num_bytes < kLeastKept || !kept_blocks().keep(block)) std::free(block.memory);
}

template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>, "elements are neither made nor destroyed");

public:
    Buffer() = default;
    explicit Buffer(size_t size) : block_(take_block(size * sizeof(T))), size_(size) {}
    Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, {})), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() { give_back(block_); }

    T* data() { return static_cast<T*>(block_.memory); }
    const T* data() const { return static_cast<const T*>(block_.memory); }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t i) { return data()[i]; }
    const T& operator[](size_t i) const { return data()[i]; }

private:
    Block block_;
    size_t size_ = 0;
};

}  // namespace boxscore
