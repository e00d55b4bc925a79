// The Python side of reading files: a path or bytes in, columns out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/coco_json.h"
#include "io/direct.h"
#include "platform/source.h"
#include "python/arrays.h"
#include "python/masks.h"
#include "python/measures.h"
#include "python/unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_files(nb::module_& module);

namespace {

// An array that owns the memory of a column.
template <class Column>
nb::object array_of(Column&& column, size_t num_columns = 0) {
    using T = typename Column::value_type;
    auto* const owned = new Column(std::move(column));
    nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<Column*>(pointer); });
    if (num_columns > 0) {
        return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size() / num_columns, num_columns}, owner));
    }
    return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size()}, owner));
}

template <class Column>
nb::object array_or_none(Column&& column) {
    return column.empty() ? nb::none() : array_of(std::move(column));
}

nb::list list_of(const Strings& strings) {
    nb::list list;
    for (size_t i = 0; i < strings.size(); ++i) list.append(nb::str(strings[i].data(), strings[i].size()));
    return list;
}

nb::object names_of(const CocoIds& ids) { return ids.are_names ? nb::object(list_of(ids.names)) : nb::none(); }

// The segmentations of a file: run lengths, and polygons that are drawn once the sizes of their images are known.
class SegmentationsObject {
public:
    SegmentationsObject(MaskColumn&& masks, PolygonColumn&& polygons) : masks_(std::move(masks)), polygons_(std::move(polygons)) {}

    bool has_polygons() const { return polygons_.num_parts() > 0; }

    // Whether the first polygon of a mask has fewer than three points.
    bool has_short_polygons() const {
        for (size_t row = 0; row < polygons_.num_masks(); ++row) {
            const size_t first = polygons_.mask_start[row];
            if (polygons_.has_polygons(row) && polygons_.part_start[first + 1] - polygons_.part_start[first] < 6) return true;
        }
        return false;
    }

    // The polygons as arrays: numbers, where each polygon begins among them, and the first polygon of each row.
    nb::object polygons() const {
        const auto starts = [](const std::vector<size_t>& values) {
            const std::vector<int64_t> copy(values.begin(), values.end());
            return to_numpy(copy, {copy.size()});
        };
        return nb::make_tuple(to_numpy(polygons_.points, {polygons_.points.size()}), starts(polygons_.part_start),
                              starts(polygons_.mask_start));
    }

