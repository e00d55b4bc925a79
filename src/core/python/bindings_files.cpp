// The Python side of reading files: a path or bytes in, columns out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/coco_json.h"
#include "direct.h"
#include "io/source.h"
#include "python/unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace boxscore {

void bind_files(nb::module_& module);

namespace {

// An array that owns the memory of a column.
template <class T>
nb::object array_of(std::vector<T>&& column, size_t num_columns = 0) {
    auto* const owned = new std::vector<T>(std::move(column));
    nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    if (num_columns > 0) {
        return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size() / num_columns, num_columns}, owner));
    }
    return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size()}, owner));
}

template <class T>
nb::object array_or_none(std::vector<T>&& column) {
    return column.empty() ? nb::none() : array_of(std::move(column));
}

nb::list list_of(const Strings& strings) {
    nb::list list;
    for (size_t i = 0; i < strings.size(); ++i) list.append(nb::str(strings[i].data(), strings[i].size()));
    return list;
}

nb::object names_of(const CocoIds& ids) { return ids.are_names ? nb::object(list_of(ids.names)) : nb::none(); }

nb::dict dict_of(CocoFile&& file) {
    nb::dict columns;
    columns["is_dataset"] = file.is_dataset;
    columns["has_annotations"] = file.has_annotations;
    columns["image_names"] = names_of(file.boxes.image);
    columns["image"] = array_of(std::move(file.boxes.image.value));
    columns["category"] = array_of(std::move(file.boxes.category));
    columns["box"] = array_of(std::move(file.boxes.box), 4);
    columns["score"] = array_or_none(std::move(file.boxes.score));
    columns["area"] = array_or_none(std::move(file.boxes.area));
    columns["num_flagged"] = file.boxes.num_flagged;
    columns["is_crowd"] = array_or_none(std::move(file.boxes.is_crowd));
    columns["id"] = array_or_none(std::move(file.boxes.id));
    if (file.has_images) {
        nb::dict images;
        images["names"] = names_of(file.images.id);
        images["id"] = array_of(std::move(file.images.id.value));
        images["file_name"] = list_of(file.images.file_name);
        images["width"] = array_of(std::move(file.images.width));
        images["height"] = array_of(std::move(file.images.height));
        columns["images"] = images;
    } else {
        columns["images"] = nb::none();
    }
    if (file.has_categories) {
        nb::dict categories;
        categories["id"] = array_of(std::move(file.categories.id));
        categories["name"] = list_of(file.categories.name);
        columns["categories"] = categories;
    } else {
        columns["categories"] = nb::none();
    }
    return columns;
}

// A file system's error as Python's OSError.
[[noreturn]] void raise(const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

CocoFile read_unlocked(const Source& source, size_t num_threads, size_t chunk_size) {
    CocoFile file;
    run_without_lock(source.size(), num_threads, [&](const Run& run) { file = read_coco(source, run, chunk_size); });
    return file;
}

nb::dict read_coco_file(const nb::bytes& path, size_t num_threads, size_t chunk_size) {
    try {
        std::unique_ptr<Source> source;
        {
            const std::string name(path.c_str(), path.size());
            nb::gil_scoped_release unlock;
            source = open_source(name);
        }
        return dict_of(read_unlocked(*source, num_threads, chunk_size));
    } catch (const std::system_error& error) {
        raise(error);
    }
}

// Bytes of any Python object that has some; held as long as they are looked at.
class View {
public:
    explicit View(const nb::object& object) {
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() { PyBuffer_Release(&buffer_); }
    MemorySource source() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

private:
    Py_buffer buffer_;
};

nb::dict read_coco_bytes(const nb::object& content, size_t num_threads, size_t chunk_size) {
    const View view(content);
    return dict_of(read_unlocked(view.source(), num_threads, chunk_size));
}

template <class T>
nb::list list_of(const std::vector<T>& values) {
    nb::list list;
    for (const T& value : values) list.append(value);
    return list;
}

nb::dict dict_of(const PlainResult& result, const CocoCategories& categories) {
    std::unordered_map<int64_t, std::string_view> name_of;
    for (size_t k = 0; k < categories.size(); ++k) name_of[categories.id[k]] = categories.name[k];
    nb::list names;
    for (const int64_t label : result.classes) names.append(nb::str(name_of[label].data(), name_of[label].size()));
    nb::dict columns;
    columns["numbers"] = list_of(result.numbers);
    columns["label"] = list_of(result.classes);
    columns["name"] = names;
    columns["ap"] = list_of(result.ap);
    columns["ar"] = list_of(result.ar);
    columns["num_truths"] = list_of(result.num_truths);
    columns["num_detections"] = list_of(result.num_detections);
    columns["num_read"] = result.num_read;
    columns["ap_at"] = list_of(result.ap_at);
    columns["num_true"] = list_of(result.num_true);
    columns["num_false"] = list_of(result.num_false);
    return columns;
}

// A result in plain values for each file of detections, or None for all if any file has something to be told about.
nb::object evaluate_coco_files(const nb::bytes& truths, const std::vector<nb::bytes>& detections, const Rules& rules,
                               const std::vector<std::tuple<bool, std::vector<size_t>, size_t, size_t>>& measures,
                               double largest, bool is_inclusive, uint8_t ignored_kind, size_t num_threads) {
    std::vector<Measure> wanted;
    for (const auto& [is_recall, thresholds, area, limit] : measures) wanted.push_back({is_recall, thresholds, area, limit});
    const std::string truth_path(truths.c_str(), truths.size());
    std::vector<std::string> paths;
    for (const nb::bytes& path : detections) paths.emplace_back(path.c_str(), path.size());
    CocoFile there;
    std::vector<std::optional<PlainResult>> results;
    try {
        run_without_lock(SIZE_MAX, num_threads, [&](const Run& run) {
            there = read_coco(*open_source(truth_path), run);
            for (const std::string& path : paths) {
                results.push_back(evaluate_plainly(there, read_coco(*open_source(path), run), rules, wanted,
                                                   {largest, is_inclusive, ignored_kind}, run));
                if (!results.back()) return;
            }
        });
    } catch (const CocoError&) {
        return nb::none();
    } catch (const std::system_error&) {
        return nb::none();
    }
    nb::list list;
    for (const std::optional<PlainResult>& result : results) {
        if (!result) return nb::none();
        list.append(dict_of(*result, there.categories));
    }
    return list;
}

}  // namespace

void bind_files(nb::module_& module) {
    nb::exception<CocoError>(module, "CocoError", PyExc_ValueError);
    module.def("read_coco_file", &read_coco_file, "path"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk);
    module.def("read_coco_bytes", &read_coco_bytes, "content"_a, "num_threads"_a, "chunk_size"_a = kCocoChunk);
    module.def("evaluate_coco_files", &evaluate_coco_files, "truths"_a, "detections"_a, "rules"_a, "measures"_a,
               "largest"_a, "is_inclusive"_a, "ignored_kind"_a, "num_threads"_a);
}

}  // namespace boxscore
