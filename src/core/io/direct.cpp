#include "io/direct.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "curves/finish.h"
#include "geometry/boxes.h"
#include "geometry/checks.h"
#include "geometry/keypoints.h"
#include "geometry/masks.h"
#include "match/match.h"
#include "platform/memory.h"
#include "rows/likely_mistakes.h"
#include "rows/order.h"

namespace boxscore {
namespace {

template <class Ids>
std::vector<int64_t> distinct_of(const Ids& ids) {
    return distinct(ids.data(), ids.size());
}

// Whether no annotation has the id 0 or the id of another: with such ids pycocotools gives other numbers.
bool are_ids_fine(const ColumnVector<int64_t>& ids) {
    if (std::find(ids.begin(), ids.end(), 0) != ids.end()) return false;
    const bool is_ascending = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
    return is_ascending || distinct_of(ids).size() == ids.size();
}

// Whether keypoints are those that the sigmas are for, and truths have what OKS needs: areas, and labels that are no less than 0.
bool are_keypoints_fine(const CocoBoxes& truths, const CocoBoxes& detections, const std::vector<double>& sigmas) {
    for (const CocoBoxes* boxes : {&truths, &detections}) {
        if (boxes->size() > 0 && boxes->keypoints.num_points != sigmas.size()) return false;
        for (size_t i = 0; i < boxes->box.size(); i += 4) {
            if (boxes->box[i + 2] < 0 || boxes->box[i + 3] < 0) return false;
        }
        // Boxes in some rows and not in others.
        const bool has_box = boxes->size() > 0 && !std::isnan(boxes->box[0]);
        for (size_t i = 0; i < boxes->box.size(); i += 4) {
            if (std::isnan(boxes->box[i]) == has_box) return false;
        }
    }
    if (!are_finite(detections.keypoints.around.data(), detections.keypoints.around.size())) return false;
    if (truths.area.size() != truths.size()) return false;
    for (const double visibility : truths.keypoints.third) {
        if (visibility < 0) return false;
    }
    return std::all_of(truths.area.begin(), truths.area.end(), [](double area) { return area > 0; });
}

// What OKS needs of truths.
struct KeypointLabels {
    std::vector<uint8_t> is_labelled;  // of each point
    std::vector<double> region;        // of each truth: its box, three times as wide and high; empty if it has none
    std::vector<uint8_t> is_blank;     // of each truth: whether no point is labelled

