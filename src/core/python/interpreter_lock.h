// The interpreter lock, released while C++ computes.
#pragma once

#include <Python.h>

#include "platform/thread_end.h"

namespace boxscore {

// Takes the lock for a thread that released it. When the interpreter has ended meanwhile, a daemon thread stays in here until the process
// ends: Python before 3.14 calls `pthread_exit` then.
inline void take_lock(PyThreadState* state) {
    call_without_unwinding([](void* data) { PyEval_RestoreThread(static_cast<PyThreadState*>(data)); }, state);
}

// Releases the lock for as long as this exists.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    ~Unlocked() { take_lock(state_); }

    // Takes the lock for as long as this exists.
    class Locked {
    public:
        explicit Locked(const Unlocked& unlocked) { take_lock(unlocked.state_); }
        Locked(const Locked&) = delete;
        Locked& operator=(const Locked&) = delete;
        ~Locked() { PyEval_SaveThread(); }
    };

private:
    PyThreadState* state_;
};

}  // namespace boxscore
