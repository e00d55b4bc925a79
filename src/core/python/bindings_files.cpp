// Python bindings of reading files: columns from a path or from bytes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "io/coco_json.h"
#include "io/coco_rows.h"
#include "platform/source.h"
#include "python/arrays.h"
#include "python/boxes.h"
#include "python/geometry.h"
#include "python/keypoints.h"
#include "python/masks.h"
#include "python/unlocked.h"
#include "rows/likely_mistakes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_files(nb::module_& module);

namespace {

using FileRef = std::shared_ptr<CocoFile>;

// Python object that keeps a file alive while arrays use its columns.
nb::capsule owner_of(const FileRef& file) {
    return nb::capsule(new FileRef(file), [](void* pointer) noexcept { delete static_cast<FileRef*>(pointer); });
}

// A column as a NumPy array that shares its memory.
template <class Column>
nb::object array_of(const FileRef& file, Column& column, size_t num_columns = 0) {
    using T = typename Column::value_type;
    if (num_columns > 0) {
        return nb::cast(nb::ndarray<nb::numpy, T>(column.data(), {column.size() / num_columns, num_columns}, owner_of(file)));
    }
    return nb::cast(nb::ndarray<nb::numpy, T>(column.data(), {column.size()}, owner_of(file)));
}

template <class Column>
nb::object array_or_none(const FileRef& file, Column& column) {
    return column.empty() ? nb::none() : array_of(file, column);
}

// A column as an input of the compiled engine that shares its memory; doesn't import NumPy.
template <class Column>
Input input_of(const FileRef& file, Column& column) {
    return Input(column.data(), {column.size()}, owner_of(file), {}, nb::dtype<typename Column::value_type>());
}

template <class Column>
std::optional<Input> input_or_none(const FileRef& file, Column& column) {
    return column.empty() ? std::nullopt : std::optional(input_of(file, column));
}

template <class T>
Input input_of(const std::vector<T>& values) {
    Buffer<T> buffer(values.size());
    std::copy(values.begin(), values.end(), buffer.data());
    return Input(to_array(std::move(buffer), {values.size()}));
}

nb::list list_of(const Strings& strings) {
    nb::list list;
    for (size_t i = 0; i < strings.size(); ++i) list.append(nb::str(strings[i].data(), strings[i].size()));
    return list;
}

nb::object names_of(const CocoIds& ids) { return ids.are_names ? nb::object(list_of(ids.names)) : nb::none(); }

// Python class of the segmentations of a file: run lengths, and polygons, which are drawn once the sizes of their images are known.
class SegmentationsObject {
public:
    explicit SegmentationsObject(FileRef file) : file_(std::move(file)) {}

    bool has_polygons() const { return polygons().num_parts() > 0; }
    bool is_drawn() const { return file_->boxes.is_drawn; }

    // Whether the first polygon of any mask has fewer than three points.
    bool has_short_polygons() const {
        for (size_t row = 0; row < polygons().num_masks(); ++row) {
            const size_t first = polygons().mask_start[row];
            if (polygons().has_polygons(row) && polygons().part_start[first + 1] - polygons().part_start[first] < 6) return true;
        }
        return false;
    }

    // Polygons as arrays: coordinates, offsets of the polygons in them, and offsets of the rows among the polygons.
    nb::object polygon_arrays() const {
        const auto starts = [](const std::vector<size_t>& values) {
            const std::vector<int64_t> copy(values.begin(), values.end());
            return to_numpy(copy, {copy.size()});
        };
        return nb::make_tuple(to_numpy(polygons().points, {polygons().points.size()}), starts(polygons().part_start),
                              starts(polygons().mask_start));
    }

    // Masks as read or drawn; rows with polygons that are not drawn have no pixels.
    Masks masks() const { return Masks(std::shared_ptr<const MaskColumn>(file_, &file_->boxes.masks)); }

private:
    const PolygonColumn& polygons() const { return file_->boxes.polygons; }

