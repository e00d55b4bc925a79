#include "direct.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "average.h"
#include "checks.h"
#include "curves.h"
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
    Buffer<int32_t> image, label;  // places
    Buffer<double> score;
    Buffer<uint8_t> tier;
    Buffer<State> state;
    TallyRows<double, State> rows{};

    explicit OwnTally(size_t size) : image(size), label(size), score(size), tier(size), state(size) {}
};

Buffer<int32_t> places_of(const std::vector<int64_t>& ids, const std::vector<int64_t>& table) {
    Buffer<int32_t> place(ids.size());
    find_places(ids.data(), ids.size(), table, place.data());
    return place;
}

template <class State>
OwnTally<State> match_files(const CocoFile& truths, CocoFile&& detections, const std::vector<int64_t>& classes,
                            const Rules& rules, const BoxRules& boxes, const Run& run) {
    const CocoBoxes &there = truths.boxes, found = std::move(detections.boxes);
    const std::vector<int64_t> images = united(distinct_of(found.image.value), distinct_of(there.image.value));
    const Buffer<int32_t> image = places_of(found.image.value, images), label = places_of(found.category, classes);
    const Buffer<int32_t> truth_image = places_of(there.image.value, images), truth_label = places_of(there.category, classes);
    const std::vector<double> area = areas_of(there);
    std::vector<int32_t> place(std::max(images.size(), classes.size()));
    std::iota(place.begin(), place.end(), 0);

    OwnTally<State> tally(found.size());
    tally.rows.image_id = tally.rows.label_id = place.data();
    tally.rows.image = tally.image.data(), tally.rows.label = tally.label.data();
    tally.rows.score = tally.score.data(), tally.rows.tier = tally.tier.data(), tally.rows.state = tally.state.data();
    std::vector<uint8_t> kind = there.is_crowd;
    for (uint8_t& each : kind) each = each != 0 ? boxes.ignored_kind : uint8_t{kRegular};
    const TruthColumns truth_columns{there.size(), truth_image.data(), truth_label.data(), area.empty() ? nullptr : area.data(),
                                     kind.empty() ? nullptr : kind.data()};
    const DetectionColumns<double> columns{found.size(), image.data(), label.data(), found.score.data(), nullptr};
    const BoxPolicy<double> policy({found.box.data(), BoxFormat::xywh}, {there.box.data(), BoxFormat::xywh},
                                   boxes.is_inclusive);
    match(policy, columns, truth_columns, {images.size(), classes.size()}, rules, run, tally.rows);
    return tally;
}

// The mean over thresholds, one after the other, of every `stride`-th value from `first` on.
double mean_over_thresholds(const double* first, size_t num_thresholds, size_t stride) {
    double sum = 0;
    for (size_t t = 0; t < num_thresholds; ++t) sum += first[t * stride];
    return sum / static_cast<double>(num_thresholds);
}

template <class State>
PlainResult evaluate_files(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                           const std::vector<Measure>& measures, const BoxRules& boxes, const Run& run) {
    PlainResult result;
    result.classes = distinct_of(truths.categories.id);
    const size_t num_classes = result.classes.size(), num_thresholds = rules.num_thresholds();
    const size_t num_areas = rules.num_areas(), num_limits = rules.num_limits(), num_points = rules.recall_points.size();
    result.num_read = detections.boxes.size();
    const OwnTally<State> tally = match_files<State>(truths, std::move(detections), result.classes, rules, boxes, run);
    const TallyRows<double, State>& rows = tally.rows;
    const std::vector<int64_t> num_truths = count_truths(rows.truth_label.data(), rows.truth_state.data(),
                                                         rows.truth_state.size(), num_classes, num_areas);

    const size_t num_curves = num_thresholds * num_classes * num_areas * num_limits;
    Buffer<double> precision(num_curves * num_points), scores(num_curves * num_points);
    Buffer<double> recall(num_curves), average_precision(num_curves);
    Buffer<int64_t> num_true(num_curves), num_false(num_curves);
    const TallyColumns<double, State> columns{rows.size,         rows.label,         nullptr,
                                              rows.score,        rows.tier,          rows.state,
                                              rows.is_true.data(), rows.is_counted.data(),
                                              rows.is_true.size() / rules.num_words(), 0, num_classes, num_truths.data()};
    draw_curves(std::vector{columns}, rules, nullptr, run,
                {precision.data(), scores.data(), recall.data(), average_precision.data(), num_true.data(), num_false.data()});

    const bool has_points = rules.ap == ApRule::recall_points;
    for (const Measure& measure : measures) {
        const Buffer<double>& samples = measure.is_recall ? recall : has_points ? precision : average_precision;
        result.numbers.push_back(mean_defined(samples.data(), measure.thresholds, samples.size() / num_thresholds,
                                              num_areas * num_limits, measure.area * num_limits + measure.limit));
    }
    result.num_detections.assign(num_classes, 0);
    for (size_t i = 0; i < rows.size; ++i) ++result.num_detections[rows.label[i]];
    const size_t stride = num_classes * num_areas * num_limits;  // from one threshold to the next
    for (size_t k = 0; k < num_classes; ++k) {
        const size_t first = k * num_areas * num_limits + num_limits - 1;
        result.num_truths.push_back(num_truths[k * num_areas]);
        result.ap.push_back(mean_over_thresholds(average_precision.data() + first, num_thresholds, stride));
        result.ar.push_back(result.num_truths.back() == 0 ? std::numeric_limits<double>::quiet_NaN()
                                            : mean_over_thresholds(recall.data() + first, num_thresholds, stride));
        for (size_t t = 0; t < num_thresholds; ++t) {
            result.ap_at.push_back(average_precision[first + t * stride]);
            result.num_true.push_back(num_true[first + t * stride]);
            result.num_false.push_back(num_false[first + t * stride]);
        }
    }
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
