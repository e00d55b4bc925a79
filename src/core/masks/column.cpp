#include "masks/column.h"

#include <algorithm>

namespace boxscore {
namespace {

// The same mask without runs that have no pixels, but for the first.
void drop_empty_runs(Runs& runs) {
    size_t num = runs.empty() ? 0 : 1;
    for (size_t i = 1; i < runs.size(); ++i) {
        if (runs[i] != 0) {
            runs[num++] = runs[i];
        } else if (i + 1 < runs.size()) {
            runs[num - 1] += runs[++i];  // the runs on both sides are one
        }
    }
    runs.resize(num);
}

bool has_only_codes(const char* text, size_t num) {
    uint8_t others = 0;
    for (size_t i = 0; i < num; ++i) others |= static_cast<uint8_t>(text[i] - CountCode::kFirst);
    return (others & 0xc0) == 0;
}

}  // namespace

void MaskColumn::push(Runs& runs, MaskSize mask_size) {
    MaskMeasure measure;
    measure_runs(runs, mask_size, measure);
    if (measure.has_empty_run) {
        drop_empty_runs(runs);
        measure_runs(runs, mask_size, measure);
    }
    encode_runs(runs.data(), runs.size(), [&](char c) { counts.push_back(c); });
    finish_row(measure, mask_size);
}

RunsError MaskColumn::push_text(const char* text, size_t num, MaskSize mask_size, Runs& scratch) {
    counts.append(text, num);
    return finish_text(mask_size, scratch);
}

RunsError MaskColumn::finish_text(MaskSize mask_size, Runs& scratch) {
    const auto begin = static_cast<size_t>(start.back());
    const char* const text = counts.data() + begin;
    const size_t num = counts.size() - begin;
    const bool is_plain = decode_runs(text, num, scratch) && has_only_codes(text, num);
    MaskMeasure measure;
    const bool is_whole = measure_runs(scratch, mask_size, measure);
    // Most texts are seen to be valid by what was decoded; else the reader of one count after the other decides.
    const RunsError error = is_plain && is_whole ? RunsError::none : validate_runs(text, num, mask_size);
    if (error != RunsError::none || measure.has_empty_run) counts.truncate(begin);
    if (error != RunsError::none) return error;
    if (measure.has_empty_run) {
        push(scratch, mask_size);
    } else {
        finish_row(measure, mask_size);
    }
    return error;
}

void MaskColumn::finish_row(const MaskMeasure& measure, MaskSize mask_size) {
    start.push_back(static_cast<int64_t>(counts.size()));
    size.push_back(mask_size);
    area.push_back(measure.area);
    box.push_back(measure.box);
}

void MaskColumn::append(const MaskColumn& other) {
    const int64_t first = start.back();
    counts.append(other.counts.data(), other.counts.size());
    for (size_t row = 1; row < other.start.size(); ++row) start.push_back(first + other.start[row]);
    size.insert(size.end(), other.size.begin(), other.size.end());
    area.insert(area.end(), other.area.begin(), other.area.end());
    box.insert(box.end(), other.box.begin(), other.box.end());
}

void MaskColumn::append_row(const MaskColumn& other, size_t row) {
    counts.append(other.counts.data() + other.start[row], static_cast<size_t>(other.start[row + 1] - other.start[row]));
    start.push_back(static_cast<int64_t>(counts.size()));
    size.push_back(other.size[row]);
    area.push_back(other.area[row]);
    box.push_back(other.box[row]);
}

void MaskColumn::reserve(size_t num_masks, size_t num_bytes) {
    counts.reserve(num_bytes);
    start.reserve(num_masks + 1);
    size.reserve(num_masks);
    area.reserve(num_masks);
    box.reserve(num_masks);
}

void MaskColumn::clear() {
    counts.clear();
    start.assign(1, 0);
    size.clear();
    area.clear();
    box.clear();
}

}  // namespace boxscore
