// Copied and validated rows of batches that will be matched together.
//
//     a batch      image 0: boxes, scores, labels    image 1: boxes, scores, labels    …
//                      │                                 │
//     the rows     …[ rows of image 0 | rows of image 1 | … ]     one vector per column, batch after batch
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "geometry/boxes.h"
#include "geometry/checks.h"
#include "platform/memory.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

namespace nb = nanobind;

// One column of a batch in the given memory: blocks of whole rows, all of one dtype.
struct GivenColumn {
    const char* name = nullptr;
    nb::dlpack::dtype dtype{};
    std::vector<size_t> row_shape;  // empty: one number per row
    std::vector<const void*> blocks;

    size_t row_size() const { return std::accumulate(row_shape.begin(), row_shape.end(), size_t{1}, std::multiplies<>()); }
};

// The detections or the truths of a batch, in the given memory.
struct GivenSide {
    std::vector<GivenColumn> columns;
    std::vector<size_t> num_rows;    // of each image
    std::vector<size_t> block_rows;  // of each block: an image, or a contiguous range of a padded batch without padding
    std::deque<Buffer<uint8_t>> copies;  // contiguous copies of blocks that were not
    std::vector<nb::ndarray<nb::ro>> owners;  // Python objects that keep blocks alive

    // The column of this name, or null.
    const GivenColumn* find(const char* name) const {
        for (const GivenColumn& column : columns) {
            if (std::strcmp(column.name, name) == 0) return &column;
        }
        return nullptr;
    }
    size_t size() const { return std::accumulate(num_rows.begin(), num_rows.end(), size_t{0}); }
};

// Rules for valid rows, and for the completion of rows.
struct BatchRules {
    BoxFormat box_format;
    double largest_side;
    uint8_t ignored_kind;         // the kind of truths whose flag is set
    bool drops_invalid;           // whether to drop detections with an invalid score or box
    bool fills_areas;             // whether to replace an area of 0 by the area of the box
    bool has_names;               // whether each label must be among `classes`
    std::vector<int64_t> classes;  // ascending
};

// Columns of all rows. Each has one type, which holds any given number exactly; scores keep their type, float32 or float64.
struct BatchRows {
    std::vector<int64_t> image, label, truth_image, truth_label;
    std::vector<double> box, truth_box;  // four numbers per row
    std::vector<float> narrow_score;     // float32 scores; either these or `score` are empty
    std::vector<double> score;
    std::vector<double> area;  // of all truths, or empty
    std::vector<uint8_t> kind;
    std::vector<int64_t> invalid_image;  // of each dropped detection

    size_t size() const { return image.size(); }
    size_t num_truths() const { return truth_image.size(); }

    // Append the detections of a batch; `ids` are the image ids. Return false if rows must be converted or reported; the caller then
    // removes what was appended by `shrink`.
    bool append_detections(const GivenSide& side, const std::vector<int64_t>& ids, const BatchRules& rules) {
        const GivenColumn *boxes = side.find("boxes"), *scores = side.find("scores"), *labels = side.find("labels");
        if (!are_boxes(boxes) || !are_numbers(scores) || !are_numbers(labels)) return false;
        const size_t first = size(), num = side.size();
        const bool is_narrow = scores->dtype == nb::dtype<float>();
        if (first > 0 && is_narrow == narrow_score.empty()) return false;
        append_ids(ids, side, image);
        const bool is_appended = append_labels(side, *labels, label) && append_as<double, float>(side, *boxes, box) &&
                                 (is_narrow ? append_as<float>(side, *scores, narrow_score) : append_as<double>(side, *scores, score));
        if (!is_appended) return false;
        if (!are_detections_valid(first, num, rules)) {
            if (!rules.drops_invalid) return false;
            drop_invalid(first, rules);
        }
        return are_labels_valid(label.data() + first, size() - first, rules);
    }

    bool append_truths(const GivenSide& side, const std::vector<int64_t>& ids, const BatchRules& rules) {
        const GivenColumn *boxes = side.find("boxes"), *labels = side.find("labels"), *flags = side.find("ignore"), *areas = side.find("area");
        if (!are_boxes(boxes) || !are_numbers(labels) || (flags != nullptr && !are_numbers(flags))) return false;
        const size_t first = num_truths(), num = side.size();
        if (areas != nullptr && !are_numbers(areas)) return false;
        if (first > 0 && (areas != nullptr) == area.empty()) return false;
        append_ids(ids, side, truth_image);
        const bool is_appended = append_labels(side, *labels, truth_label) && append_as<double, float>(side, *boxes, truth_box) &&
                                 (areas == nullptr || append_as<double, float>(side, *areas, area)) &&
                                 append_kinds(side, flags, rules.ignored_kind);
        if (!is_appended) return false;
        const auto is_valid_area = [](double each) { return each >= 0 && each <= std::numeric_limits<double>::max(); };
        const bool is_valid = std::all_of(area.begin() + (areas != nullptr ? first : 0), area.end(), is_valid_area) &&
                              are_boxes_valid(truth_box.data() + 4 * first, num, rules.box_format, rules.largest_side) &&
                              are_labels_valid(truth_label.data() + first, num, rules);
        if (is_valid && areas != nullptr && rules.fills_areas) fill_areas(first, rules.box_format);
        return is_valid;
    }

