// Threads that wait for work. A new thread is often put on the processor of the one that started it, where it waits for a millisecond or
// more; one that is woken gets an idle processor at once. So threads are kept from one piece of work to the next, and end when there was
// none for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "platform/system.h"

namespace boxscore {

class Workers {
public:
    // Has so many threads waiting, or as many as the system gives.
    void prepare(size_t num) {
        std::unique_lock<std::mutex> lock(mutex_);
        start_missing(num, lock);
    }

    // Calls `loop` here and on so many other threads at most, and returns when all have returned. It must not throw. Those that have not
    // begun when it returns here are not waited for: there is nothing left to do.
    void run(size_t num_others, const std::function<void()>& loop) {
        Job job{&loop, num_others, 0};
        {
            std::unique_lock<std::mutex> lock(mutex_);
            size_t num_wanted = num_others;
            for (const Job* each : jobs_) num_wanted += each->num_wanted;
            start_missing(num_wanted, lock);
            jobs_.push_back(&job);
        }
        for (size_t i = 0; i < num_others; ++i) has_job_.notify_one();
        loop();
        std::unique_lock<std::mutex> lock(mutex_);
        jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
        is_done_.wait(lock, [&] { return job.num_running == 0; });
    }

    size_t process() const { return process_; }

private:
    struct Job {
        const std::function<void()>* loop;
        size_t num_wanted, num_running;  // threads
    };

    // Waits until new threads wait for work, but not for ever: so they get the processor that they may have been put on.
    void start_missing(size_t num, std::unique_lock<std::mutex>& lock) {
        constexpr auto kPatience = std::chrono::milliseconds(1);
        if (num <= num_idle_) return;
        try {
            for (; num_idle_ < num; ++num_idle_, ++num_starting_) std::thread([this] { work(); }).detach();
        } catch (const std::system_error&) {
            // The machine has no more threads to give; those that there are do all of it.
        }
        has_started_.wait_for(lock, kPatience, [&] { return num_starting_ == 0; });
    }

    void work() {
        constexpr auto kPatience = std::chrono::seconds(1);
        block_signals();
        std::unique_lock<std::mutex> lock(mutex_);
        if (--num_starting_ == 0) has_started_.notify_all();
        while (has_job_.wait_for(lock, kPatience, [&] { return !jobs_.empty(); })) {
            Job& job = *jobs_.front();
            if (--job.num_wanted == 0) jobs_.pop_front();
            --num_idle_;
            ++job.num_running;
            lock.unlock();
            (*job.loop)();
            lock.lock();
            ++num_idle_;
            if (--job.num_running == 0) is_done_.notify_all();
        }
        --num_idle_;
    }

    const size_t process_ = process_id();
    std::mutex mutex_;
    std::condition_variable has_started_, has_job_, is_done_;
    std::deque<Job*> jobs_;    // that want more threads
    size_t num_idle_ = 0;      // threads that wait, or are about to
    size_t num_starting_ = 0;  // those of them that have not come so far
};

// Those of this process: a process that was forked has none of the threads of its parent.
inline Workers& workers() {
    static std::atomic<Workers*> current{nullptr};
    Workers* found = current.load();
    if (found != nullptr && found->process() == process_id()) return *found;
    auto* made = new Workers;  // never destroyed: its threads may wait in it when the process ends
    if (current.compare_exchange_strong(found, made)) return *made;
    delete made;
    return *found;
}

}  // namespace boxscore
