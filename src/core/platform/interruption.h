// Whether a long computation should stop.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace boxscore {

// Thrown out of a long computation when the user has interrupted it.
struct Interrupted : std::exception {};

// Shared by the threads of a computation. The one that makes it asks now and then whether to stop; all of them look at the answer.
class Interruption {
public:
    static constexpr auto kInterval = std::chrono::milliseconds(50);

    // Without `ask` it is wanted only once it is requested.
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
