// Reader of the records of `annotations`, or of a list of results.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "io/coco_json.h"
#include "io/columns.h"
#include "io/keypoint_reader.h"
#include "io/record.h"
#include "io/segmentation_reader.h"

namespace boxscore {

enum class AnnotationKey : uint8_t {
    image_id,
    category_id,
    bbox,
    area,
    iscrowd,
    ignore,
    id,
    segmentation,
    num_keypoints,
    keypoints,  // first of the parts of a whole body, in the order of KeypointReader::kParts
    last_part = keypoints + KeypointReader::kNumParts - 1,
    score,  // first of the scores, in the order of CocoScore
    last_score = score + 5,
    other
};

constexpr std::string_view name_of(AnnotationKey key) {
    constexpr std::string_view kNames[] = {"image_id", "category_id", "bbox", "area", "iscrowd", "ignore", "id", "segmentation", "num_keypoints"};
    constexpr std::string_view kScores[] = {"score", "wholebody_score", "foot_score", "face_score", "lefthand_score", "righthand_score"};
    if (key < AnnotationKey::keypoints) return kNames[static_cast<size_t>(key)];
    if (key >= AnnotationKey::score) return kScores[static_cast<size_t>(key) - static_cast<size_t>(AnnotationKey::score)];
    return KeypointReader::kParts[static_cast<size_t>(key) - static_cast<size_t>(AnnotationKey::keypoints)];
}

// Columns of annotations or results, with a reader of single records.
class AnnotationRecords {
public:
    explicit AnnotationRecords(const CocoRequest& request = {})
        : shapes_(request.shapes), compared_(request.compared), part_score_(score_key(request.score)),
          keypoints_(request.keeps_third) {}

    size_t size() const { return columns_.size(); }

    // Read the record at `p` and return its end.
    const char* parse(const char* p, const Window& window) {
        has_whole_id_ = false;
        if (has_keypoints()) keypoints_.start_record();
        p = read_object(p, layout_, keys_read_, [&](AnnotationKey key, const char* value) BOXSCORE_INLINE {
            switch (key) {
                case AnnotationKey::image_id: return IdColumn::read(value, window, "image_id", image_);
                case AnnotationKey::category_id: return read_whole(value, window, "category_id", category_);
                case AnnotationKey::bbox: return is_oriented() ? read_turned(value, window) : read_box(value, window, "bbox", box_.data());
                case AnnotationKey::area: return read_number(value, window, "area", area_);
                case AnnotationKey::iscrowd: return read_flag(value, window, "iscrowd", is_crowd_);
                case AnnotationKey::ignore: return read_ignore(value);
                case AnnotationKey::segmentation:
                    segmentation_ = value;
                    if (shapes_ == CocoShapes::corners) return read_corners(value, window);
                    return has_masks() ? reader_.read(value, window) : json::skip_value(value);
                case AnnotationKey::score: return read_number(value, window, "score", score_);
                case AnnotationKey::id: return read_id(value);
                default: return has_keypoints() ? read_of_keypoints(key, value, window) : json::skip_value(value);
            }
        });
        for (const AnnotationKey key : {AnnotationKey::image_id, AnnotationKey::category_id}) {
            if (!has(key)) throw InvalidRecord{" must have " + quoted(name_of(key))};
        }
        if (shapes_ != CocoShapes::boxes || !has(AnnotationKey::bbox)) read_shapes(window);
        return p;
    }

    // Append the last parsed record. Throws InvalidRecord.
    void push(const Window& window) {
        const size_t num_rows = size();
        if (num_rows > 0 && has(AnnotationKey::score) != !columns_.score.empty()) {
            throw InvalidRecord{has(AnnotationKey::score) ? ": `score` must be in all rows or in none; those before it have none"
                                            : " must have `score`, as those before it have"};
        }
        if (shapes_ != CocoShapes::boxes) push_shapes();
        images_.push(image_, window, "image_id");
        columns_.category.push_back(category_);
        for (const double number : box_) columns_.box.push_back(number);
        if (has(AnnotationKey::score)) columns_.score.push_back(part_score_ != AnnotationKey::score && has(part_score_) ? own_score_ : score_);
        push_optional(columns_.mask_area, num_rows, !has(AnnotationKey::bbox) && !has_keypoints() && !is_oriented(), mask_area_, kMissing);
        push_optional(columns_.area, num_rows, has(AnnotationKey::area), area_, kMissing);
        push_optional(columns_.is_crowd, num_rows, has(AnnotationKey::iscrowd), is_crowd_, uint8_t{0});
        columns_.num_flagged += has(AnnotationKey::iscrowd);
        if (has(AnnotationKey::ignore) && is_ignored_) columns_.first_ignored = std::min(columns_.first_ignored, num_rows);
        if (has_whole_id_ && columns_.id.size() == num_rows) {
            columns_.id.push_back(id_);
        } else if (!columns_.id.empty()) {
            columns_.id = ColumnVector<int64_t>();
        }
    }