    // Cut the columns of detections, truths and dropped detections to these lengths. Keeps the capacity.
    void shrink(size_t num, size_t num_truth_rows, size_t num_invalid) {
        for (auto* column : {&image, &label}) cut(*column, num);
        for (auto* column : {&truth_image, &truth_label}) cut(*column, num_truth_rows);
        cut(box, 4 * num), cut(truth_box, 4 * num_truth_rows);
        cut(narrow_score, num), cut(score, num);
        cut(area, num_truth_rows), cut(kind, num_truth_rows);
        cut(invalid_image, num_invalid);
    }

private:
    template <class T>
    static void cut(std::vector<T>& column, size_t size) {
        if (column.size() > size) column.resize(size);
    }

    bool are_detections_valid(size_t first, size_t num, const BatchRules& rules) const {
        return (narrow_score.empty() ? are_finite(score.data() + first, num) : are_finite(narrow_score.data() + first, num)) &&
               are_boxes_valid(box.data() + 4 * first, num, rules.box_format, rules.largest_side);
    }

    // Drop the invalid detections from row `first` on.
    void drop_invalid(size_t first, const BatchRules& rules) {
        size_t next = first;
        for (size_t row = first; row < size(); ++row) {
            if (!are_detections_valid(row, 1, rules)) {
                invalid_image.push_back(image[row]);
                continue;
            }
            image[next] = image[row], label[next] = label[row];
            std::copy_n(box.begin() + 4 * row, 4, box.begin() + 4 * next);
            if (narrow_score.empty()) score[next] = score[row];
            else narrow_score[next] = narrow_score[row];
            ++next;
        }
        shrink(next, num_truths(), invalid_image.size());
    }

    static void append_ids(const std::vector<int64_t>& ids, const GivenSide& side, std::vector<int64_t>& out) {
        for (size_t i = 0; i < ids.size(); ++i) out.insert(out.end(), side.num_rows[i], ids[i]);
    }

    static bool are_boxes(const GivenColumn* column) { return column != nullptr && column->row_shape == std::vector<size_t>{4}; }
    static bool are_numbers(const GivenColumn* column) { return column != nullptr && column->row_shape.empty(); }

    // Call `use` with the numbers of each block and their count. Return false if `dtype` is none of these types.
    template <class... Types, class Use>
    static bool with_blocks(const GivenSide& side, const GivenColumn& column, nb::dlpack::dtype dtype, Use use) {
        const size_t row_size = column.row_size();
        const auto use_all = [&](auto zero) {
            for (size_t i = 0; i < column.blocks.size(); ++i) {
                use(static_cast<const decltype(zero)*>(column.blocks[i]), side.block_rows[i] * row_size);
            }
            return true;
        };
        return ((dtype == nb::dtype<Types>() && use_all(Types{})) || ...);
    }

    template <class... Types, class T>
    static bool append_as(const GivenSide& side, const GivenColumn& column, std::vector<T>& out) {
        return with_blocks<Types...>(side, column, column.dtype,
                                     [&](const auto* from, size_t num) { out.insert(out.end(), from, from + num); });
    }

    static bool append_labels(const GivenSide& side, const GivenColumn& column, std::vector<int64_t>& out) {
        return append_as<int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t, uint8_t>(side, column, out);
    }

    // Replace areas of 0 by width times height, as in torchmetrics.
    void fill_areas(size_t first, BoxFormat box_format) {
        for (size_t row = first; row < num_truths(); ++row) {
            const double* const box_of = truth_box.data() + 4 * row;
            const bool has_corners = box_format == BoxFormat::xyxy;
            const double width = has_corners ? box_of[2] - box_of[0] : box_of[2], height = has_corners ? box_of[3] - box_of[1] : box_of[3];
            if (area[row] == 0) area[row] = width * height;
        }
    }

    // Append the kinds of truths from flags: booleans, or integers 0 and 1. Without a column all are regular.
    bool append_kinds(const GivenSide& side, const GivenColumn* column, uint8_t marked) {
        if (column == nullptr) {
            kind.resize(truth_image.size(), kRegular);
            return true;
        }
        bool is_valid = true;
        const auto append = [&](const auto* flags, size_t num) {
            for (size_t i = 0; i < num; ++i) {
                const auto flag = flags[i];
                is_valid &= flag == 0 || flag == 1;
                kind.push_back(flag != 0 ? marked : uint8_t{kRegular});
            }
        };
        const nb::dlpack::dtype dtype = column->dtype == nb::dtype<bool>() ? nb::dtype<uint8_t>() : column->dtype;
        return with_blocks<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>(side, *column, dtype, append) &&
               is_valid;
    }

    // Negative labels are invalid: they mark padding, which only padded batches may have.
    static bool are_labels_valid(const int64_t* labels, size_t size, const BatchRules& rules) {
        if (std::any_of(labels, labels + size, [](int64_t label) { return label < 0; })) return false;
        if (!rules.has_names) return true;
        const std::vector<int64_t> given = distinct(labels, size);
        return std::includes(rules.classes.begin(), rules.classes.end(), given.begin(), given.end());
    }
};

}  // namespace boxscore
