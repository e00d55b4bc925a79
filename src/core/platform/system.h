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

// Allocate uninitialized memory, on huge pages if it is large and the system has them; the last page is huge if more than half of it is
// used. Freed by `std::free`. Throws std::bad_alloc.
inline void* allocate(size_t num_bytes) {
    void* memory = nullptr;
#if defined(__linux__)
    constexpr size_t kHugePage = size_t{1} << 21;
    const size_t num_huge = num_bytes / kHugePage + (num_bytes % kHugePage > kHugePage / 2);
    if (num_huge > 0) {
        memory = std::aligned_alloc(kHugePage, (num_bytes + kHugePage - 1) / kHugePage * kHugePage);
        // A hint; if the system ignores it, pages are small.
        if (memory != nullptr) madvise(memory, num_huge * kHugePage, MADV_HUGEPAGE);
    }
#endif
    if (memory == nullptr) memory = std::malloc(std::max<size_t>(num_bytes, 1));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

// Id of this process if processes can be forked, else 0.
inline size_t process_id() {
#if defined(_WIN32)
    return 0;
#else
    return static_cast<size_t>(getpid());
#endif
}

// Block all signals in this thread, so that other threads handle them.
inline void block_signals() {
#if !defined(_WIN32)
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
#endif
}

// Parse the number at the start of a text. Independent of the locale; a number that is too large becomes infinite.
double parse_double(const char* begin, const char* end);

class Source;

// Open a file by its path, in the file system's encoding (UTF-8 on Windows). Reads other kinds of files, such as pipes, to their end
// at once. Throws std::system_error.
std::unique_ptr<Source> open_source(const std::string& path);

}  // namespace boxscore