    // The masks, which are taken out of this object. `sizes`: height and width of the image of each row, 0 where it is unknown.
    Masks draw(const Input& sizes, size_t num_threads) {
        CocoBoxes boxes;
        boxes.masks = std::move(masks_);
        boxes.category.resize(boxes.masks.num_masks());
        boxes.box.assign(boxes.masks.num_masks() * 4, 0.0);  // none is missing
        std::swap(boxes.polygons, polygons_);
        if (boxes.polygons.num_parts() > 0) {
            const std::vector<MaskSize> known = sizes_of(sizes, boxes.masks.num_masks());
            run_without_lock(boxes.polygons.num_parts() * 64, num_threads, [&](const Run& run) { draw_polygons(boxes, known, run); });
        }
        std::swap(boxes.polygons, polygons_);
        return Masks(std::move(boxes.masks));
    }

private:
    static std::vector<MaskSize> sizes_of(const Input& sizes, size_t num_rows) {
        const int64_t* sides = typed<int64_t>(sizes, num_rows * 2, "sizes");
        std::vector<MaskSize> known(num_rows);
        for (size_t row = 0; row < num_rows; ++row) {
            const auto height = static_cast<double>(sides[2 * row]), width = static_cast<double>(sides[2 * row + 1]);
            if (const char* const rule = broken_rule(height, width)) throw MaskError(row, rule);
            known[row] = {static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
        }
        return known;
    }

    MaskColumn masks_;
    PolygonColumn polygons_;
};

// What Python gets of a file: columns as arrays of NumPy, strings as lists; None for columns that no record has.
struct BoxesObject {
    nb::object image, image_names, category, box, mask_area, score, area, is_crowd, id, segmentations, keypoints, oriented;
    size_t num_flagged;
    std::optional<size_t> first_ignored;
};

// Shapes (N, K * 2), (N, K), (N, 4), (N,); the last is None if no row has `num_keypoints`.
struct KeypointsObject {
    nb::object point, third, around, num_labelled;
};

struct ImagesObject {
    nb::object id, names, file_name, width, height, crowd_index;
    nb::object negative, not_exhaustive;  // None, or: ids of all rows, the end of each row's in it, whether a row has a list
};

struct CategoriesObject {
    nb::object id, name, frequency;
};

struct FileObject {
    bool is_dataset, has_annotations;
    BoxesObject boxes;
    std::optional<ImagesObject> images;
    std::optional<CategoriesObject> categories;
};

nb::object keypoints_of(CocoKeypoints&& keypoints) {
    if (keypoints.num_points == 0) return nb::none();
    const size_t num_points = keypoints.num_points;
    return nb::cast(KeypointsObject{array_of(std::move(keypoints.point), num_points * 2), array_of(std::move(keypoints.third), num_points),
                                    array_of(std::move(keypoints.around), 4), array_or_none(std::move(keypoints.num_labelled))});
}

BoxesObject to_python(CocoBoxes&& boxes) {
    nb::object segmentations = nb::none();
    if (boxes.masks.num_masks() > 0) {
        segmentations = nb::cast(new SegmentationsObject(std::move(boxes.masks), std::move(boxes.polygons)));
    }
    nb::object oriented = nb::none();
    if (!boxes.oriented.empty()) {
        const size_t num_numbers = boxes.oriented.size() / boxes.size();
        oriented = array_of(std::move(boxes.oriented), num_numbers);
    }
    return {array_of(std::move(boxes.image.value)),
            names_of(boxes.image),
            array_of(std::move(boxes.category)),
            array_of(std::move(boxes.box), 4),
            array_or_none(std::move(boxes.mask_area)),
            array_or_none(std::move(boxes.score)),
            array_or_none(std::move(boxes.area)),
            array_or_none(std::move(boxes.is_crowd)),
            array_or_none(std::move(boxes.id)),
            std::move(segmentations),
            keypoints_of(std::move(boxes.keypoints)),
            std::move(oriented),
            boxes.num_flagged,
            boxes.first_ignored == CocoBoxes::kNone ? std::nullopt : std::optional(boxes.first_ignored)};
}

nb::object lists_of(IdLists&& lists) {
    const bool is_any = std::find(lists.is_given.begin(), lists.is_given.end(), 1) != lists.is_given.end();
    if (!is_any) return nb::none();
    return nb::make_tuple(array_of(std::move(lists.value)), array_of(std::move(lists.end)), array_of(std::move(lists.is_given)));
}

ImagesObject to_python(CocoImages&& images) {
    return {array_of(std::move(images.id.value)), names_of(images.id), list_of(images.file_name),
            array_of(std::move(images.width)), array_of(std::move(images.height)), array_of(std::move(images.crowd_index)),
            lists_of(std::move(images.negative)), lists_of(std::move(images.not_exhaustive))};
}

FileObject to_python(CocoFile&& file) {
    FileObject object{file.is_dataset, file.has_annotations, to_python(std::move(file.boxes)), {}, {}};
    if (file.has_images) object.images = to_python(std::move(file.images));
    if (file.has_categories) {
        object.categories = CategoriesObject{array_of(std::move(file.categories.id)), list_of(file.categories.name),
                                             list_of(file.categories.frequency)};
    }
    return object;
}

// A file system's error as Python's OSError.
[[noreturn]] void raise(const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

// The images and classes of a column each.
using Pairs = std::optional<std::pair<Input, Input>>;

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
        return to_python(read_unlocked(*source, num_threads, shapes, compared, score, keeps_third, chunk_size));
    } catch (const std::system_error& error) {
        raise(error);
    }
}

// The bytes of any Python object that has a buffer.
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
    return to_python(read_unlocked(view.source(), num_threads, shapes, compared, score, keeps_third, chunk_size));
}

