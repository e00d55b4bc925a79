// The rows of batches that wait to be matched together, copied and validated.
//
//     a batch      image 0: boxes, scores, labels    image 1: boxes, scores, labels    …
//                      │                                 │
//     the rows     …[ rows of image 0 | rows of image 1 | … ]     one vector per column, batch after batch
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "geometry/boxes.h"
#include "geometry/checks.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

namespace nb = nanobind;

enum BatchColumn : uint8_t { kBox, kScore, kLabel, kIgnore, kArea, kNumBatchColumns };

// The numbers of one column of a batch as they were given, all of one dtype: a block per image, or one block of all images.
struct GivenColumn {
    nb::dlpack::dtype dtype{};
    std::vector<const void*> blocks;  // none: there is no such column
};

// One side of a batch as it was given.
struct GivenSide {
    std::array<GivenColumn, kNumBatchColumns> columns;
    std::vector<size_t> num_rows;    // of each image
    std::vector<size_t> block_rows;  // of each block

    bool has(BatchColumn column) const { return !columns[column].blocks.empty(); }
    size_t size() const { return std::accumulate(num_rows.begin(), num_rows.end(), size_t{0}); }
};

// What rows must be like.
struct BatchRules {
    BoxFormat box_format;
    double largest_side;
    uint8_t ignored_kind;         // the kind of truths that are marked
    bool drops_invalid;           // whether detections without a finite score and a valid box are dropped
    bool has_names;               // whether every label must be one of the classes
    std::vector<int64_t> classes;  // ascending
};

// Columns in one type each, which holds every number that was given exactly. Only scores stay what they were, as a tally has them.
struct BatchRows {
    std::vector<int64_t> image, label, truth_image, truth_label;
    std::vector<double> box, truth_box;  // four numbers per row
    std::vector<float> narrow_score;     // one of the two is empty
    std::vector<double> score;
    std::vector<double> area;  // of the truths: of all of them or of none
    std::vector<uint8_t> kind;
    std::vector<int64_t> invalid_image;  // of the detections that were dropped

    size_t size() const { return image.size(); }
    size_t num_truths() const { return truth_image.size(); }

    // False if there is something to convert or to say; then `shrink` removes what was appended. `ids`: those of the images.
    bool append_detections(const GivenSide& side, const std::vector<int64_t>& ids, const BatchRules& rules) {
        const size_t first = size(), num = side.size();
        const bool is_narrow = side.columns[kScore].dtype == nb::dtype<float>();
        if (first > 0 && is_narrow == narrow_score.empty()) return false;
        append_ids(ids, side, image);
        const bool is_appended = append_as<int64_t, int32_t, int16_t, int8_t>(side, kLabel, label) &&
                                 append_as<double, float>(side, kBox, box) &&
                                 (is_narrow ? append_as<float>(side, kScore, narrow_score) : append_as<double>(side, kScore, score));
        if (!is_appended) return false;
        if (!are_detections_fine(first, num, rules)) {
            if (!rules.drops_invalid) return false;
            drop_invalid(first, rules);
        }
        return are_labels_fine(label.data() + first, size() - first, rules);
    }

    bool append_truths(const GivenSide& side, const std::vector<int64_t>& ids, const BatchRules& rules) {
        const size_t first = num_truths(), num = side.size();
        const bool has_area = side.has(kArea);
        if (first > 0 && has_area == area.empty()) return false;
        append_ids(ids, side, truth_image);
        const bool is_appended = append_as<int64_t, int32_t, int16_t, int8_t>(side, kLabel, truth_label) &&
                                 append_as<double, float>(side, kBox, truth_box) &&
                                 (!has_area || append_as<double, float>(side, kArea, area)) && append_kinds(side, rules.ignored_kind);
        if (!is_appended) return false;
        const auto is_valid_area = [](double each) { return each >= 0 && each <= std::numeric_limits<double>::max(); };
        return std::all_of(area.begin() + (has_area ? first : 0), area.end(), is_valid_area) &&
               are_boxes_fine(truth_box.data() + 4 * first, num, rules.box_format, rules.largest_side) &&
               are_labels_fine(truth_label.data() + first, num, rules);
    }

    // The first so many rows of each side, and of what was dropped; the memory stays for the next ones.
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

    bool are_detections_fine(size_t first, size_t num, const BatchRules& rules) const {
        return (narrow_score.empty() ? are_finite(score.data() + first, num) : are_finite(narrow_score.data() + first, num)) &&
               are_boxes_fine(box.data() + 4 * first, num, rules.box_format, rules.largest_side);
    }

    // Drops the invalid ones of the rows from `first` on; the others move up.
    void drop_invalid(size_t first, const BatchRules& rules) {
        size_t next = first;
        for (size_t row = first; row < size(); ++row) {
            if (!are_detections_fine(row, 1, rules)) {
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

    // Calls `use` with the numbers of each block and how many there are; false if they are of none of these types.
    template <class... Types, class Use>
    static bool with_blocks(const GivenSide& side, BatchColumn name, nb::dlpack::dtype dtype, Use use) {
        const std::vector<const void*>& blocks = side.columns[name].blocks;
        const size_t row_size = name == kBox ? 4 : 1;
        const auto use_all = [&](auto zero) {
            for (size_t i = 0; i < blocks.size(); ++i) use(static_cast<const decltype(zero)*>(blocks[i]), side.block_rows[i] * row_size);
            return true;
        };
        return ((dtype == nb::dtype<Types>() && use_all(Types{})) || ...);
    }

    template <class... Types, class T>
    static bool append_as(const GivenSide& side, BatchColumn name, std::vector<T>& out) {
        return with_blocks<Types...>(side, name, side.columns[name].dtype,
                                     [&](const auto* from, size_t num) { out.insert(out.end(), from, from + num); });
    }

    // Flags are booleans, or integers 0 and 1; without flags all truths are regular.
    bool append_kinds(const GivenSide& side, uint8_t marked) {
        if (!side.has(kIgnore)) {
            kind.resize(truth_image.size(), kRegular);
            return true;
        }
        bool is_fine = true;
        const auto append = [&](const auto* flags, size_t num) {
            for (size_t i = 0; i < num; ++i) {
                const auto flag = flags[i];
                is_fine &= flag == 0 || flag == 1;
                kind.push_back(flag != 0 ? marked : uint8_t{kRegular});
            }
        };
        const nb::dlpack::dtype given = side.columns[kIgnore].dtype;
        const nb::dlpack::dtype dtype = given == nb::dtype<bool>() ? nb::dtype<uint8_t>() : given;
        return with_blocks<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>(side, kIgnore, dtype, append) &&
               is_fine;
    }

    // A negative label is padding, which belongs in padded batches.
    static bool are_labels_fine(const int64_t* labels, size_t size, const BatchRules& rules) {
        if (std::any_of(labels, labels + size, [](int64_t label) { return label < 0; })) return false;
        if (!rules.has_names) return true;
        const std::vector<int64_t> given = distinct(labels, size);
        return std::includes(rules.classes.begin(), rules.classes.end(), given.begin(), given.end());
    }
};

}  // namespace boxscore
