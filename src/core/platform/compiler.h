// Differences between compilers and processors, in one place: the rest of the engine is standard C++17.
#pragma once

#include <cstdint>
#include <initializer_list>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

// 16-byte vectors: every x86-64 processor has them.
#if defined(__SSE2__) || defined(_M_X64)
#define BOXSCORE_HAS_SSE2
#include <emmintrin.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define BOXSCORE_INLINE __attribute__((always_inline))  // also behind the parameters of a lambda
#define BOXSCORE_NOINLINE __attribute__((noinline))
#define BOXSCORE_HAS_VECTORS 1  // vector types, compiled to the widest available instructions
#define BOXSCORE_VECTOR(num_bytes) __attribute__((vector_size(num_bytes)))
#else
#define BOXSCORE_INLINE
#define BOXSCORE_NOINLINE
#define BOXSCORE_HAS_VECTORS 0
#endif

namespace boxscore {

#if defined(_MSC_VER) && !defined(__clang__)

// Index of the lowest set bit; undefined for 0.
inline unsigned count_trailing_zeros(uint64_t bits) {
    unsigned long index;
    _BitScanForward64(&index, bits);
    return index;
}

// Number of zero bits above the highest set bit; undefined for 0.
inline unsigned count_leading_zeros(uint64_t bits) {
    unsigned long index;
    _BitScanReverse64(&index, bits);
    return 63 - index;
}

// Number of set bits.
inline uint64_t count_bits(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return ((word + (word >> 4) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56;
}

// Hint that memory will be read soon.
inline void prefetch(const void*) {}

// Reorder the bytes of a loaded word so that its first byte in memory is the lowest.
inline uint64_t little_endian(uint64_t word) { return word; }

// Hint that this thread waits in a loop.
inline void relax() {
#if defined(_M_X64)
    _mm_pause();
#else
    __yield();
#endif
}

#else

inline unsigned count_trailing_zeros(uint64_t bits) { return static_cast<unsigned>(__builtin_ctzll(bits)); }
inline unsigned count_leading_zeros(uint64_t bits) { return static_cast<unsigned>(__builtin_clzll(bits)); }
inline uint64_t count_bits(uint64_t word) { return static_cast<uint64_t>(__builtin_popcountll(word)); }
inline void prefetch(const void* address) { __builtin_prefetch(address); }
inline uint64_t little_endian(uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

// Divide the 128-bit number high * 2^64 + low by `divisor`, which must be larger than `high` and have its highest bit set. By hand,
// since compilers call a function of their runtime library for this, which some builds lack.
inline uint64_t divide(uint64_t high, uint64_t low, uint64_t divisor, uint64_t& remainder) {
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    uint64_t quotient;
    __asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(low), "d"(high), "r"(divisor) : "cc");
    return quotient;
#else
    // Long division with 32-bit digits: a digit estimated from the upper half of the divisor is at most 2 too large.
    constexpr uint64_t kDigit = uint64_t{1} << 32;
    const uint64_t first = divisor >> 32, second = divisor & (kDigit - 1);
    uint64_t quotient = 0;
    remainder = high;
    for (const uint64_t next : {low >> 32, low & (kDigit - 1)}) {
        uint64_t digit = remainder / first, rest = remainder % first;
        while (digit >= kDigit || digit * second > rest * kDigit + next) {
            --digit;
            rest += first;
            if (rest >= kDigit) break;
        }
        remainder = remainder * kDigit + next - digit * divisor;  // modulo 2^64; the result is smaller
        quotient = quotient * kDigit + digit;
    }
    return quotient;
#endif
}

}  // namespace boxscore
