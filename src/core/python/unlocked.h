// Work without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "tasks.h"

namespace boxscore {

// Runs a computation without the interpreter lock. A long one goes to a thread of its own, while this one looks for Ctrl-C.
inline void run_without_lock(size_t num_rows, size_t num_threads, const std::function<void(const Run&)>& compute) {
    constexpr size_t kLong = size_t{1} << 16, kFew = size_t{1} << 13;
    nanobind::gil_scoped_release unlock;
    if (num_rows < kLong) return compute(Run{num_rows < kFew ? 1 : num_threads, nullptr});  // threads are not for nothing
    std::atomic<bool> is_cancelled{false};
    const size_t num_useful = std::min<size_t>(num_threads, std::thread::hardware_concurrency());
    if (num_useful > 1) workers().prepare(num_useful - 1);  // they are ready by the time that they are needed
    std::future<void> done = std::async(std::launch::async, [&] { compute(Run{num_threads, &is_cancelled}); });
    while (done.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
        nanobind::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() != 0) {
            is_cancelled = true;
            nanobind::gil_scoped_release wait;
            done.wait();
            break;
        }
    }
    try {
        done.get();
    } catch (...) {
        if (!is_cancelled) throw;
    }
    if (is_cancelled) {
        // Finished or not, what the signal's handler raised is what happened.
        nanobind::gil_scoped_acquire lock;
        throw nanobind::python_error();
    }
}

}  // namespace boxscore
