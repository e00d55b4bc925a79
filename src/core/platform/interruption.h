// Interruption of long computations.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace boxscore {

// Thrown by a computation that the user has interrupted.
struct Interrupted : std::exception {};

// Stop flag that the threads of a computation share. The thread that made it calls `ask` every 50 ms; all threads check the answer.
class Interruption {
public:
    static constexpr auto kInterval = std::chrono::milliseconds(50);

    // `ask` returns whether to stop; without it only `request` stops the computation.
    explicit Interruption(std::function<bool()> ask = nullptr) : ask_(std::move(ask)) {}

    void request() { is_wanted_.store(true, std::memory_order_relaxed); }

    bool is_wanted() {
        if (!is_wanted_.load(std::memory_order_relaxed) && std::this_thread::get_id() == owner_ && ask_ != nullptr) ask_if_due();
        return is_wanted_.load(std::memory_order_relaxed);
    }

private:
    using Clock = std::chrono::steady_clock;

    void ask_if_due() {
        const Clock::time_point now = Clock::now();
        if (now - asked_ < kInterval) return;
        asked_ = now;
        if (ask_()) request();
    }

    const std::function<bool()> ask_;
    const std::thread::id owner_ = std::this_thread::get_id();
    Clock::time_point asked_ = Clock::now();
    std::atomic<bool> is_wanted_{false};
};

}  // namespace boxscore
