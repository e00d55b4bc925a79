#include "io/record.h"

#include <vector>

#include "io/coco_json.h"

namespace boxscore {

using json::Malformed;

std::string quoted(std::string_view key) { return "`" + std::string(key) + "`"; }

void fail_at(const Source& source, const Window& window, const Malformed& problem) {
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

std::string id_of_record(const char* p, const Window& window) {
    std::string id, key;
    try {
        if (*p != '{') return id;
        for (bool is_first = true;; is_first = false) {
            p = json::skip_space(p + 1);
            if (is_first && *p == '}') return id;
            if (*p != '"') throw Malformed{p, "a key"};
            const bool is_id = std::memcmp(p, "\"id\"", 4) == 0;
            p = json::read_key(p, key);
            const char* const end = json::skip_value(p, true);
            if (is_id && id.empty()) id = " (id " + json::excerpt(p, end) + ")";
            p = json::skip_space(end);
            if (*p == '}') return id;
            if (*p != ',') throw Malformed{p, "',' or '}'"};
        }
    } catch (const Malformed& problem) {
        if (window.is_cut(problem.at)) throw;
        return id;
    }
}

std::string spelled_value(const char* p, const Window& window, const char*& end) {
    end = json::skip_value(p, true);
    if (window.is_cut(end)) throw Malformed{end, "more"};
    return json::excerpt(p, end);
}

void refuse(const char* p, const Window& window, std::string_view key, const std::string& rule) {
    const char* end = nullptr;
    const std::string got = spelled_value(p, window, end);
    throw InvalidRecord{": " + quoted(key) + " " + rule + "; got " + got};
}

void refuse_number(const char* p, const Window& window, std::string_view key) {
    double value;
    const bool is_constant = *p == 'N' || *p == 'I' || (*p == '-' && p[1] == 'I');
    refuse(p, window, key, is_constant || json::read_double(p, value) != nullptr ? "must be finite" : "must be a number");
}

void refuse_box(const char* p, const Window& window, std::string_view key) {
    const char* const end = json::skip_value(p, true);
    const bool has_constant = *p == '[' && std::any_of(p, end, [](char c) { return c == 'N' || c == 'I'; });
    refuse(p, window, key, has_constant ? "must have 4 finite numbers" : "must have 4 numbers");
}

}  // namespace boxscore
