// What compilers and processors do differently, in one place: the rest of the engine is plain C++17.
#pragma once

#include <cstdint>

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
#else
#define BOXSCORE_INLINE
#endif

#if defined(__SIZEOF_INT128__)
#define BOXSCORE_HAS_INT128
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

#endif

}  // namespace boxscore
