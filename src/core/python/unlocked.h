// Computations without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <functional>

#include "platform/tasks.h"
#include "python/interpreter_lock.h"

namespace boxscore {

// Run a computation without the interpreter lock; Ctrl-C interrupts it. `num_rows` decides whether threads are worth it.
inline void run_without_lock(size_t num_rows, size_t num_threads, const std::function<void(const Run&)>& compute) {
    constexpr size_t kFew = size_t{1} << 13;  // below this number of rows, use one thread
    bool has_raised = false;  // an exception of the signal handler is raised even if the computation finishes
    {
        const Unlocked unlocked;
        Interruption interruption([&] {
            const Unlocked::Locked locked(unlocked);
            return has_raised = has_raised || PyErr_CheckSignals() != 0;
        });
        try {
            compute(Run{num_rows < kFew ? 1 : num_threads, &interruption});
        } catch (...) {
            if (!has_raised) throw;
        }
    }
    if (has_raised) throw nanobind::python_error();
}

}  // namespace boxscore
