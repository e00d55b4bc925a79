// Reader of the `segmentation` of a record: compressed run lengths, a list of run lengths, or polygons.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/record.h"
#include "masks/column.h"
#include "masks/segmentations.h"

namespace boxscore {

enum class RleKey : uint8_t { size, counts, other };

constexpr std::string_view name_of(RleKey key) {
    constexpr std::string_view kNames[] = {"size", "counts"};
    return kNames[static_cast<size_t>(key)];
}

// Reads one segmentation at a time; the last one can be appended to columns, or measured.
class SegmentationReader {
public:
    // Read the value at `p` and return its end. Its bytes must stay valid until `push` or `measure`. Throws InvalidRecord.
    const char* read(const char* p, const Window& window) {
        polygons_.clear();
        if (*p == '[') return read_polygons(p, window);
        if (*p == '{') return read_runs(p, window);
        refuse(p, window, "segmentation", "must be a list of polygons, or an object with `size` and `counts`");
    }

    // Append the last segmentation to the columns; unless `is_compared`, only the area of run lengths. Throws InvalidRecord, and appends
    // nothing, if the run lengths are not a valid mask.
    void push(MaskColumn& masks, PolygonColumn& polygons, bool is_compared) {
        if (polygons_.num_parts() > 0) {
            masks.push_nothing();
            polygons.append(polygons_);
        } else {
            push_runs(masks, is_compared);
            polygons.finish_mask();
        }
    }

    // Bounding box of the last segmentation, which must be run lengths: left, top, width, height. Sets `area`.
    std::array<double, 4> measure(double& area) {
        mask_.clear();
        push_runs(mask_);
        area = mask_.area[0];
        const MaskBox& box = mask_.box[0];
        return {double(box.left), double(box.top), double(box.width), double(box.height)};
    }

private:
    const char* read_runs(const char* const begin, const Window& window) {
        const char* size_at = nullptr;
        counts_ = nullptr;
        uint32_t keys_read;
        const char* const object_end = read_object(begin, layout_, keys_read, [&](RleKey key, const char* value) {
            const char* const end = json::skip_value(value, true);
            if (key == RleKey::size) {
                size_at = value;
            } else {
                counts_ = value;
                counts_end_ = end;
            }
            return end;
        });
        if (size_at == nullptr || counts_ == nullptr) {
            refuse(begin, window, "segmentation", "must have `size` and `counts`");
        }
        size_ = read_size(size_at, window);
        if (*counts_ != '"') check_count_list(window);
        return object_end;
    }

    void push_runs(MaskColumn& masks, bool is_compared = true) {
        const RunsError error = *counts_ == '"' ? push_compressed(masks, is_compared) : push_count_list(masks, is_compared);
        if (error != RunsError::none) throw InvalidRecord{": `counts` of `segmentation` " + rule_of(error, size_)};
    }

    static MaskSize read_size(const char* const begin, const Window& window) {
        std::array<double, 2> sides{-1, -1};
        const char* p = begin;
        for (int i = 0; i < 2 && p != nullptr; ++i) {
            p = *p == (i == 0 ? '[' : ',') ? json::read_double(json::skip_space(p + 1), sides[i]) : nullptr;
            if (p != nullptr) p = json::skip_space(p);
        }
        const char* const rule = p == nullptr || *p != ']' ? broken_rule(-1, -1) : broken_rule(sides[0], sides[1]);
        if (rule != nullptr) refuse(begin, window, "size", std::string("of `segmentation` ") + rule);
        return {static_cast<uint32_t>(sides[0]), static_cast<uint32_t>(sides[1])};
    }

    // Append compressed run lengths. Their alphabet has a backslash, which JSON escapes, so most of these strings have escapes: a fast
    // path handles this escape, and `json::read_string` any other.
    RunsError push_compressed(MaskColumn& masks, bool is_compared) {
        const char *from = counts_ + 1, *const end = counts_end_ - 1;
        while (from < end) {
            const auto* escape = static_cast<const char*>(std::memchr(from, '\\', static_cast<size_t>(end - from)));
            if (escape == nullptr) escape = end;
            masks.counts.append(from, static_cast<size_t>(escape - from));
            if (escape == end) break;
            if (escape[1] != '\\') {
                masks.counts.truncate(static_cast<size_t>(masks.start.back()));
                const json::String string = json::read_string(counts_ + 1, text_);
                masks.counts.append(string.text.data(), string.text.size());
                break;
            }
            masks.counts.push_back('\\');
            from = escape + 2;
        }
        return is_compared ? masks.finish_text(size_, runs_) : masks.finish_area(size_, runs_);
    }

