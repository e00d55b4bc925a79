// Differences between compilers and processors, in one place: the rest of the engine is standard C++17.
#pragma once

#include <cstdint>
#include <initializer_list>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

// Vectors of 16 bytes, which every x86-64 processor has.
#if defined(__SSE2__) || defined(_M_X64)
#define BOXSCORE_HAS_SSE2
#include <emmintrin.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define BOXSCORE_INLINE __attribute__((always_inline))  // also behind the parameters of a lambda
#define BOXSCORE_NOINLINE __attribute__((noinline))
#define BOXSCORE_HAS_VECTORS 1  // types of several numbers, of which the compiler makes the widest instructions that there are
#define BOXSCORE_VECTOR(num_bytes) __attribute__((vector_size(num_bytes)))
#else
#define BOXSCORE_INLINE
#define BOXSCORE_NOINLINE
#define BOXSCORE_HAS_VECTORS 0
#endif

namespace boxscore {

#if defined(_MSC_VER) && !defined(__clang__)

// The index of the lowest bit that is set; not for 0.
inline unsigned count_trailing_zeros(uint64_t bits) {
    unsigned long index;
    _BitScanForward64(&index, bits);
    return index;
}

// The number of bits above the highest that is set; not for 0.
inline unsigned count_leading_zeros(uint64_t bits) {
    unsigned long index;
    _BitScanReverse64(&index, bits);
    return 63 - index;
}

// The number of bits that are set.
inline uint64_t count_bits(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return ((word + (word >> 4) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56;
}

// A hint that memory will be read soon.
inline void prefetch(const void*) {}

// The first byte of a word in memory is its lowest.
inline uint64_t little_endian(uint64_t word) { return word; }

// A hint that this thread waits busily.
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

// Divides the 128-bit number high * 2^64 + low by `divisor`, whose highest bit is set and which is larger than `high`. Compilers call a function
// of their runtime library for this, which not every build has.
inline uint64_t divide(uint64_t high, uint64_t low, uint64_t divisor, uint64_t& remainder) {
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    uint64_t quotient;
    __asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(low), "d"(high), "r"(divisor) : "cc");
    return quotient;
#else
    // By hand, with digits of 32 bits: a digit that is estimated from the first half of the divisor is at most 2 too large.
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
        remainder = remainder * kDigit + next - digit * divisor;  // modulo 2^64, which the result is below
        quotient = quotient * kDigit + digit;
    }
    return quotient;
#endif
}

}  // namespace boxscore
