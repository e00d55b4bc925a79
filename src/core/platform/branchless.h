// Branch-free comparisons for unpredictable conditions: one mispredicted branch costs more than any of these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/compiler.h"

namespace boxscore {

// A length, or 0 if it is negative; NaN stays NaN. An intrinsic, since compilers would emit an unpredictable branch.
inline double not_negative(double length) {
#if defined(BOXSCORE_HAS_SSE2)
    return _mm_cvtsd_f64(_mm_max_sd(_mm_setzero_pd(), _mm_set_sd(length)));  // max of 0 and NaN is NaN in this order of operands
#else
    return length < 0 ? 0 : length;
#endif
}

// Number of cutoffs that a value reaches. `num` must be even.
inline uint32_t num_reached(const double* cutoffs, size_t num, double value, bool is_strict) {
#if defined(BOXSCORE_HAS_SSE2)
    const __m128d both = _mm_set1_pd(value);
    __m128i sum = _mm_setzero_si128();
    for (size_t i = 0; i < num; i += 2) {
        const __m128d two = _mm_loadu_pd(cutoffs + i);
        sum = _mm_sub_epi64(sum, _mm_castpd_si128(is_strict ? _mm_cmpgt_pd(both, two) : _mm_cmpge_pd(both, two)));
    }
    return static_cast<uint32_t>(_mm_cvtsi128_si32(sum) + _mm_cvtsi128_si32(_mm_unpackhi_epi64(sum, sum)));
#else
    uint32_t sum = 0;
    for (size_t i = 0; i < num; ++i) sum += is_strict ? value > cutoffs[i] : value >= cutoffs[i];
    return sum;
#endif
}

// Bit set of the four ranges that contain a value.
inline unsigned in_ranges(const double* low, const double* high, double value) {
#if defined(BOXSCORE_HAS_SSE2)
    const __m128d both = _mm_set1_pd(value);
    const auto in_two = [&](size_t i) {
        const __m128d is_inside = _mm_and_pd(_mm_cmple_pd(_mm_loadu_pd(low + i), both), _mm_cmple_pd(both, _mm_loadu_pd(high + i)));
        return static_cast<unsigned>(_mm_movemask_pd(is_inside));
    };
    return in_two(0) | in_two(2) << 2;
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; ++i) bits |= static_cast<unsigned>((low[i] <= value) & (value <= high[i])) << i;
    return bits;
#endif
}

}  // namespace boxscore
