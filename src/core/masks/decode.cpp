// Compressed counts to counts: the hot loop of everything that reads masks.
#include <cstdint>
#include <cstring>

#include "masks/runs.h"
#include "platform/processor.h"

namespace boxscore {
namespace {

// A cursor on the text, and one on the differences that were read.
struct Decoding {
    const char* next;
    const char* const end;
    uint32_t* const differences;
    size_t num = 0;
    bool is_valid = true;

    // Reads one count: any number of characters. The sign is taken without a branch: it is as good as random.
    void read_one() {
        int c = *next++ - CountCode::kFirst, shift = CountCode::kBits;
        uint64_t value = c & 31u;
        for (; (c & CountCode::kMore) != 0 && next < end; shift += CountCode::kBits) {
            c = *next++ - CountCode::kFirst;
            if (shift < 60) value |= uint64_t{c & 31u} << shift;
        }
        is_valid &= shift <= 30 && (c & CountCode::kMore) == 0;
        const uint64_t half = uint64_t{1} << (shift < 60 ? shift - 1 : 59);
        differences[num++] = static_cast<uint32_t>((value ^ half) - half);
    }
};

#if defined(BOXSCORE_HAS_NEWER_X86)

// Which of eight characters make up which count, by those that say that another one follows: the counts of one or two characters
// before the first that is longer, or that ends beyond the eighth. A count is 16 bits wide: its first character, then its second
// or nothing.
struct Patterns {
    alignas(16) uint8_t shuffle[256][16];
    uint8_t num_counts[256], num_characters[256];

    Patterns() {
        std::memset(shuffle, 0x80, sizeof shuffle);
        for (unsigned more = 0; more < 256; ++more) {
            unsigned num = 0, i = 0;
            while (i < 8) {
                const unsigned last = (more >> i & 1) != 0 ? i + 1 : i;
                if (last == 8 || (more >> last & 1) != 0) break;
                shuffle[more][2 * num] = static_cast<uint8_t>(i);
                if (last > i) shuffle[more][2 * num + 1] = static_cast<uint8_t>(last);
                ++num;
                i = last + 1;
            }
            num_counts[more] = static_cast<uint8_t>(num);
            num_characters[more] = static_cast<uint8_t>(i);
        }
    }
};

// Which of 16 characters say that another one follows, a bit for each.
inline uint64_t more_of(__m128i text) {
    const __m128i codes = _mm_sub_epi8(text, _mm_set1_epi8(CountCode::kFirst));
    return static_cast<uint64_t>(_mm_movemask_epi8(_mm_slli_epi16(codes, 2)));  // the sixth bit of each
}

inline __m128i load_characters(const char* text) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text)); }

// Reads the counts that these eight characters have in full, and whose characters at `more` are followed by another one.
BOXSCORE_SSE41 BOXSCORE_INLINE inline void read_eight(Decoding& decoding, const Patterns& patterns, unsigned more) {
    const __m128i first = _mm_set1_epi8(CountCode::kFirst), bits = _mm_set1_epi8(31), low = _mm_set1_epi16(0x00ff);
    const __m128i factors = _mm_set1_epi16(32 << 8 | 1);
    const __m128i half_of_one = _mm_set1_epi16(16), half_of_two = _mm_set1_epi16(512);
    if (patterns.num_counts[more] == 0) return decoding.read_one();
    const __m128i text = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(decoding.next));
    const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(patterns.shuffle[more]));
    const __m128i pairs = _mm_shuffle_epi8(text, shuffle);
    const __m128i has_two = _mm_cmpgt_epi16(_mm_srli_epi16(pairs, 8), _mm_setzero_si128());  // no character is 0
    __m128i values = _mm_and_si128(_mm_sub_epi8(pairs, first), bits);
    values = _mm_maddubs_epi16(_mm_and_si128(values, _mm_or_si128(has_two, low)), factors);
    const __m128i half = _mm_blendv_epi8(half_of_one, half_of_two, has_two);
    values = _mm_sub_epi16(_mm_xor_si128(values, half), half);
    auto* const out = reinterpret_cast<__m128i*>(decoding.differences + decoding.num);
    _mm_storeu_si128(out, _mm_cvtepi16_epi32(values));
    _mm_storeu_si128(out + 1, _mm_cvtepi16_epi32(_mm_srli_si128(values, 8)));
    decoding.num += patterns.num_counts[more];
    decoding.next += patterns.num_characters[more];
}

// Reads eight characters at a time. It is a fast path: reading masks takes half the time of one count after the other. Where the
// next eight begin depends on what these are, so what decides that is looked up for 64 characters at once.
BOXSCORE_SSE41 void read_by_eight(Decoding& decoding) {
    constexpr ptrdiff_t kBlock = 64;
    static const Patterns patterns;
    while (decoding.end - decoding.next >= kBlock) {
        const char* const begin = decoding.next;
        uint64_t more = 0;
        for (int i = 0; i < 4; ++i) more |= more_of(load_characters(begin + 16 * i)) << 16 * i;
        while (decoding.next - begin <= kBlock - 8) {
            read_eight(decoding, patterns, more >> (decoding.next - begin) & 255u);
        }
    }
    while (decoding.end - decoding.next >= 8) {
        const __m128i text = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(decoding.next));
        read_eight(decoding, patterns, more_of(text) & 255u);
    }
}

#endif

}  // namespace

DecodedRuns decode_runs(const char* text, size_t num, Runs& runs) {
    runs.resize(num);  // a count has a character at least
    Decoding decoding{text, text + num, runs.data()};
#if defined(BOXSCORE_HAS_NEWER_X86)
    if (processor().has_sse41) read_by_eight(decoding);
#endif
    while (decoding.next < decoding.end) decoding.read_one();
    runs.resize(decoding.num);
    DecodedRuns decoded{decoding.is_valid};
    if (runs.empty()) return decoded;
    // From the fourth on, each is a difference to the one two before.
    decoded.num_off = runs[0];
    uint32_t on = 0;
    size_t i = 1;
#if defined(BOXSCORE_HAS_NEWER_X86)
    __m128i last = _mm_setzero_si128(), sum = _mm_setzero_si128();  // on and off: two counts of 32 bits, two sums of 64
    for (; i + 1 < runs.size(); i += 2) {
        auto* const pair = reinterpret_cast<__m128i*>(runs.data() + i);
        last = _mm_add_epi32(last, _mm_loadl_epi64(pair));
        _mm_storel_epi64(pair, last);
        sum = _mm_add_epi64(sum, _mm_unpacklo_epi32(last, _mm_setzero_si128()));
    }
    on = static_cast<uint32_t>(_mm_cvtsi128_si32(last));
    decoded.num_on += static_cast<uint64_t>(_mm_cvtsi128_si64(sum));
    decoded.num_off += static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)));
#else
    uint32_t off = 0;
    for (; i + 1 < runs.size(); i += 2) {
        decoded.num_on += runs[i] = on += runs[i];
        decoded.num_off += runs[i + 1] = off += runs[i + 1];
    }
#endif
    if (i < runs.size()) decoded.num_on += runs[i] += on;
    return decoded;
}

}  // namespace boxscore
