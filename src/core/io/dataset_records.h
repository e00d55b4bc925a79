// Readers of the records of `images` and `categories`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "io/coco_json.h"
#include "io/columns.h"
#include "io/record.h"

namespace boxscore {

enum class ImageKey : uint8_t { id, file_name, coco_url, width, height, crowd_index, negative, not_exhaustive, other };

constexpr std::string_view name_of(ImageKey key) {
    constexpr std::string_view kNames[] = {"id",         "file_name",        "coco_url", "width", "height",
                                           "crowdIndex", "neg_category_ids", "not_exhaustive_category_ids"};
    return kNames[static_cast<size_t>(key)];
}

class ImageRecords {
public:
    size_t size() const { return columns_.width.size(); }

    const char* parse(const char* p, const Window& window) {
        uint32_t keys_read;
        file_name_ = url_ = {};
        negative_.clear(), not_exhaustive_.clear();
        has_negative_ = has_not_exhaustive_ = false;
        width_ = height_ = crowd_index_ = kMissing;
        p = read_object(p, layout_, keys_read, [&](ImageKey key, const char* value) {
            if (key == ImageKey::id) return IdColumn::read(value, window, "id", id_);
            if (is_null(value)) return value + 4;
            if (key == ImageKey::file_name) return read_text(value, window, "file_name", buffer_, file_name_);
            if (key == ImageKey::coco_url) return read_text(value, window, "coco_url", url_buffer_, url_);
            if (key == ImageKey::negative || key == ImageKey::not_exhaustive) {
                const bool is_negative = key == ImageKey::negative;
                (is_negative ? has_negative_ : has_not_exhaustive_) = true;
                return read_wholes(value, window, name_of(key), is_negative ? negative_ : not_exhaustive_);
            }
            double& number = key == ImageKey::width ? width_ : key == ImageKey::height ? height_ : crowd_index_;
            return read_number(value, window, name_of(key), number);
        });
        if ((keys_read & bit_of(ImageKey::id)) == 0) throw InvalidRecord{" must have `id`"};
        return p;
    }

    void push(const Window& window) {
        ids_.push(id_, window, "id");
        // as in LVIS: an image without a file name takes it from its URL
        columns_.file_name.push_back(file_name_.empty() ? url_.substr(url_.rfind('/') + 1) : file_name_);
        push_list(columns_.negative, negative_, has_negative_);
        push_list(columns_.not_exhaustive, not_exhaustive_, has_not_exhaustive_);
        columns_.width.push_back(width_);
        columns_.height.push_back(height_);
        columns_.crowd_index.push_back(crowd_index_);
    }

    bool can_append(const ImageRecords& other) const { return other.size() == 0 || ids_.can_append(other.ids_); }

    void append(const ImageRecords& other) {
        if (other.size() == 0) return;
        ids_.append(other.ids_);
        for (size_t i = 0; i < other.size(); ++i) columns_.file_name.push_back(other.columns_.file_name[i]);
        append_all(columns_.width, other.columns_.width);
        append_all(columns_.height, other.columns_.height);
        append_all(columns_.crowd_index, other.columns_.crowd_index);
        append_lists(columns_.negative, other.columns_.negative);
        append_lists(columns_.not_exhaustive, other.columns_.not_exhaustive);
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
    std::string buffer_, url_buffer_;
    std::string_view file_name_, url_;
    std::vector<int64_t> negative_, not_exhaustive_;
    bool has_negative_ = false, has_not_exhaustive_ = false;
    double width_ = kMissing, height_ = kMissing, crowd_index_ = kMissing;
};

enum class CategoryKey : uint8_t { id, name, frequency, other };

constexpr std::string_view name_of(CategoryKey key) {
    constexpr std::string_view kNames[] = {"id", "name", "frequency"};
    return kNames[static_cast<size_t>(key)];
}

class CategoryRecords {
public:
    size_t size() const { return columns_.size(); }

    const char* parse(const char* p, const Window& window) {
        uint32_t keys_read;
        frequency_ = {};
        p = read_object(p, layout_, keys_read, [&](CategoryKey key, const char* value) {
            if (key == CategoryKey::id) return read_whole(value, window, "id", id_);
            if (key == CategoryKey::frequency && is_null(value)) return value + 4;
            if (key == CategoryKey::frequency) return read_text(value, window, "frequency", frequency_buffer_, frequency_);
            return read_text(value, window, "name", buffer_, name_);
        });
        if ((keys_read & bit_of(CategoryKey::id)) == 0) throw InvalidRecord{" must have `id`"};
        if ((keys_read & bit_of(CategoryKey::name)) == 0) throw InvalidRecord{" must have `name`"};
        return p;
    }

    void push(const Window&) {
        columns_.id.push_back(id_);
        columns_.name.push_back(name_);
        columns_.frequency.push_back(frequency_);
    }

    bool can_append(const CategoryRecords&) const { return true; }

    void append(const CategoryRecords& other) {
        append_all(columns_.id, other.columns_.id);
        for (size_t i = 0; i < other.size(); ++i) {
            columns_.name.push_back(other.columns_.name[i]);
            columns_.frequency.push_back(other.columns_.frequency[i]);
        }
    }

    void reserve(size_t) {}
    void clear() { columns_ = CocoCategories(); }
    CocoCategories take() { return std::move(columns_); }

private:
    CocoCategories columns_;
    Layout<CategoryKey> layout_;
    std::string buffer_, frequency_buffer_;
    std::string_view name_, frequency_;
    int64_t id_ = 0;
};

}  // namespace boxscore
