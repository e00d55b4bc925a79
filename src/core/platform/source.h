// A source of bytes: memory, or a file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace boxscore {

class Source {
public:
    virtual ~Source() = default;
    virtual size_t size() const = 0;
    // Copy up to `size` bytes from `offset` on and return their number; fewer only at the end.
    virtual size_t read(size_t offset, char* to, size_t size) const = 0;
};

// Memory that the caller owns.
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

}  // namespace boxscore
