// Python bindings of masks: columns of masks from run lengths, polygons or pixels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "geometry/masks.h"
#include "masks/column.h"
#include "masks/pixels.h"
#include "masks/segmentations.h"
#include "python/dict_values.h"
#include "python/geometry.h"
#include "python/masks.h"
#include "python/stable_api.h"

namespace boxscore {

using namespace nb::literals;

void bind_masks(nb::module_& module);

namespace {

// Work per mask in units of boxes, by which `run_without_lock` decides whether threads are worth it.
constexpr size_t kRowsPerMask = 64;

template <class T>
nb::object view_of(const std::shared_ptr<const MaskColumn>& column, const T* data, std::initializer_list<size_t> shape) {
    nb::capsule owner(new std::shared_ptr<const MaskColumn>(column),
                      [](void* pointer) noexcept { delete static_cast<std::shared_ptr<const MaskColumn>*>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, const T>(data, shape, owner));
}

// Validate a size. Throws MaskError.
MaskSize checked_size(size_t row, double height, double width) {
    if (const char* const rule = broken_rule(height, width)) throw MaskError(row, rule);
    return {static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
}

MaskSize read_size(nb::handle object, size_t row) {
    double sides[2];
    const nb::object sequence = nb::steal(PySequence_Tuple(object.ptr()));
    bool is_valid = sequence.is_valid() && PyTuple_Size(sequence.ptr()) == 2;
    for (int i = 0; i < 2 && is_valid; ++i) {
        sides[i] = PyFloat_AsDouble(PyTuple_GetItem(sequence.ptr(), i));
        is_valid = PyErr_Occurred() == nullptr;
    }
    if (!is_valid) {
        PyErr_Clear();
        throw MaskError(row, "must have a `size` of two whole numbers, height and width");
    }
    return checked_size(row, sides[0], sides[1]);
}

// Validated sizes of all masks. Shape (N, 2), or empty if not given.
std::vector<MaskSize> read_sizes(const std::optional<Input>& sizes, size_t num_masks) {
    std::vector<MaskSize> values;
    if (!sizes) return values;
    const int64_t* sides = typed<int64_t>(*sizes, num_masks * 2, "sizes");
    for (size_t row = 0; row < num_masks; ++row) {
        values.push_back(checked_size(row, static_cast<double>(sides[2 * row]), static_cast<double>(sides[2 * row + 1])));
    }
    return values;
}

// Reads segmentations from Python objects: dicts with `size` and `counts`, or lists of polygons.
class ObjectReader {
public:
    // `objects`: a tuple, since Python code that runs while reading can't change it. `sizes`: one per object, or empty.
    ObjectReader(const nb::tuple& objects, std::vector<MaskSize> sizes) : sizes_(std::move(sizes)) {
        for (nb::handle object : objects) read(object);
    }

    MaskColumn build(size_t num_threads) const {
        MaskColumn column;
        run_without_lock(items_.size() * kRowsPerMask, num_threads, [&](const Run& run) {
            column = build_masks<Scratch>(items_.size(), 64, run, [this](size_t row, MaskColumn& part, Scratch& scratch) {
                build_one(row, part, scratch);
            });
        });
        return column;
    }

private:
    struct Item {
        MaskSize size;
        nb::object text;  // the owner of compressed counts
        const char* characters = nullptr;
        size_t num_characters = 0;
        Runs runs;
    };

    void read(nb::handle object) {
        const size_t row = items_.size();
        Item item;
        if (PyDict_Check(object.ptr()) != 0) {
            read_counts_of(object, item, row);
        } else if (PyList_Check(object.ptr()) != 0 || PyTuple_Check(object.ptr()) != 0) {
            if (sizes_.empty()) throw MaskError(row, "must have the size of its image, as it has polygons; got none");
            item.size = sizes_[row];
            read_polygons(object, row);
        } else {
            throw MaskError(row, std::string("must be a dict with `size` and `counts`, or a list of polygons; got ") +
                                     name_of_type(object));
        }
        polygons_.finish_mask();
        items_.push_back(std::move(item));
    }

    static void read_counts_of(nb::handle object, Item& item, size_t row) {
        static const nb::object *const size_key = new nb::object(intern("size")), *const counts_key = new nb::object(intern("counts"));
        const nb::object size = find_value(object, *size_key), counts = find_value(object, *counts_key);
        if (!size.is_valid() || !counts.is_valid()) throw MaskError(row, "must have `size` and `counts`");
        item.size = read_size(size, row);
        if (PyUnicode_Check(counts.ptr()) != 0) {
            item.text = counts;
            Py_ssize_t num = 0;
            item.characters = PyUnicode_AsUTF8AndSize(counts.ptr(), &num);
            if (item.characters == nullptr) {
                PyErr_Clear();
                throw MaskError(row, "must have `counts` as text that can be encoded");
            }
            item.num_characters = static_cast<size_t>(num);
        } else if (PyBytes_Check(counts.ptr()) != 0) {
            item.text = counts;
            item.characters = characters_of(counts, item.num_characters);
        } else {
            read_count_list(counts, item, row);
        }
    }

    static void read_count_list(const nb::object& counts, Item& item, size_t row) {
        const Items items = items_of(counts, row, "must have `counts` as text, bytes or a list of integers");
        uint64_t num_left = item.size.num_pixels();
        for (Py_ssize_t i = 0; i < items.size(); ++i) {
            const nb::object whole = nb::steal(PyNumber_Index(items[i].ptr()));
            int overflow = 0;
            const long long count = whole.is_valid() ? PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow) : -1;
            if (!whole.is_valid()) {
                PyErr_Clear();
                throw MaskError(row, "must have `counts` as text, bytes or a list of integers");
            }
            if (overflow < 0 || (overflow == 0 && count < 0)) throw MaskError(row, counts_rule(RunsError::negative, item.size));
            if (overflow > 0 || static_cast<uint64_t>(count) > num_left) {
                throw MaskError(row, counts_rule(RunsError::beyond, item.size));
            }
            num_left -= static_cast<uint64_t>(count);
            item.runs.push_back(static_cast<uint32_t>(count));
        }
        if (num_left != 0) throw MaskError(row, counts_rule(RunsError::short_of, item.size));
    }

    // Items of an iterable; throws MaskError with `rule` for other objects.
    static Items items_of(const nb::object& iterable, size_t row, const char* rule) {
        nb::object sequence = nb::steal(PySequence_Fast(iterable.ptr(), ""));
        if (!sequence.is_valid()) {
            PyErr_Clear();
            throw MaskError(row, rule);
        }
        return Items(std::move(sequence));
    }

    static std::string counts_rule(RunsError error, MaskSize size) { return "`counts` " + rule_of(error, size); }

    void read_polygons(nb::handle object, size_t row) {
        constexpr const char* kRule = "must be a list of polygons, each a list of numbers x, y, x, y, …";
        const Items parts(nb::borrow(object));
        if (parts.size() == 0) throw MaskError(row, "must have at least one polygon; got none");
        for (Py_ssize_t part = 0; part < parts.size(); ++part) {
            const Items numbers = items_of(parts[part], row, kRule);
            const size_t first = polygons_.points.size();
            for (Py_ssize_t i = 0; i < numbers.size(); ++i) {
                polygons_.points.push_back(PyFloat_AsDouble(numbers[i].ptr()));
                if (PyErr_Occurred() == nullptr) continue;
                PyErr_Clear();
                throw MaskError(row, kRule);
            }
            const size_t num = polygons_.points.size() - first;
            if (num == 0 || num % 2 != 0) {
                throw MaskError(row, "must have polygons of pairs x, y; got " + std::to_string(num) + " numbers");
            }
            polygons_.finish_part();
        }
    }

    struct Scratch {
        MaskDrawer drawer;
        Runs runs;
    };

    void build_one(size_t row, MaskColumn& column, Scratch& scratch) const {
        const Item& item = items_[row];
        if (polygons_.has_polygons(row)) {
            column.push(scratch.drawer.draw(polygons_, row, item.size), item.size);
        } else if (item.characters != nullptr) {
            const RunsError error = column.push_text(item.characters, item.num_characters, item.size, scratch.runs);
            if (error != RunsError::none) throw MaskError(row, counts_rule(error, item.size));
        } else {
            scratch.runs = item.runs;
            column.push(scratch.runs, item.size);
        }
    }

    std::vector<MaskSize> sizes_;
    std::vector<Item> items_;
    PolygonColumn polygons_;
};

Masks from_objects(const nb::list& objects, const std::optional<Input>& sizes, size_t num_threads) {
    const nb::tuple all(objects);
    return Masks(ObjectReader(all, read_sizes(sizes, all.size())).build(num_threads));
}

// Draw masks from columns: coordinates, offsets of the polygons in them, and offsets of the masks among the polygons.
Masks from_polygons(const Input& points, const Input& part_start, const Input& mask_start, const Input& sizes, size_t num_threads) {
    const auto starts = [](const Input& array, size_t end, const char* name) {
        const std::vector<int64_t> values = copy_of<int64_t>(array, array.size(), name);
        bool is_valid = !values.empty() && values[0] == 0 && values.back() == static_cast<int64_t>(end);
        for (size_t i = 1; i < values.size(); ++i) is_valid &= values[i - 1] <= values[i];
        if (!is_valid) throw std::invalid_argument(std::string(name) + ": must ascend from 0 to the end");
        return std::vector<size_t>(values.begin(), values.end());
    };
    PolygonColumn polygons;
    polygons.points = copy_of<double>(points, points.size(), "points");
    polygons.part_start = starts(part_start, points.size(), "part_start");
    polygons.mask_start = starts(mask_start, polygons.num_parts(), "mask_start");
    const std::vector<MaskSize> size = read_sizes(sizes, polygons.num_masks());
    MaskColumn column;
    run_without_lock(size.size() * kRowsPerMask, num_threads, [&](const Run& run) {
        column = build_masks<MaskDrawer>(size.size(), 64, run, [&](size_t row, MaskColumn& part, MaskDrawer& drawer) {
            if (!polygons.has_polygons(row)) throw MaskError(row, "must have at least one polygon; got none");
            part.push(drawer.draw(polygons, row, size[row]), size[row]);
        });
    });
    return Masks(std::move(column));
}

// Encode pixels of one byte each. Arrays have shape (H, W), or (N, H, W) for several masks.
Masks from_pixels(const std::vector<Input>& arrays, size_t num_threads) {
    struct Pixels {
        const uint8_t* data;
        MaskSize size;
    };
    std::vector<Pixels> masks;
    size_t num_bytes = 0;
    for (const Input& array : arrays) {
        if (array.itemsize() != 1 || array.ndim() < 2 || array.ndim() > 3) throw std::invalid_argument("pixels: unexpected array");
        const size_t num = array.ndim() == 3 ? array.shape(0) : 1, height = array.shape(array.ndim() - 2);
        const size_t width = array.shape(array.ndim() - 1);
        for (size_t i = 0; i < num; ++i) {
            const MaskSize size = checked_size(masks.size(), static_cast<double>(height), static_cast<double>(width));
            masks.push_back({static_cast<const uint8_t*>(array.data()) + i * height * width, size});
        }
        num_bytes += array.nbytes();
    }
    struct Scratch {
        RowEncoder encoder;
        Runs runs;
    };
    MaskColumn column;
    run_without_lock(num_bytes / 256, num_threads, [&](const Run& run) {
        column = build_masks<Scratch>(masks.size(), 4, run, [&](size_t row, MaskColumn& part, Scratch& scratch) {
            scratch.encoder.encode(masks[row].data, masks[row].size, scratch.runs);
            part.push(scratch.runs, masks[row].size);
        });
    });
    return Masks(std::move(column));
}

// Masks from the columns of other masks, validated again.
Masks from_arrays(const Input& counts, const Input& start, const Input& sizes, size_t num_threads) {
    const std::vector<int64_t> starts = copy_of<int64_t>(start, start.size(), "start");
    const auto* text = reinterpret_cast<const char*>(typed<uint8_t>(counts, counts.size(), "counts"));
    bool is_valid = !starts.empty() && starts[0] == 0 && starts.back() == static_cast<int64_t>(counts.size());
    for (size_t i = 1; i < starts.size(); ++i) is_valid &= starts[i - 1] <= starts[i];
    if (!is_valid) throw std::invalid_argument("start: must ascend from 0 to the number of characters");
    const std::vector<MaskSize> size = read_sizes(sizes, starts.size() - 1);
    MaskColumn column;
    run_without_lock(size.size() * kRowsPerMask, num_threads, [&](const Run& run) {
        column = build_masks<Runs>(size.size(), 1024, run, [&](size_t row, MaskColumn& part, Runs& runs) {
            const auto num = static_cast<size_t>(starts[row + 1] - starts[row]);
            const RunsError error = part.push_text(text + starts[row], num, size[row], runs);
            if (error != RunsError::none) throw MaskError(row, "`counts` " + rule_of(error, size[row]));
        });
    });
    return Masks(std::move(column));
}

Masks concatenate(const std::vector<const Masks*>& parts) {
    MaskColumn column;
    size_t num_masks = 0, num_bytes = 0;
    for (const Masks* part : parts) num_masks += part->size(), num_bytes += part->column().counts.size();
    column.reserve(num_masks, num_bytes);
    for (const Masks* part : parts) column.append(part->column());
    return Masks(std::move(column));
}

Masks take(const Masks& masks, const Input& rows) {
    const int64_t* wanted = typed<int64_t>(rows, rows.size(), "rows");
    const MaskColumn& from = masks.column();
    MaskColumn column;
    for (size_t i = 0; i < rows.size(); ++i) {
        const auto row = static_cast<size_t>(wanted[i]);
        if (row >= from.num_masks()) throw std::invalid_argument("rows: beyond the masks");
        column.append_row(from, row);
    }
    return Masks(std::move(column));
}

nb::object pixels_of(const Masks& masks, size_t row) {
    const MaskColumn& column = masks.column();
    if (row >= column.num_masks()) throw std::invalid_argument("row: beyond the masks");
    const MaskSize size = column.size[row];
    Buffer<uint8_t> pixels(size.num_pixels());
    Runs runs;
    column.view().decode(row, runs);
    decode_rows(runs, size, pixels.data());
    return to_numpy(std::move(pixels), {size.height, size.width});
}

// Bind MaskError as a ValueError whose `args` are the row and the rule.
void bind_mask_error(nb::module_& module) {
    nb::exception<MaskError> type(module, "MaskError", PyExc_ValueError);
    nb::register_exception_translator(
        [](const std::exception_ptr& thrown, void* payload) {
            try {
                std::rethrow_exception(thrown);
            } catch (const MaskError& error) {
                PyErr_SetObject(static_cast<PyObject*>(payload), nb::make_tuple(error.row, error.what()).ptr());
            }
        },
        type.ptr());
}

}  // namespace

void bind_masks(nb::module_& module) {
    bind_mask_error(module);
    const auto flat = [](auto get) {
        return [get](const Masks& self) { return get(self.shared(), self.column()); };
    };
    using Shared = std::shared_ptr<const MaskColumn>;
    nb::class_<Masks, Geometry>(module, "Masks")
        .def_static("from_objects", &from_objects, "objects"_a, "sizes"_a.none(), "num_threads"_a)
        .def_static("from_polygons", &from_polygons, "points"_a, "part_start"_a, "mask_start"_a, "sizes"_a, "num_threads"_a)
        .def_static("from_pixels", &from_pixels, "arrays"_a, "num_threads"_a)
        .def_static("from_arrays", &from_arrays, "counts"_a, "start"_a, "sizes"_a, "num_threads"_a)
        .def_static("concatenate", &concatenate, "parts"_a)
        .def("take", &take, "rows"_a)
        .def("with_boundary", &Masks::with_boundary, "ratio"_a)
        .def("pixels", &pixels_of, "row"_a)
        .def_prop_ro("has_joined_runs", [](const Masks& self) { return self.column().has_joined_runs; })
        .def_prop_ro("counts", flat([](const Shared& shared, const MaskColumn& column) {
                         const auto* bytes = reinterpret_cast<const uint8_t*>(column.counts.data());
                         return view_of(shared, bytes, {column.counts.size()});
                     }))
        .def_prop_ro("start", flat([](const Shared& shared, const MaskColumn& column) {
                         return view_of(shared, column.start.data(), {column.start.size()});
                     }))
        .def_prop_ro("sizes", flat([](const Shared& shared, const MaskColumn& column) {
                         return view_of(shared, reinterpret_cast<const uint32_t*>(column.size.data()), {column.num_masks(), 2});
                     }))
        .def_prop_ro("area", flat([](const Shared& shared, const MaskColumn& column) {
                         return view_of(shared, column.area.data(), {column.num_masks()});
                     }))
        .def_prop_ro("box", flat([](const Shared& shared, const MaskColumn& column) {
                         return view_of(shared, reinterpret_cast<const uint32_t*>(column.box.data()), {column.num_masks(), 4});
                     }));
}

}  // namespace boxscore
