// Python bindings for a drop-in of pycocotools.mask: takes and returns its dicts of run lengths.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "geometry/masks.h"
#include "masks/column.h"
#include "masks/loose_runs.h"
#include "masks/pixels.h"
#include "masks/polygons.h"
#include "match/images.h"
#include "python/arrays.h"
#include "python/stable_api.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_rle(nb::module_& module);

namespace {

// as in COCO: any number is accepted, and truncated
uint64_t read_side(const nb::object& value) {
    const nb::object whole = PyNumber_Check(value.ptr()) ? nb::steal(PyNumber_Long(value.ptr())) : nb::object();
    if (!whole.is_valid()) {
        PyErr_Clear();
        throw nb::type_error("an integer is required");
    }
    const unsigned long long side = PyLong_AsUnsignedLongLong(whole.ptr());
    if (side == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        PyErr_SetString(PyExc_OverflowError, "can't convert negative value to siz");
        throw nb::python_error();
    }
    return side;
}

nb::object item_of(nb::handle object, const nb::handle& key) {
    return nb::steal(PyObject_GetItem(object.ptr(), key.ptr()));
}

// A mask from a dict, with counts that are not validated.
struct LooseMask {
    uint64_t height = 0, width = 0;
    nb::object text;  // owns the characters
    const char* characters = nullptr;
    size_t num_characters = 0;

    explicit LooseMask(nb::handle object) {
        const nb::object counts = checked(item_of(object, nb::str("counts")));
        if (PyUnicode_CheckExact(counts.ptr()) != 0) {
            text = checked(nb::steal(PyUnicode_AsUTF8String(counts.ptr())));
        } else if (PyBytes_CheckExact(counts.ptr()) != 0) {
            text = counts;
        } else {
            throw nb::type_error(("Expected bytes, got " + name_of_type(counts)).c_str());
        }
        characters = characters_of(text, num_characters);
        const nb::object size = checked(item_of(object, nb::str("size")));
        height = read_side(checked(item_of(size, nb::int_(0))));
        width = read_side(checked(item_of(size, nb::int_(1))));
    }

    static nb::object checked(nb::object&& value) {
        if (!value.is_valid()) throw nb::python_error();
        return std::move(value);
    }

