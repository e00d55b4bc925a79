#include "io/coco_json.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "io/json.h"

namespace boxscore {
namespace {

using json::Malformed;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kNowhere = SIZE_MAX;

// A record that is JSON but breaks a rule; the text goes behind the record's place.
struct BadRow {
    std::string text;
};

std::string quoted(std::string_view key) { return "`" + std::string(key) + "`"; }

// Refuses the value at `p`, whole and as the file spells it.
[[noreturn]] void refuse(const char* p, const Window& window, std::string_view key, std::string rule) {
    const char* end = json::skip_value(p, true);
    if (window.is_cut(end)) throw Malformed{end, "more"};
    throw BadRow{": " + quoted(key) + " " + std::move(rule) + "; got " + json::excerpt(p, end)};
}

bool is_constant(const char* p) { return *p == 'N' || *p == 'I' || (*p == '-' && p[1] == 'I'); }

const char* read_number(const char* p, const Window& window, std::string_view key, double& value) {
    const char* const end = json::read_double(p, value);
    if (end == nullptr) refuse(p, window, key, is_constant(p) ? "must be finite" : "must be a number");
    if (std::abs(value) > std::numeric_limits<double>::max()) refuse(p, window, key, "must be finite");
    return end;
}

const char* read_whole(const char* p, const Window& window, std::string_view key, int64_t& value) {
    json::Integer kind;
    const char* const end = json::read_integer(p, value, kind);
    if (kind == json::Integer::other) refuse(p, window, key, "must be an integer");
    if (kind == json::Integer::too_large) refuse(p, window, key, "must fit in 63 bits");
    return end;
}

const char* read_box(const char* const begin, const Window& window, std::string_view key, double* box) {
    auto refuse_box = [&] {
        const char* const end = json::skip_value(begin, true);
        bool is_finite = true;
        if (*begin == '[') {
            for (const char* p = begin; p < end; ++p) is_finite &= *p != 'N' && *p != 'I';
        }
        refuse(begin, window, key, is_finite ? "must have 4 numbers" : "must have 4 finite numbers");
    };
    if (*begin != '[') refuse_box();
    const char* p = begin + 1;
    bool is_finite = true;
    for (int i = 0; i < 4; ++i) {
        p = json::skip_space(p);
        const char* const end = json::read_double(p, box[i]);
        if (end == nullptr) refuse_box();
        is_finite &= std::abs(box[i]) <= std::numeric_limits<double>::max();
        p = json::skip_space(end);
        if (*p != (i < 3 ? ',' : ']')) refuse_box();
        ++p;
    }
    if (!is_finite) refuse(begin, window, key, "must have 4 finite numbers");
    return p;
}

const char* read_flag(const char* p, const Window& window, std::string_view key, uint8_t& value) {
    const bool is_true = std::memcmp(p, "true", 4) == 0;
    if (is_true || std::memcmp(p, "false", 5) == 0) {
        value = is_true;
        return p + (is_true ? 4 : 5);
    }
    int64_t number = 0;
    json::Integer kind;
    const char* const end = json::read_integer(p, number, kind);
    if (kind != json::Integer::fine || number < 0 || number > 1) refuse(p, window, key, "must be 0 or 1");
    value = static_cast<uint8_t>(number);
    return end;
}

const char* read_text(const char* p, const Window& window, std::string_view key, std::string& spare,
                      std::string_view& text) {
    if (*p != '"') refuse(p, window, key, "must be a string");
    const json::String string = json::read_string(p + 1, spare);
    text = string.text;
    return string.end;
}

bool is_null(const char* p) { return std::memcmp(p, "null", 4) == 0; }

// What stood between two values of the record before: records of one file are alike, so that comparing a few words nearly
// always tells which key comes next, and that nothing else stands there.
template <class Key>
class Layout {
public:
    // Behind what stood at this place in the last record, if the same stands at `p`; else nullptr.
    const char* match(size_t slot, const char* p, Key& key) const {
        if (slot >= num_slots_) return nullptr;
        const Slot& known = slots_[slot];
        uint64_t difference = 0;
        for (size_t i = 0; i < known.num_words; ++i) difference |= (json::load_word(p + 8 * i) ^ known.word[i]) & known.mask[i];
        if (difference != 0) return nullptr;
        key = known.key;
        return json::skip_space(p + known.size);  // there may be more of it here
    }

