#include "io/coco_rows.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "geometry/boxes.h"
#include "geometry/checks.h"
#include "rows/likely_mistakes.h"
#include "rows/order.h"

namespace boxscore {
namespace {

constexpr size_t kWholebodyPoints = 133;

template <class Column>
bool has_nan(const Column& column) {
    return std::any_of(column.begin(), column.end(), [](double each) { return std::isnan(each); });
}

// Whether each row has a box in the file. Must be called before boxes are completed.
bool has_own_boxes(const CocoBoxes& boxes) {
    if (!boxes.mask_area.empty()) return false;
    return (boxes.keypoints.num_points == 0 && boxes.oriented.empty()) || !has_nan(boxes.box);
}

// Image size of each row; 0 pixels where unknown. Throws MaskError for a size that masks can't have.
std::vector<MaskSize> sizes_of_rows(const CocoIds& image, const CocoImages& images) {
    const std::vector<int64_t> side = image_sizes(images);
    std::unordered_map<int64_t, size_t> by_id;
    std::unordered_map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < images.size(); ++i) {
        if (images.id.are_names) {
            by_name[images.id.names[static_cast<size_t>(images.id.value[i])]] = i;
        } else {
            by_id[images.id.value[i]] = i;
        }
    }
    const auto index_of = [&](int64_t value) {
        if (!image.are_names) {
            const auto found = by_id.find(value);
            return found == by_id.end() ? images.size() : found->second;
        }
        const auto found = by_name.find(image.names[static_cast<size_t>(value)]);
        return found == by_name.end() ? images.size() : found->second;
    };
    std::vector<MaskSize> sizes(image.value.size());
    for (size_t row = 0; row < sizes.size(); ++row) {
        const size_t index = index_of(image.value[row]);
        if (index == images.size()) continue;
        const auto width = static_cast<double>(side[2 * index]), height = static_cast<double>(side[2 * index + 1]);
        if (const char* const rule = broken_rule(height, width)) throw MaskError(row, rule);
        sizes[row] = {static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
    }
    return sizes;
}

void put_box_around(const PolygonColumn& polygons, size_t row, double* box) {
    constexpr double kNowhere = std::numeric_limits<double>::infinity();
    double low[2] = {kNowhere, kNowhere}, high[2] = {-kNowhere, -kNowhere};
    const size_t begin = polygons.part_start[polygons.mask_start[row]], end = polygons.part_start[polygons.mask_start[row + 1]];
    for (size_t i = begin; i < end; ++i) {
        low[(i - begin) % 2] = std::min(low[(i - begin) % 2], polygons.points[i]);
        high[(i - begin) % 2] = std::max(high[(i - begin) % 2], polygons.points[i]);
    }
    box[0] = low[0], box[1] = low[1], box[2] = high[0] - low[0], box[3] = high[1] - low[1];
}

// The masks of all rows: drawn for rows with polygons, else copied. `sizes`: the image size of each row.
MaskColumn draw_masks(const MaskColumn& masks, const PolygonColumn& polygons, const std::vector<MaskSize>& sizes, const Run& run) {
    return build_masks<MaskDrawer>(masks.num_masks(), 256, run, [&](size_t row, MaskColumn& part, MaskDrawer& drawer) {
        if (!polygons.has_polygons(row)) return part.append_row(masks, row);
        part.push(drawer.draw(polygons, row, sizes[row]), sizes[row]);
    });
}

void complete_masks(CocoBoxes& boxes, const CocoImages& images, const Run& run) {
    if (boxes.polygons.num_parts() > 0) {
        const std::vector<MaskSize> sizes = sizes_of_rows(boxes.image, images);
        boxes.is_drawn = std::all_of(sizes.begin(), sizes.end(), [](const MaskSize& size) { return size.num_pixels() > 0; });
        if (boxes.is_drawn) boxes.masks = draw_masks(boxes.masks, boxes.polygons, sizes, run);
    }
    for (size_t row = 0; row < boxes.masks.num_masks(); ++row) {
        double* const box = boxes.box.data() + 4 * row;
        if (!std::isnan(box[0])) continue;
        if (!boxes.is_drawn && boxes.polygons.has_polygons(row)) {
            put_box_around(boxes.polygons, row, box);
            continue;
        }
        const MaskBox& outer = boxes.masks.box[row];
        box[0] = outer.left, box[1] = outer.top, box[2] = outer.width, box[3] = outer.height;
        boxes.mask_area[row] = boxes.masks.area[row];
    }
}

void put_box_areas(const ColumnVector<double>& box, ColumnVector<double>& area) {
    for (size_t row = 0; row < area.size(); ++row) {
        if (std::isnan(area[row])) area[row] = box[4 * row + 2] * box[4 * row + 3];
    }
}

void complete_truth_areas(CocoBoxes& boxes) {
    if (!has_nan(boxes.area)) return;
    if (boxes.masks.num_masks() > 0 && boxes.is_drawn) {
        for (size_t row = 0; row < boxes.size(); ++row) {
            if (std::isnan(boxes.area[row])) boxes.area[row] = boxes.masks.area[row];
        }
    } else if (boxes.oriented.empty()) {
        put_box_areas(boxes.box, boxes.area);
    }
    const bool needs_all = boxes.keypoints.num_points > 0 || !boxes.oriented.empty();
    if (needs_all && has_nan(boxes.area)) boxes.area = ColumnVector<double>();
}

// as in COCO: the first result decides whether all boxes are taken from the file, or put around the keypoints
void complete_poses(CocoBoxes& boxes) {
    const std::vector<double>& around = boxes.keypoints.around;
    const bool is_first_missing = !boxes.box.empty() && std::isnan(boxes.box[0]);
    for (size_t i = 0; i < boxes.box.size(); ++i) {
        if (is_first_missing || std::isnan(boxes.box[i])) boxes.box[i] = around[i];
    }
    boxes.area.assign(boxes.size(), std::numeric_limits<double>::quiet_NaN());
    put_box_areas(boxes.box, boxes.area);
}

// as in COCO: if results have masks without boxes, a row's area is the number of pixels, also when boxes are evaluated
void take_mask_areas(CocoBoxes& boxes) {
    if (boxes.masks.num_masks() > 0) {
        if (boxes.is_drawn) boxes.area.assign(boxes.masks.area.begin(), boxes.masks.area.end());
    } else if (!has_nan(boxes.mask_area)) {
        boxes.area.assign(boxes.mask_area.begin(), boxes.mask_area.end());
    }
}

// Whether ids are distinct and not 0; with other ids pycocotools computes different numbers.
bool are_ids_distinct(const ColumnVector<int64_t>& ids) {
    if (std::find(ids.begin(), ids.end(), 0) != ids.end()) return false;
    const bool is_ascending = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
    return is_ascending || distinct(ids.data(), ids.size()).size() == ids.size();
}

// Whether the number of keypoints fits the sigmas, and truths have the areas and visibilities that OKS needs.
bool are_keypoints_ready(const CocoBoxes& truths, const CocoBoxes& detections, const std::vector<double>& sigmas) {
    for (const CocoBoxes* boxes : {&truths, &detections}) {
        if (boxes->size() > 0 && boxes->keypoints.num_points != sigmas.size()) return false;
        for (size_t i = 0; i < boxes->box.size(); i += 4) {
            if (boxes->box[i + 2] < 0 || boxes->box[i + 3] < 0) return false;
        }
    }
    if (!are_finite(detections.box.data(), detections.box.size()) || truths.area.size() != truths.size()) return false;
    if (truths.keypoints.third.size() != truths.size() * sigmas.size()) return false;
    const auto is_negative = [](double each) { return each < 0; };
    if (std::any_of(truths.keypoints.third.begin(), truths.keypoints.third.end(), is_negative)) return false;
    return std::all_of(truths.area.begin(), truths.area.end(), [](double area) { return area > 0; });
}

// Whether the files are a dataset and results, with integer image ids, distinct in `images`, and consistent shapes.
bool are_files_ready(const CocoFile& truths, const CocoFile& detections, const ShapeRules& shapes) {
    if (!truths.is_dataset || !truths.has_annotations || !truths.has_categories || detections.is_dataset) return false;
    if (detections.boxes.score.size() != detections.boxes.size()) return false;
    for (const CocoBoxes* boxes : {&truths.boxes, &detections.boxes}) {
        if (!boxes->is_drawn || boxes->image.are_names || boxes->size() > UINT32_MAX / 2) return false;
    }
    const std::vector<double>& mask_area = detections.boxes.mask_area;
    if (!shapes.has_masks() && !mask_area.empty()) return false;  // masks without boxes, evaluated as boxes
    if (has_nan(mask_area)) return false;                          // only some rows have boxes
    const CocoIds& listed = truths.images.id;
    if (listed.are_names || distinct(listed.value.data(), listed.value.size()).size() < listed.value.size()) return false;
    if (std::any_of(truths.boxes.area.begin(), truths.boxes.area.end(), [](double area) { return area < 0; })) return false;
    if (!are_ids_distinct(truths.boxes.id)) return false;
    return !shapes.has(IouType::keypoints) || are_keypoints_ready(truths.boxes, detections.boxes, shapes.sigmas);
}

// Images that rows may refer to: the ones in `images`, or any if that is empty.
std::vector<int64_t> known_images(const CocoFile& truths, const RowsById& truth_rows, const RowsById& rows) {
    const ColumnVector<int64_t>& listed = truths.images.id.value;
    return listed.empty() ? united(rows.id, truth_rows.id) : distinct(listed.data(), listed.size());
}

bool look_like_mistake(const CocoBoxes& truths, const CocoBoxes& detections) {
    const auto any = [&](auto look) { return look(truths.box.data(), truths.size()) || look(detections.box.data(), detections.size()); };
    return any(look_like_corners) || any(look_like_fractions) || any(look_rounded);
}

}  // namespace

std::vector<int64_t> image_sizes(const CocoImages& images) {
    constexpr double kMost = 1e9;
    const auto is_valid = [](double side) { return side > 0 && side < kMost && side == std::floor(side); };
    std::vector<int64_t> sizes(images.size() * 2);
    for (size_t i = 0; i < images.size(); ++i) {
        if (!is_valid(images.width[i]) || !is_valid(images.height[i])) continue;
        sizes[2 * i] = static_cast<int64_t>(images.width[i]), sizes[2 * i + 1] = static_cast<int64_t>(images.height[i]);
    }
    return sizes;
}

void complete_truths(CocoFile& file, const Run& run) {
    CocoBoxes& boxes = file.boxes;
    boxes.has_boxes = has_own_boxes(boxes);
    complete_masks(boxes, file.images, run);
    complete_truth_areas(boxes);
    CocoKeypoints& keypoints = boxes.keypoints;
    if (has_nan(keypoints.num_labelled) || keypoints.num_points == kWholebodyPoints) keypoints.num_labelled.clear();
}

void complete_detections(CocoBoxes& boxes, const CocoImages& images, const Run& run) {
    boxes.has_boxes = has_own_boxes(boxes);
    boxes.area = ColumnVector<double>();
    complete_masks(boxes, images, run);
    if (boxes.keypoints.num_points > 0) {
        complete_poses(boxes);
    } else if (!boxes.has_boxes && boxes.oriented.empty()) {
        take_mask_areas(boxes);
    }
}

std::vector<uint8_t> truth_kinds(const CocoBoxes& truths, const ShapeRules& shapes) {
    std::vector<uint8_t> kinds(truths.is_crowd);
    for (uint8_t& kind : kinds) kind = kind != 0 ? shapes.ignored_kind : uint8_t{kRegular};
    if (!shapes.has(IouType::keypoints)) return kinds;
    const CocoKeypoints& keypoints = truths.keypoints;
    kinds.resize(truths.size(), uint8_t{kRegular});
    for (size_t row = 0; row < kinds.size(); ++row) {
        const double* const visibility = keypoints.third.data() + row * keypoints.num_points;
        const bool is_blank = !keypoints.num_labelled.empty()
                                  ? keypoints.num_labelled[row] == 0
                                  : std::none_of(visibility, visibility + keypoints.num_points, [](double each) { return each > 0; });
        if (is_blank && kinds[row] == kRegular) kinds[row] = kDifficult;
    }
    return kinds;
}

bool are_ready(const CocoFile& truths, const CocoFile& detections, const ShapeRules& shapes, const Run& run) {
    if (!are_files_ready(truths, detections, shapes)) return false;
    constexpr size_t kBlock = size_t{1} << 16;
    const std::vector<int64_t> classes = distinct(truths.categories.id.data(), truths.categories.size());
    struct Side {
        const CocoBoxes& boxes;
        RowsById by_image;
    };
    Side sides[2] = {{detections.boxes, {}}, {truths.boxes, {}}};
    std::vector<std::function<bool()>> checks;
    for (Side& side : sides) {
        const CocoBoxes& boxes = side.boxes;
        checks.push_back([&] { return group_by_id(boxes.image.value.data(), boxes.size(), side.by_image); });
        for (size_t first = 0; first < boxes.size(); first += kBlock) {
            const size_t num = std::min(boxes.size() - first, kBlock);
            checks.push_back([&, first, num] {
                if (shapes.has(IouType::bbox) && !are_boxes_valid(boxes.box.data() + 4 * first, num, BoxFormat::xywh, shapes.largest)) return false;
                if (!boxes.score.empty() && !are_finite(boxes.score.data() + first, num)) return false;
                const std::vector<int64_t> seen = distinct(boxes.category.data() + first, num);
                return std::includes(classes.begin(), classes.end(), seen.begin(), seen.end());
            });
        }
    }
    std::atomic<bool> are_valid{true};
    for_each_task(checks.size(), run, [] { return 0; }, [&](size_t task, int) {
        if (!checks[task]()) are_valid = false;
    });
    if (!are_valid) return false;
    RowsById &rows = sides[0].by_image, &truth_rows = sides[1].by_image;
    const std::vector<int64_t> images = known_images(truths, truth_rows, rows);
    for (const RowsById* each : {&rows, &truth_rows}) {
        if (!std::includes(images.begin(), images.end(), each->id.begin(), each->id.end())) return false;
    }
    if (cover_few_images(std::move(rows).groups(images), std::move(truth_rows).groups(images), images.size())) return false;
    return !shapes.has(IouType::bbox) || !look_like_mistake(truths.boxes, detections.boxes);
}

}  // namespace boxscore
