// Strict JSON in text that is followed by zero bytes: every scan stops there by itself, so none checks how much is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "platform/compiler.h"

namespace boxscore::json {

// The number of zero bytes that must follow the text, which is read in words.
inline constexpr size_t kPadding = 64;
inline constexpr size_t kDeepest = 512;

// Thrown where the text is not JSON. At the zero bytes after a part of a text it only means that the part is too short.
struct Malformed {
    const char* at;
    const char* expected;
};

inline uint64_t load_word(const char* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return little_endian(word);
}

inline constexpr uint64_t every_byte(uint8_t byte) { return 0x0101010101010101u * byte; }

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline const char* skip_space(const char* p) {
    while (static_cast<uint8_t>(*p) <= ' ' && is_space(*p)) ++p;  // one comparison where there is none
    return p;
}

// The highest bit of each of 8 bytes that is not a digit. `word` is the text xor every_byte('0').
inline uint64_t mark_non_digits(uint64_t word) {
    return (((word & every_byte(0x7f)) + every_byte(0x76)) | word) & every_byte(0x80);
}

// The number of digits at the start of the next 8 bytes.
inline unsigned count_digits(uint64_t word) {
    const uint64_t is_other = mark_non_digits(word);
    return is_other == 0 ? 8 : count_trailing_zeros(is_other) / 8;
}

// Bit i tells whether byte i of the next 16 is not a digit.
inline uint64_t find_non_digits(const char* p) {
#if defined(BOXSCORE_HAS_SSE2)
    const __m128i digit = _mm_sub_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8('0'));
    const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
    return static_cast<uint64_t>(_mm_movemask_epi8(is_digit)) ^ 0xffff;
#else
    const auto gather = [](uint64_t word) {
        return ((mark_non_digits(word ^ every_byte('0')) >> 7) * 0x0102040810204080u) >> 56;
    };
    return gather(load_word(p)) | gather(load_word(p + 8)) << 8;
#endif
}

// The value of 8 digits; bytes of 0 before the first are leading zeros.
inline uint64_t join_digits(uint64_t word) {
    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffu;
    return (word * 10000 + (word >> 32)) & 0xffffffffu;
}

// The value of the first `count` digits, 1 to 8 of them.
inline uint64_t join_digits(uint64_t word, unsigned count) { return join_digits(word << 8 * (8 - count)); }

// The next character of a string that is a quote, a backslash, a control character or not ASCII. A fast path: long strings, such as
// masks, are skipped in half the time by 16 bytes at a time.
inline const char* find_special(const char* p) {
#if defined(BOXSCORE_HAS_SSE2)
    for (;; p += 16) {
        const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const __m128i is_quote = _mm_cmpeq_epi8(text, _mm_set1_epi8('"'));
        const __m128i is_escape = _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'));
        const __m128i is_other = _mm_cmplt_epi8(text, _mm_set1_epi8(0x20));  // signed, so what is not ASCII is negative
        const int is_special = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(is_quote, is_escape), is_other));
        if (is_special != 0) return p + count_trailing_zeros(static_cast<uint64_t>(is_special));
    }
#else
    for (;; p += 8) {
        const uint64_t word = load_word(p), quote = word ^ every_byte('"'), escape = word ^ every_byte('\\');
        const uint64_t is_special = (((quote - every_byte(1)) & ~quote) | ((escape - every_byte(1)) & ~escape) |
                                     ((word - every_byte(0x20)) & ~word) | word) & every_byte(0x80);
        if (is_special != 0) return p + count_trailing_zeros(is_special) / 8;
    }
#endif
}

// The end of what `find_special` found: an escape sequence, or characters that are not ASCII.
const char* skip_special(const char* p, bool& has_escape);

// The end of the string whose opening quote is before `p`.
inline const char* skip_string(const char* p, bool& has_escape) {
    for (;;) {
        p = find_special(p);
        if (*p == '"') return p + 1;
        p = skip_special(p, has_escape);
    }
}

// The text of a string: between its quotes, or in `buffer`, without its escapes, if it has any.
struct String {
    std::string_view text;
    const char* end;
};
String read_string(const char* p, std::string& buffer);