    bool can_append(const AnnotationRecords& other) const {
        if (size() == 0 || other.size() == 0) return true;
        if (columns_.keypoints.num_points != other.columns_.keypoints.num_points) return false;
        return columns_.score.empty() == other.columns_.score.empty() && images_.can_append(other.images_);
    }

    void append(const AnnotationRecords& other) {
        const size_t num_rows = size(), num_more = other.size();
        if (num_more == 0) return;
        const CocoBoxes& more = other.columns_;
        const bool has_ids = columns_.id.size() == num_rows && more.id.size() == num_more;
        images_.append(other.images_);
        append_all(columns_.category, more.category);
        append_all(columns_.box, more.box);
        append_all(columns_.oriented, more.oriented);
        if (has_keypoints()) append_keypoints(num_rows, more.keypoints, num_more);
        if (has_masks()) {
            columns_.masks.append(more.masks);
            columns_.polygons.append(more.polygons);
        }
        append_all(columns_.score, more.score);
        append_optional(columns_.mask_area, num_rows, more.mask_area, num_more, kMissing);
        append_optional(columns_.area, num_rows, more.area, num_more, kMissing);
        append_optional(columns_.is_crowd, num_rows, more.is_crowd, num_more, uint8_t{0});
        columns_.num_flagged += more.num_flagged;
        if (more.first_ignored < num_more) columns_.first_ignored = std::min(columns_.first_ignored, num_rows + more.first_ignored);
        if (has_ids) {
            append_all(columns_.id, more.id);
        } else if (!columns_.id.empty()) {
            columns_.id = ColumnVector<int64_t>();
        }
    }

    // Reserve memory for `num_rows` rows in the columns in use.
    void reserve(size_t num_rows) {
        images_.ids.value.reserve(num_rows);
        columns_.category.reserve(num_rows);
        columns_.box.reserve(num_rows * 4);
        if (!columns_.oriented.empty()) columns_.oriented.reserve(num_rows * 8);
        CocoKeypoints& keypoints = columns_.keypoints;
        keypoints.point.reserve(keypoints.point.size() * num_rows / std::max<size_t>(size(), 1));
        keypoints.around.reserve(keypoints.around.empty() ? 0 : num_rows * 4);
        if (!keypoints.third.empty()) keypoints.third.reserve(num_rows * keypoints.num_points);
        if (has_masks()) {
            const size_t num_bytes = columns_.masks.counts.size() * num_rows / std::max<size_t>(size(), 1);
            columns_.masks.reserve(num_rows, num_bytes);
        }
        if (!columns_.score.empty()) columns_.score.reserve(num_rows);
        if (!columns_.mask_area.empty()) columns_.mask_area.reserve(num_rows);
        if (!columns_.area.empty()) columns_.area.reserve(num_rows);
        if (!columns_.is_crowd.empty()) columns_.is_crowd.reserve(num_rows);
        if (!columns_.id.empty()) columns_.id.reserve(num_rows);
    }

    void clear() {
        images_.clear();
        for (auto* column : {&columns_.box, &columns_.score, &columns_.area}) column->clear();
        for (auto* column : {&columns_.oriented, &columns_.mask_area}) column->clear();
        columns_.category.clear();
        columns_.keypoints.num_points = 0;
        columns_.keypoints.slot.clear();
        for (auto* column : {&columns_.keypoints.point, &columns_.keypoints.third, &columns_.keypoints.around, &columns_.keypoints.num_labelled}) {
            column->clear();
        }
        columns_.masks.clear();
        columns_.polygons.clear();
        columns_.is_crowd.clear();
        columns_.num_flagged = 0;
        columns_.first_ignored = CocoBoxes::kNone;
        columns_.id.clear();
    }

    CocoBoxes take() {
        columns_.image = std::move(images_.ids);
        return std::move(columns_);
    }

private:
    static AnnotationKey score_key(CocoScore score) {
        return static_cast<AnnotationKey>(static_cast<unsigned>(AnnotationKey::score) + static_cast<unsigned>(score));
    }

    bool has_masks() const { return shapes_ == CocoShapes::masks; }
    bool is_oriented() const { return shapes_ == CocoShapes::corners || shapes_ == CocoShapes::turned_boxes; }
    bool has_keypoints() const { return shapes_ == CocoShapes::keypoints; }

    bool has(AnnotationKey key) const { return (keys_read_ & bit_of(key)) != 0; }

    // Check that the record has the requested shapes, and measure a missing box from run lengths.
    void read_shapes(const Window& window) {
        const bool has_mask = has(AnnotationKey::segmentation);
        if (is_oriented()) {
            const bool is_turned = shapes_ == CocoShapes::turned_boxes;
            if (!is_turned && !has_mask) throw InvalidRecord{" must have `segmentation`, one polygon of 4 corners"};
            if (is_turned && !has(AnnotationKey::bbox)) throw InvalidRecord{" must have `bbox`"};
            box_.fill(kMissing);
        } else if (has_keypoints()) {
            keypoints_.finish_record();
            if (!has(AnnotationKey::bbox)) box_.fill(kMissing);
        } else if (has_masks()) {
            if (!has_mask) throw InvalidRecord{" must have `segmentation`"};
            if (!has(AnnotationKey::bbox)) box_.fill(kMissing), mask_area_ = kMissing;
        } else if (!has(AnnotationKey::bbox)) {
            if (!has_mask || *segmentation_ != '{') throw InvalidRecord{" must have `bbox`"};
            // as in COCO: results may have masks without boxes
            reader_.read(segmentation_, window);
            box_ = reader_.measure(mask_area_);
        }
    }

