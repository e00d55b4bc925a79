#include "masks/runs.h"

#include <algorithm>

namespace boxscore {

std::string rule_of(RunsError error, MaskSize size) {
    const std::string pixels = std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels of `size`";
    switch (error) {
        case RunsError::character: return "must be compressed run lengths, of the characters '0' to 'o'; got another one";
        case RunsError::truncated: return "must be compressed run lengths; the last one is cut off";
        case RunsError::negative: return "must not have a negative run length; got one";
        case RunsError::beyond: return "must have run lengths for the " + pixels + "; got more";
        case RunsError::short_of: return "must have run lengths for the " + pixels + "; got fewer";
        case RunsError::none: break;
    }
    return "";
}

void decode_runs(const char* begin, const char* end, Runs& runs) {
    runs.resize(static_cast<size_t>(end - begin));
    size_t num = 0;
    for (const char* p = begin; p < end; ++num) {
        int c = *p++ - CountReader::kFirst, shift = CountReader::kBits;
        int64_t value = c & 31;
        for (; (c & CountReader::kMore) != 0 && p < end; shift += CountReader::kBits) {
            c = *p++ - CountReader::kFirst;
            value |= int64_t{c & 31} << shift;
        }
        // The sign without a branch: it is as good as random.
        const int64_t half = int64_t{1} << (shift - 1);
        value = (value ^ half) - half;
        if (num > 2) value += runs[num - 2];
        runs[num] = static_cast<uint32_t>(value);
    }
    runs.resize(num);
}

void counts_of_edges(const std::vector<uint32_t>& edges, MaskSize size, Runs& runs) {
    runs.clear();
    const auto num_pixels = static_cast<uint32_t>(size.num_pixels());
    uint32_t before = 0;
    for (const uint32_t edge : edges) {
        if (edge >= num_pixels) break;
        runs.push_back(edge - before);
        before = edge;
    }
    if (num_pixels > before || runs.empty()) runs.push_back(num_pixels - before);
}

bool merge_runs(const Runs& a, const Runs& b, bool is_intersection, Runs& merged) {
    merged.clear();
    uint32_t num = 0;
    bool is_on = false;
    const auto use = [&](uint32_t step, bool, bool) { num += step; };
    return walk(a, b, use, [&](bool is_first_on, bool is_second_on, bool has_more) {
        const bool was_on = is_on;
        is_on = is_intersection ? is_first_on && is_second_on : is_first_on || is_second_on;
        if (is_on == was_on && has_more) return;
        merged.push_back(num);
        num = 0;
    });
}

uint64_t count_common(const Runs& a, const Runs& b) {
    uint64_t num = 0;
    const auto use = [&](uint32_t step, bool is_on, bool is_other_on) { num += is_on && is_other_on ? step : 0; };
    walk(a, b, use, [](bool, bool, bool) {});
    return num;
}

uint32_t area_of(const Runs& runs) {
    uint32_t area = 0;
    for (size_t i = 1; i < runs.size(); i += 2) area += runs[i];
    return area;
}

}  // namespace boxscore
