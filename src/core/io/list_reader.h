// Reader of a list of records, in chunks on several threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/coco_json.h"
#include "io/record.h"
#include "platform/tasks.h"

namespace boxscore {

inline constexpr size_t kNoOffset = SIZE_MAX;

// A position in a list: at a record, or after the end of the list.
struct ListPosition {
    size_t offset = 0;
    bool is_end = false;
};

// Move from the end of a record, or of the opening bracket if `is_first`, to the next record or behind the end of the list.
inline const char* step(const char* p, const Window& window, bool is_first, bool& is_end) {
    p = json::skip_space(p);
    is_end = *p == ']';
    if (is_end) return p + 1;
    if (!is_first) {
        if (*p != ',') throw json::Malformed{p, "',' or ']'"};
        p = json::skip_space(p + 1);
    }
    if (*p == '{' || *p == ']') return p;  // `]` after a comma is refused as a record
    const char* end = nullptr;
    spelled_value(p, window, end);  // load all of it, so that the error can quote it
    return p;
}

template <class Records>
const char* read_record(const char* p, const Window& window, Records& records, bool& is_end) {
    if (*p != '{') {
        const char* end = nullptr;
        throw InvalidRecord{" must be an object; got " + spelled_value(p, window, end)};
    }
    const char* const next = step(records.parse(p, window), window, false, is_end);
    records.push(window);
    return next;
}

// Thrown for a chunk that began at a guessed record: any error in it may only mean that the guess was wrong.
struct GuessFailed {};

// Guess the start of a record: the `{` of the first `} , {` whose `}` is in [from, to). The guess is wrong if this is within a string,
// or in a list inside a record. kNoOffset if not found.
inline size_t guess_record(Window& window, size_t from, size_t to) {
    constexpr size_t kMostSpace = 1024;
    size_t at = from;
    while (at < to) {
        window.load(at, 1);
        const char* const end = window.end();
        for (const char* p = window.at(at); p < end && at < to; ++p, at = window.offset(p)) {
            p = static_cast<const char*>(std::memchr(p, '}', static_cast<size_t>(end - p)));
            if (p == nullptr) {
                p = end - 1;
                continue;
            }
            at = window.offset(p);
            if (at >= to) return kNoOffset;
            const char* q = json::skip_space(p + 1);
            const bool is_comma = *q == ',';
            if (is_comma) q = json::skip_space(q + 1);
            if (q >= end && !window.is_last()) {
                if (static_cast<size_t>(q - p) > kMostSpace) continue;
                break;
            }
            if (is_comma && *q == '{' && static_cast<size_t>(q - p) <= kMostSpace) return window.offset(q);
        }
        if (at >= to || (window.is_last() && at >= window.offset(end))) break;
        window.extend(at);
    }
    return kNoOffset;
}

// The records that a thread read from one chunk. Its start is a guess, which is right if the previous chunk ends there.
template <class Records>
struct Chunk {
    explicit Chunk(const Records& nothing) : rows(nothing) {}

    Records rows;
    size_t start = kNoOffset, stop = kNoOffset;
    ListPosition next;
    bool has_failed = false;
};

// Reads the records of a list in chunks of bytes, on several threads. The start of a chunk's first record is a guess:
//
//     file     [{...},{...},{...},{...},{...},{...},{...}]
//     chunks    |0             |1             |2
//     guesses   ^                 ^                 ^
//
// Each chunk is read up to the guess of the next one. Chunks are appended in order; one whose guess was wrong is read again from the
// end of the previous chunk. So the rows, or the first error, don't depend on the chunks.
template <class Records>
class ListReader {
public:
    // `nothing`: empty records with the options to read with; copied for each chunk.
    ListReader(const Source& source, const Run& run, size_t chunk_size, const std::string& kind, const Records& nothing)
        : rows(nothing), nothing_(nothing), source_(source), run_(run), chunk_size_(std::max<size_t>(chunk_size, 1)), kind_(kind), window_(source, chunk_size_) {}

    ListPosition read(ListPosition begin) {
        first_ = begin.offset;
        position_ = begin;
        if (begin.is_end) return begin;
        const size_t num_bytes = source_.size() > first_ ? source_.size() - first_ : 0;
        const size_t num_chunks = (num_bytes + chunk_size_ - 1) / chunk_size_;
        if (run_.num_threads <= 1 || num_chunks <= 1) {
            // Estimate the memory to reserve from the first chunk.
            read_until(first_ + chunk_size_);
            reserve();
            read_until(kNoOffset);
            return position_;
        }
        ready_.resize(num_chunks);
        for_each_task(
            num_chunks, run_, [&] { return Window(source_, chunk_size_); },
            [&](size_t i, Window& window) {
                if (!wait_for_turn(i)) return;
                try {
                    deliver(i, read_chunk(i, num_chunks, window));
                } catch (...) {
                    finish();
                    throw;
                }
            });
        return position_;
    }

    Records rows;

private:
    using ChunkPointer = std::unique_ptr<Chunk<Records>>;
    static constexpr size_t kLongestGuess = 4, kMostAhead = 4;

    void read_until(size_t stop) { position_ = read_records(window_, position_, stop, rows); }

