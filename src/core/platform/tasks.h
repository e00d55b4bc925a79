// Parallel tasks whose results don't depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <vector>

#include "platform/interruption.h"
#include "platform/workers.h"

namespace boxscore {

// Number of threads of a computation, and its stop flag.
struct Run {
    size_t num_threads = 1;
    Interruption* interruption = nullptr;

    bool should_stop() const { return interruption != nullptr && interruption->is_wanted(); }
    void check() const {
        if (should_stop()) throw Interrupted();
    }
    Run on_one_thread() const { return {1, interruption}; }
};

// Call `work(task, scratch)` for each task in 0 .. num_tasks - 1, with one scratch per thread. Tasks must write to disjoint memory, so
// that the result doesn't depend on the threads. Rethrows the first exception.
template <class MakeScratch, class Work>
void for_each_task(size_t num_tasks, const Run& run, MakeScratch make_scratch, Work work) {
    std::atomic<size_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_lock;
    auto loop = [&] {
        try {
            auto scratch = make_scratch();
            for (size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < num_tasks;) {
                run.check();
                work(task, scratch);
            }
        } catch (...) {
            std::lock_guard<std::mutex> hold(failure_lock);
            if (!failure) failure = std::current_exception();
            next.store(num_tasks, std::memory_order_relaxed);
        }
    };
    const size_t num_threads = std::min(run.num_threads, num_tasks);
    if (num_threads > 1) {
        workers().run(num_threads - 1, std::ref(loop), [&] { run.should_stop(); });
    } else {
        loop();
    }
    if (failure) std::rethrow_exception(failure);
}

// Indices of tasks by falling size, so that no large task runs alone at the end.
template <class Size>
std::vector<uint32_t> by_falling(const std::vector<Size>& sizes) {
    std::vector<uint32_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
    return order;
}

}  // namespace boxscore
