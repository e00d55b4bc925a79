// Strict JSON in text that is followed by zero bytes. Every scan stops at a zero byte, so none checks the remaining length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "platform/compiler.h"

namespace boxscore::json {

// Number of zero bytes that must follow the text: scans read words beyond its end.
inline constexpr size_t kPadding = 64;
inline constexpr size_t kDeepest = 512;

// Thrown where the text is not JSON. At the zero bytes after a part of a file it only means that the part is too short.
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
    while (static_cast<uint8_t>(*p) <= ' ' && is_space(*p)) ++p;  // one comparison if `*p` is not a space
    return p;
}

// Mark each of 8 bytes that is not a digit by its highest bit. `word` is the text xor every_byte('0').
inline uint64_t mark_non_digits(uint64_t word) {
    return (((word & every_byte(0x7f)) + every_byte(0x76)) | word) & every_byte(0x80);
}

// Number of digits at the start of 8 bytes. `word` as above.
inline unsigned count_digits(uint64_t word) {
    const uint64_t is_other = mark_non_digits(word);
    return is_other == 0 ? 8 : count_trailing_zeros(is_other) / 8;
}

// Bit set of the next 16 bytes: bit i is set if byte i is not a digit.
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

// Value of 8 digits; zero bytes before the first digit are leading zeros.
inline uint64_t join_digits(uint64_t word) {
    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffu;
    return (word * 10000 + (word >> 32)) & 0xffffffffu;
}

// Value of the first `count` digits, 1 to 8.
inline uint64_t join_digits(uint64_t word, unsigned count) { return join_digits(word << 8 * (8 - count)); }

// Find the next character of a string that is a quote, a backslash, a control character or not ASCII. A fast path: 16 bytes at a
// time skip long strings, such as masks, in half the time.
inline const char* find_special(const char* p) {
#if defined(BOXSCORE_HAS_SSE2)
    for (;; p += 16) {
        const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const __m128i is_quote = _mm_cmpeq_epi8(text, _mm_set1_epi8('"'));
        const __m128i is_escape = _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'));
        const __m128i is_other = _mm_cmplt_epi8(text, _mm_set1_epi8(0x20));  // signed, so bytes beyond ASCII are negative
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

// Skip what `find_special` found: an escape sequence, or characters beyond ASCII. Throws Malformed for invalid ones.
const char* skip_special(const char* p, bool& has_escape);

// Skip the rest of the string whose opening quote is before `p`, and its closing quote.
inline const char* skip_string(const char* p, bool& has_escape) {
    for (;;) {
        p = find_special(p);
        if (*p == '"') return p + 1;
        p = skip_special(p, has_escape);
    }
}

// The unescaped text of a string: a view between its quotes, or of `buffer` if it has escapes.
struct String {
    std::string_view text;
    const char* end;
};
String read_string(const char* p, std::string& buffer);

// Read the key at `p` and return the start of its value. The name of a key with half a surrogate pair is empty.
const char* read_key(const char* p, std::string& name);

// Skip the digits at `p`, at least one.
inline const char* skip_digits(const char* p) {
    unsigned count = count_digits(load_word(p) ^ every_byte('0'));
    if (count == 0) throw Malformed{p, "a digit"};
    for (p += count; count == 8; p += count) count = count_digits(load_word(p) ^ every_byte('0'));
    return p;
}

// Skip the number at `p`, which must begin with a digit or a minus sign.
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

// Skip the value at `p`. NaN and Infinity are not JSON; `has_constants` accepts them, so that errors can quote the value.
const char* skip_value(const char* p, bool has_constants = false);

// The double nearest to the number in [begin, end); infinite if the number is too large.
double read_double_general(const char* begin, const char* end);

// m / 10**k, rounded once, for k up to 19. A fast path for numbers of 16 to 19 digits, such as float32 values printed as doubles:
// reading such boxes takes 23 % fewer instructions than with std::from_chars.
double divide_by_power(uint64_t m, unsigned k);

inline constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr uint64_t kWholePowers[] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u, 100000000000u,
    1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u, 100000000000000000u,
    1000000000000000000u, 10000000000000000000u};

// Read any number; see `read_double`.
const char* read_any_double(const char* p, double& value);

// Read the number at `p` as the nearest double and return its end; nullptr if no number begins here. A fast path reads up to 8 digits
// before and after a decimal point as one integer, which covers nearly all numbers in files of boxes: reading the results of a
// detector takes 16 % fewer instructions.
inline const char* read_double(const char* p, double& value) {
    const uint64_t others = find_non_digits(p) | uint64_t{3} << 16;  // so that at least two bits are set
    const unsigned num_whole = count_trailing_zeros(others), end = count_trailing_zeros(others & (others - 1));
    const unsigned num_decimals = end - num_whole - 1;
    // No digit may follow a leading 0. '.' is below '0', so `*p > '0'` also rejects a leading point.
    const bool is_short = p[num_whole] == '.' && (num_whole == 1 || *p > '0') && num_decimals > 0 && end <= 9 && (p[end] | 0x20) != 'e';
    if (!is_short) return read_any_double(p, value);
    const uint64_t whole = (load_word(p) ^ every_byte('0')) << (64 - 8 * num_whole) >> 8 * num_decimals;
    const uint64_t decimals = (load_word(p + num_whole + 1) ^ every_byte('0')) << (64 - 8 * num_decimals);
    value = static_cast<double>(static_cast<int64_t>(join_digits(whole | decimals))) / kPowers[num_decimals];
    return p + end;
}
enum class Integer : uint8_t { valid, other, too_large };

// Read any integer; see `read_integer`.
const char* read_any_integer(const char* p, int64_t& value, Integer& kind);

// Read the integer at `p` and return its end. Numbers with a point or an exponent are not integers. A fast path reads up to 7 digits
// at once.
BOXSCORE_INLINE inline const char* read_integer(const char* p, int64_t& value, Integer& kind) {
    const uint64_t word = load_word(p) ^ every_byte('0'), others = mark_non_digits(word);
    const unsigned num_bits = others == 0 ? 0 : count_trailing_zeros(others) - 7;
    const bool is_short = num_bits > 0 && ((word & 0xff) != 0 || num_bits == 8) && p[num_bits / 8] != '.' && (p[num_bits / 8] | 0x20) != 'e';
    if (!is_short) return read_any_integer(p, value, kind);
    value = static_cast<int64_t>(join_digits(word << (64 - num_bits)));
    kind = Integer::valid;
    return p + num_bits / 8;
}

// A part of the text on one line, cut after 60 bytes.
std::string excerpt(const char* begin, const char* end);

// Name of a byte for error texts: 'x', or its hexadecimal code.
std::string name_of_byte(char c);

}  // namespace boxscore::json
