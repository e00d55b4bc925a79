// Calls that may end the calling thread.
#pragma once

namespace boxscore {

// Calls `call(data)`. A thread that `pthread_exit` ends inside of it stays here until the process ends, so that no frame of C++ is
// unwound, which would terminate the process. Windows ends threads without unwinding.
void call_without_unwinding(void (*call)(void*), void* data);

}  // namespace boxscore