std::string string_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Truths and detections with boxes, which threads read while Python goes on. If they are no longer wanted, reading stops.
class EarlyFiles {
public:
    EarlyFiles(const nb::bytes& truths, const nb::bytes& detections, size_t num_threads)
        : truths_(string_of(truths)), detections_(string_of(detections)), run_{num_threads, &interruption_}, files_(start()) {}
    ~EarlyFiles() { interruption_.request(); }  // and `files_` waits for its thread

    // Whether these are the files, with the shapes that are wanted, and nobody has taken them.
    bool are(const std::string& truths, const std::string& detections, const ShapeRules& shapes) const {
        return files_.valid() && truths == truths_ && detections == detections_ && shapes.iou_types == kShapes.iou_types;
    }

    std::pair<CocoFile, CocoFile> take(const Run& run) {
        while (files_.wait_for(Interruption::kInterval) == std::future_status::timeout) run.check();
        return files_.get();
    }

private:
    // Without another thread, the files are read by `take`.
    std::future<std::pair<CocoFile, CocoFile>> start() {
        const auto read_both = [this] { return read(); };
        try {
            return std::async(std::launch::async, read_both);
        } catch (const std::system_error&) {
            return std::async(std::launch::deferred, read_both);
        }
    }

    std::pair<CocoFile, CocoFile> read() const {
        CocoFile truths = read_plain_truths(*open_source(truths_), kShapes, run_);
        CocoFile detections = read_plain_detections(*open_source(detections_), truths, kShapes, run_);
        return {std::move(truths), std::move(detections)};
    }

    inline static const ShapeRules kShapes{{IouType::bbox}, 0, false, 0, 0, {}};
    std::string truths_, detections_;
    Interruption interruption_;
    Run run_;
    std::future<std::pair<CocoFile, CocoFile>> files_;
};

// The names of the classes of a result.
std::vector<std::string> names_of(const PlainResult& result, const CocoCategories& categories) {
    std::unordered_map<int64_t, std::string_view> name_of;
    for (size_t k = 0; k < categories.size(); ++k) name_of[categories.id[k]] = categories.name[k];
    std::vector<std::string> names;
    for (const int64_t label : result.classes) names.emplace_back(name_of[label]);
    return names;
}

// A result with what tables show of its classes.
struct PlainResultObject {
    PlainResult result;
    std::vector<std::string> name;
};

// Results in plain values for each file of detections, one per similarity, or None for all if any file has something to be told about.
// `early`: files that are read already, or soon, if they are the first ones.
nb::object evaluate_coco_files(const nb::bytes& truths, const std::vector<nb::bytes>& detections, const Rules& rules,
                               const std::vector<MeasureObject>& wanted, const ShapeRules& shapes, size_t num_threads,
                               EarlyFiles* early) {
    check_measures(wanted, rules);
    const std::vector<Measure> measures = measures_of(wanted, {});  // of all classes
    const std::string truth_path = string_of(truths);
    std::vector<std::string> paths;
    for (const nb::bytes& path : detections) paths.push_back(string_of(path));
    const bool is_early = early != nullptr && !paths.empty() && early->are(truth_path, paths[0], shapes);
    CocoFile truth_file;
    std::vector<std::vector<PlainResult>> results;
    try {
        run_without_lock(SIZE_MAX, num_threads, [&](const Run& run) {
            CocoFile file;
            if (is_early) {
                std::tie(truth_file, file) = early->take(run);
            } else {
                truth_file = read_plain_truths(*open_source(truth_path), shapes, run);
            }
            for (size_t i = 0; i < paths.size(); ++i) {
                if (i > 0 || !is_early) file = read_plain_detections(*open_source(paths[i]), truth_file, shapes, run);
                results.push_back(evaluate_plainly(truth_file, std::move(file), rules, measures, shapes, run));
                if (results.back().empty()) return;
            }
        });
    } catch (const CocoError&) {
        return nb::none();
    } catch (const MaskError&) {
        return nb::none();
    } catch (const std::system_error&) {
        return nb::none();
    }
    nb::list list;
    for (std::vector<PlainResult>& of_file : results) {
        if (of_file.empty()) return nb::none();
        nb::list by_type;
        for (PlainResult& result : of_file) {
            std::vector<std::string> names = names_of(result, truth_file.categories);
            by_type.append(PlainResultObject{std::move(result), std::move(names)});
        }
        list.append(by_type);
    }
    return list;
}

}  // namespace

