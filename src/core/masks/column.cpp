#include "masks/column.h"

#include <algorithm>

namespace boxscore {
namespace {

// Removes runs without pixels, except for the first. Returns whether there was one between two others.
bool drop_empty_runs(Runs& runs) {
    bool is_joined = false;
    size_t num = runs.empty() ? 0 : 1;
    for (size_t i = 1; i < runs.size(); ++i) {
        if (runs[i] != 0) {
            runs[num++] = runs[i];
        } else if (i + 1 < runs.size()) {
            runs[num - 1] += runs[++i];  // the runs on both sides are one
            is_joined = true;
        }
    }
    runs.resize(num);
    return is_joined;
}

bool has_only_codes(const char* text, size_t num) {
    uint8_t others = 0;
    for (size_t i = 0; i < num; ++i) others |= static_cast<uint8_t>(text[i] - CountCode::kFirst);
    return (others & 0xc0) == 0;
}

// Decodes compressed counts, if they are valid.
RunsError decode_valid(const char* text, size_t num, MaskSize size, Runs& runs, uint32_t& num_on) {
    const DecodedRuns decoded = decode_runs(text, num, runs);
    num_on = static_cast<uint32_t>(decoded.num_on);
    // Most texts are seen to be valid by what was decoded; else the reader of one count after the other decides.
    const bool is_valid = decoded.are_surely_for(size) && has_only_codes(text, num);
    return is_valid ? RunsError::none : validate_runs(text, num, size);
}

}  // namespace

void MaskColumn::push(Runs& runs, MaskSize mask_size) {
    if (has_empty_run(runs)) has_joined_runs |= drop_empty_runs(runs);
    encode_runs(runs.data(), runs.size(), [&](char c) { counts.push_back(c); });
    finish_row(area_of(runs), box_of_runs(runs, mask_size.height), mask_size);
}

RunsError MaskColumn::push_text(const char* text, size_t num, MaskSize mask_size, Runs& scratch) {
    counts.append(text, num);
    return finish_text(mask_size, scratch);
}

RunsError MaskColumn::finish_text(MaskSize mask_size, Runs& scratch) {
    const auto begin = static_cast<size_t>(start.back());
    const char* const text = counts.data() + begin;
    const size_t num = counts.size() - begin;
    uint32_t num_on = 0;
    const RunsError error = decode_valid(text, num, mask_size, scratch, num_on);
    if (error != RunsError::none) {
        counts.truncate(begin);
    } else if (has_empty_run(scratch)) {
        counts.truncate(begin);
        push(scratch, mask_size);
    } else {
        finish_row(num_on, box_of_runs(scratch, mask_size.height), mask_size);
    }
    return error;
}

RunsError MaskColumn::finish_area(MaskSize mask_size, Runs& scratch) {
    const auto begin = static_cast<size_t>(start.back());
    uint32_t num_on = 0;
    const RunsError error = decode_valid(counts.data() + begin, counts.size() - begin, mask_size, scratch, num_on);
    counts.truncate(begin);
    if (error == RunsError::none) push_nothing(num_on, mask_size);
    return error;
}

void MaskColumn::finish_row(uint32_t mask_area, MaskBox mask_box, MaskSize mask_size) {
    start.push_back(static_cast<int64_t>(counts.size()));
    size.push_back(mask_size);
    area.push_back(mask_area);
    box.push_back(mask_box);
}

void MaskColumn::append(const MaskColumn& other) {
    const int64_t first = start.back();
    counts.append(other.counts.data(), other.counts.size());
    for (size_t row = 1; row < other.start.size(); ++row) start.push_back(first + other.start[row]);
    size.insert(size.end(), other.size.begin(), other.size.end());
    area.insert(area.end(), other.area.begin(), other.area.end());
    box.insert(box.end(), other.box.begin(), other.box.end());
    has_joined_runs |= other.has_joined_runs;
}

void MaskColumn::append_row(const MaskColumn& other, size_t row) {
    counts.append(other.counts.data() + other.start[row], static_cast<size_t>(other.start[row + 1] - other.start[row]));
    start.push_back(static_cast<int64_t>(counts.size()));
    size.push_back(other.size[row]);
    area.push_back(other.area[row]);
    box.push_back(other.box[row]);
    has_joined_runs |= other.has_joined_runs;
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
    has_joined_runs = false;
}

}  // namespace boxscore
