// A few numbers side by side, on which one instruction works where the processor has it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "platform/compiler.h"

namespace boxscore {

#if BOXSCORE_HAS_VECTORS
// The compiler's own type of a vector, for what is not worth a function of Lanes.
template <class Number, size_t kNumBytes>
struct VectorOf {
    typedef Number Type BOXSCORE_VECTOR(kNumBytes);
};
#endif

// Functions are inlined, so that they use the instructions of the function that calls them: see platform/processor.h.
//
// As a vector they are of the compiler's types for vectors, which is faster where the processor has registers of that size: of 16 bytes
// everywhere, of 32 with AVX2. As an array they are left to the compiler.
template <class Number, size_t kSize, bool kIsVector = BOXSCORE_HAS_VECTORS && kSize * sizeof(Number) == 16>
class Lanes {
public:
    static constexpr size_t kWidth = kSize;

    Lanes() = default;  // as with a number, `Lanes{}` is 0

    // Of numbers in memory, of this type or one that it can hold.
    template <class From>
    BOXSCORE_INLINE explicit Lanes(const From* from) {
        for (size_t i = 0; i < kSize; ++i) number_[i] = static_cast<Number>(from[i]);
    }

    BOXSCORE_INLINE void store(Number* to) const {
        for (size_t i = 0; i < kSize; ++i) to[i] = number_[i];
    }

    BOXSCORE_INLINE Number operator[](size_t lane) const { return number_[lane]; }

    BOXSCORE_INLINE Lanes& operator+=(const Lanes& other) {
        for (size_t i = 0; i < kSize; ++i) number_[i] += other.number_[i];
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator+=(Number number) {
        for (size_t i = 0; i < kSize; ++i) number_[i] += number;
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(Number number) {
        for (size_t i = 0; i < kSize; ++i) number_[i] /= number;
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(const Lanes& other) {
        for (size_t i = 0; i < kSize; ++i) number_[i] /= other.number_[i];
        return *this;
    }

    // Where `other` is larger, it is taken.
    BOXSCORE_INLINE void raise_to(const Lanes& other) {
        for (size_t i = 0; i < kSize; ++i) number_[i] = number_[i] < other.number_[i] ? other.number_[i] : number_[i];
    }

private:
    std::array<Number, kSize> number_;
};

#if BOXSCORE_HAS_VECTORS
template <class Number, size_t kSize>
class Lanes<Number, kSize, true> {
public:
    static constexpr size_t kWidth = kSize;

    Lanes() = default;

    template <class From>
    BOXSCORE_INLINE explicit Lanes(const From* from) {
        for (size_t i = 0; i < kNumVectors; ++i, from += kPerVector) {
            if constexpr (std::is_same_v<From, Number>) {
                std::memcpy(&vector_[i], from, sizeof(Vector));
            } else {
                Number number[kPerVector];
                for (size_t j = 0; j < kPerVector; ++j) number[j] = static_cast<Number>(from[j]);
                std::memcpy(&vector_[i], number, sizeof(Vector));
            }
        }
    }

    BOXSCORE_INLINE void store(Number* to) const {
        for (size_t i = 0; i < kNumVectors; ++i) std::memcpy(to + i * kPerVector, &vector_[i], sizeof(Vector));
    }

    BOXSCORE_INLINE Number operator[](size_t lane) const { return vector_[lane / kPerVector][lane % kPerVector]; }

    BOXSCORE_INLINE Lanes& operator+=(const Lanes& other) {
        for (size_t i = 0; i < kNumVectors; ++i) vector_[i] += other.vector_[i];
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator+=(Number number) {
        for (size_t i = 0; i < kNumVectors; ++i) vector_[i] += number;
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(Number number) {
        for (size_t i = 0; i < kNumVectors; ++i) vector_[i] /= number;
        return *this;
    }

    BOXSCORE_INLINE Lanes& operator/=(const Lanes& other) {
        for (size_t i = 0; i < kNumVectors; ++i) vector_[i] /= other.vector_[i];
        return *this;
    }

    BOXSCORE_INLINE void raise_to(const Lanes& other) {
        for (size_t i = 0; i < kNumVectors; ++i) {
            vector_[i] = vector_[i] < other.vector_[i] ? other.vector_[i] : vector_[i];
        }
    }

private:
    static constexpr size_t kVectorSize = std::min<size_t>(32, kSize * sizeof(Number));
    static constexpr size_t kPerVector = kVectorSize / sizeof(Number), kNumVectors = kSize / kPerVector;
    typedef Number Vector BOXSCORE_VECTOR(kVectorSize);

    Vector vector_[kNumVectors];
};
#endif

template <class Number, size_t kSize, bool kIsVector>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator+(const Lanes<Number, kSize, kIsVector>& lanes, Number number) {
    return Lanes<Number, kSize, kIsVector>(lanes) += number;
}

template <class Number, size_t kSize, bool kIsVector>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator+(const Lanes<Number, kSize, kIsVector>& lanes, const Lanes<Number, kSize, kIsVector>& other) {
    return Lanes<Number, kSize, kIsVector>(lanes) += other;
}

template <class Number, size_t kSize, bool kIsVector>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator/(const Lanes<Number, kSize, kIsVector>& lanes, Number number) {
    return Lanes<Number, kSize, kIsVector>(lanes) /= number;
}

template <class Number, size_t kSize, bool kIsVector>
BOXSCORE_INLINE inline Lanes<Number, kSize, kIsVector> operator/(const Lanes<Number, kSize, kIsVector>& lanes, const Lanes<Number, kSize, kIsVector>& other) {
    return Lanes<Number, kSize, kIsVector>(lanes) /= other;
}

}  // namespace boxscore
