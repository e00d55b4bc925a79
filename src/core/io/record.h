// Reading of one JSON object as a record: its keys, and values of required types. Errors name the key and the rule.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/window.h"

namespace boxscore {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Thrown for a record that is JSON but breaks a rule. The kind, number and id of the record are put before `text`.
struct InvalidRecord {
    std::string text;
};

std::string quoted(std::string_view key);

// Throw CocoError with the byte and the line of the problem.
[[noreturn]] void fail_at(const Source& source, const Window& window, const json::Malformed& problem);

// " (id 42)" for the record at `p`, or "" if it has no id.
std::string id_of_record(const char* p, const Window& window);

// Excerpt of the value at `p` as the file spells it. Sets `end` to the end of the value.
std::string spelled_value(const char* p, const Window& window, const char*& end);

// Throw InvalidRecord that quotes the value at `p`.
[[noreturn]] void refuse(const char* p, const Window& window, std::string_view key, const std::string& rule);
[[noreturn]] void refuse_number(const char* p, const Window& window, std::string_view key);
[[noreturn]] void refuse_box(const char* p, const Window& window, std::string_view key);

// Each of these functions reads the value at `p` and returns its end, or throws InvalidRecord.
inline const char* read_number(const char* p, const Window& window, std::string_view key, double& value) {
    const char* const end = json::read_double(p, value);
    if (end == nullptr || std::abs(value) > std::numeric_limits<double>::max()) refuse_number(p, window, key);
    return end;
}

BOXSCORE_INLINE inline const char* read_whole(const char* p, const Window& window, std::string_view key, int64_t& value) {
    json::Integer kind;
    const char* const end = json::read_integer(p, value, kind);
    if (kind == json::Integer::other) refuse(p, window, key, "must be an integer");
    if (kind == json::Integer::too_large) refuse(p, window, key, "must fit in 63 bits");
    return end;
}

inline const char* read_box(const char* const begin, const Window& window, std::string_view key, double* box) {
    if (*begin != '[') refuse_box(begin, window, key);
    const char* p = begin + 1;
    for (int i = 0; i < 4; ++i) {
        const char* const end = json::read_double(json::skip_space(p), box[i]);
        if (end == nullptr) refuse_box(begin, window, key);
        p = json::skip_space(end);
        if (*p != (i < 3 ? ',' : ']')) refuse_box(begin, window, key);
        ++p;
    }
    bool is_finite = true;
    for (int i = 0; i < 4; ++i) is_finite &= std::abs(box[i]) <= std::numeric_limits<double>::max();
    if (!is_finite) refuse(begin, window, key, "must have 4 finite numbers");
    return p;
}

// Append a list of integers of any length to `values`.
inline const char* read_wholes(const char* const begin, const Window& window, std::string_view key, std::vector<int64_t>& values) {
    if (*begin != '[') refuse(begin, window, key, "must be a list of integers");
    const char* p = json::skip_space(begin + 1);
    if (*p == ']') return p + 1;
    for (;; p = json::skip_space(p + 1)) {
        int64_t value = 0;
        json::Integer kind;
        const char* const end = json::read_integer(p, value, kind);
        if (kind != json::Integer::valid) refuse(begin, window, key, "must be a list of integers");
        values.push_back(value);
        p = json::skip_space(end);
        if (*p == ']') return p + 1;
        if (*p != ',') refuse(begin, window, key, "must be a list of integers");
    }
}

// Read a list of exactly kNum finite numbers.
template <size_t kNum>
inline const char* read_numbers(const char* const begin, const Window& window, std::string_view key, double* values,
                                const char* rule) {
    if (*begin != '[') refuse(begin, window, key, rule);
    const char* p = begin + 1;
    for (size_t i = 0; i < kNum; ++i) {
        p = json::skip_space(p);
        const char* const end = json::read_double(p, values[i]);
        if (end == nullptr || !(std::abs(values[i]) <= std::numeric_limits<double>::max())) refuse(begin, window, key, rule);
        p = json::skip_space(end);
        if (*p != (i + 1 < kNum ? ',' : ']')) refuse(begin, window, key, rule);
        ++p;
    }
    return p;
}

inline const char* read_flag(const char* p, const Window& window, std::string_view key, uint8_t& value) {
    const bool is_true = std::memcmp(p, "true", 4) == 0;
    if (is_true || std::memcmp(p, "false", 5) == 0) {
        value = is_true;
        return p + (is_true ? 4 : 5);
    }
    int64_t number = 0;
    json::Integer kind;
    const char* const end = json::read_integer(p, number, kind);
    if (kind != json::Integer::valid || number < 0 || number > 1) refuse(p, window, key, "must be 0 or 1");
    value = static_cast<uint8_t>(number);
    return end;
}

inline const char* read_text(const char* p, const Window& window, std::string_view key, std::string& buffer,
                             std::string_view& text) {
    if (*p != '"') refuse(p, window, key, "must be a string");
    const json::String string = json::read_string(p + 1, buffer);
    text = string.text;
    return string.end;
}

inline bool is_null(const char* p) { return std::memcmp(p, "null", 4) == 0; }

// The bytes between the values of the previous record. Records of one file are alike, so comparing a few words nearly always
// identifies the next key. A fast path: reading the results of a detector takes 37 % fewer instructions.
//
//     {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}
//     ^^^^^^^^^^^^^ ^^^^^^^^^^^^^^^^^^ ^^^^^^^^^^            ^^^^^^^^^^^
//     slot 0        slot 1             slot 2                slot 3
template <class Key>
class Layout {
public:
    // Start of the next value if the bytes of this slot are at `p`, else nullptr. Sets `key`.
    const char* match(size_t slot, const char* p, Key& key) const {
        if (slot >= num_slots_) return nullptr;
        const Slot& known = slots_[slot];
        uint64_t difference = 0;
        for (size_t i = 0; i < kMostWords; ++i) difference |= (json::load_word(p + 8 * i) ^ known.word[i]) & known.mask[i];
        if (difference != 0) return nullptr;
        key = known.key;
        return json::skip_space(p + known.size);  // this record may have more white space
    }

