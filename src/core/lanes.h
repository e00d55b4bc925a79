// A few numbers side by side, on which one instruction works where the processor has it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "platform/compiler.h"

namespace boxscore {

template <size_t kSize>
class Lanes {
public:
    Lanes() = default;
    explicit Lanes(const int32_t* from) { std::copy_n(from, kSize, number_.begin()); }
    explicit Lanes(const uint16_t* from) { std::copy_n(from, kSize, number_.begin()); }

    void store(int32_t* to) const { std::copy_n(number_.begin(), kSize, to); }

    Lanes& operator+=(const Lanes& other) {
        for (size_t i = 0; i < kSize; ++i) number_[i] += other.number_[i];
        return *this;
    }

private:
    std::array<int32_t, kSize> number_{};
};

#if defined(BOXSCORE_HAS_SSE2)
template <>
class Lanes<4> {
public:
    Lanes() : number_(_mm_setzero_si128()) {}
    explicit Lanes(const int32_t* from) : number_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))) {}
    explicit Lanes(const uint16_t* from)
        : number_(_mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), _mm_setzero_si128())) {}

    void store(int32_t* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), number_); }

    Lanes& operator+=(const Lanes& other) {
        number_ = _mm_add_epi32(number_, other.number_);
        return *this;
    }

private:
    __m128i number_;
};

template <>
class Lanes<8> {
public:
    Lanes() = default;
    template <class T>
    explicit Lanes(const T* from) : low_(from), high_(from + 4) {}

    void store(int32_t* to) const { low_.store(to), high_.store(to + 4); }

    Lanes& operator+=(const Lanes& other) {
        low_ += other.low_;
        high_ += other.high_;
        return *this;
    }

private:
    Lanes<4> low_, high_;
};
#endif

}  // namespace boxscore
