// Thread pool. The system often puts a new thread on the processor of the thread that started it, where it waits for a millisecond or
// more; a woken thread gets an idle processor at once. So threads are reused, and end after a second without work.
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

#include "platform/compiler.h"
#include "platform/interruption.h"
#include "platform/system.h"

namespace boxscore {

class Workers {
public:
    // Call `loop` on this thread and on at most `num_others` others, and return when all have returned. While waiting for the others, call
    // `watch` regularly. Neither may throw. When `loop` returns here, no work is left, so threads that have not begun by then never do.
    void run(size_t num_others, const std::function<void()>& loop, const std::function<void()>& watch) {
        Job job{&loop, num_others};
        {
            std::unique_lock<std::mutex> lock(mutex_);
            size_t num_wanted = num_others;
            for (const Job* each : jobs_) num_wanted += each->num_wanted;
            start_missing(num_wanted, lock);
            jobs_.push_back(&job);
            num_jobs_ = jobs_.size();
        }
        for (size_t i = 0; i < num_others; ++i) has_job_.notify_one();
        loop();
        std::unique_lock<std::mutex> lock(mutex_);
        jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
        num_jobs_ = jobs_.size();
        const auto is_done = [&] { return job.num_running == 0; };
        wait_a_moment(lock, is_done);
        while (!is_done_.wait_for(lock, Interruption::kInterval, is_done)) {
            lock.unlock();
            watch();
            lock.lock();
        }
    }

    size_t process() const { return process_; }

private:
    struct Job {
        const std::function<void()>* loop;
        size_t num_wanted;                   // threads
        std::atomic<size_t> num_running{0};  // threads; written under the lock
    };

    // Start missing threads and wait up to a millisecond until they are ready, so that they get this processor if they were put on it.
    void start_missing(size_t num, std::unique_lock<std::mutex>& lock) {
        constexpr auto kPatience = std::chrono::milliseconds(1);
        if (num <= num_idle_) return;
        try {
            for (; num_idle_ < num; ++num_idle_, ++num_starting_) std::thread([this] { work(); }).detach();
        } catch (const std::system_error&) {
            // The system has no more threads; the existing ones do all the work.
        }
        has_started_.wait_for(lock, kPatience, [&] { return num_starting_ == 0; });
    }

    // Spin briefly without the lock: usually faster than to be woken.
    template <class Condition>
    static void wait_a_moment(std::unique_lock<std::mutex>& lock, const Condition& is_over) {
        constexpr auto kMoment = std::chrono::microseconds(50);
        if (is_over()) return;
        lock.unlock();
        const auto end = std::chrono::steady_clock::now() + kMoment;
        do {
            for (int i = 0; i < 8 && !is_over(); ++i) relax();
        } while (!is_over() && std::chrono::steady_clock::now() < end);
        lock.lock();
    }

    void work() {
        constexpr auto kPatience = std::chrono::seconds(1);
        block_signals();
        std::unique_lock<std::mutex> lock(mutex_);
        if (--num_starting_ == 0) has_started_.notify_all();
        const auto has_job = [&] { return num_jobs_ > 0; };
        while (has_job_.wait_for(lock, kPatience, has_job)) {
            Job& job = *jobs_.front();
            if (--job.num_wanted == 0) jobs_.pop_front();
            num_jobs_ = jobs_.size();
            --num_idle_;
            ++job.num_running;
            lock.unlock();
            (*job.loop)();
            lock.lock();
            ++num_idle_;
            if (--job.num_running == 0) is_done_.notify_all();
            wait_a_moment(lock, has_job);
        }
        --num_idle_;
    }

    const size_t process_ = process_id();
    std::mutex mutex_;
    std::condition_variable has_started_, has_job_, is_done_;
    std::deque<Job*> jobs_;            // jobs that want more threads
    std::atomic<size_t> num_jobs_{0};  // size of `jobs_`
    size_t num_idle_ = 0;              // threads that wait for a job, or are about to
    size_t num_starting_ = 0;          // idle threads that have not begun to wait
};

// The thread pool of this process; a forked process gets a new one.
inline Workers& workers() {
    static std::atomic<Workers*> current{nullptr};
    Workers* found = current.load();
    if (found != nullptr && found->process() == process_id()) return *found;
    auto* made = new Workers;  // never destroyed: its threads may still wait when the process ends
    if (current.compare_exchange_strong(found, made)) return *made;
    delete made;
    return *found;
}

}  // namespace boxscore