void bind_files(nb::module_& module) {
    nb::exception<CocoError>(module, "CocoError", PyExc_ValueError);
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
        .def("polygons", &SegmentationsObject::polygons)
        .def("draw", &SegmentationsObject::draw, "sizes"_a, "num_threads"_a);
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
        .def_ro("first_ignored", &BoxesObject::first_ignored);
    nb::class_<ImagesObject>(module, "CocoImages")
        .def_ro("id", &ImagesObject::id)
        .def_ro("names", &ImagesObject::names)
        .def_ro("file_name", &ImagesObject::file_name)
        .def_ro("width", &ImagesObject::width)
        .def_ro("height", &ImagesObject::height)
        .def_ro("crowd_index", &ImagesObject::crowd_index)
        .def_ro("negative", &ImagesObject::negative)
        .def_ro("not_exhaustive", &ImagesObject::not_exhaustive);
    nb::class_<CategoriesObject>(module, "CocoCategories")
        .def_ro("id", &CategoriesObject::id)
        .def_ro("name", &CategoriesObject::name)
        .def_ro("frequency", &CategoriesObject::frequency);
    nb::class_<FileObject>(module, "CocoFile")
        .def_ro("is_dataset", &FileObject::is_dataset)
        .def_ro("has_annotations", &FileObject::has_annotations)
        .def_ro("boxes", &FileObject::boxes)
        .def_ro("images", &FileObject::images)
        .def_ro("categories", &FileObject::categories);
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
    nb::class_<EarlyFiles>(module, "EarlyFiles")
        .def(nb::init<const nb::bytes&, const nb::bytes&, size_t>(), "truths"_a, "detections"_a, "num_threads"_a);
    auto column = [](auto get) { return [get](const PlainResultObject& self) { return get(self.result); }; };
    nb::class_<PlainResultObject>(module, "PlainResult")
        .def_ro("name", &PlainResultObject::name)
        .def_prop_ro("numbers", column([](const PlainResult& each) { return each.averages.numbers; }))
        .def_prop_ro("ap", column([](const PlainResult& each) { return each.averages.ap; }))
        .def_prop_ro("ar", column([](const PlainResult& each) { return each.averages.ar; }))
        .def_prop_ro("label", column([](const PlainResult& each) { return each.classes; }))
        .def_prop_ro("num_truths", column([](const PlainResult& each) { return each.num_truths; }))
        .def_prop_ro("num_detections", column([](const PlainResult& each) { return each.num_detections; }))
        .def_prop_ro("num_read", column([](const PlainResult& each) { return each.num_read; }))
        .def_prop_ro("ap_at", column([](const PlainResult& each) { return each.ap_at; }))
        .def_prop_ro("num_true", column([](const PlainResult& each) { return each.num_true; }))
        .def_prop_ro("num_false", column([](const PlainResult& each) { return each.num_false; }));
    module.def("read_coco_file", &read_coco_file, "path"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk,
               "shapes"_a = CocoShapes::boxes, "compared"_a = nb::none(), "score"_a = CocoScore::score, "keeps_third"_a = true);
    module.def("read_coco_bytes", &read_coco_bytes, "content"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk,
               "shapes"_a = CocoShapes::boxes, "compared"_a = nb::none(), "score"_a = CocoScore::score, "keeps_third"_a = true);
    module.def("evaluate_coco_files", &evaluate_coco_files, "truths"_a, "detections"_a, "rules"_a, "measures"_a,
               "shapes"_a, "num_threads"_a, "early"_a = nb::none());
}

}  // namespace boxscore
