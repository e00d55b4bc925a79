// COCO's JSON files as columns: a dataset (`images`, `annotations`, `categories`), or a list of results. Independent of Python.
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

// Thrown for an invalid file: position and reason on one line, without the name of the file.
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

// Ids of images: integers, or indices into the distinct `names` if the file has strings.
struct CocoIds {
    ColumnVector<int64_t> value;
    Strings names;
    bool are_names = false;
};

// The shapes to read: upright boxes; also masks or keypoints; or oriented boxes instead, as a segmentation of four corners or as a
// `bbox` of five numbers. Upright boxes are optional unless they are the only shapes.
enum class CocoShapes : uint8_t { boxes, masks, keypoints, corners, turned_boxes };

// The score of a result that has several.
enum class CocoScore : uint8_t { score, wholebody, foot, face, lefthand, righthand };

// Bloom filter of (image, class) pairs, such as the pairs that have truths: false positives are possible, false negatives are not.
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

// Options of `read_coco`.
struct CocoRequest {
    CocoShapes shapes = CocoShapes::boxes;
    // If given, shapes of all other pairs are only measured, as nothing is compared with them: of masks only the area is kept, of
    // keypoints only the box around them.
    const PairFilter* compared = nullptr;
    // The score to read from results that have it; `score` from the others.
    CocoScore score = CocoScore::score;
    // Whether to keep the third number of each keypoint: a visibility, or a score.
    bool keeps_third = true;
};

// The keypoints of all rows; empty unless they are read.
struct CocoKeypoints {
    size_t num_points = 0;      // of each row
    std::vector<double> point;  // x, y of each point
    std::vector<uint32_t> slot; // of each row: the index of its points in `point`, in rows; empty if all rows are stored
    std::vector<double> third;  // visibility or score of each point
    std::vector<double> around; // left, top, width, height of the box around the points of the body of each row
    std::vector<double> num_labelled;  // `num_keypoints` of each row, NaN where missing; empty if no row has it
};

// Annotations or results, one row each.
struct CocoBoxes {
    CocoIds image;
    ColumnVector<int64_t> category;
    ColumnVector<double> box;       // x, y, width, height of each row; NaN where missing, until rows are completed
    MaskColumn masks;               // empty unless read; the masks of polygons have no pixels until they are drawn
    PolygonColumn polygons;         // of the rows that have polygons; empty unless masks are read
    std::vector<double> mask_area;  // pixels of the mask of each row without a box, NaN for rows with one; empty if all rows have boxes
    CocoKeypoints keypoints;
    std::vector<double> oriented;   // 8 or 5 numbers per row; empty unless oriented boxes are read
    ColumnVector<double> score;     // of all rows, or empty
    ColumnVector<double> area;      // NaN where missing; empty if no row has one
    std::vector<uint8_t> is_crowd;  // empty if no row has `iscrowd`; else 0 or 1
    size_t num_flagged = 0;         // rows that have `iscrowd`
    size_t first_ignored = kNone;   // the first row whose `ignore` is set; kNone without any
    ColumnVector<int64_t> id;       // empty unless every row has an integer id
    // Known once rows are completed, see io/coco_rows.h.
    bool has_boxes = true;  // whether each row has a box in the file
    bool is_drawn = true;   // whether all polygons are drawn

    static constexpr size_t kNone = static_cast<size_t>(-1);

    size_t size() const { return category.size(); }
};

// An optional list of ids for each row.
struct IdLists {
    std::vector<int64_t> value;     // the lists of all rows, concatenated
    std::vector<int64_t> end;       // of each row: the end of its list in `value`
    std::vector<uint8_t> is_given;  // whether a row has a list
};

struct CocoImages {
    CocoIds id;
    Strings file_name;                  // "" where missing
    std::vector<double> width, height;  // NaN where missing
    std::vector<double> crowd_index;    // of CrowdPose; NaN where missing
    IdLists negative;                   // of LVIS: classes that are verified to be absent
    IdLists not_exhaustive;             // of LVIS: classes that are not exhaustively annotated

    size_t size() const { return id.value.size(); }
};

struct CocoCategories {
    std::vector<int64_t> id;  // distinct
    Strings name;
    Strings frequency;        // of LVIS; "" where missing

    size_t size() const { return id.size(); }
};

struct CocoFile {
    bool is_dataset = false;  // else a list of results
    bool has_images = false, has_annotations = false, has_categories = false;
    CocoBoxes boxes;
    CocoImages images;
    CocoCategories categories;
};

inline constexpr size_t kCocoChunk = size_t{1} << 18;

// Read a dataset or a list of results. `chunk_size`: the number of bytes that a thread takes at a time. The columns, or the error,
// don't depend on it, nor on the number of threads. Throws CocoError, std::system_error, Interrupted.
CocoFile read_coco(const Source& source, const Run& run, const CocoRequest& request = {}, size_t chunk_size = kCocoChunk);

}  // namespace boxscore