    // Read records until one begins at or after `stop`; return its position. `most_bytes` is given if the position is a guess: the most
    // bytes that one record may have. Throws CocoError, or GuessFailed for a guess.
    ListPosition read_records(Window& window, ListPosition position, size_t stop, Records& records,
                              size_t most_bytes = kNoOffset) const {
        const bool is_guess = most_bytes != kNoOffset;
        while (!position.is_end && position.offset < stop) {
            run_.check();
            window.load(position.offset, 1);
            const char* p = window.at(position.offset);
            try {
                try {
                    while (!position.is_end && position.offset < stop) {
                        bool is_end = false;
                        p = read_record(p, window, records, is_end);
                        position = {window.offset(p), is_end};
                    }
                } catch (const InvalidRecord& problem) {
                    if (is_guess) throw GuessFailed();
                    throw CocoError(kind_ + " " + std::to_string(records.size()) + id_of_record(p, window) + problem.text);
                }
            } catch (const json::Malformed& problem) {
                if (window.is_cut(problem.at) && window.offset(window.end()) - position.offset < most_bytes) {
                    window.extend(position.offset);
                } else if (is_guess) {
                    throw GuessFailed();
                } else {
                    fail_at(source_, window, problem);
                }
            }
        }
        return position;
    }

    // Reserve memory for the rest of the file, as if all of it were records of the same length as before.
    void reserve() {
        const size_t num_read = position_.offset - first_;
        if (position_.is_end || num_read == 0 || position_.offset >= source_.size()) return;
        const double length = static_cast<double>(num_read) / static_cast<double>(std::max<size_t>(rows.size(), 1));
        const double num_more = static_cast<double>(source_.size() - position_.offset) / length;
        rows.reserve(rows.size() + static_cast<size_t>(num_more * 1.05) + 64);
    }

    size_t begin_of(size_t i) const { return first_ + i * chunk_size_; }

    size_t start_of(size_t i, size_t num_chunks, Window& window) const {
        if (i == 0) return first_;
        return i < num_chunks ? guess_record(window, begin_of(i), begin_of(i + 1)) : kNoOffset;
    }

    ChunkPointer read_chunk(size_t i, size_t num_chunks, Window& window) {
        ChunkPointer chunk = unused_chunk();
        chunk->has_failed = false;
        // Load more than a chunk, since its last record may end in the next one.
        window.load(begin_of(i), chunk_size_ + std::min<size_t>(chunk_size_, 4096));
        chunk->start = start_of(i, num_chunks, window);
        chunk->stop = kNoOffset;
        if (i + 1 < num_chunks) {
            Window ahead(source_, 4096);
            const size_t next = start_of(i + 1, num_chunks, ahead);
            chunk->stop = next == kNoOffset ? begin_of(i + 1) : next;
        }
        if (chunk->start == kNoOffset) return chunk;
        try {
            chunk->next =
                read_records(window, {chunk->start, false}, chunk->stop, chunk->rows, kLongestGuess * chunk_size_);
        } catch (const GuessFailed&) {
            chunk->has_failed = true;  // `append` reads it again, where the row number for the error is known
        }
        return chunk;
    }

    // Wait while chunk i is too far ahead of the first chunk that is not appended yet, which limits memory. That chunk itself never
    // waits, which excludes a deadlock. Return false if the list has ended.
    bool wait_for_turn(size_t i) {
        std::unique_lock<std::mutex> hold(lock_);
        while (!is_done_ && i >= next_ + kMostAhead * run_.num_threads) {
            // Wake up regularly: the thread that reads that chunk may have been interrupted.
            has_appended_.wait_for(hold, std::chrono::milliseconds(50));
            run_.check();
        }
        return !is_done_;
    }

    void finish() {
        std::lock_guard<std::mutex> hold(lock_);
        is_done_ = true;
        has_appended_.notify_all();
    }

    // Store a finished chunk, and append all chunks whose turn it is. One thread appends at a time; the others read on.
    void deliver(size_t i, ChunkPointer chunk) {
        std::unique_lock<std::mutex> hold(lock_);
        ready_[i] = std::move(chunk);
        if (is_appending_) return;
        is_appending_ = true;
        while (next_ < ready_.size() && ready_[next_] != nullptr) {
            ChunkPointer first = std::move(ready_[next_++]);
            hold.unlock();
            append(*first);
            first->rows.clear();
            hold.lock();
            unused_.push_back(std::move(first));
            is_done_ |= position_.is_end;
            has_appended_.notify_all();
        }
        is_appending_ = false;
    }

    void append(Chunk<Records>& chunk) {
        if (position_.is_end) return;
        if (position_.offset == chunk.start && !chunk.has_failed && rows.can_append(chunk.rows)) {
            rows.append(chunk.rows);
            position_ = chunk.next;
            if (next_ == 1) reserve();
        } else {
            read_until(chunk.stop);
        }
    }

    ChunkPointer unused_chunk() {
        std::lock_guard<std::mutex> hold(lock_);
        if (unused_.empty()) return std::make_unique<Chunk<Records>>(nothing_);
        ChunkPointer chunk = std::move(unused_.back());
        unused_.pop_back();
        return chunk;
    }

    Records nothing_;
    const Source& source_;
    const Run& run_;
    size_t chunk_size_;
    std::string kind_;
    Window window_;
    size_t first_ = 0;
    ListPosition position_;  // all records before this position are in `rows`
    std::vector<ChunkPointer> ready_, unused_;
    size_t next_ = 0;
    bool is_appending_ = false, is_done_ = false;
    std::mutex lock_;
    std::condition_variable has_appended_;
};

}  // namespace boxscore
