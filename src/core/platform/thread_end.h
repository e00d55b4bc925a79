// Calls that may end the calling thread.
#pragma once

namespace boxscore {

// Call `call(data)`. If it calls `pthread_exit`, the thread stays here until the process ends, since unwinding C++ frames would terminate
// the process. Windows ends threads without unwinding.
void call_without_unwinding(void (*call)(void*), void* data);

}  // namespace boxscore