    void learn(size_t slot, const char* begin, const char* end, Key key) {
        const size_t size = static_cast<size_t>(end - begin);
        if (slot > num_slots_ || slot >= kMostSlots || size > kMostBytes) return;
        num_slots_ = std::max(num_slots_, slot + 1);
        Slot& known = slots_[slot];
        known.key = key;
        known.size = size;
        known.num_words = (size + 7) / 8;
        for (size_t i = 0; i < known.num_words; ++i) {
            const size_t num_bytes = std::min<size_t>(size - 8 * i, 8);
            known.mask[i] = num_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * num_bytes) - 1;
            known.word[i] = json::load_word(begin + 8 * i) & known.mask[i];
        }
    }

private:
    static constexpr size_t kMostSlots = 16, kMostBytes = 32;
    struct Slot {
        std::array<uint64_t, kMostBytes / 8> word, mask;
        size_t num_words, size;
        Key key;
    };
    std::array<Slot, kMostSlots> slots_;
    size_t num_slots_ = 0;
};

// Walks over the object at `p` and calls `read(key, place)` at each value, which says where the value ends. Keys that we do not
// read are skipped; one that we do read must not come twice.
template <class Key, class Find, class Read>
const char* read_object(const char* p, Layout<Key>& layout, const Find& find, const Read& read) {
    uint32_t seen = 0;
    for (size_t slot = 0;; ++slot) {
        Key key;
        const char* value = layout.match(slot, p, key);
        if (value == nullptr) {
            const char* const begin = p;
            if (slot == 0) {
                p = json::skip_space(p + 1);
                if (*p == '}') return p + 1;
            } else {
                p = json::skip_space(p);
                if (*p == '}') return p + 1;
                if (*p != ',') throw Malformed{p, "',' or '}'"};
                p = json::skip_space(p + 1);
            }
            if (*p != '"') throw Malformed{p, "a key"};
            std::string spare;
            bool has_escape = false;
            const char* const end = json::skip_string(p + 1, has_escape);
            std::string_view name(p + 1, static_cast<size_t>(end - p - 2));
            if (has_escape) {
                try {
                    name = json::read_string(p + 1, spare).text;
                } catch (const Malformed&) {
                    name = {};  // half a surrogate pair: none of our keys
                }
            }
            key = find(name);
            p = json::skip_space(end);
            if (*p != ':') throw Malformed{p, "':'"};
            value = json::skip_space(p + 1);
            layout.learn(slot, begin, value, key);
        }
        if (key == Key::other) {
            p = json::skip_value(value);
            continue;
        }
        const uint32_t bit = uint32_t{1} << static_cast<unsigned>(key);
        if ((seen & bit) != 0) throw BadRow{": " + quoted(name_of(key)) + " must be given once; got it twice"};
        seen |= bit;
        p = read(key, value);
    }
}

template <class Key>
Key find_key(std::string_view name) {
    for (unsigned i = 0; i < static_cast<unsigned>(Key::other); ++i) {
        if (name == name_of(static_cast<Key>(i))) return static_cast<Key>(i);
    }
    return Key::other;
}

// Ids that are integers, or strings: the first row says which, for all.
class IdColumn {
public:
    struct Id {
        int64_t value = 0;
        std::string_view name;
        std::string spare;
        const char* at = nullptr;
        bool is_name = false;
    };

    static const char* read(const char* p, const Window& window, std::string_view key, Id& id) {
        id.at = p;
        id.is_name = *p == '"';
        return id.is_name ? read_text(p, window, key, id.spare, id.name) : read_whole(p, window, key, id.value);
    }

    void push(const Id& id, const Window& window, std::string_view key) {
        if (ids.value.empty()) {
            ids.are_names = id.is_name;
        } else if (ids.are_names != id.is_name) {
            const std::string kind = ids.are_names ? "a string" : "an integer";
            refuse(id.at, window, key, "must be " + kind + ", as in the rows before it");
        }
        ids.value.push_back(id.is_name ? place(id.name) : id.value);
    }

    bool can_append(const IdColumn& other) const { return ids.value.empty() || ids.are_names == other.ids.are_names; }

    void append(const IdColumn& other) {
        ids.are_names = other.ids.are_names;
        if (!ids.are_names) {
            ids.value.insert(ids.value.end(), other.ids.value.begin(), other.ids.value.end());
            return;
        }
        std::vector<int64_t> places(other.ids.names.size());
        for (size_t i = 0; i < places.size(); ++i) places[i] = place(other.ids.names[i]);
        for (const int64_t value : other.ids.value) ids.value.push_back(places[static_cast<size_t>(value)]);
    }