    void learn(size_t slot, const char* begin, const char* end, Key key) {
        const size_t size = static_cast<size_t>(end - begin);
        if (slot > num_slots_ || slot >= kMostSlots || size > kMostBytes) return;
        num_slots_ = std::max(num_slots_, slot + 1);
        Slot& known = slots_[slot];
        known.key = key;
        known.size = size;
        for (size_t i = 0; i < kMostWords; ++i) {
            const size_t num_bytes = std::min(size - std::min(size, 8 * i), size_t{8});
            known.mask[i] = num_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * num_bytes) - 1;
            known.word[i] = json::load_word(begin + 8 * i) & known.mask[i];
        }
    }

private:
    static constexpr size_t kMostSlots = 16, kMostWords = 4, kMostBytes = 8 * kMostWords;
    struct Slot {
        std::array<uint64_t, kMostWords> word, mask;  // masks are 0 after the last byte
        size_t size;
        Key key;
    };
    std::array<Slot, kMostSlots> slots_;
    size_t num_slots_ = 0;
};

template <class Key>
Key find_key(std::string_view name) {
    for (unsigned i = 0; i < static_cast<unsigned>(Key::other); ++i) {
        if (name == name_of(static_cast<Key>(i))) return static_cast<Key>(i);
    }
    return Key::other;
}

// Read the key at `p`, which differs from the layout's, and return the start of its value. At the end of the object, move `p` behind
// it and return nullptr.
template <class Key>
const char* read_new_key(const char*& p, size_t slot, Layout<Key>& layout, Key& key) {
    const char* const begin = p;
    p = json::skip_space(slot == 0 ? p + 1 : p);
    if (*p == '}') {
        ++p;
        return nullptr;
    }
    if (slot > 0) {
        if (*p != ',') throw json::Malformed{p, "',' or '}'"};
        p = json::skip_space(p + 1);
    }
    if (*p != '"') throw json::Malformed{p, "a key"};
    std::string name;
    const char* const value = json::read_key(p, name);
    key = find_key<Key>(name);
    layout.learn(slot, begin, value, key);
    return value;
}

// The bit of a key in a set of keys.
template <class Key>
constexpr uint32_t bit_of(Key key) {
    return uint32_t{1} << static_cast<unsigned>(key);
}

// Read the object at `p` and return its end. Calls `read(key, value)` for each known key; it returns the end of the value. Skips
// unknown keys, throws InvalidRecord for a duplicate key, and sets `keys_read` to the set of keys.
template <class Key, class Read>
const char* read_object(const char* p, Layout<Key>& layout, uint32_t& keys_read, const Read& read) {
    keys_read = 0;
    for (size_t slot = 0;; ++slot) {
        Key key;
        const char* value = layout.match(slot, p, key);
        if (value == nullptr) {
            if (slot > 0 && *p == '}') return p + 1;
            value = read_new_key(p, slot, layout, key);
            if (value == nullptr) return p;
        }
        if (key == Key::other) {
            p = json::skip_value(value);
            continue;
        }
        if ((keys_read & bit_of(key)) != 0) throw InvalidRecord{": " + quoted(name_of(key)) + " must be given once; got it twice"};
        keys_read |= bit_of(key);
        p = read(key, value);
    }
}

}  // namespace boxscore