    KeypointLabels(const CocoBoxes& truths, size_t num_points) : region(truths.size() * 4), is_blank(truths.size()) {
        const CocoKeypoints& keypoints = truths.keypoints;
        for (const double visibility : keypoints.third) is_labelled.push_back(visibility > 0);
        for (size_t row = 0; row < truths.size(); ++row) {
            const uint8_t* const labels = is_labelled.data() + row * num_points;
            const bool is_given = !keypoints.num_labelled.empty() && !std::isnan(keypoints.num_labelled[row]);
            is_blank[row] = is_given ? keypoints.num_labelled[row] == 0 : std::count(labels, labels + num_points, 1) == 0;
            grow(truths.box.data() + row * 4, region.data() + row * 4);
        }
    }

private:
    static void grow(const double* box, double* grown) {
        constexpr double kNowhere = std::numeric_limits<double>::infinity();
        for (size_t axis = 0; axis < 2; ++axis) {
            const bool has_box = !std::isnan(box[axis]);
            grown[axis] = has_box ? box[axis] - box[axis + 2] : kNowhere;
            grown[2 + axis] = has_box ? box[axis] + box[axis + 2] * 2 : -kNowhere;
        }
    }
};

// Whether all is as it should be: truths with classes; integers for images, none of them listed twice; scores that columns would
// take. Boxes, images and classes of the rows are checked where they become indices.
bool is_fine(const CocoFile& truths, const CocoFile& detections, const ShapeRules& shapes) {
    if (!truths.is_dataset || !truths.has_annotations || !truths.has_categories || detections.is_dataset) return false;
    if (detections.boxes.score.size() != detections.boxes.size()) return false;
    const std::vector<double>& mask_area = detections.boxes.mask_area;
    if (!shapes.has_masks() && !mask_area.empty()) return false;  // masks alone, evaluated as boxes
    // Boxes in some results and not in others: then not all masks that are measured here have boxes.
    if (std::any_of(mask_area.begin(), mask_area.end(), [](double area) { return std::isnan(area); })) return false;
    for (const CocoBoxes* boxes : {&truths.boxes, &detections.boxes}) {
        if (boxes->image.are_names || boxes->size() > UINT32_MAX / 2) return false;
    }
    if (truths.images.id.are_names || distinct_of(truths.images.id.value).size() < truths.images.size()) return false;
    for (const double area : truths.boxes.area) {
        if (area < 0) return false;
    }
    if (!are_ids_fine(truths.boxes.id)) return false;
    return !shapes.has(IouType::keypoints) || are_keypoints_fine(truths.boxes, detections.boxes, shapes.sigmas);
}

// The areas that decide size classes: those of the shapes where an annotation has none.
std::vector<double> areas_of(const CocoBoxes& boxes) {
    std::vector<double> area(boxes.area.begin(), boxes.area.end());
    const bool has_masks = boxes.masks.num_masks() > 0;
    for (size_t i = 0; i < area.size(); ++i) {
        if (std::isnan(area[i])) area[i] = has_masks ? boxes.masks.area[i] : boxes.box[i * 4 + 2] * boxes.box[i * 4 + 3];
    }
    return area;
}

// as in COCO: where results have masks alone, the pixels of a mask are its area, also for its box; where they have keypoints, the box
// around these is, unless they also have boxes
std::vector<double> own_areas(CocoBoxes& boxes) {
    if (boxes.keypoints.around.empty()) return std::move(boxes.mask_area);
    const double* const box = std::isnan(boxes.box[0]) ? boxes.keypoints.around.data() : boxes.box.data();
    std::vector<double> area(boxes.size());
    for (size_t row = 0; row < area.size(); ++row) area[row] = box[row * 4 + 2] * box[row * 4 + 3];
    return area;
}

// The size of the image of each row, without pixels where it is unknown.
std::vector<MaskSize> sizes_of(const CocoIds& image, const CocoImages& images) {
    std::unordered_map<int64_t, MaskSize> by_id;
    for (size_t i = 0; i < images.size() && !images.id.are_names; ++i) {
        const double width = images.width[i], height = images.height[i];
        if (width >= 1 && height >= 1 && broken_rule(height, width) == nullptr) {
            by_id[images.id.value[i]] = {static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
        }
    }
    std::vector<MaskSize> sizes(image.value.size());
    for (size_t row = 0; row < sizes.size() && !image.are_names; ++row) sizes[row] = by_id[image.value[row]];
    return sizes;
}

void draw(CocoBoxes& boxes, const CocoImages& images, const Run& run) {
    const bool has_polygons = boxes.polygons.num_parts() > 0;
    draw_polygons(boxes, has_polygons ? sizes_of(boxes.image, images) : std::vector<MaskSize>(), run);
    boxes.polygons = PolygonColumn();
}

// A tally that owns its columns.
template <class State>
struct OwnTally {
    Buffer<int32_t> label;  // indices
    Buffer<double> score;
    Buffer<uint8_t> tier;
    Buffer<State> state;
    TallyRows<double, State> rows{};

    explicit OwnTally(size_t size) : label(size), score(size), tier(size), state(size) {}
};

// The rows of a file by image, and their classes as indices.
struct RowIndex {
    Groups by_image;
    Buffer<int32_t> label;

    explicit RowIndex(size_t num_rows) : label(num_rows) {}

    // Looks up all rows; false if one has an image or a class that is not listed, or numbers that columns would not take.
    bool find(const CocoBoxes& boxes, const std::vector<int64_t>& images, const std::vector<int64_t>& classes,
              const ShapeRules& shapes, const Run& run) {
        constexpr size_t kBlock = size_t{1} << 16;
        const size_t num_blocks = (boxes.size() + kBlock - 1) / kBlock;
        std::atomic<bool> are_fine{true};
        for_each_task(1 + num_blocks, run, [] { return 0; }, [&](size_t task, int) {
            const size_t first = task == 0 ? 0 : (task - 1) * kBlock, num = std::min(boxes.size() - first, kBlock);
            if (!(task == 0 ? group(boxes.image.value, images) : find_classes(boxes, first, num, classes, shapes))) are_fine = false;
        });
        return are_fine;
    }

private:
    bool group(const ColumnVector<int64_t>& ids, const std::vector<int64_t>& images) {
        RowsById rows;
        group_by_id(ids.data(), ids.size(), rows);
        if (!std::includes(images.begin(), images.end(), rows.id.begin(), rows.id.end())) return false;
        by_image = std::move(rows).groups(images);
        return true;
    }

    bool find_classes(const CocoBoxes& boxes, size_t first, size_t num, const std::vector<int64_t>& classes, const ShapeRules& shapes) {
        if (shapes.has(IouType::bbox) && !are_boxes_fine(boxes.box.data() + 4 * first, num, BoxFormat::xywh, shapes.largest)) return false;
        if (!boxes.score.empty() && !are_finite(boxes.score.data() + first, num)) return false;
        return find_indices(boxes.category.data() + first, num, classes, label.data() + first);
    }
};

// The images that rows may have: those that the truths list, or if they list none, any.
std::vector<int64_t> images_of(const CocoFile& truths, const CocoBoxes& detections) {
    if (truths.images.size() > 0) return distinct_of(truths.images.id.value);
    return united(distinct_of(detections.image.value), distinct_of(truths.boxes.image.value));
}

// Images and classes of both sides as indices, the same for every similarity.
struct FileIndex {
    std::vector<int64_t> images;
    RowIndex row, truth;
    std::vector<double> area, truth_area;
    std::vector<uint8_t> truth_kind;
    std::vector<int32_t> index;  // of anything

    FileIndex(const CocoFile& truths, CocoBoxes& detections, const std::vector<int64_t>& classes, uint8_t ignored_kind)
        : images(images_of(truths, detections)), row(detections.size()), truth(truths.boxes.size()),
          area(own_areas(detections)), truth_area(areas_of(truths.boxes)), truth_kind(truths.boxes.is_crowd),
          index(std::max(images.size(), classes.size())) {
        for (uint8_t& each : truth_kind) each = each != 0 ? ignored_kind : uint8_t{kRegular};
        std::iota(index.begin(), index.end(), 0);
    }

    // A regular truth that has nothing to compare is difficult.
    void mark_blank(const std::vector<uint8_t>& is_blank) {
        truth_kind.resize(is_blank.size(), uint8_t{kRegular});
        for (size_t row = 0; row < is_blank.size(); ++row) {
            if (is_blank[row] != 0 && truth_kind[row] == kRegular) truth_kind[row] = kDifficult;
        }
    }
};

// Whether the boxes of both files, or the images that they are of, look like a mistake.
bool look_like_mistake(const CocoBoxes& truths, const CocoBoxes& detections, const FileIndex& ids, const ShapeRules& shapes) {
    if (cover_few_images(ids.row.by_image, ids.truth.by_image, ids.images.size())) return true;
    if (!shapes.has(IouType::bbox)) return false;
    const auto any = [&](auto look) { return look(truths.box.data(), truths.size()) || look(detections.box.data(), detections.size()); };
    return any(look_like_corners) || any(look_like_fractions) || any(look_rounded);
}

template <class State, class Policy>
OwnTally<State> match_files(const Policy& policy, const FileIndex& ids, const CocoBoxes& detections, size_t num_classes,
                            const Rules& rules, const Run& run) {
    const size_t size = ids.row.label.size(), num_truths = ids.truth.label.size();
    OwnTally<State> tally(size);
    tally.rows.image_id = tally.rows.label_id = ids.index.data();
    tally.rows.label = tally.label.data();
    tally.rows.score = tally.score.data(), tally.rows.tier = tally.tier.data(), tally.rows.state = tally.state.data();
    const TruthColumns truth_columns{num_truths, &ids.truth.by_image, ids.truth.label.data(),
                                     ids.truth_area.empty() ? nullptr : ids.truth_area.data(),
                                     ids.truth_kind.empty() ? nullptr : ids.truth_kind.data()};
    const DetectionColumns<double> columns{size,    &ids.row.by_image, ids.row.label.data(), detections.score.data(),
                                           nullptr, ids.area.empty() ? nullptr : ids.area.data()};
    match(policy, columns, truth_columns, {ids.images.size(), num_classes}, rules, run, tally.rows);
    return tally;
}

template <class State>
PlainResult finish_files(const OwnTally<State>& tally, const std::vector<int64_t>& classes, size_t num_read, const Rules& rules,
                         const std::vector<Measure>& measures, const Run& run) {
    PlainResult result;
    result.classes = classes;
    const size_t num_classes = classes.size(), num_areas = rules.num_areas(), num_limits = rules.num_limits();
    result.num_read = num_read;
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

CocoFile read_plain_truths(const Source& source, const ShapeRules& shapes, const Run& run) {
    CocoFile file = read_coco(source, run, {shapes.file_shapes()});
    draw(file.boxes, file.images, run);
    return file;
}

CocoFile read_plain_detections(const Source& source, const CocoFile& truths, const ShapeRules& shapes, const Run& run) {
    PairFilter compared(truths.boxes.size());
    for (size_t row = 0; row < truths.boxes.size(); ++row) compared.add(truths.boxes.image.value[row], truths.boxes.category[row]);
    CocoRequest request{shapes.file_shapes(), &compared};
    request.keeps_third = false;
    CocoFile file = read_coco(source, run, request);
    draw(file.boxes, truths.images, run);
    if (!shapes.has(IouType::bbox) && !shapes.has(IouType::keypoints)) file.boxes.box = ColumnVector<double>();
    return file;
}

std::vector<PlainResult> evaluate_plainly(const CocoFile& truths, CocoFile&& detections, const Rules& rules,
                                          const std::vector<Measure>& measures, const ShapeRules& shapes, const Run& run) {
    std::vector<PlainResult> results;
    if (!is_fine(truths, detections, shapes)) return results;
    CocoBoxes boxes = std::move(detections.boxes);
    const std::vector<int64_t> classes = distinct_of(truths.categories.id);
    FileIndex ids(truths, boxes, classes, shapes.ignored_kind);
    if (!ids.row.find(boxes, ids.images, classes, shapes, run)) return results;
    if (!ids.truth.find(truths.boxes, ids.images, classes, shapes, run)) return results;
    if (look_like_mistake(truths.boxes, boxes, ids, shapes)) return results;
    const size_t num_read = boxes.size();
    boxes.image = CocoIds(), boxes.category = ColumnVector<int64_t>();  // their memory is for what comes
    const auto evaluate = [&](const auto& policy, auto state) {
        const OwnTally<decltype(state)> tally = match_files<decltype(state)>(policy, ids, boxes, classes.size(), rules, run);
        if (results.size() + 1 == shapes.iou_types.size()) boxes = CocoBoxes();
        results.push_back(finish_files(tally, classes, num_read, rules, measures, run));
    };
    for (const IouType type : shapes.iou_types) {
        const auto with_policy = [&](auto state) {
            if (type == IouType::bbox) {
                evaluate(BoxPolicy<double>({boxes.box.data(), BoxFormat::xywh}, {truths.boxes.box.data(), BoxFormat::xywh},
                                           shapes.is_inclusive),
                         state);
            } else if (type == IouType::keypoints) {
                const KeypointLabels labels(truths.boxes, shapes.sigmas.size());
                ids.mark_blank(labels.is_blank);
                const double* const area = truths.boxes.area.data();
                evaluate(KeypointPolicy({boxes.keypoints.point.data(), ids.area.data(), boxes.keypoints.slot.data()}, {truths.boxes.keypoints.point.data(), area},
                                        {labels.is_labelled.data(), area, labels.region.data()}, truths.boxes.size(), shapes.sigmas),
                         state);
            } else {
                evaluate(MaskPolicy(boxes.masks.view(), truths.boxes.masks.view(),
                                    type == IouType::boundary ? shapes.boundary_ratio : 0),
                         state);
            }
        };
        rules.num_areas() < 8 ? with_policy(uint8_t{}) : with_policy(uint64_t{});
    }
    return results;
}

}  // namespace boxscore
