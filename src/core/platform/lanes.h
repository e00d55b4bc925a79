// A few numbers in one vector, for SIMD instructions where the processor has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "platform/compiler.h"

namespace boxscore {

// Storage of a group of numbers: a vector type of the compiler, or a single number if it has none.
template <class Number, size_t kNumBytes, bool kIsVector = BOXSCORE_HAS_VECTORS>
struct VectorOf {
    using Type = Number;
};

#if BOXSCORE_HAS_VECTORS
template <class Number, size_t kNumBytes>
struct VectorOf<Number, kNumBytes, true> {
    typedef Number Type BOXSCORE_VECTOR(kNumBytes);
};
#endif

// kSize numbers. All functions are inlined, so that they use the instruction set of their caller; see platform/processor.h.
//
// Vectors are faster if the processor has registers of their size: 16 bytes on all, 32 with AVX2. Otherwise the compiler may vectorize
// the loops over single numbers.
template <class Number, size_t kSize, bool kIsVector = BOXSCORE_HAS_VECTORS && kSize * sizeof(Number) == 16>
class Lanes {
public:
    static constexpr size_t kWidth = kSize;

    Lanes() = default;  // `Lanes{}` is 0, `Lanes lanes;` is uninitialized

    // Load numbers, and convert them if they are of another type.
    template <class From>
    BOXSCORE_INLINE explicit Lanes(const From* from) {
        for (Part& part : parts_) {
            Number numbers[kPerPart];
            for (Number& number : numbers) number = static_cast<Number>(*from++);
            std::memcpy(&part, numbers, sizeof part);
        }
    }

    BOXSCORE_INLINE void store(Number* to) const {
        for (size_t i = 0; i < kNumParts; ++i) std::memcpy(to + i * kPerPart, &parts_[i], sizeof parts_[i]);
    }

    BOXSCORE_INLINE Number operator[](size_t lane) const {
        if constexpr (kIsVector) {
            return parts_[lane / kPerPart][lane % kPerPart];
        } else {
            return parts_[lane];
        }
    }

    BOXSCORE_INLINE Lanes& operator+=(const Lanes& other) {
        for (size_t i = 0; i < kNumParts; ++i) parts_[i] += other.parts_[i];
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator+=(Number number) {
        for (Part& part : parts_) part += number;
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(const Lanes& other) {
        for (size_t i = 0; i < kNumParts; ++i) parts_[i] /= other.parts_[i];
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(Number number) {
        for (Part& part : parts_) part /= number;
        return *this;
    }

    // Elementwise maximum.
    BOXSCORE_INLINE void raise_to(const Lanes& other) {
        for (size_t i = 0; i < kNumParts; ++i) parts_[i] = parts_[i] < other.parts_[i] ? other.parts_[i] : parts_[i];
    }

private:
    using Part = typename VectorOf<Number, std::min<size_t>(32, kSize * sizeof(Number)), kIsVector>::Type;
    static constexpr size_t kPerPart = sizeof(Part) / sizeof(Number), kNumParts = kSize / kPerPart;

    Part parts_[kNumParts];
};

template <class Number, size_t kSize, bool kIsVector, class Other>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator+(const Lanes<Number, kSize, kIsVector>& lanes, const Other& other) {
    return Lanes<Number, kSize, kIsVector>(lanes) += other;
}

template <class Number, size_t kSize, bool kIsVector, class Other>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator/(const Lanes<Number, kSize, kIsVector>& lanes, const Other& other) {
    return Lanes<Number, kSize, kIsVector>(lanes) /= other;
}

}  // namespace boxscore
