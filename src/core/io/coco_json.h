// COCO's JSON files as columns: a dataset (`images`, `annotations`, `categories`), or a list of results. No Python in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "masks/column.h"
#include "masks/segmentations.h"
#include "platform/source.h"
#include "platform/tasks.h"
#include "rows/column_vector.h"
#include "rows/rules.h"

namespace boxscore {

// The file is invalid: where and why, in one line, without its name.
struct CocoError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Many short strings in one buffer.
struct Strings {
    std::string text;
    std::vector<size_t> end;

    size_t size() const { return end.size(); }
    std::string_view operator[](size_t i) const {
        const size_t begin = i == 0 ? 0 : end[i - 1];
        return std::string_view(text).substr(begin, end[i] - begin);
    }
    void push_back(std::string_view string) {
        text.append(string);
        end.push_back(text.size());
    }
};

// Ids of images: integers, or, if the file has strings, indices into `names`, which are distinct.
struct CocoIds {
    ColumnVector<int64_t> value;
    Strings names;
    bool are_names = false;
};

// What is read beside boxes: the mask of each row, or its keypoints; or, in place of boxes, oriented ones: a segmentation of four
// corners, or a `bbox` of five numbers. A box may also be missing then.
enum class CocoShapes : uint8_t { boxes, masks, keypoints, corners, turned_boxes };

// The score of a result that has several.
enum class CocoScore : uint8_t { score, wholebody, foot, face, lefthand, righthand };

// Images and classes that go together, as those of truths. It may say yes to others, but never no to one of these.
class PairFilter {
public:
    explicit PairFilter(size_t num_pairs) {
        size_t num_words = 1024;
        while (num_words * kBitsPerWord < num_pairs * 32) num_words *= 2;
        words_.resize(num_words);
    }

    void add(int64_t image, int64_t category) {
        const uint64_t bit = bit_of(image, category);
        words_[bit / kBitsPerWord] |= uint64_t{1} << bit % kBitsPerWord;
    }
    bool may_have(int64_t image, int64_t category) const {
        const uint64_t bit = bit_of(image, category);
        return (words_[bit / kBitsPerWord] >> bit % kBitsPerWord & 1) != 0;
    }

private:
    uint64_t bit_of(int64_t image, int64_t category) const {
        uint64_t mixed = static_cast<uint64_t>(image) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(category);
        mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
        return (mixed ^ mixed >> 32) & (words_.size() * kBitsPerWord - 1);
    }

    std::vector<uint64_t> words_;
};

// What of a file is wanted.
struct CocoRequest {
    CocoShapes shapes = CocoShapes::boxes;
    // If given, shapes of other images and classes are only measured, as nothing is compared with them: masks have an area, but no
    // runs and no box; of keypoints there is the box around them.
    const PairFilter* compared = nullptr;
    // Which score of results is read, if they have it; else `score`.
    CocoScore score = CocoScore::score;
    // Whether the third number of each keypoint is wanted: a visibility, or a score.
    bool keeps_third = true;
};

// The keypoints of rows, if they are read.
struct CocoKeypoints {
    size_t num_points = 0;      // of each row
    std::vector<double> point;  // x, y of each point
    std::vector<uint32_t> slot; // of each row: where its points are, in rows; empty if all rows have theirs
    std::vector<double> third;  // visibility or score of each point
    std::vector<double> around; // left, top, width, height of the box around the points of the body of each row
    std::vector<double> num_labelled;  // `num_keypoints` of each row, NaN where a row has none; empty if none has
};

// Annotations or results, one row each.
struct CocoBoxes {
    CocoIds image;
    ColumnVector<int64_t> category;
    ColumnVector<double> box;       // x, y, width, height of each row; NaN where a row has none, until rows are completed
    MaskColumn masks;               // empty unless they are read; rows with polygons have a mask without pixels until it is drawn
    PolygonColumn polygons;         // of each row that has them, if masks are read
    std::vector<double> mask_area;  // pixels of the mask of a row without a box, NaN where it has one; empty if all have
    CocoKeypoints keypoints;
    std::vector<double> oriented;   // 8 or 5 numbers of each row, if oriented boxes are read
    ColumnVector<double> score;     // empty if no row has one; else all have
    ColumnVector<double> area;      // empty if no row has one; NaN where a row has none
    std::vector<uint8_t> is_crowd;  // empty if no row has `iscrowd`; else 0 or 1
    size_t num_flagged = 0;         // rows that have `iscrowd`
    size_t first_ignored = kNone;   // the first row whose `ignore` is set
    ColumnVector<int64_t> id;       // empty unless every row has an integer
    // Known once rows are completed, see io/coco_rows.h.
    bool has_boxes = true;  // each row has a box in the file
    bool is_drawn = true;   // no row has polygons that are not drawn

    static constexpr size_t kNone = static_cast<size_t>(-1);

    size_t size() const { return category.size(); }
};

// A list of ids for each row; a row may have none.
struct IdLists {
    std::vector<int64_t> value;     // of all lists, one after the other
    std::vector<int64_t> end;       // of each row, in `value`
    std::vector<uint8_t> is_given;  // whether a row has a list
};

struct CocoImages {
    CocoIds id;
    Strings file_name;                  // "" where a row has none
    std::vector<double> width, height;  // NaN where a row has none
    std::vector<double> crowd_index;    // of CrowdPose; NaN where a row has none
    IdLists negative;                   // of LVIS: classes that were looked for in vain
    IdLists not_exhaustive;             // of LVIS: classes of which some objects have no annotation

    size_t size() const { return id.value.size(); }
};

struct CocoCategories {
    std::vector<int64_t> id;  // distinct
    Strings name;
    Strings frequency;        // of LVIS; "" where a row has none

    size_t size() const { return id.size(); }
};

struct CocoFile {
    bool is_dataset = false;  // else `boxes` are results
    bool has_images = false, has_annotations = false, has_categories = false;
    CocoBoxes boxes;
    CocoImages images;
    CocoCategories categories;
};

inline constexpr size_t kCocoChunk = size_t{1} << 18;

// Reads a dataset or a list of results. The columns, or the error, are the same for any number of threads and any
// `chunk_size`, the number of bytes that a thread takes at a time. Throws CocoError, std::system_error, Interrupted.
CocoFile read_coco(const Source& source, const Run& run, const CocoRequest& request = {}, size_t chunk_size = kCocoChunk);

}  // namespace boxscore
