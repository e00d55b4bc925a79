// Run-time choice of code for newer x86-64 processors. Independent of the loader and of the compiler's runtime library, so it works
// with every C library.
#pragma once

#include <cstddef>
#include <type_traits>

#include "platform/compiler.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define BOXSCORE_HAS_NEWER_X86
#define BOXSCORE_SSE41 __attribute__((target("sse4.1")))
#define BOXSCORE_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace boxscore {

#if defined(BOXSCORE_HAS_NEWER_X86)

struct Processor {
    bool has_sse41 = false, has_avx2 = false;  // `has_avx2` includes BMI, BMI2, LZCNT and POPCNT

    Processor() {
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (__get_cpuid(1, &a, &b, &c, &d) == 0) return;
        constexpr unsigned kOsSaves = 1u << 27;
        has_sse41 = (c & bit_SSE4_1) != 0;
        if ((c & kOsSaves) == 0 || (c & bit_AVX) == 0 || (c & bit_POPCNT) == 0) return;
        unsigned low = 0, high = 0;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        constexpr unsigned kWideRegisters = 6;  // the system saves them at a context switch
        if ((low & kWideRegisters) != kWideRegisters) return;
        if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return;
        constexpr unsigned kNeeded = bit_AVX2 | bit_BMI | bit_BMI2;
        const bool has_integers = (b & kNeeded) == kNeeded;
        constexpr unsigned kLzcnt = 1u << 5;
        has_avx2 = has_integers && __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (c & kLzcnt) != 0;
    }
};

inline const Processor& processor() {
    static const Processor found;
    return found;
}

template <class Work>
BOXSCORE_AVX2 auto with_avx2(const Work& work) {
    return work();
}

// Call `work`, compiled once per instruction set: a lambda marked BOXSCORE_INLINE that only calls functions with this mark.
template <class Work>
auto per_processor(const Work& work) {
    return processor().has_avx2 ? with_avx2(work) : work();
}

#else

template <class Work>
auto per_processor(const Work& work) {
    return work();
}

#endif

// Call `work`, a lambda as above, with the number of bytes per vector as a compile-time constant.
template <class Work>
void with_vectors(const Work& work) {
#if defined(BOXSCORE_HAS_NEWER_X86)
    if (processor().has_avx2) {
        with_avx2([&]() BOXSCORE_INLINE { work(std::integral_constant<size_t, 32>{}); });
        return;
    }
#endif
    work(std::integral_constant<size_t, 16>{});
}

}  // namespace boxscore