    FileRef file_;
};

// Python classes of a file: columns are NumPy arrays, strings are lists; None for columns that no record has.
struct BoxesObject {
    nb::object image, image_names, category, box, mask_area, score, area, is_crowd, id, segmentations, keypoints, oriented;
    size_t num_flagged;
    std::optional<size_t> first_ignored;
    bool has_boxes;
};

// Shapes (N, K * 2), (N, K), (N, 4), (N,); the last is None if no row has `num_keypoints`.
struct KeypointsObject {
    nb::object point, third, around, num_labelled;
};

struct ImagesObject {
    nb::object id, names, file_name, width, height, size, crowd_index;
    nb::object negative, not_exhaustive;  // None, or (ids of all rows, end of each row's list, whether the row has one)
};

struct CategoriesObject {
    nb::object id, name, frequency;
};

nb::object keypoints_of(const FileRef& file) {
    CocoKeypoints& keypoints = file->boxes.keypoints;
    if (keypoints.num_points == 0) return nb::none();
    return nb::cast(KeypointsObject{array_of(file, keypoints.point, keypoints.num_points * 2),
                                    array_of(file, keypoints.third, keypoints.num_points), array_of(file, keypoints.around, 4),
                                    array_or_none(file, keypoints.num_labelled)});
}

BoxesObject boxes_of(const FileRef& file) {
    CocoBoxes& boxes = file->boxes;
    return {array_of(file, boxes.image.value),
            names_of(boxes.image),
            array_of(file, boxes.category),
            array_of(file, boxes.box, 4),
            array_or_none(file, boxes.mask_area),
            array_or_none(file, boxes.score),
            array_or_none(file, boxes.area),
            array_or_none(file, boxes.is_crowd),
            array_or_none(file, boxes.id),
            boxes.masks.num_masks() == 0 ? nb::none() : nb::cast(SegmentationsObject(file)),
            keypoints_of(file),
            boxes.oriented.empty() ? nb::none() : array_of(file, boxes.oriented, boxes.oriented.size() / boxes.size()),
            boxes.num_flagged,
            boxes.first_ignored == CocoBoxes::kNone ? std::nullopt : std::optional(boxes.first_ignored),
            boxes.has_boxes};
}

nb::object lists_of(const FileRef& file, IdLists& lists) {
    const bool is_any = std::find(lists.is_given.begin(), lists.is_given.end(), 1) != lists.is_given.end();
    if (!is_any) return nb::none();
    return nb::make_tuple(array_of(file, lists.value), array_of(file, lists.end), array_of(file, lists.is_given));
}

ImagesObject images_of(const FileRef& file) {
    CocoImages& images = file->images;
    return {array_of(file, images.id.value), names_of(images.id), list_of(images.file_name), array_of(file, images.width),
            array_of(file, images.height), to_numpy(image_sizes(images), {images.size(), 2}), array_of(file, images.crowd_index),
            lists_of(file, images.negative), lists_of(file, images.not_exhaustive)};
}

// Python class of a file. Makes NumPy arrays of its columns only when Python reads them.
class FileObject {
public:
    explicit FileObject(CocoFile&& file, std::string head = {})
        : file_(std::make_shared<CocoFile>(std::move(file))), head_(std::move(head)) {}

    const FileRef& file() const { return file_; }
    nb::bytes head() const { return nb::bytes(head_.data(), head_.size()); }
    const BoxesObject& boxes() {
        if (!boxes_) boxes_ = boxes_of(file_);
        return *boxes_;
    }
    std::optional<ImagesObject> images() {
        if (!images_ && file_->has_images) images_ = images_of(file_);
        return images_;
    }
    std::optional<CategoriesObject> categories() const {
        if (!file_->has_categories) return std::nullopt;
        CocoCategories& categories = file_->categories;
        return CategoriesObject{array_of(file_, categories.id), list_of(categories.name), list_of(categories.frequency)};
    }

    // Complete the rows, once; see io/coco_rows.h. `truths`: the file with the images of the detections; null: this file.
    void complete_truths(size_t num_threads) {
        complete(num_threads, [this](const Run& run) { boxscore::complete_truths(*file_, run); });
    }
    void complete_detections(size_t num_threads, const FileObject* truths) {
        const CocoImages& images = truths == nullptr ? file_->images : truths->file_->images;
        complete(num_threads, [&](const Run& run) { boxscore::complete_detections(file_->boxes, images, run); });
    }

private:
    void complete(size_t num_threads, const std::function<void(const Run&)>& compute) {
        if (is_complete_) return;
        run_without_lock(file_->boxes.polygons.num_parts() * 64, num_threads, compute);
        if (boxes_) *boxes_ = boxes_of(file_);
        is_complete_ = true;
    }

