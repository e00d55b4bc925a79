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
    while (is_space(*p)) ++p;
    return p;
}

// The number of digits at the start of the next 8 bytes. `word` is the text xor every_byte('0').
inline unsigned count_digits(uint64_t word) {
    const uint64_t is_other = (((word & every_byte(0x7f)) + every_byte(0x76)) | word) & every_byte(0x80);
    return is_other == 0 ? 8 : count_trailing_zeros(is_other) / 8;
}

// The value of the first `count` digits, 1 to 8 of them.
inline uint64_t join_digits(uint64_t word, unsigned count) {
    word <<= 8 * (8 - count);  // leading zeros
    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffu;
    return (word * 10000 + (word >> 32)) & 0xffffffffu;
}

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

// Reads the number at `p` as the nearest double and returns its end; nullptr if no number begins here.
inline const char* read_double(const char* p, double& value) {
    constexpr unsigned kMostDigits = 19;  // any number of so many digits fits in 64 bits
    constexpr uint64_t kExact = uint64_t{1} << 53;
    const char* const begin = p;
    const bool is_negative = *p == '-';
    p += is_negative;
    uint64_t word = load_word(p) ^ every_byte('0');
    unsigned count = count_digits(word), num_digits = count, num_decimals = 0;
    if (count == 0) return nullptr;
    if ((word & 0xff) == 0) count = num_digits = 1;  // nothing may follow a leading 0
    uint64_t m = join_digits(word, count);
    p += count;
    if (count == 8) {
        for (; is_digit(*p); ++p, ++num_digits) m = m * 10 + static_cast<uint64_t>(*p - '0');
    }
    if (*p == '.') {
        const char* const point = ++p;
        do {
            word = load_word(p) ^ every_byte('0');
            count = count_digits(word);
            if (count == 0) break;
            m = m * kWholePowers[count] + join_digits(word, count);
            p += count;
        } while (count == 8);
        if (p == point) throw Malformed{p, "a digit"};
        num_decimals = static_cast<unsigned>(p - point);
        num_digits += num_decimals;
    }
    int64_t power = -static_cast<int64_t>(num_decimals);
    if (*p == 'e' || *p == 'E') {
        ++p;
        const bool is_minus = *p == '-';
        p += is_minus || *p == '+';
        if (!is_digit(*p)) throw Malformed{p, "a digit"};
        int64_t exponent = 0;
        for (; is_digit(*p); ++p) exponent = exponent < 100000 ? exponent * 10 + (*p - '0') : exponent;
        power += is_minus ? -exponent : exponent;
    }
    if (num_digits <= kMostDigits && power <= 22 && power >= -22 && m <= kExact) {
        // Both are exact, so one operation rounds once.
        value = power < 0 ? static_cast<double>(m) / kPowers[-power] : static_cast<double>(m) * kPowers[power];
    } else if (num_digits <= kMostDigits && power <= 0 && power >= -19) {
        value = divide_by_power(m, static_cast<unsigned>(-power));
    } else {
        value = read_double_general(is_negative ? begin + 1 : begin, p);
    }
    if (is_negative) value = -value;
    return p;
}

enum class Integer : uint8_t { fine, other, too_large };

// Reads the integer at `p` and returns its end. Numbers with a point or an exponent are not integers.
inline const char* read_integer(const char* p, int64_t& value, Integer& kind) {
    const bool is_negative = *p == '-';
    p += is_negative;
    const uint64_t word = load_word(p) ^ every_byte('0');
    unsigned count = count_digits(word);
    kind = Integer::other;
    if (count == 0) return p;
    if ((word & 0xff) == 0) count = 1;
    uint64_t m = join_digits(word, count);
    p += count;
    bool is_too_large = false;
    if (count == 8) {
        for (; is_digit(*p); ++p) {
            const uint64_t digit = static_cast<uint64_t>(*p - '0');
            is_too_large |= m > (UINT64_MAX - digit) / 10;
            m = m * 10 + digit;
        }
        is_too_large |= m > static_cast<uint64_t>(INT64_MAX) + is_negative;
    }
    if (*p == '.' || *p == 'e' || *p == 'E') return p;
    kind = is_too_large ? Integer::too_large : Integer::fine;
    value = static_cast<int64_t>(is_negative ? 0 - m : m);
    return p;
}

// A part of the text as one readable line, cut where it gets long.
std::string excerpt(const char* begin, const char* end);

// A byte as error texts name it.
std::string name_of_byte(char c);

}  // namespace boxscore::json
