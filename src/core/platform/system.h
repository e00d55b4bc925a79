// Differences between operating systems and their C libraries, in one place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace boxscore {

// Memory that is not written yet, on huge pages where it is large and the system has them; `std::free` frees it. Throws
// std::bad_alloc. The last page is huge if more than half of it is used.
inline void* allocate(size_t num_bytes) {
    void* memory = nullptr;
#if defined(__linux__)
    constexpr size_t kHugePage = size_t{1} << 21;
    const size_t num_huge = num_bytes / kHugePage + (num_bytes % kHugePage > kHugePage / 2);
    if (num_huge > 0) {
        memory = std::aligned_alloc(kHugePage, (num_bytes + kHugePage - 1) / kHugePage * kHugePage);
        // A hint: where it is not taken, pages are small, and all is as well.
        if (memory != nullptr) madvise(memory, num_huge * kHugePage, MADV_HUGEPAGE);
    }
#endif
    if (memory == nullptr) memory = std::malloc(std::max<size_t>(num_bytes, 1));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

// The number of this process where processes can be forked, else 0.
inline size_t process_id() {
#if defined(_WIN32)
    return 0;
#else
    return static_cast<size_t>(getpid());
#endif
}

// Leaves the signals that a process gets to its other threads.
inline void block_signals() {
#if !defined(_WIN32)
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
#endif
}

// The number that a text starts with. The decimal point is a point, whatever the locale; a number that is too large becomes infinite.
double parse_double(const char* begin, const char* end);

class Source;

// Opens a file by its name, in the file system's encoding (UTF-8 on Windows). Throws std::system_error. What is not a regular
// file, such as a pipe, is read to its end at once.
std::unique_ptr<Source> open_source(const std::string& path);

}  // namespace boxscore
