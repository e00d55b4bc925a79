#include "masks/runs.h"

#include <algorithm>
#include <array>

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

RunsError validate_runs(const char* text, size_t num, MaskSize size) {
    uint64_t num_left = size.num_pixels();
    std::array<uint32_t, 2> last{};  // the counts one and two before, by turns
    size_t num_runs = 0;
    for (size_t i = 0; i < num; ++num_runs) {
        int64_t value = 0;
        int shift = 0, c = CountCode::kMore;
        for (; (c & CountCode::kMore) != 0; shift += CountCode::kBits) {
            if (i == num) return RunsError::truncated;
            c = static_cast<unsigned char>(text[i++]) - CountCode::kFirst;
            if (c < 0 || c >= 64) return RunsError::character;
            if (shift == CountCode::kBits * CountCode::kMostCharacters) return RunsError::beyond;
            value |= int64_t{c & 31} << shift;
        }
        if ((c & CountCode::kSign) != 0) value -= int64_t{1} << shift;
        uint32_t& before = last[num_runs % 2];
        if (num_runs > 2) value += before;
        if (value < 0) return RunsError::negative;
        if (static_cast<uint64_t>(value) > num_left) return RunsError::beyond;
        num_left -= static_cast<uint64_t>(value);
        before = static_cast<uint32_t>(value);
    }
    return num_left == 0 ? RunsError::none : RunsError::short_of;
}

MaskBox box_of_runs(const Runs& runs, uint32_t height) {
    if (height == 0) return {};
    const size_t num_pairs = runs.size() / 2;
    uint32_t x = 0, y = 0;  // of the next pixel
    uint32_t left = UINT32_MAX, top = height, right = 0, bottom = 0;
    for (size_t i = 0; i < num_pairs; ++i) {
        y += runs[2 * i];
        if (y >= height) {
            y -= height, ++x;
            // A run is seldom longer than a column; only then is it divided.
            if (y >= height) x += y / height, y %= height;
        }
        const uint32_t num_on = runs[2 * i + 1];
        if (num_on == 0) continue;
        left = std::min(left, x);
        top = std::min(top, y);
        y += num_on;  // below the last pixel
        if (y > height) {
            top = 0, bottom = height;
            const uint32_t num_columns = (y - 1) / height;
            x += num_columns, y -= num_columns * height;
        }
        bottom = std::max(bottom, y);
        right = x + 1;
    }
    return right == 0 ? MaskBox{} : MaskBox{left, top, right - left, bottom - top};
}

bool has_empty_run(const Runs& runs) {
    uint32_t num_empty = 0;  // counted, not looked for: that takes many at a time
    for (size_t i = 1; i < runs.size(); ++i) num_empty += runs[i] == 0;
    return num_empty > 0;
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