    bool has_fitting_size() const { return height <= kMostPixels && width <= kMostPixels && height * width <= kMostPixels; }
    MaskSize size() const { return {static_cast<uint32_t>(height), static_cast<uint32_t>(width)}; }
    bool has_size_of(const LooseMask& other) const { return height == other.height && width == other.width; }
    Runs runs() const {
        Runs runs;
        decode_loosely(characters, num_characters, runs);
        return runs;
    }

};

// Masks of a sequence of dicts.
std::vector<LooseMask> read_masks(nb::handle objects) {
    const Py_ssize_t num = PyObject_Size(objects.ptr());
    if (num < 0) throw nb::python_error();
    std::vector<LooseMask> masks;
    masks.reserve(static_cast<size_t>(num));
    for (nb::handle object : nb::iter(objects)) masks.emplace_back(object);
    return masks;
}

nb::dict dict_of(uint64_t height, uint64_t width, const Runs& runs) {
    std::string text;
    encode_runs(runs.data(), runs.size(), [&](char c) { text.push_back(c); });
    nb::list size;
    size.append(height);
    size.append(width);
    nb::dict mask;
    mask["size"] = size;
    mask["counts"] = nb::bytes(text.data(), text.size());
    return mask;
}

[[noreturn]] void refuse_unequal() {
    throw nb::value_error("masks of one size must have run lengths for as many pixels; got some that add up to others");
}

// Encode the bytes of an array of shape (H, W, N) in Fortran order, as they are in memory.
nb::list encode_pixels(const Input& pixels, size_t height, size_t width, size_t num) {
    if (pixels.size() != height * width * num) throw nb::value_error("pixels: unexpected size");
    if (height > kMostPixels || width > kMostPixels || height * width > kMostPixels) {
        throw nb::value_error("a mask must have at most 4294967295 pixels");
    }
    const MaskSize size{static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
    const auto* data = static_cast<const uint8_t*>(pixels.data());
    nb::list masks;
    Runs runs;
    for (size_t i = 0; i < num; ++i) {
        encode_columns(data + i * height * width, size, runs);
        masks.append(dict_of(height, width, runs));
    }
    return masks;
}

// Pixels of all masks, by mask, then column; and their common height and width.
nb::object decode_masks(nb::handle objects) {
    const std::vector<LooseMask> masks = read_masks(objects);
    const char* const kInvalid = "Invalid RLE mask representation";
    if (masks.empty()) return nb::make_tuple(to_numpy(Buffer<uint8_t>(0), {0}), 0, 0);
    const LooseMask& first = masks.front();
    if (!first.has_fitting_size()) throw nb::value_error(kInvalid);
    const size_t num_pixels = first.height * first.width;
    Buffer<uint8_t> pixels(num_pixels * masks.size());
    Runs runs;
    for (size_t i = 0; i < masks.size(); ++i) {
        decode_loosely(masks[i].characters, masks[i].num_characters, runs);
        if (!masks[i].has_size_of(first) || !decode_columns(runs, first.size(), pixels.data() + i * num_pixels)) {
            throw nb::value_error(kInvalid);
        }
    }
    const size_t size = pixels.size();
    return nb::make_tuple(to_numpy(std::move(pixels), {size}), first.height, first.width);
}

nb::dict merge_masks(nb::handle objects, bool is_intersection) {
    const std::vector<LooseMask> masks = read_masks(objects);
    if (masks.empty()) return dict_of(0, 0, {});
    Runs merged = masks.front().runs(), before;
    for (size_t i = 1; i < masks.size(); ++i) {
        if (!masks[i].has_size_of(masks.front())) return dict_of(0, 0, {});  // as in COCO
        std::swap(merged, before);
        if (!merge_runs(before, masks[i].runs(), is_intersection, merged)) refuse_unequal();
    }
    return dict_of(masks.front().height, masks.front().width, merged);
}

nb::object measure_areas(nb::handle objects) {
    const std::vector<LooseMask> masks = read_masks(objects);
    std::vector<uint32_t> area;
    for (const LooseMask& mask : masks) area.push_back(area_of(mask.runs()));
    return to_numpy(area, {area.size()});
}

// Box around the set pixels, even if the counts don't add up to the size.
MaskBox box_of(const LooseMask& mask) {
    Runs runs = mask.runs();
    uint64_t num_pixels = 0;
    for (const uint32_t count : runs) num_pixels += count;
    if (mask.height == 0 || mask.height > kMostPixels) return {};
    const uint64_t num_columns = (num_pixels + mask.height - 1) / mask.height;
    if (num_columns * mask.height > kMostPixels) return {};
    // Derive the number of columns from the counts; missing pixels of the last column are not set.
    if (runs.size() % 2 == 0) runs.push_back(0);
    runs.back() += static_cast<uint32_t>(num_columns * mask.height - num_pixels);
    return box_of_runs(runs, static_cast<uint32_t>(mask.height));
}

nb::object measure_boxes(nb::handle objects) {
    const std::vector<LooseMask> masks = read_masks(objects);
    std::vector<double> numbers;
    for (const LooseMask& mask : masks) {
        const MaskBox box = box_of(mask);
        for (const uint32_t number : {box.left, box.top, box.width, box.height}) numbers.push_back(number);
    }
    return to_numpy(numbers, {masks.size(), 4});
}

// Read the masks into a column. Return false if counts don't add up to the size, or a run is empty.
bool read_column(const std::vector<LooseMask>& masks, MaskColumn& column) {
    Runs runs;
    for (const LooseMask& mask : masks) {
        if (!mask.has_fitting_size() || std::memchr(mask.characters, '\0', mask.num_characters) != nullptr) return false;
        const DecodedRuns decoded = decode_runs(mask.characters, mask.num_characters, runs);
        if (!decoded.are_surely_for(mask.size()) || has_empty_run(runs)) return false;
        column.counts.append(mask.characters, mask.num_characters);
        column.finish_row(static_cast<uint32_t>(decoded.num_on), box_of_runs(runs, mask.size().height), mask.size());
    }
    return true;
}

void compare_loose_masks(const std::vector<LooseMask>& masks, const std::vector<LooseMask>& truths, const uint8_t* is_crowd,
                         double* out) {
    std::vector<Runs> runs;
    for (const LooseMask& truth : truths) runs.push_back(truth.runs());
    for (const LooseMask& mask : masks) {
        const Runs own = mask.runs();
        for (size_t g = 0; g < truths.size(); ++g, ++out) {
            *out = 0;
            if (common_area(box_of(mask), box_of(truths[g])) == 0) continue;
            if (!mask.has_size_of(truths[g])) {
                *out = -1;
            } else if (!compare_loosely(own, runs[g], is_crowd[g] != 0, *out)) {
                refuse_unequal();
            }
        }
    }
}

// IoU of every pair. Shape (D, G).
nb::object compare_masks(nb::handle detections, nb::handle truths, const Input& is_crowd) {
    const std::vector<LooseMask> masks = read_masks(detections), truth_masks = read_masks(truths);
    const uint8_t* flags = typed<uint8_t>(is_crowd, truth_masks.size(), "is_crowd");
    Buffer<double> values(masks.size() * truth_masks.size());
    MaskColumn column, truth_column;
    if (read_column(masks, column) && read_column(truth_masks, truth_column)) {
        const ImageGroups group{{0, static_cast<int64_t>(masks.size())}, {0, static_cast<int64_t>(truth_masks.size())}};
        measure_pairs(MaskPolicy(column.view(), truth_column.view(), 0), group, flags, Run{}, values.data());
    } else {
        compare_loose_masks(masks, truth_masks, flags, values.data());
    }
    return to_numpy(std::move(values), {masks.size(), truth_masks.size()});
}

// Draw the mask of each polygon, an array of numbers x, y, x, y, …
nb::list rasterize_polygons(const std::vector<Input>& polygons, nb::object height_object, nb::object width_object) {
    const uint64_t height = read_side(height_object), width = read_side(width_object);
    if (height > kMostPixels || width > kMostPixels || height * width > kMostPixels) {
        throw nb::value_error("a mask must have at most 4294967295 pixels");
    }
    nb::list masks;
    Rasterizer rasterizer;
    Runs runs;
    for (const Input& polygon : polygons) {
        const double* points = typed<double>(polygon, polygon.size(), "polygon");
        for (size_t i = 0; i < polygon.size(); ++i) {
            if (!(std::abs(points[i]) <= kFarthestPoint)) {
                throw nb::value_error("a polygon must have finite numbers, none of them beyond 4e8; got another one");
            }
        }
        if (!rasterizer.rasterize(points, polygon.size() / 2, {static_cast<uint32_t>(height), static_cast<uint32_t>(width)}, runs)) {
            throw nb::value_error("a polygon must cross at most 10,000,000 columns of pixels; got one that crosses more");
        }
        masks.append(dict_of(height, width, runs));
    }
    return masks;
}

nb::dict compress_counts(const Input& counts, nb::object height, nb::object width) {
    const uint32_t* values = typed<uint32_t>(counts, counts.size(), "counts");
    return dict_of(read_side(height), read_side(width), Runs(values, values + counts.size()));
}

}  // namespace

void bind_rle(nb::module_& module) {
    module.def("rle_encode", &encode_pixels, "pixels"_a, "height"_a, "width"_a, "num"_a);
    module.def("rle_decode", &decode_masks, "masks"_a.none());
    module.def("rle_merge", &merge_masks, "masks"_a.none(), "is_intersection"_a);
    module.def("rle_areas", &measure_areas, "masks"_a.none());
    module.def("rle_boxes", &measure_boxes, "masks"_a.none());
    module.def("rle_compare", &compare_masks, "detections"_a, "truths"_a, "is_crowd"_a);
    module.def("rle_from_polygons", &rasterize_polygons, "polygons"_a, "height"_a, "width"_a);
    module.def("rle_from_counts", &compress_counts, "counts"_a, "height"_a, "width"_a);
}

}  // namespace boxscore
