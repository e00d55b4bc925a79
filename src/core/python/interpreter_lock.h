// Release of the interpreter lock while C++ computes.
#pragma once

#include <Python.h>

#include "platform/thread_end.h"

namespace boxscore {

// Take the lock again for a thread that released it. If the interpreter has ended meanwhile, a daemon thread stays in here until the
// process ends, since Python before 3.14 would call `pthread_exit`.
inline void take_lock(PyThreadState* state) {
    call_without_unwinding([](void* data) { PyEval_RestoreThread(static_cast<PyThreadState*>(data)); }, state);
}

// Releases the lock during its lifetime.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    ~Unlocked() { take_lock(state_); }

    // Takes the lock during its lifetime.
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
