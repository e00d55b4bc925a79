#include "io/coco_json.h"

#include <algorithm>
#include <cstring>

#include "io/annotation_records.h"
#include "io/dataset_records.h"
#include "io/list_reader.h"

namespace boxscore {
namespace {

// Read a file, member by member.
class FileReader {
public:
    FileReader(const Source& source, const Run& run, const CocoRequest& request, size_t chunk_size)
        : source_(source), run_(run), annotations_(request), chunk_size_(std::max<size_t>(chunk_size, 1)), window_(source, chunk_size_) {}

    CocoFile read() {
        CocoFile file;
        offset_ = 0;
        scan([&](const char* p) {
            const bool has_byte_order_mark = std::memcmp(p, "\xef\xbb\xbf", 3) == 0;
            p = json::skip_space(has_byte_order_mark ? p + 3 : p);
            if (*p == 0) throw json::Malformed{p, "an object or a list"};
            return p;
        });
        const char first = *window_.at(offset_);
        if (first == '{') {
            file.is_dataset = true;
            read_dataset(file);
        } else if (first == '[') {
            file.boxes = read_list("result", annotations_).take();
        } else {
            const std::string got = value_text();
            throw CocoError("expected an object with `annotations` and `categories`, or a list of results; got " + got);
        }
        scan([&](const char* p) {
            p = json::skip_space(p);
            if (p < window_.end() || window_.is_cut(p)) throw json::Malformed{p, "the end"};
            return p;
        });
        return file;
    }

private:
    // Move the offset to the position that `move` returns. Calls it again with a larger window if it reaches the end of this one.
    template <class Move>
    void scan(Move move) {
        for (;;) {
            run_.check();
            window_.load(offset_, json::kPadding);
            try {
                offset_ = window_.offset(move(window_.at(offset_)));
                window_.load(offset_, json::kPadding);
                return;
            } catch (const json::Malformed& problem) {
                if (!window_.is_cut(problem.at)) fail_at(source_, window_, problem);
                window_.extend(offset_);
            }
        }
    }

    std::string value_text() {
        std::string text;
        scan([&](const char* p) {
            const char* end = nullptr;
            text = spelled_value(p, window_, end);
            return end;
        });
        return text;
    }

    // Read the list at the current offset.
    template <class Records>
    Records read_list(const std::string& kind, const Records& nothing) {
        ListReader<Records> reader(source_, run_, chunk_size_, kind, nothing);
        ListPosition begin;
        scan([&](const char* p) { return step(p + 1, window_, true, begin.is_end); });
        begin.offset = offset_;
        offset_ = reader.read(begin).offset;
        return std::move(reader.rows);
    }

    template <class Records, class Columns>
    void read_member(const char* key, const std::string& kind, const Records& nothing, bool& is_given, Columns& columns) {
        if (is_given) throw CocoError(quoted(key) + " must be given once; got it twice");
        is_given = true;
        if (*window_.at(offset_) != '[') throw CocoError(quoted(key) + " must be a list; got " + value_text());
        columns = read_list(kind, nothing).take();
    }

    void read_dataset(CocoFile& file) {
        std::string key;
        bool is_end = false;
        for (bool is_first = true;; is_first = false) {
            scan([&](const char* p) {
                p = json::skip_space(is_first ? p + 1 : p);
                is_end = *p == '}';
                if (is_end) return p + 1;
                if (!is_first) {
                    if (*p != ',') throw json::Malformed{p, "',' or '}'"};
                    p = json::skip_space(p + 1);
                }
                if (*p != '"') throw json::Malformed{p, is_first ? "a key or '}'" : "a key"};
                p = json::read_key(p, key);
                if (*p == 0) throw json::Malformed{p, "a value"};
                return p;
            });
            if (is_end) break;
            if (key == "annotations") {
                read_member("annotations", "annotation", annotations_, file.has_annotations, file.boxes);
            } else if (key == "images") {
                read_member("images", "image", ImageRecords(), file.has_images, file.images);
            } else if (key == "categories") {
                read_member("categories", "category", CategoryRecords(), file.has_categories, file.categories);
            } else {
                scan([&](const char* p) {
                    p = json::skip_value(p);
                    if (window_.is_cut(p)) throw json::Malformed{p, "more"};
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
    AnnotationRecords annotations_;  // empty
    size_t chunk_size_;
    Window window_;
    size_t offset_ = 0;
};

}  // namespace

CocoFile read_coco(const Source& source, const Run& run, const CocoRequest& request, size_t chunk_size) {
    return FileReader(source, run, request, chunk_size).read();
}

}  // namespace boxscore