    // Append the mask, the keypoints or the oriented box of the last parsed record.
    void push_shapes() {
        const bool is_compared = compared_ == nullptr || image_.is_name || compared_->may_have(image_.value, category_);
        if (has_keypoints()) {
            keypoints_.push(columns_.keypoints, compared_ != nullptr, is_compared);
            push_optional(columns_.keypoints.num_labelled, size(), has(AnnotationKey::num_keypoints), num_labelled_, kMissing);
        } else if (has_masks()) {
            reader_.push(columns_.masks, columns_.polygons, is_compared);
        } else {
            columns_.oriented.insert(columns_.oriented.end(), oriented_.begin(),
                                     oriented_.begin() + (shapes_ == CocoShapes::corners ? 8 : 5));
        }
    }

    // Read the `bbox` of an oriented box: five numbers. Skips it if corners are read instead.
    const char* read_turned(const char* value, const Window& window) {
        if (shapes_ == CocoShapes::corners) return json::skip_value(value);
        return read_numbers<5>(value, window, "bbox", oriented_.data(), "must have 5 finite numbers: centre, width, height, angle");
    }

    // Read a segmentation of one polygon with four corners.
    const char* read_corners(const char* value, const Window& window) {
        constexpr const char* kRule = "must be one polygon of 4 corners, 8 finite numbers";
        const char* p = *value == '[' ? json::skip_space(value + 1) : value;
        if (p == value || *p != '[') refuse(value, window, "segmentation", kRule);
        p = json::skip_space(read_numbers<8>(p, window, "segmentation", oriented_.data(), kRule));
        if (*p != ']') refuse(value, window, "segmentation", kRule);
        return p + 1;
    }

    // Read `ignore` by Python's rules of truth: only lvis reads it, and accepts any value.
    const char* read_ignore(const char* value) {
        const char* const end = json::skip_value(value);
        const bool is_number = *value == '-' || (*value >= '0' && *value <= '9');
        const bool is_other = *value == '"' || *value == '[' || *value == '{';
        is_ignored_ = is_number ? std::any_of(value, std::find_if(value, end, [](char c) { return c == 'e' || c == 'E'; }),
                                              [](char c) { return c >= '1' && c <= '9'; })
                                : *value == 't' || (is_other && end - value > 2);
        return end;
    }

    // Read an id. It only names a row in errors, so any value is accepted.
    const char* read_id(const char* value) {
        json::Integer kind;
        const char* const end = json::read_integer(value, id_, kind);
        has_whole_id_ = kind == json::Integer::valid;
        if (has_whole_id_) return end;
        return json::skip_value(value);
    }

    // Read a value that only records with keypoints have.
    const char* read_of_keypoints(AnnotationKey key, const char* value, const Window& window) {
        if (key == AnnotationKey::num_keypoints) return read_number(value, window, "num_keypoints", num_labelled_);
        if (key == part_score_) return read_number(value, window, name_of(key), own_score_);
        if (key > AnnotationKey::score) return json::skip_value(value);
        return keypoints_.read(static_cast<size_t>(key) - static_cast<size_t>(AnnotationKey::keypoints), value, window);
    }

    void append_keypoints(size_t num_rows, const CocoKeypoints& more, size_t num_more) {
        CocoKeypoints& keypoints = columns_.keypoints;
        const auto num_stored = static_cast<uint32_t>(keypoints.num_points == 0 ? 0 : keypoints.point.size() / (2 * keypoints.num_points));
        for (const uint32_t slot : more.slot) keypoints.slot.push_back(num_stored + slot);
        keypoints.num_points = more.num_points;
        append_all(keypoints.point, more.point);
        append_all(keypoints.third, more.third);
        append_all(keypoints.around, more.around);
        append_optional(keypoints.num_labelled, num_rows, more.num_labelled, num_more, kMissing);
    }

    CocoShapes shapes_;
    const PairFilter* compared_;
    AnnotationKey part_score_;
    SegmentationReader reader_;
    KeypointReader keypoints_;
    const char* segmentation_ = nullptr;
    CocoBoxes columns_;
    IdColumn images_;
    Layout<AnnotationKey> layout_;
    // The last parsed record.
    IdColumn::Id image_;
    std::array<double, 4> box_;
    std::array<double, 8> oriented_{};
    double score_ = 0, own_score_ = 0, area_ = 0, mask_area_ = 0, num_labelled_ = 0;
    int64_t category_ = 0, id_ = 0;
    uint8_t is_crowd_ = 0;
    bool has_whole_id_ = false, is_ignored_ = false;
    uint32_t keys_read_ = 0;
};

}  // namespace boxscore
