#include "io/json.h"

#include <charconv>

#include "platform/system.h"

namespace boxscore::json {
namespace {

constexpr const char* kEscape = "an escape sequence";

// Skip a multibyte character of UTF-8. Overlong forms, surrogates and codes beyond U+10FFFF are malformed.
const char* skip_multibyte(const char* p) {
    auto byte = [&](int i) { return static_cast<uint8_t>(p[i]); };
    const uint8_t lead = byte(0);
    int num_more;
    uint8_t low = 0x80, high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        num_more = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        num_more = 2;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        num_more = 3;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    } else {
        throw Malformed{p, "UTF-8"};
    }
    for (int i = 1; i <= num_more; ++i, low = 0x80, high = 0xbf) {
        if (byte(i) < low || byte(i) > high) throw Malformed{p + i, "UTF-8"};
    }
    return p + num_more + 1;
}

unsigned read_hex(const char* p) {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i) {
        const char c = p[i];
        unsigned digit;
        if (is_digit(c)) {
            digit = static_cast<unsigned>(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = static_cast<unsigned>(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = static_cast<unsigned>(c - 'A') + 10;
        } else {
            throw Malformed{p + i, kEscape};
        }
        value = value * 16 + digit;
    }
    return value;
}

void append_utf8(std::string& text, unsigned code) {
    auto put = [&](unsigned byte) { text.push_back(static_cast<char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            put(0xe0 | code >> 12);
        } else {
            put(0xf0 | code >> 18);
            put(0x80 | (code >> 12 & 0x3f));
        }
        put(0x80 | (code >> 6 & 0x3f));
    }
    put(0x80 | (code & 0x3f));
}

// Append the character of the escape sequence at `p` to `text` and return the end of the sequence.
const char* read_escape(const char* p, std::string& text) {
    switch (p[1]) {
        case 'b': text.push_back('\b'); return p + 2;
        case 'f': text.push_back('\f'); return p + 2;
        case 'n': text.push_back('\n'); return p + 2;
        case 'r': text.push_back('\r'); return p + 2;
        case 't': text.push_back('\t'); return p + 2;
        case 'u': break;
        default: text.push_back(p[1]); return p + 2;
    }
    unsigned code = read_hex(p + 2);
    if (code >= 0xd800 && code < 0xe000) {
        const bool is_pair = code < 0xdc00 && p[6] == '\\' && p[7] == 'u';
        const unsigned other = is_pair ? read_hex(p + 8) : 0;
        if (other < 0xdc00 || other > 0xdfff) throw Malformed{p, "both halves of a surrogate pair"};
        code = 0x10000 + ((code - 0xd800) << 10) + (other - 0xdc00);
        p += 6;
    }
    append_utf8(text, code);
    return p + 6;
}

const char* skip_literal(const char* p, const char* literal) {
    for (; *literal != 0; ++p, ++literal) {
        if (*p != *literal) throw Malformed{p, "a value"};
    }
    return p;
}

}  // namespace

const char* skip_special(const char* p, bool& has_escape) {
    if (*p == '\\') {
        has_escape = true;
        if (p[1] == '\\') return p + 2;
        if (p[1] == 'u') {
            read_hex(p + 2);
            return p + 6;
        }
        if (p[1] == 0 || std::strchr("\"/bfnrt", p[1]) == nullptr) throw Malformed{p + 1, kEscape};
        return p + 2;
    }
    if (static_cast<uint8_t>(*p) < 0x20) throw Malformed{p, "no control character in a string"};
    while (static_cast<uint8_t>(*p) >= 0x80) p = skip_multibyte(p);
    return p;
}

String read_string(const char* p, std::string& buffer) {
    bool has_escape = false;
    const char* const end = skip_string(p, has_escape);
    const size_t size = static_cast<size_t>(end - 1 - p);
    if (!has_escape) return {{p, size}, end};
    buffer.clear();
    for (const char *from = p, *last = end - 1; from < last;) {
        if (*from == '\\') {
            from = read_escape(from, buffer);
        } else {
            buffer.push_back(*from++);
        }
    }
    return {buffer, end};
}

const char* read_key(const char* p, std::string& name) {
    bool has_escape = false;
    const char* const end = skip_string(p + 1, has_escape);
    if (has_escape) {
        try {
            std::string buffer;
            name = read_string(p + 1, buffer).text;
        } catch (const Malformed&) {
            name.clear();
        }
    } else {
        name.assign(p + 1, end - 1);
    }
    p = skip_space(end);
    if (*p != ':') throw Malformed{p, "':'"};
    return skip_space(p + 1);
}

const char* skip_value(const char* p, bool has_constants) {
    uint64_t is_object[kDeepest / 64];
    size_t depth = 0;
    auto is_in_object = [&] { return (is_object[(depth - 1) / 64] >> ((depth - 1) % 64) & 1) != 0; };
    auto enter = [&](uint64_t is_one) {
        if (depth == kDeepest) throw Malformed{p, "at most 512 levels"};
        uint64_t& bits = is_object[depth / 64];
        if (depth % 64 == 0) bits = 0;
        bits = (bits & ~(uint64_t{1} << depth % 64)) | is_one << depth % 64;
        ++depth;
    };
    bool has_escape = false, is_key_next = false;
    for (;;) {
        p = skip_space(p);
        if (is_key_next) {
            if (*p != '"') throw Malformed{p, "a key"};
            p = skip_space(skip_string(p + 1, has_escape));
            if (*p != ':') throw Malformed{p, "':'"};
            p = skip_space(p + 1);
            is_key_next = false;
        }
        switch (*p) {
            case '"': p = skip_string(p + 1, has_escape); break;
            case '{':
                enter(1);
                p = skip_space(p + 1);
                if (*p == '}') break;
                is_key_next = true;
                continue;
            case '[':
                enter(0);
                p = skip_space(p + 1);
                if (*p == ']') break;
                // A fast path for lists of numbers: most of a file is polygons.
                while (is_digit(*p)) {
                    const char* const next = skip_space(skip_number(p));
                    if (*next != ',') break;
                    p = skip_space(next + 1);
                }
                continue;
            case 't': p = skip_literal(p, "true"); break;
            case 'f': p = skip_literal(p, "false"); break;
            case 'n': p = skip_literal(p, "null"); break;
            default:
                if (has_constants && *p == 'N') {
                    p = skip_literal(p, "NaN");
                } else if (has_constants && (*p == 'I' || (*p == '-' && p[1] == 'I'))) {
                    p = skip_literal(p + (*p == '-'), "Infinity");
                } else if (*p == '-' || is_digit(*p)) {
                    p = skip_number(p);
                } else {
                    throw Malformed{p, "a value"};
                }
        }
        for (;;) {
            if (depth == 0) return p;
            p = skip_space(p);
            const bool is_one = is_in_object();
            if (*p == ',') {
                ++p;
                is_key_next = is_one;
                break;
            }
            if (*p != (is_one ? '}' : ']')) throw Malformed{p, is_one ? "',' or '}'" : "',' or ']'"};
            ++p;
            --depth;
        }
    }
}

double read_double_general(const char* begin, const char* end) {
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
    double value = 0;
    if (std::from_chars(begin, end, value).ec == std::errc()) return value;
#endif
    return parse_double(begin, end);  // out of range, or `from_chars` of doubles is missing in this standard library
}

double divide_by_power(uint64_t m, unsigned k) {
    // Dividend and divisor are shifted to have their highest bit set, so the quotient has 63 or 64 bits; the remainder decides a tie.
    const uint64_t power = kWholePowers[k];
    const int shift = static_cast<int>(count_leading_zeros(m)), power_shift = static_cast<int>(count_leading_zeros(power));
    const uint64_t dividend = m << shift, divisor = power << power_shift;
    uint64_t remainder;
    uint64_t quotient = divide(dividend >> 1, dividend << 63, divisor, remainder);
    int exponent = power_shift - shift - 63;
    const int num_extra = 64 - static_cast<int>(count_leading_zeros(quotient)) - 53;
    const uint64_t half = uint64_t{1} << (num_extra - 1), extra = quotient & (2 * half - 1);
    quotient >>= num_extra;
    exponent += num_extra;
    quotient += extra > half || (extra == half && (remainder != 0 || (quotient & 1) != 0));
    const uint64_t scale_bits = static_cast<uint64_t>(1023 + exponent) << 52;
    double scale;
    std::memcpy(&scale, &scale_bits, sizeof scale);
    return static_cast<double>(quotient) * scale;  // exact: `scale` is a power of two, and the product is not subnormal
}

const char* read_any_double(const char* p, double& value) {
    constexpr unsigned kMostDigits = 19;  // any number of 19 digits fits in 64 bits
    constexpr uint64_t kExact = uint64_t{1} << 53;
    const char* const begin = p;
    const bool is_negative = *p == '-';
    p += is_negative;
    uint64_t word = load_word(p) ^ every_byte('0');
    unsigned count = count_digits(word), num_digits = count, num_decimals = 0;
    if (count == 0) return nullptr;
    if ((word & 0xff) == 0) count = num_digits = 1;  // no digit may follow a leading 0
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
        // Both operands are exact, so the result is rounded once.
        value = power < 0 ? static_cast<double>(m) / kPowers[-power] : static_cast<double>(m) * kPowers[power];
    } else if (num_digits <= kMostDigits && power <= 0 && power >= -19) {
        value = divide_by_power(m, static_cast<unsigned>(-power));
    } else {
        value = read_double_general(is_negative ? begin + 1 : begin, p);
    }
    if (is_negative) value = -value;
    return p;
}

const char* read_any_integer(const char* p, int64_t& value, Integer& kind) {
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
    kind = is_too_large ? Integer::too_large : Integer::valid;
    value = static_cast<int64_t>(is_negative ? 0 - m : m);
    return p;
}

std::string excerpt(const char* begin, const char* end) {
    constexpr size_t kLongest = 60;
    std::string text;
    for (const char* p = begin; p < end && text.size() <= kLongest; ++p) {
        const uint8_t c = static_cast<uint8_t>(*p);
        if (is_space(*p)) {
            if (text.empty() || text.back() != ' ') text.push_back(' ');
        } else {
            text.push_back(c < 0x20 || c == 0x7f ? '?' : *p);
        }
    }
    if (text.size() <= kLongest) return text;
    size_t size = kLongest - 3;
    while ((static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;  // don't cut a multibyte character
    return text.substr(0, size) + "...";
}

std::string name_of_byte(char c) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (byte > 0x20 && byte < 0x7f) return std::string("'") + c + "'";
    constexpr const char* kDigits = "0123456789abcdef";
    return std::string("byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace boxscore::json