// Reads the key at `p`, and returns where its value begins. A key with half a surrogate pair gives an empty name.
const char* read_key(const char* p, std::string& name);

// The end of the digits at `p`, of which there must be at least one.
inline const char* skip_digits(const char* p) {
    unsigned count = count_digits(load_word(p) ^ every_byte('0'));
    if (count == 0) throw Malformed{p, "a digit"};
    for (p += count; count == 8; p += count) count = count_digits(load_word(p) ^ every_byte('0'));
    return p;
}

// The end of the number at `p`, which must begin with a digit or a minus sign.
inline const char* skip_number(const char* p) {
    p += *p == '-';
    p = *p == '0' ? p + 1 : skip_digits(p);
    if (*p == '.') p = skip_digits(p + 1);
    if (*p == 'e' || *p == 'E') {
        ++p;
        p = skip_digits(p + (*p == '+' || *p == '-'));
    }
    return p;
}

// The end of the value at `p`. NaN and Infinity are not JSON; `has_constants` accepts them, so that errors can quote the value.
const char* skip_value(const char* p, bool has_constants = false);

// The double nearest to the number in [begin, end), infinite if it is too large.
double read_double_general(const char* begin, const char* end);

// m / 10**k, rounded once: for any m, and k up to 19. A fast path for numbers of 16 to 19 digits, as floats from float32 have:
// reading results of such boxes takes 23 % fewer instructions than with std::from_chars.
double divide_by_power(uint64_t m, unsigned k);

inline constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr uint64_t kWholePowers[] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u, 100000000000u,
    1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u, 100000000000000000u,
    1000000000000000000u, 10000000000000000000u};

// Reads any number; see `read_double`.
const char* read_any_double(const char* p, double& value);

// Reads the number at `p` as the nearest double and returns its end; nullptr if no number begins here. The digits before and after
// a point are read as one number where there are at most 8, as nearly always in files of boxes. It is a fast path: reading the
// results of a detector takes 16 % fewer instructions.
inline const char* read_double(const char* p, double& value) {
    const uint64_t others = find_non_digits(p) | uint64_t{3} << 16;  // two of them at the least
    const unsigned num_whole = count_trailing_zeros(others), end = count_trailing_zeros(others & (others - 1));
    const unsigned num_decimals = end - num_whole - 1;
    // Nothing may follow a leading 0; a point comes before the digits '0' to '9'.
    const bool is_plain = p[num_whole] == '.' && (num_whole == 1 || *p > '0') && num_decimals > 0 && end <= 9 && (p[end] | 0x20) != 'e';
    if (!is_plain) return read_any_double(p, value);
    const uint64_t whole = (load_word(p) ^ every_byte('0')) << (64 - 8 * num_whole) >> 8 * num_decimals;
    const uint64_t decimals = (load_word(p + num_whole + 1) ^ every_byte('0')) << (64 - 8 * num_decimals);
    value = static_cast<double>(static_cast<int64_t>(join_digits(whole | decimals))) / kPowers[num_decimals];
    return p + end;
}
enum class Integer : uint8_t { fine, other, too_large };

// Reads any integer; see `read_integer`.
const char* read_any_integer(const char* p, int64_t& value, Integer& kind);

// Reads the integer at `p` and returns its end. Numbers with a point or an exponent are not integers. Up to 7 digits are read at
// once: a fast path, as above.
BOXSCORE_INLINE inline const char* read_integer(const char* p, int64_t& value, Integer& kind) {
    const uint64_t word = load_word(p) ^ every_byte('0'), others = mark_non_digits(word);
    const unsigned num_bits = others == 0 ? 0 : count_trailing_zeros(others) - 7;
    const bool is_plain = num_bits > 0 && ((word & 0xff) != 0 || num_bits == 8) && p[num_bits / 8] != '.' && (p[num_bits / 8] | 0x20) != 'e';
    if (!is_plain) return read_any_integer(p, value, kind);
    value = static_cast<int64_t>(join_digits(word << (64 - num_bits)));
    kind = Integer::fine;
    return p + num_bits / 8;
}

// A part of the text as one readable line, cut where it gets long.
std::string excerpt(const char* begin, const char* end);

// A byte as error texts name it.
std::string name_of_byte(char c);

}  // namespace boxscore::json
