#include "masks/loose_runs.h"

#include <algorithm>

namespace boxscore {

void decode_loosely(const char* text, size_t size, Runs& runs) {
    const char* const end = std::find(text, text + size, '\0');
    if (decode_runs(text, static_cast<size_t>(end - text), runs).is_valid) return;
    runs.clear();
    for (const char* p = text; p < end;) {
        uint64_t value = 0;
        int c = CountCode::kMore, shift = 0;
        for (; (c & CountCode::kMore) != 0 && p < end && shift < 60; shift += CountCode::kBits) {
            c = static_cast<signed char>(*p++ - CountCode::kFirst);
            value |= uint64_t{c & 31u} << shift;
        }
        if ((c & CountCode::kSign) != 0 && (c & CountCode::kMore) == 0) value |= ~uint64_t{0} << shift;
        if (runs.size() > 2) value += runs[runs.size() - 2];
        runs.push_back(static_cast<uint32_t>(value));
    }
}

bool compare_loosely(const Runs& a, const Runs& b, bool is_crowd, double& iou) {
    uint32_t shared = 0, either = 0;
    const auto use = [&](uint32_t step, bool is_on, bool is_other_on) {
        if (is_on || is_other_on) either += step;
        if (is_on && is_other_on) shared += step;
    };
    if (!walk(a, b, use, [](bool, bool, bool) {})) return false;
    iou = shared == 0 ? 0.0 : static_cast<double>(shared) / static_cast<double>(is_crowd ? area_of(a) : either);
    return true;
}

}  // namespace boxscore
