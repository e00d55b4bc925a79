// Columns that grow by records, and by the columns of another chunk of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/coco_json.h"
#include "io/record.h"

namespace boxscore {

template <class Column>
void append_all(Column& to, const Column& from) {
    to.insert(to.end(), from.begin(), from.end());
}

// Append a value to a column that stays empty until a row has one; earlier rows then get `missing`.
template <class Column, class T = typename Column::value_type>
void push_optional(Column& column, size_t num_rows, bool is_given, T value, T missing) {
    if (!is_given && column.empty()) return;
    if (column.size() < num_rows) column.resize(num_rows, missing);
    column.push_back(is_given ? value : missing);
}

template <class Column, class T = typename Column::value_type>
void append_optional(Column& to, size_t num_rows, const Column& from, size_t num_more, T missing) {
    if (to.empty() && from.empty()) return;
    to.resize(num_rows, missing);
    if (from.empty()) {
        to.resize(num_rows + num_more, missing);
    } else {
        append_all(to, from);
    }
}

inline void push_list(IdLists& lists, const std::vector<int64_t>& values, bool is_given) {
    append_all(lists.value, values);
    lists.end.push_back(static_cast<int64_t>(lists.value.size()));
    lists.is_given.push_back(is_given);
}

inline void append_lists(IdLists& to, const IdLists& from) {
    const auto offset = static_cast<int64_t>(to.value.size());
    append_all(to.value, from.value);
    for (const int64_t end : from.end) to.end.push_back(offset + end);
    append_all(to.is_given, from.is_given);
}

// Ids that are either all integers or all strings; the first one decides.
class IdColumn {
public:
    struct Id {
        int64_t value = 0;
        std::string_view name;
        std::string buffer;
        const char* at = nullptr;
        bool is_name = false;
    };

    static const char* read(const char* p, const Window& window, std::string_view key, Id& id) {
        id.at = p;
        id.is_name = *p == '"';
        return id.is_name ? read_text(p, window, key, id.buffer, id.name) : read_whole(p, window, key, id.value);
    }

    void push(const Id& id, const Window& window, std::string_view key) {
        if (ids.are_names != id.is_name) become(id, window, key);
        ids.value.push_back(id.is_name ? index_of(id.name) : id.value);
    }

    bool can_append(const IdColumn& other) const { return ids.value.empty() || ids.are_names == other.ids.are_names; }

    void append(const IdColumn& other) {
        ids.are_names = other.ids.are_names;
        if (!ids.are_names) {
            ids.value.insert(ids.value.end(), other.ids.value.begin(), other.ids.value.end());
            return;
        }
        std::vector<int64_t> index(other.ids.names.size());
        for (size_t i = 0; i < index.size(); ++i) index[i] = index_of(other.ids.names[i]);
        for (const int64_t value : other.ids.value) ids.value.push_back(index[static_cast<size_t>(value)]);
    }

    void clear() {
        ids.value.clear();
        ids.names = Strings();
        indices_.clear();
    }

    CocoIds ids;

private:
    // Switch to the kind of this id if the column is empty, else throw InvalidRecord.
    void become(const Id& id, const Window& window, std::string_view key) {
        if (!ids.value.empty()) {
            const std::string kind = ids.are_names ? "a string" : "an integer";
            refuse(id.at, window, key, "must be " + kind + ", as in the rows before it");
        }
        ids.are_names = id.is_name;
    }

    // Index of a name, which is added if it is new. Rows of one image are mostly adjacent, so the last name is tried first.
    int64_t index_of(std::string_view name) {
        if (last_ < ids.names.size() && ids.names[last_] == name) return static_cast<int64_t>(last_);
        const auto [entry, is_new] = indices_.try_emplace(std::string(name), static_cast<int64_t>(ids.names.size()));
        if (is_new) ids.names.push_back(name);
        last_ = static_cast<size_t>(entry->second);
        return entry->second;
    }

    std::unordered_map<std::string, int64_t> indices_;
    size_t last_ = 0;
};

}  // namespace boxscore
