#include "masks/column.h"

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

}  // namespace

void MaskColumn::push(Runs& runs, MaskSize mask_size) {
    const auto measure = [&] {
        MaskMeter meter(mask_size);
        for (const uint32_t count : runs) meter.add(count);
        return meter;
    };
    MaskMeter meter = measure();
    if (meter.has_empty_run()) {
        drop_empty_runs(runs);
        meter = measure();
    }
    encode_runs(runs.data(), runs.size(), [&](char c) { counts.push_back(c); });
    finish_mask(meter, mask_size);
}

void MaskColumn::finish_mask(const MaskMeter& meter, MaskSize mask_size) {
    if (meter.has_empty_run()) {
        Runs runs;
        decode_runs(counts.data() + start.back(), counts.data() + counts.size(), runs);
        counts.truncate(static_cast<size_t>(start.back()));
        return push(runs, mask_size);
    }
    start.push_back(static_cast<int64_t>(counts.size()));
    size.push_back(mask_size);
    area.push_back(meter.area());
    box.push_back(meter.box());
}

void MaskColumn::append(const MaskColumn& other) {
    const int64_t first = start.back();
    counts.append(other.counts.data(), other.counts.size());
    for (size_t row = 1; row < other.start.size(); ++row) start.push_back(first + other.start[row]);
    size.insert(size.end(), other.size.begin(), other.size.end());
    area.insert(area.end(), other.area.begin(), other.area.end());
    box.insert(box.end(), other.box.begin(), other.box.end());
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