    FileRef file_;
    std::string head_;
    bool is_complete_ = false;
    std::optional<BoxesObject> boxes_;
    std::optional<ImagesObject> images_;
};

// Raise an error of the file system as OSError.
[[noreturn]] void raise(const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

// A column of images and a column of classes.
using Pairs = std::optional<std::pair<Input, Input>>;

// The images and classes of a file's rows, for `compared`; not as NumPy arrays.
nb::tuple pairs_of(const FileObject& object) {
    CocoBoxes& boxes = object.file()->boxes;
    return nb::make_tuple(nb::cast(input_of(object.file(), boxes.image.value)), nb::cast(input_of(object.file(), boxes.category)));
}

nb::object class_ids_of(const FileObject& object) { return nb::cast(input_of(object.file(), object.file()->categories.id)); }

nb::typed<nb::dict, int, nb::str> class_names_of(const FileObject& object) {
    const CocoCategories& categories = object.file()->categories;
    nb::typed<nb::dict, int, nb::str> names;
    for (size_t k = 0; k < categories.size(); ++k) {
        names[nb::int_(categories.id[k])] = nb::str(categories.name[k].data(), categories.name[k].size());
    }
    return names;
}

// Number of first bytes of a file that are kept, by which its format is recognised.
constexpr size_t kHeadSize = size_t{1} << 16;

CocoFile read_unlocked(const Source& source, size_t num_threads, CocoShapes shapes, const Pairs& compared, CocoScore score,
                       bool keeps_third, size_t chunk_size) {
    std::optional<PairFilter> filter;
    if (compared) {
        const auto& [image, category] = *compared;
        const int64_t* images = typed<int64_t>(image, image.size(), "compared");
        const int64_t* categories = typed<int64_t>(category, image.size(), "compared");
        filter.emplace(image.size());
        for (size_t row = 0; row < image.size(); ++row) filter->add(images[row], categories[row]);
    }
    CocoFile file;
    const CocoRequest request{shapes, filter ? &*filter : nullptr, score, keeps_third};
    run_without_lock(source.size(), num_threads, [&](const Run& run) { file = read_coco(source, run, request, chunk_size); });
    return file;
}

FileObject read_coco_file(const nb::bytes& path, size_t num_threads, size_t chunk_size, CocoShapes shapes, const Pairs& compared,
                          CocoScore score, bool keeps_third) {
    try {
        std::unique_ptr<Source> source;
        {
            const std::string name(path.c_str(), path.size());
            const Unlocked unlocked;
            source = open_source(name);
        }
        std::string head(kHeadSize, '\0');
        head.resize(source->read(0, head.data(), head.size()));
        return FileObject(read_unlocked(*source, num_threads, shapes, compared, score, keeps_third, chunk_size), std::move(head));
    } catch (const std::system_error& error) {
        raise(error);
    }
}

// Source of the bytes of any Python object with a buffer.
class BytesView {
public:
    explicit BytesView(const nb::object& object) {
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    BytesView(const BytesView&) = delete;
    BytesView& operator=(const BytesView&) = delete;
    ~BytesView() { PyBuffer_Release(&buffer_); }
    MemorySource source() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

private:
    Py_buffer buffer_;
};

FileObject read_coco_bytes(const nb::object& content, size_t num_threads, size_t chunk_size, CocoShapes shapes,
                           const Pairs& compared, CocoScore score, bool keeps_third) {
    const BytesView view(content);
    return FileObject(read_unlocked(view.source(), num_threads, shapes, compared, score, keeps_third, chunk_size));
}

nb::object truth_keypoints_of(const FileRef& file, const ShapeRules& shapes) {
    CocoBoxes& boxes = file->boxes;
    std::vector<uint8_t> is_labelled;
    for (const double visibility : boxes.keypoints.third) is_labelled.push_back(visibility > 0);
    const Input area = input_of(file, boxes.area);
    std::optional<Input> box;
    if (boxes.has_boxes) box = input_of(file, boxes.box);
    return make_keypoints({input_of(file, boxes.keypoints.point), area, input_of(is_labelled), area, box, {}}, shapes.sigmas);
}

nb::object keypoints_of(const FileRef& file, const ShapeRules& shapes) {
    CocoKeypoints& keypoints = file->boxes.keypoints;
    return make_keypoints({input_of(file, keypoints.point), input_or_none(file, file->boxes.area), {}, {}, {},
                           input_or_none(file, keypoints.slot)},
                          shapes.sigmas);
}

// The shapes of a file as a geometry.
nb::object geometry_of(const FileRef& file, IouType type, const ShapeRules& shapes) {
    if (type == IouType::keypoints) return file->is_dataset ? truth_keypoints_of(file, shapes) : keypoints_of(file, shapes);
    if (type == IouType::bbox) return make_boxes(input_of(file, file->boxes.box), BoxFormat::xywh, shapes.is_inclusive);
    const Masks masks(std::shared_ptr<const MaskColumn>(file, &file->boxes.masks));
    return nb::cast(masks.with_boundary(type == IouType::boundary ? shapes.boundary_ratio : 0));
}

// Pairs of (detections, truths) of completed files for the compiled engine, one per similarity; None if a row needs an error or a
// warning.
nb::object columns_of(const FileObject& truths_object, const FileObject& detections_object, const ShapeRules& shapes, size_t num_threads) {
    const FileRef &truths = truths_object.file(), &detections = detections_object.file();
    bool is_ready = false;
    run_without_lock(detections->boxes.size(), num_threads, [&](const Run& run) { is_ready = are_ready(*truths, *detections, shapes, run); });
    if (!is_ready) return nb::none();
    CocoBoxes &boxes = detections->boxes, &truth_boxes = truths->boxes;
    const std::vector<uint8_t> kinds = truth_kinds(truth_boxes, shapes);
    nb::list pairs;
    for (const IouType type : shapes.iou_types) {
        DetectionsObject rows(input_of(detections, boxes.image.value), input_of(detections, boxes.category), input_of(detections, boxes.score),
                              geometry_of(detections, type, shapes), std::nullopt, input_or_none(detections, boxes.area));
        TruthsObject truth_rows(input_of(truths, truth_boxes.image.value), input_of(truths, truth_boxes.category),
                                geometry_of(truths, type, shapes), input_or_none(truths, truth_boxes.area),
                                kinds.empty() ? std::nullopt : std::optional(input_of(kinds)));
        pairs.append(nb::make_tuple(nb::cast(std::move(rows)), nb::cast(std::move(truth_rows))));
    }
    return pairs;
}

}  // namespace

void bind_files(nb::module_& module) {
    nb::exception<CocoError>(module, "CocoError", PyExc_ValueError);
    module.attr("LARGEST_FRACTION") = kLargestFraction;
    module.attr("MIN_FRACTION_SHARE") = kMinFractionShare;
    module.attr("FLOAT16_BITS") = kFloat16Bits;
    module.attr("BFLOAT16_BITS") = kBfloat16Bits;
    module.attr("MIN_IMAGES") = kMinImages;
    module.attr("MANY_DETECTIONS") = kManyDetections;
    nb::enum_<CocoShapes>(module, "CocoShapes")
        .value("boxes", CocoShapes::boxes)
        .value("masks", CocoShapes::masks)
        .value("keypoints", CocoShapes::keypoints)
        .value("corners", CocoShapes::corners)
        .value("turned_boxes", CocoShapes::turned_boxes);
    nb::enum_<CocoScore>(module, "CocoScore")
        .value("score", CocoScore::score)
        .value("wholebody_score", CocoScore::wholebody)
        .value("foot_score", CocoScore::foot)
        .value("face_score", CocoScore::face)
        .value("lefthand_score", CocoScore::lefthand)
        .value("righthand_score", CocoScore::righthand);
    nb::class_<SegmentationsObject>(module, "CocoSegmentations")
        .def_prop_ro("has_polygons", &SegmentationsObject::has_polygons)
        .def_prop_ro("has_short_polygons", &SegmentationsObject::has_short_polygons)
        .def_prop_ro("is_drawn", &SegmentationsObject::is_drawn)
        .def_prop_ro("masks", &SegmentationsObject::masks)
        .def("polygons", &SegmentationsObject::polygon_arrays);
    nb::class_<KeypointsObject>(module, "CocoKeypoints")
        .def_ro("point", &KeypointsObject::point)
        .def_ro("third", &KeypointsObject::third)
        .def_ro("around", &KeypointsObject::around)
        .def_ro("num_labelled", &KeypointsObject::num_labelled);
    nb::class_<BoxesObject>(module, "CocoBoxes")
        .def_ro("image", &BoxesObject::image)
        .def_ro("image_names", &BoxesObject::image_names)
        .def_ro("category", &BoxesObject::category)
        .def_ro("box", &BoxesObject::box)
        .def_ro("mask_area", &BoxesObject::mask_area)
        .def_ro("score", &BoxesObject::score)
        .def_ro("area", &BoxesObject::area)
        .def_ro("is_crowd", &BoxesObject::is_crowd)
        .def_ro("id", &BoxesObject::id)
        .def_ro("segmentations", &BoxesObject::segmentations)
        .def_ro("keypoints", &BoxesObject::keypoints)
        .def_ro("oriented", &BoxesObject::oriented)
        .def_ro("num_flagged", &BoxesObject::num_flagged)
        .def_ro("first_ignored", &BoxesObject::first_ignored)
        .def_ro("has_boxes", &BoxesObject::has_boxes);
    nb::class_<ImagesObject>(module, "CocoImages")
        .def_ro("id", &ImagesObject::id)
        .def_ro("names", &ImagesObject::names)
        .def_ro("file_name", &ImagesObject::file_name)
        .def_ro("width", &ImagesObject::width)
        .def_ro("height", &ImagesObject::height)
        .def_ro("size", &ImagesObject::size)
        .def_ro("crowd_index", &ImagesObject::crowd_index)
        .def_ro("negative", &ImagesObject::negative)
        .def_ro("not_exhaustive", &ImagesObject::not_exhaustive);
    nb::class_<CategoriesObject>(module, "CocoCategories")
        .def_ro("id", &CategoriesObject::id)
        .def_ro("name", &CategoriesObject::name)
        .def_ro("frequency", &CategoriesObject::frequency);
    nb::class_<FileObject>(module, "CocoFile")
        .def_prop_ro("is_dataset", [](const FileObject& self) { return self.file()->is_dataset; })
        .def_prop_ro("has_annotations", [](const FileObject& self) { return self.file()->has_annotations; })
        .def("head", &FileObject::head)
        .def_prop_ro("boxes", &FileObject::boxes)
        .def_prop_ro("images", &FileObject::images)
        .def_prop_ro("categories", &FileObject::categories)
        .def("__len__", [](const FileObject& self) { return self.file()->boxes.size(); })
        .def("pairs", &pairs_of)
        .def("class_ids", &class_ids_of)
        .def("class_names", &class_names_of)
        .def("complete_truths", &FileObject::complete_truths, "num_threads"_a)
        .def("complete_detections", &FileObject::complete_detections, "num_threads"_a, "truths"_a = nb::none());
    nb::enum_<IouType>(module, "IouType")
        .value("bbox", IouType::bbox)
        .value("segm", IouType::segm)
        .value("boundary", IouType::boundary)
        .value("keypoints", IouType::keypoints);
    nb::class_<ShapeRules>(module, "ShapeRules")
        .def(
            "__init__",
            [](ShapeRules* self, std::vector<IouType> iou_types, double largest, bool is_inclusive, uint8_t ignored_kind,
               double boundary_ratio, std::vector<double> sigmas) {
                new (self) ShapeRules{std::move(iou_types), largest, is_inclusive, ignored_kind, boundary_ratio, std::move(sigmas)};
            },
            "iou_types"_a, "largest"_a, "is_inclusive"_a, "ignored_kind"_a, "boundary_ratio"_a, "sigmas"_a);
    module.attr("HEAD_SIZE") = kHeadSize;
    module.def("read_coco_file", &read_coco_file, "path"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk,
               "shapes"_a = CocoShapes::boxes, "compared"_a = nb::none(), "score"_a = CocoScore::score, "keeps_third"_a = true);
    module.def("read_coco_bytes", &read_coco_bytes, "content"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk,
               "shapes"_a = CocoShapes::boxes, "compared"_a = nb::none(), "score"_a = CocoScore::score, "keeps_third"_a = true);
    module.def("coco_columns", &columns_of, "truths"_a, "detections"_a, "shapes"_a, "num_threads"_a);
}

}  // namespace boxscore
