// Compiled without exceptions, so that `pthread_cleanup_push` is a handler of the C library: it runs before any C++ frame is unwound,
// whichever library unwinds.
#include "platform/thread_end.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <unistd.h>
#endif

namespace boxscore {

#if defined(_WIN32)

void call_without_unwinding(void (*call)(void*), void* data) { call(data); }

#else

namespace {

void wait_for_the_end(void*) {
    for (;;) pause();
}

}  // namespace

void call_without_unwinding(void (*call)(void*), void* data) {
    pthread_cleanup_push(wait_for_the_end, nullptr);
    call(data);
    pthread_cleanup_pop(0);
}

#endif

}  // namespace boxscore