    // Throw InvalidRecord unless `counts` is a list of integers.
    void check_count_list(const Window& window) const {
        const char* p = counts_;
        bool is_valid = *p == '[';
        for (p = json::skip_space(p + 1); is_valid && *p != ']'; p = json::skip_space(p)) {
            if (*p == ',') p = json::skip_space(p + 1);
            int64_t count = 0;
            json::Integer kind;
            p = json::read_integer(p, count, kind);
            is_valid = kind != json::Integer::other;
        }
        if (!is_valid) refuse(counts_, window, "counts", "of `segmentation` must be text or a list of integers");
    }

    RunsError push_count_list(MaskColumn& masks, bool is_compared) {
        runs_.clear();
        uint64_t num_left = size_.num_pixels();
        const char* p = json::skip_space(counts_ + 1);
        for (bool is_first = true; *p != ']'; is_first = false) {
            if (!is_first) p = json::skip_space(p + 1);
            int64_t count = 0;
            json::Integer kind;
            p = json::skip_space(json::read_integer(p, count, kind));
            if (kind == json::Integer::valid && count < 0) return RunsError::negative;
            if (kind == json::Integer::too_large || static_cast<uint64_t>(count) > num_left) return RunsError::beyond;
            num_left -= static_cast<uint64_t>(count);
            runs_.push_back(static_cast<uint32_t>(count));
        }
        if (num_left != 0) return RunsError::short_of;
        if (is_compared) {
            masks.push(runs_, size_);
        } else {
            masks.push_nothing(area_of(runs_), size_);
        }
        return RunsError::none;
    }

    // Move from the end of an item, or of the opening bracket if `is_first`, to the next item or the closing bracket.
    static const char* next_item(const char* p, bool is_first) {
        p = json::skip_space(p);
        if (is_first || *p == ']') return p;
        if (*p != ',') throw json::Malformed{p, "',' or ']'"};
        p = json::skip_space(p + 1);
        if (*p == ']') throw json::Malformed{p, "a value"};
        return p;
    }

    const char* read_polygons(const char* const begin, const Window& window) {
        const char* const kRule = "must be a list of polygons, each a list of numbers x, y, x, y, …";
        const char* p = next_item(begin + 1, true);
        for (; *p != ']'; p = next_item(p + 1, false)) {
            if (*p != '[') refuse(begin, window, "segmentation", kRule);
            const char* const polygon = p;
            const size_t num_before = polygons_.points.size();
            for (p = next_item(p + 1, true); *p != ']';) {
                double number = 0;
                const char* const end = json::read_double(p, number);
                if (end == nullptr && *p != 'N' && *p != 'I' && *p != '-') refuse(begin, window, "segmentation", kRule);
                if (end == nullptr || !(std::abs(number) <= kFarthestPoint)) {
                    refuse(p, window, "segmentation", "must have polygons of finite numbers, none of them beyond 4e8");
                }
                polygons_.points.push_back(number);
                p = next_item(end, false);
            }
            const size_t num = polygons_.points.size() - num_before;
            if (num == 0 || num % 2 != 0) {
                refuse(polygon, window, "segmentation",
                       "must have polygons of pairs x, y, not of " + std::to_string(num) + " numbers");
            }
            polygons_.finish_part();
        }
        if (polygons_.num_parts() == 0) refuse(begin, window, "segmentation", "must have at least one polygon");
        polygons_.finish_mask();
        return p + 1;
    }

    Layout<RleKey> layout_;
    const char *counts_ = nullptr, *counts_end_ = nullptr;
    MaskSize size_;
    std::string text_;
    Runs runs_;
    MaskColumn mask_;         // scratch of `measure`
    PolygonColumn polygons_;  // of the last segmentation
};

}  // namespace boxscore
