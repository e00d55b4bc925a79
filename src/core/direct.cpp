#include "direct.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "checks.h"
#include "finish.h"
#include "geometry/boxes.h"
#include "match.h"
#include "memory.h"
#include "order.h"

namespace boxscore {
namespace {

bool is_in(const std::vector<int64_t>& some, const std::vector<int64_t>& all) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

std::vector<int64_t> distinct_of(const std::vector<int64_t>& ids) { return distinct(ids.data(), ids.size()); }

// Whether no annotation has the id 0 or the id of another: with such ids pycocotools gives other numbers.
bool are_ids_fine(const std::vector<int64_t>& ids) {
    if (std::find(ids.begin(), ids.end(), 0) != ids.end()) return false;
    const bool is_ascending = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
    return is_ascending || distinct_of(ids).size() == ids.size();
}

// Whether all is as it should be: truths with classes; integers for images; boxes and scores that columns would take; no
// image and no class that the truths don't list.
bool is_fine(const CocoFile& truths, const CocoFile& detections, double largest) {
    if (!truths.is_dataset || !truths.has_annotations || !truths.has_categories || detections.is_dataset) return false;
    if (detections.boxes.score.size() != detections.boxes.size()) return false;
    for (const CocoBoxes* boxes : {&truths.boxes, &detections.boxes}) {
        if (boxes->image.are_names || boxes->size() > UINT32_MAX / 2) return false;
        if (!are_boxes_fine(boxes->box.data(), boxes->size(), BoxFormat::xywh, largest)) return false;
        if (!is_in(distinct_of(boxes->category), distinct_of(truths.categories.id))) return false;
        if (!truths.has_images || truths.images.size() == 0) continue;
        const std::vector<int64_t> images = distinct_of(truths.images.id.value);
        if (truths.images.id.are_names || images.size() < truths.images.size()) return false;
        if (!is_in(distinct_of(boxes->image.value), images)) return false;
    }
    for (const double area : truths.boxes.area) {
        if (area < 0) return false;
    }
    if (!are_ids_fine(truths.boxes.id)) return false;
    return are_finite(detections.boxes.score.data(), detections.boxes.size());
}

// The areas that decide size classes: a box's own where an annotation has none.
std::vector<double> areas_of(const CocoBoxes& boxes) {
    std::vector<double> area = boxes.area;
    for (size_t i = 0; i < area.size(); ++i) {
        if (std::isnan(area[i])) area[i] = boxes.box[i * 4 + 2] * boxes.box[i * 4 + 3];
    }
    return area;
}

// A tally that owns its columns.
template <class State>
struct OwnTally {
    Buffer<int32_t> image, label;  // indices
    Buffer<double> score;
    Buffer<uint8_t> tier;
    Buffer<State> state;
    TallyRows<double, State> rows{};

    explicit OwnTally(size_t size) : image(size), label(size), score(size), tier(size), state(size) {}
};

Buffer<int32_t> indices_of(const std::vector<int64_t>& ids, const std::vector<int64_t>& table) {
    Buffer<int32_t> index(ids.size());
    find_indices(ids.data(), ids.size(), table, index.data());
    return index;
}

template <class State>
OwnTally<State> match_files(const CocoFile& truths, CocoFile&& detections, const std::vector<int64_t>& classes,
                            const Rules& rules, const BoxRules& boxes, const Run& run) {
    const CocoBoxes &there = truths.boxes, found = std::move(detections.boxes);
    const std::vector<int64_t> images = united(distinct_of(found.image.value), distinct_of(there.image.value));
    const Buffer<int32_t> image = indices_of(found.image.value, images), label = indices_of(found.category, classes);
    const Buffer<int32_t> truth_image = indices_of(there.image.value, images), truth_label = indices_of(there.category, classes);
    const std::vector<double> area = areas_of(there);
    std::vector<int32_t> index(std::max(images.size(), classes.size()));
    std::iota(index.begin(), index.end(), 0);

    OwnTally<State> tally(found.size());
    tally.rows.image_id = tally.rows.label_id = index.data();
    tally.rows.image = tally.image.data(), tally.rows.label = tally.label.data();
    tally.rows.score = tally.score.data(), tally.rows.tier = tally.tier.data(), tally.rows.state = tally.state.data();
    std::vector<uint8_t> kind = there.is_crowd;
    for (uint8_t& each : kind) each = each != 0 ? boxes.ignored_kind : uint8_t{kRegular};
    const TruthColumns truth_columns{there.size(), truth_image.data(), truth_label.data(), area.empty() ? nullptr : area.data(),
                                     kind.empty() ? nullptr : kind.data()};
    const DetectionColumns<double> columns{found.size(), image.data(), label.data(), found.score.data(), nullptr, nullptr};
    const BoxPolicy<double> policy({found.box.data(), BoxFormat::xywh}, {there.box.data(), BoxFormat::xywh},
                                   boxes.is_inclusive);
    match(policy, columns, truth_columns, {images.size(), classes.size()}, rules, run, tally.rows);
    return tally;
}

template <class State>
PlainResult evaluate_files(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                           const std::vector<Measure>& measures, const BoxRules& boxes, const Run& run) {
    PlainResult result;
    result.classes = distinct_of(truths.categories.id);
    const size_t num_classes = result.classes.size(), num_areas = rules.num_areas(), num_limits = rules.num_limits();
    result.num_read = detections.boxes.size();
    const OwnTally<State> tally = match_files<State>(truths, std::move(detections), result.classes, rules, boxes, run);
    const TallyRows<double, State>& rows = tally.rows;
    const std::vector<int64_t> num_truths = count_truths(rows.truth_label.data(), rows.truth_state.data(),
                                                         rows.truth_state.size(), num_classes, num_areas);
    const TallyColumns<double, State> columns{rows.size,         rows.label,         nullptr,
                                              rows.score,        rows.tier,          rows.state,
                                              rows.is_true.data(), rows.is_counted.data(),
                                              rows.is_true.size() / rules.num_words(), 0, num_classes, num_truths.data()};
    Finished finished = finish(std::vector{columns}, rules, {measures, false}, run);
    result.num_detections.assign(num_classes, 0);
    for (size_t i = 0; i < rows.size; ++i) ++result.num_detections[rows.label[i]];
    for (size_t k = 0; k < num_classes; ++k) {
        result.num_truths.push_back(num_truths[k * num_areas]);
        for (size_t t = 0; t < rules.num_thresholds(); ++t) {
            const size_t index = ((t * num_classes + k) * num_areas + 1) * num_limits - 1;
            result.ap_at.push_back(finished.average_precision[index]);
            result.num_true.push_back(finished.num_true[index]);
            result.num_false.push_back(finished.num_false[index]);
        }
    }
    result.averages = std::move(finished.averages);
    return result;
}

}  // namespace

std::optional<PlainResult> evaluate_plainly(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                                            const std::vector<Measure>& measures, const BoxRules& boxes, const Run& run) {
    if (!is_fine(truths, detections, boxes.largest)) return std::nullopt;
    if (rules.num_areas() < 8) return evaluate_files<uint8_t>(truths, std::move(detections), rules, measures, boxes, run);
    return evaluate_files<uint64_t>(truths, std::move(detections), rules, measures, boxes, run);
}

}  // namespace boxscore