    void clear() {
        ids.value.clear();
        ids.names = Strings();
        places_.clear();
    }

    CocoIds ids;

private:
    // Rows of one image follow one another, so the last name is tried first.
    int64_t place(std::string_view name) {
        if (last_ < ids.names.size() && ids.names[last_] == name) return static_cast<int64_t>(last_);
        const auto [found, is_new] = places_.try_emplace(std::string(name), static_cast<int64_t>(ids.names.size()));
        if (is_new) ids.names.push_back(name);
        last_ = static_cast<size_t>(found->second);
        return found->second;
    }

    std::unordered_map<std::string, int64_t> places_;
    size_t last_ = 0;
};

template <class T>
void append_all(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

// Adds a value to a column that begins with the first row that has one; the rows before it get `missing`.
template <class T>
void push_optional(std::vector<T>& column, size_t num_rows, bool is_given, T value, T missing) {
    if (!is_given && column.empty()) return;
    if (column.size() < num_rows) column.resize(num_rows, missing);
    column.push_back(is_given ? value : missing);
}

template <class T>
void append_optional(std::vector<T>& to, size_t num_rows, const std::vector<T>& from, size_t num_more, T missing) {
    if (to.empty() && from.empty()) return;
    to.resize(num_rows, missing);
    if (from.empty()) {
        to.resize(num_rows + num_more, missing);
    } else {
        append_all(to, from);
    }
}

enum class BoxKey : uint8_t { image_id, category_id, bbox, score, area, iscrowd, id, other };

constexpr std::string_view name_of(BoxKey key) {
    constexpr std::string_view kNames[] = {"image_id", "category_id", "bbox", "score", "area", "iscrowd", "id"};
    return kNames[static_cast<size_t>(key)];
}

class BoxRows {
public:
    size_t size() const { return columns_.size(); }

    // Reads the record at `p`, and says where it ends.
    const char* parse(const char* p, const Window& window) {
        seen_ = 0;
        p = read_object(p, layout_, find_key<BoxKey>, [&](BoxKey key, const char* value) {
            seen_ |= 1u << static_cast<unsigned>(key);
            switch (key) {
                case BoxKey::image_id: return IdColumn::read(value, window, "image_id", image_);
                case BoxKey::category_id: return read_whole(value, window, "category_id", category_);
                case BoxKey::bbox: return read_box(value, window, "bbox", box_.data());
                case BoxKey::score: return read_number(value, window, "score", score_);
                case BoxKey::area: return read_number(value, window, "area", area_);
                case BoxKey::iscrowd: return read_flag(value, window, "iscrowd", is_crowd_);
                default: break;
            }
            // Ids only name rows in errors, so any value will do.
            json::Integer kind;
            const char* const end = json::read_integer(value, id_, kind);
            if (kind == json::Integer::fine) return end;
            seen_ &= ~(1u << static_cast<unsigned>(BoxKey::id));
            return json::skip_value(value);
        });
        for (const BoxKey key : {BoxKey::image_id, BoxKey::category_id, BoxKey::bbox}) {
            if (!has(key)) throw BadRow{" must have " + quoted(name_of(key))};
        }
        return p;
    }

    // Adds the record that was read.
    void push(const Window& window) {
        const size_t num_rows = size();
        if (num_rows > 0 && has(BoxKey::score) != !columns_.score.empty()) {
            throw BadRow{has(BoxKey::score) ? ": `score` must be in all rows or in none; those before it have none"
                                            : " must have `score`, as those before it have"};
        }
        images_.push(image_, window, "image_id");
        columns_.category.push_back(category_);
        for (const double number : box_) columns_.box.push_back(number);
        if (has(BoxKey::score)) columns_.score.push_back(score_);
        push_optional(columns_.area, num_rows, has(BoxKey::area), area_, kMissing);
        push_optional<uint8_t>(columns_.is_crowd, num_rows, has(BoxKey::iscrowd), is_crowd_, 0);
        columns_.num_flagged += has(BoxKey::iscrowd);
        if (has(BoxKey::id) && columns_.id.size() == num_rows) {
            columns_.id.push_back(id_);
        } else if (!columns_.id.empty()) {
            columns_.id = std::vector<int64_t>();
        }
    }

    bool can_append(const BoxRows& other) const {
        if (size() == 0 || other.size() == 0) return true;
        return columns_.score.empty() == other.columns_.score.empty() && images_.can_append(other.images_);
    }

    void append(const BoxRows& other) {
        const size_t num_rows = size(), num_more = other.size();
        if (num_more == 0) return;
        const CocoBoxes& more = other.columns_;
        const bool has_ids = columns_.id.size() == num_rows && more.id.size() == num_more;
        images_.append(other.images_);
        append_all(columns_.category, more.category);
        append_all(columns_.box, more.box);
        append_all(columns_.score, more.score);
        append_optional(columns_.area, num_rows, more.area, num_more, kMissing);
        append_optional<uint8_t>(columns_.is_crowd, num_rows, more.is_crowd, num_more, 0);
        columns_.num_flagged += more.num_flagged;
        if (has_ids) {
            append_all(columns_.id, more.id);
        } else if (!columns_.id.empty()) {
            columns_.id = std::vector<int64_t>();
        }
    }

    // Room for as many rows, in the columns that have any.
    void reserve(size_t num_rows) {
        images_.ids.value.reserve(num_rows);
        columns_.category.reserve(num_rows);
        columns_.box.reserve(num_rows * 4);
        if (!columns_.score.empty()) columns_.score.reserve(num_rows);
        if (!columns_.area.empty()) columns_.area.reserve(num_rows);
        if (!columns_.is_crowd.empty()) columns_.is_crowd.reserve(num_rows);
        if (!columns_.id.empty()) columns_.id.reserve(num_rows);
    }

    void clear() {
        images_.clear();
        for (auto* column : {&columns_.box, &columns_.score, &columns_.area}) column->clear();
        columns_.category.clear();
        columns_.is_crowd.clear();
        columns_.num_flagged = 0;
        columns_.id.clear();
    }

    CocoBoxes take() {
        columns_.image = std::move(images_.ids);
        return std::move(columns_);
    }

private:
    bool has(BoxKey key) const { return (seen_ >> static_cast<unsigned>(key) & 1) != 0; }

    CocoBoxes columns_;
    IdColumn images_;
    Layout<BoxKey> layout_;
    // The record that is being read.
    IdColumn::Id image_;
    std::array<double, 4> box_;
    double score_ = 0, area_ = 0;
    int64_t category_ = 0, id_ = 0;
    uint8_t is_crowd_ = 0;
    uint32_t seen_ = 0;
};

enum class ImageKey : uint8_t { id, file_name, width, height, other };

constexpr std::string_view name_of(ImageKey key) {
    constexpr std::string_view kNames[] = {"id", "file_name", "width", "height"};
    return kNames[static_cast<size_t>(key)];
}

class ImageRows {
public:
    size_t size() const { return columns_.width.size(); }

    const char* parse(const char* p, const Window& window) {
        bool has_id = false;
        file_name_ = {};
        width_ = height_ = kMissing;
        p = read_object(p, layout_, find_key<ImageKey>, [&](ImageKey key, const char* value) {
            if (key == ImageKey::id) {
                has_id = true;
                return IdColumn::read(value, window, "id", id_);
            }
            if (is_null(value)) return value + 4;
            if (key == ImageKey::file_name) return read_text(value, window, "file_name", spare_, file_name_);
            return read_number(value, window, name_of(key), key == ImageKey::width ? width_ : height_);
        });
        if (!has_id) throw BadRow{" must have `id`"};
        return p;
    }

    void push(const Window& window) {
        ids_.push(id_, window, "id");
        columns_.file_name.push_back(file_name_);
        columns_.width.push_back(width_);
        columns_.height.push_back(height_);
    }

    bool can_append(const ImageRows& other) const { return other.size() == 0 || ids_.can_append(other.ids_); }

    void append(const ImageRows& other) {
        if (other.size() == 0) return;
        ids_.append(other.ids_);
        for (size_t i = 0; i < other.size(); ++i) columns_.file_name.push_back(other.columns_.file_name[i]);
        append_all(columns_.width, other.columns_.width);
        append_all(columns_.height, other.columns_.height);
    }

    void reserve(size_t) {}

    void clear() {
        ids_.clear();
        columns_ = CocoImages();
    }

    CocoImages take() {
        columns_.id = std::move(ids_.ids);
        return std::move(columns_);
    }

private:
    CocoImages columns_;
    IdColumn ids_;
    Layout<ImageKey> layout_;
    IdColumn::Id id_;
    std::string spare_;
    std::string_view file_name_;
    double width_ = kMissing, height_ = kMissing;
};

enum class CategoryKey : uint8_t { id, name, other };

constexpr std::string_view name_of(CategoryKey key) {
    constexpr std::string_view kNames[] = {"id", "name"};
    return kNames[static_cast<size_t>(key)];
}

class CategoryRows {
public:
    size_t size() const { return columns_.size(); }

    const char* parse(const char* p, const Window& window) {
        bool has_id = false, has_name = false;
        p = read_object(p, layout_, find_key<CategoryKey>, [&](CategoryKey key, const char* value) {
            if (key == CategoryKey::id) {
                has_id = true;
                return read_whole(value, window, "id", id_);
            }
            has_name = true;
            return read_text(value, window, "name", spare_, name_);
        });
        if (!has_id) throw BadRow{" must have `id`"};
        if (!has_name) throw BadRow{" must have `name`"};
        return p;
    }

    void push(const Window&) {
        columns_.id.push_back(id_);
        columns_.name.push_back(name_);
    }

    bool can_append(const CategoryRows&) const { return true; }

    void append(const CategoryRows& other) {
        append_all(columns_.id, other.columns_.id);
        for (size_t i = 0; i < other.size(); ++i) columns_.name.push_back(other.columns_.name[i]);
    }

    void reserve(size_t) {}
    void clear() { columns_ = CocoCategories(); }
    CocoCategories take() { return std::move(columns_); }

private:
    CocoCategories columns_;
    Layout<CategoryKey> layout_;
    std::string spare_;
    std::string_view name_;
    int64_t id_ = 0;
};

[[noreturn]] void fail_at(const Source& source, const Window& window, const Malformed& problem) {
    const size_t offset = window.offset(problem.at);
    size_t num_lines = 1;
    std::vector<char> block(kCocoChunk);
    for (size_t from = 0; from < offset;) {
        const size_t count = source.read(from, block.data(), std::min(block.size(), offset - from));
        if (count == 0) break;
        num_lines += static_cast<size_t>(std::count(block.data(), block.data() + count, '\n'));
        from += count;
    }
    const std::string got = problem.at >= window.end() ? "the end" : json::name_of_byte(*problem.at);
    throw CocoError("not JSON: byte " + std::to_string(offset) + " (line " + std::to_string(num_lines) + "): expected " +
                    problem.expected + "; got " + got);
}

// " (id 42)" for the record at `p`, if it has an id, wherever in the record that is.
std::string id_of_record(const char* p, const Window& window) {
    std::string name;
    try {
        if (*p != '{') return name;
        for (bool is_first = true;; is_first = false) {
            p = json::skip_space(p + 1);
            if (is_first && *p == '}') return name;
            if (*p != '"') throw Malformed{p, "a key"};
            const bool is_id = std::memcmp(p, "\"id\"", 4) == 0;
            bool has_escape = false;
            p = json::skip_space(json::skip_string(p + 1, has_escape));
            if (*p != ':') throw Malformed{p, "':'"};
            p = json::skip_space(p + 1);
            const char* const end = json::skip_value(p, true);
            if (is_id && name.empty()) name = " (id " + json::excerpt(p, end) + ")";
            p = json::skip_space(end);
            if (*p == '}') return name;
            if (*p != ',') throw Malformed{p, "',' or '}'"};
        }
    } catch (const Malformed& problem) {
        if (window.is_cut(problem.at)) throw;
        return name;
    }
}

// Where a list stands: at a record, or behind its end.
struct Place {
    size_t at = 0;
    bool is_end = false;
};

// Behind a record, or behind the opening bracket: where the next record begins, or the list ends.
const char* step(const char* p, const Window& window, bool is_first, bool& is_end) {
    p = json::skip_space(p);
    is_end = *p == ']';
    if (is_end) return p + 1;
    if (!is_first) {
        if (*p != ',') throw Malformed{p, "',' or ']'"};
        p = json::skip_space(p + 1);
    }
    if (*p == '{' || *p == ']') return p;  // a bracket behind a comma is no record: see below
    const char* const end = json::skip_value(p, true);
    if (window.is_cut(end)) throw Malformed{end, "more"};
    return p;
}

template <class Rows>
const char* read_record(const char* p, const Window& window, Rows& rows, bool& is_end) {
    if (*p != '{') {
        const char* const end = json::skip_value(p, true);
        if (window.is_cut(end)) throw Malformed{end, "more"};
        throw BadRow{" must be an object; got " + json::excerpt(p, end)};
    }
    const char* const next = step(rows.parse(p, window), window, false, is_end);
    rows.push(window);
    return next;
}

// Thrown out of a part that began at a guess: whatever is wrong with it, the guess may be.
struct Unproven {};

// Reads records from `place` on, up to the first that begins at `stop` or behind it. Throws CocoError, or Unproven if the
// place is a guess, which no record of more than `most_bytes` can be.
template <class Rows>
Place read_records(const Source& source, Window& window, Place place, size_t stop, const std::string& kind, Rows& rows,
                   const Run& run, size_t most_bytes = kNowhere) {
    const bool is_guess = most_bytes != kNowhere;
    while (!place.is_end && place.at < stop) {
        run.check();
        window.load(place.at, 1);
        const char* p = window.at(place.at);
        try {
            try {
                while (!place.is_end && place.at < stop) {
                    bool is_end = false;
                    p = read_record(p, window, rows, is_end);
                    place = {window.offset(p), is_end};
                }
            } catch (const BadRow& problem) {
                if (is_guess) throw Unproven();
                throw CocoError(kind + " " + std::to_string(rows.size()) + id_of_record(p, window) + problem.text);
            }
        } catch (const Malformed& problem) {
            if (window.is_cut(problem.at) && window.offset(window.end()) - place.at < most_bytes) {
                window.extend(place.at);
            } else if (is_guess) {
                throw Unproven();
            } else {
                fail_at(source, window, problem);
            }
        }
    }
    return place;
}

// Where a record may begin: behind the first `} , {` whose first bracket stands in [from, to). It may as well be within a
// string, or a list inside of a record.
size_t guess_record(Window& window, size_t from, size_t to) {
    constexpr size_t kMostSpace = 1024;
    size_t at = from;
    while (at < to) {
        window.load(at, 1);
        const char* const end = window.end();
        for (const char* p = window.at(at); p < end && at < to; ++p, at = window.offset(p)) {
            p = static_cast<const char*>(std::memchr(p, '}', static_cast<size_t>(end - p)));
            if (p == nullptr) {
                p = end - 1;
                continue;
            }
            at = window.offset(p);
            if (at >= to) return kNowhere;
            const char* q = json::skip_space(p + 1);
            const bool is_comma = *q == ',';
            if (is_comma) q = json::skip_space(q + 1);
            if (q >= end && !window.is_last()) {
                if (static_cast<size_t>(q - p) > kMostSpace) continue;
                break;
            }
            if (is_comma && *q == '{' && static_cast<size_t>(q - p) <= kMostSpace) return window.offset(q);
        }
        if (at >= to || (window.is_last() && at >= window.offset(end))) break;
        window.extend(at);
    }
    return kNowhere;
}

// What a thread made of a part of a list. It began at a guess; that was right if whoever read the part before it arrived there.
template <class Rows>
struct Chunk {
    Rows rows;
    size_t start = kNowhere, stop = kNowhere;
    Place next;
    bool has_failed = false;
};

// The records of the list that begins at `place`.
template <class Rows>
class ListReader {
public:
    ListReader(const Source& source, const Run& run, size_t chunk_size, const std::string& kind)
        : source_(source), run_(run), chunk_size_(std::max<size_t>(chunk_size, 1)), kind_(kind), window_(source, chunk_size_) {}

    Place read(Place place) {
        first_ = place.at;
        place_ = place;
        if (place.is_end) return place;
        const size_t num_bytes = source_.size() > first_ ? source_.size() - first_ : 0;
        const size_t num_chunks = (num_bytes + chunk_size_ - 1) / chunk_size_;
        if (run_.num_threads <= 1 || num_chunks <= 1) {
            // The first part tells how many rows to make room for.
            go_on(first_ + chunk_size_);
            reserve();
            go_on(kNowhere);
            return place_;
        }
        ready_.resize(num_chunks);
        for_each_task(
            num_chunks, run_, [&] { return Window(source_, chunk_size_); },
            [&](size_t i, Window& window) {
                if (!wait_for_turn(i)) return;
                try {
                    deliver(i, read_chunk(i, num_chunks, window));
                } catch (...) {
                    finish();
                    throw;
                }
            });
        return place_;
    }

    Rows rows;

private:
    using ChunkPointer = std::unique_ptr<Chunk<Rows>>;
    static constexpr size_t kLongestGuess = 4, kMostAhead = 4;

    void go_on(size_t stop) { place_ = read_records(source_, window_, place_, stop, kind_, rows, run_); }

    // Most of a file is one list, and its records are about as long as one another.
    void reserve() {
        const size_t num_read = place_.at - first_;
        if (place_.is_end || num_read == 0 || place_.at >= source_.size()) return;
        const double length = static_cast<double>(num_read) / static_cast<double>(std::max<size_t>(rows.size(), 1));
        rows.reserve(rows.size() + static_cast<size_t>(static_cast<double>(source_.size() - place_.at) / length * 1.05) + 64);
    }

    size_t begin_of(size_t i) const { return first_ + i * chunk_size_; }

    size_t start_of(size_t i, size_t num_chunks, Window& window) const {
        if (i == 0) return first_;
        return i < num_chunks ? guess_record(window, begin_of(i), begin_of(i + 1)) : kNowhere;
    }

    ChunkPointer read_chunk(size_t i, size_t num_chunks, Window& window) {
        ChunkPointer chunk = spare_chunk();
        chunk->has_failed = false;
        // One more than a part: where the next one begins is looked for, too.
        window.load(begin_of(i), chunk_size_ + std::min<size_t>(chunk_size_, 4096));
        chunk->start = start_of(i, num_chunks, window);
        chunk->stop = kNowhere;
        if (i + 1 < num_chunks) {
            Window ahead(source_, 4096);
            const size_t next = start_of(i + 1, num_chunks, ahead);
            chunk->stop = next == kNowhere ? begin_of(i + 1) : next;
        }
        if (chunk->start == kNowhere) return chunk;
        try {
            chunk->next = read_records(source_, window, {chunk->start, false}, chunk->stop, kind_, chunk->rows, run_,
                                       kLongestGuess * chunk_size_);
        } catch (const Unproven&) {
            chunk->has_failed = true;  // read again in order, if it comes to that, for the right number of the row
        }
        return chunk;
    }

    // Waits while too many parts are finished that can't be taken yet, for one that is late; false if no more are needed. The
    // first part that is not taken never waits, so that there is always one to wait for.
    bool wait_for_turn(size_t i) {
        std::unique_lock<std::mutex> hold(lock_);
        while (!is_done_ && i >= next_ + kMostAhead * run_.num_threads) {
            // Who would have done that one may have been interrupted.
            is_taken_.wait_for(hold, std::chrono::milliseconds(50));
            run_.check();
        }
        return !is_done_;
    }

    void finish() {
        std::lock_guard<std::mutex> hold(lock_);
        is_done_ = true;
        is_taken_.notify_all();
    }

    // Takes finished parts in their order, as far as there are any. One thread does so at a time; the others go on.
    void deliver(size_t i, ChunkPointer chunk) {
        std::unique_lock<std::mutex> hold(lock_);
        ready_[i] = std::move(chunk);
        if (is_taking_) return;
        is_taking_ = true;
        while (next_ < ready_.size() && ready_[next_] != nullptr) {
            ChunkPointer first = std::move(ready_[next_++]);
            hold.unlock();
            take(*first);
            first->rows.clear();
            hold.lock();
            spare_.push_back(std::move(first));
            is_done_ |= place_.is_end;
            is_taken_.notify_all();
        }
        is_taking_ = false;
    }

    void take(Chunk<Rows>& chunk) {
        if (place_.is_end) return;
        if (place_.at == chunk.start && !chunk.has_failed && rows.can_append(chunk.rows)) {
            rows.append(chunk.rows);
            place_ = chunk.next;
            if (next_ == 1) reserve();
        } else {
            go_on(chunk.stop);
        }
    }

    ChunkPointer spare_chunk() {
        std::lock_guard<std::mutex> hold(lock_);
        if (spare_.empty()) return std::make_unique<Chunk<Rows>>();
        ChunkPointer chunk = std::move(spare_.back());
        spare_.pop_back();
        return chunk;
    }

    const Source& source_;
    const Run& run_;
    size_t chunk_size_;
    std::string kind_;
    Window window_;
    size_t first_ = 0;
    Place place_;  // where everything before is in `rows`
    std::vector<ChunkPointer> ready_, spare_;
    size_t next_ = 0;
    bool is_taking_ = false, is_done_ = false;
    std::mutex lock_;
    std::condition_variable is_taken_;
};

class FileReader {
public:
    FileReader(const Source& source, const Run& run, size_t chunk_size)
        : source_(source), run_(run), chunk_size_(std::max<size_t>(chunk_size, 1)), window_(source, chunk_size_) {}

    CocoFile read() {
        CocoFile file;
        at_ = 0;
        scan([&](const char* p) {
            const bool has_mark = std::memcmp(p, "\xef\xbb\xbf", 3) == 0;
            p = json::skip_space(has_mark ? p + 3 : p);
            if (*p == 0) throw Malformed{p, "an object or a list"};
            return p;
        });
        const char first = *window_.at(at_);
        if (first == '{') {
            file.is_dataset = true;
            read_dataset(file);
        } else if (first == '[') {
            file.boxes = read_list<BoxRows>("result").take();
        } else {
            const std::string got = value_text();
            throw CocoError("expected an object with `annotations` and `categories`, or a list of results; got " + got);
        }
        scan([&](const char* p) {
            p = json::skip_space(p);
            if (p < window_.end() || window_.is_cut(p)) throw Malformed{p, "the end"};
            return p;
        });
        return file;
    }

private:
    // Goes on from here as far as `move` says, which is called again where the window proves too short.
    template <class Move>
    void scan(Move move) {
        for (;;) {
            run_.check();
            window_.load(at_, json::kPadding);
            try {
                at_ = window_.offset(move(window_.at(at_)));
                window_.load(at_, json::kPadding);
                return;
            } catch (const Malformed& problem) {
                if (!window_.is_cut(problem.at)) fail_at(source_, window_, problem);
                window_.extend(at_);
            }
        }
    }

    std::string value_text() {
        std::string text;
        scan([&](const char* p) {
            const char* const end = json::skip_value(p, true);
            if (window_.is_cut(end)) throw Malformed{end, "more"};
            text = json::excerpt(p, end);
            return end;
        });
        return text;
    }

    // The list at the present place.
    template <class Rows>
    Rows read_list(const std::string& kind) {
        ListReader<Rows> reader(source_, run_, chunk_size_, kind);
        Place place;
        scan([&](const char* p) { return step(p + 1, window_, true, place.is_end); });
        place.at = at_;
        at_ = reader.read(place).at;
        return std::move(reader.rows);
    }

    template <class Rows, class Columns>
    void read_member(const char* key, const std::string& kind, bool& is_there, Columns& columns) {
        if (is_there) throw CocoError(quoted(key) + " must be given once; got it twice");
        is_there = true;
        if (*window_.at(at_) != '[') throw CocoError(quoted(key) + " must be a list; got " + value_text());
        columns = read_list<Rows>(kind).take();
    }

    void read_dataset(CocoFile& file) {
        std::string key, spare;
        bool is_end = false;
        for (bool is_first = true;; is_first = false) {
            scan([&](const char* p) {
                p = json::skip_space(is_first ? p + 1 : p);
                is_end = *p == '}';
                if (is_end) return p + 1;
                if (!is_first) {
                    if (*p != ',') throw Malformed{p, "',' or '}'"};
                    p = json::skip_space(p + 1);
                }
                if (*p != '"') throw Malformed{p, is_first ? "a key or '}'" : "a key"};
                bool has_escape = false;
                const char* end = json::skip_string(p + 1, has_escape);
                try {
                    key = json::read_string(p + 1, spare).text;
                } catch (const Malformed&) {
                    key.clear();  // half a surrogate pair: none of our keys
                }
                end = json::skip_space(end);
                if (*end != ':') throw Malformed{end, "':'"};
                end = json::skip_space(end + 1);
                if (*end == 0) throw Malformed{end, "a value"};
                return end;
            });
            if (is_end) break;
            if (key == "annotations") {
                read_member<BoxRows>("annotations", "annotation", file.has_annotations, file.boxes);
            } else if (key == "images") {
                read_member<ImageRows>("images", "image", file.has_images, file.images);
            } else if (key == "categories") {
                read_member<CategoryRows>("categories", "category", file.has_categories, file.categories);
            } else {
                scan([&](const char* p) {
                    p = json::skip_value(p);
                    if (window_.is_cut(p)) throw Malformed{p, "more"};
                    return p;
                });
            }
        }
        std::vector<int64_t> ids = file.categories.id;
        std::sort(ids.begin(), ids.end());
        const auto twice = std::adjacent_find(ids.begin(), ids.end());
        if (twice != ids.end()) throw CocoError("categories must have different ids; got " + std::to_string(*twice) + " twice");
    }

    const Source& source_;
    const Run& run_;
    size_t chunk_size_;
    Window window_;
    size_t at_ = 0;
};

}  // namespace

CocoFile read_coco(const Source& source, const Run& run, size_t chunk_size) {
    return FileReader(source, run, chunk_size).read();
}

}  // namespace boxscore
