// Batches of dicts, one per image: their rows wait until there are enough of them to be matched on all threads.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "python/batch_rows.h"
#include "python/boxes.h"
#include "python/dict_values.h"
#include "python/geometry.h"
#include "python/tensor_views.h"

namespace boxscore {

using namespace nb::literals;

void bind_batches(nb::module_& module);

namespace {

BatchColumn column_named(const std::string& name) {
    constexpr std::array<const char*, kNumBatchColumns> kNames{"box", "score", "label", "ignore", "area"};
    for (uint8_t column = 0; column < kNumBatchColumns; ++column) {
        if (name == kNames[column]) return static_cast<BatchColumn>(column);
    }
    throw std::invalid_argument("columns: expected the names of columns; got " + name);
}

// The keys of the dicts of one side, and the column that each becomes. Python is asked about a key that is not among them, once: it
// may be a misspelled one.
class ImageKeys {
public:
    static constexpr int kUnread = -1, kUnknown = -2;

    ImageKeys(const nb::dict& columns, nb::object is_unread) : is_unread_(std::move(is_unread)) {
        for (const auto [key, name] : columns) {
            keys_.push_back({nb::borrow(key), column_named(nb::cast<std::string>(name))});
        }
        if (keys_.empty()) throw std::invalid_argument("columns: expected at least one");
    }

    // The first one, which every dict must have.
    const nb::object& first() const { return keys_.front().key; }

    // The column of a key, or else what is known of it.
    int find(PyObject* key) const {
        for (const Known& known : keys_) {
            if (known.key.ptr() == key) return known.column;  // most are the same object
        }
        if (!PyUnicode_CheckExact(key)) return kUnknown;
        for (const Known& known : keys_) {
            if (PyUnicode_Compare(known.key.ptr(), key) == 0) return known.column;
        }
        return kUnknown;
    }

    // False if a key that was not known needs a closer look.
    bool learn(nb::object key) {
        constexpr size_t kMost = 64;
        if (!PyUnicode_CheckExact(key.ptr()) || keys_.size() >= kMost || !nb::cast<bool>(is_unread_(key))) return false;
        keys_.push_back({std::move(key), kUnread});
        return true;
    }

private:
    struct Known {
        nb::object key;
        int column;
    };
    std::vector<Known> keys_;
    nb::object is_unread_;
};

// Reads one side of a batch: each value is a tensor that is readable without a call of Python, and all images have the same columns.
class SideReader {
public:
    SideReader(const ViewReader& reader, const ImageKeys& keys, GivenSide& side) : reader_(reader), keys_(keys), side_(side) {}

    // False if the images are not so; because of a key that is not known, if there is a `new_key` then. Calls no Python.
    bool read(const nb::list& images) {
        for (const nb::handle image : images) {
            if (!PyDict_CheckExact(image.ptr()) || !read_image(image)) return false;
        }
        side_.block_rows = side_.num_rows;
        return true;
    }

    nb::object new_key;

private:
    bool read_image(nb::handle image) {
        unsigned columns = 0;  // in bits
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(image.ptr(), &position, &key, &value);) {
            const int column = keys_.find(key);
            if (column == ImageKeys::kUnread) continue;
            if (column == ImageKeys::kUnknown) {
                new_key = nb::borrow(key);
                return false;
            }
            const bool is_first = columns == 0;
            if ((columns >> column & 1) != 0 || !read_value(value, static_cast<BatchColumn>(column), is_first)) return false;
            columns |= 1U << column;
        }
        if (side_.num_rows.size() == 1) columns_ = columns;
        return columns != 0 && columns == columns_;
    }

    bool read_value(nb::handle value, BatchColumn column, bool is_first) {
        nb::dlpack::dltensor view;
        if (!reader_.read(value, view)) return false;
        const bool is_column = column == kBox ? view.ndim == 2 && view.shape[1] == 4 : view.ndim == 1;
        if (!is_column) return false;
        const auto num_rows = static_cast<size_t>(view.shape[0]);
        if (is_first) side_.num_rows.push_back(num_rows);
        GivenColumn& given = side_.columns[column];
        if (given.blocks.empty()) given.dtype = view.dtype;
        given.blocks.push_back(ViewReader::data_of(view));
        return num_rows == side_.num_rows.back() && view.dtype == given.dtype;
    }

    const ViewReader& reader_;
    const ImageKeys& keys_;
    GivenSide& side_;
    unsigned columns_ = 0;  // those of the first image
};

Input as_input(const void* data, size_t size, nb::dlpack::dtype dtype) { return Input(data, {size}, nb::handle(), {}, dtype); }

template <class T>
Input as_input(const std::vector<T>& column) {
    return as_input(column.data(), column.size(), nb::dtype<T>());
}

class BatchBuffer {
public:
    BatchBuffer(nb::object keys, nb::object truth_keys, BoxFormat box_format, bool is_inclusive, double largest_side,
                uint8_t ignored_kind, bool drops_invalid, const std::optional<Input>& labels)
        : owners_{std::move(keys), std::move(truth_keys)}, is_inclusive_(is_inclusive),
          rules_{box_format, largest_side, ignored_kind, drops_invalid, labels.has_value(), {}} {
        if (labels) rules_.classes = distinct(typed<int64_t>(*labels, labels->size(), "labels"), labels->size());
        for (size_t i = 0; i < 2; ++i) keys_[i] = nb::cast<ImageKeys*>(owners_[i]);
    }

    size_t size() const { return rows_.size(); }
    size_t num_truths() const { return rows_.num_truths(); }
    size_t num_invalid() const { return rows_.invalid_image.size(); }
    size_t num_last_invalid() const { return num_invalid() - std::min(num_invalid_before_, num_invalid()); }
    size_t num_rows() const { return size() + num_truths() + num_invalid(); }

    // False, and nothing is appended, if there is anything to convert or to say.
    bool add_images(const nb::list& preds, const nb::list& targets, nb::handle image_ids) {
        std::vector<int64_t> ids;
        if (!read_ids(image_ids, ids)) return false;
        return append([&](BatchRows& rows) {
            GivenSide side;  // views of tensors: they become rows before anything else is called
            const bool has_detections = read_side(preds, ids.size(), *keys_[0], side) && is_whole(side, true);
            if (!has_detections || !rows.append_detections(side, ids, rules_)) return false;
            side = {};
            const bool has_truths = read_side(targets, ids.size(), *keys_[1], side) && is_whole(side, false);
            return has_truths && rows.append_truths(side, ids, rules_);
        });
    }

    // The same from columns by name, each with the rows of all images, and how many rows each image has.
    bool add_columns(const nb::dict& detections, const std::vector<size_t>& num_detections, const nb::dict& truths,
                     const std::vector<size_t>& num_truths, nb::handle image_ids) {
        std::vector<int64_t> ids;
        if (!read_ids(image_ids, ids) || ids.size() != num_detections.size() || ids.size() != num_truths.size()) return false;
        std::vector<Input> arrays;  // which the views are of
        GivenSide side, truth_side;
        if (!read_columns(detections, num_detections, arrays, side) || !is_whole(side, true)) return false;
        if (!read_columns(truths, num_truths, arrays, truth_side) || !is_whole(truth_side, false)) return false;
        return append([&](BatchRows& rows) {
            return rows.append_detections(side, ids, rules_) && rows.append_truths(truth_side, ids, rules_);
        });
    }

    // The rows that were appended last, as columns by name: of the detections, and of the truths.
    nb::object last_columns() const {
        const size_t num = rows_.size() - std::min(num_before_, rows_.size());
        const size_t num_truth_rows = rows_.num_truths() - std::min(num_truths_before_, rows_.num_truths());
        nb::dict detections, truths;
        detections["image"] = last_of(rows_.image, num, {num});
        detections["label"] = last_of(rows_.label, num, {num});
        detections["score"] = rows_.narrow_score.empty() ? last_of(rows_.score, num, {num}) : last_of(rows_.narrow_score, num, {num});
        detections["box"] = last_of(rows_.box, 4 * num, {num, 4});
        truths["image"] = last_of(rows_.truth_image, num_truth_rows, {num_truth_rows});
        truths["label"] = last_of(rows_.truth_label, num_truth_rows, {num_truth_rows});
        truths["box"] = last_of(rows_.truth_box, 4 * num_truth_rows, {num_truth_rows, 4});
        return nb::make_tuple(detections, truths);
    }

    // The images of all detections that were dropped.
    nb::object invalid_images() const { return last_of(rows_.invalid_image, num_invalid(), {num_invalid()}); }

    // Takes back what was appended last.
    void remove_last() { rows_.shrink(num_before_, num_truths_before_, num_invalid_before_); }

    // Takes back all that was appended; unless there was very much, the memory stays for what comes next.
    void clear() {
        constexpr size_t kMostKeptRows = size_t{1} << 16;
        if (std::max(rows_.size(), rows_.num_truths()) > kMostKeptRows) rows_ = {};
        rows_.shrink(num_before_ = 0, num_truths_before_ = 0, num_invalid_before_ = 0);
    }

    // The tally of all rows, which stay.
    nb::object match(const Rules& rules, size_t num_threads) {
        // Matching lets other threads run: nobody else has the rows meanwhile.
        BatchRows rows = std::exchange(rows_, {});
        try {
            nb::object tally = tally_of_rows(rows, rules, num_threads);
            rows_ = std::move(rows);
            return tally;
        } catch (...) {
            rows_ = std::move(rows);
            throw;
        }
    }

private:
    static bool read_ids(nb::handle image_ids, std::vector<int64_t>& ids) {
        return nb::try_cast(image_ids, ids, false) && !ids.empty();  // ints: converting others would call Python
    }

    static bool is_whole(const GivenSide& side, bool has_scores) {
        return side.has(kBox) && side.has(kLabel) && side.has(kScore) == has_scores;
    }

    // Takes back what was appended unless `append_all` says that all of it was right.
    template <class AppendAll>
    bool append(AppendAll append_all) {
        num_before_ = rows_.size(), num_truths_before_ = rows_.num_truths(), num_invalid_before_ = num_invalid();
        bool is_right = false;
        try {
            is_right = append_all(rows_);
        } catch (...) {
            remove_last();
            throw;
        }
        if (!is_right) remove_last();
        return is_right;
    }

    // Where Python is called, another thread may change the images: so all is read again then.
    bool read_side(const nb::list& images, size_t num_images, ImageKeys& keys, GivenSide& side) {
        for (;;) {
            if (images.size() != num_images || !make_reader(images, keys)) return false;
            SideReader reader(*reader_, keys, side);
            if (reader.read(images)) return side.num_rows.size() == num_images;
            if (!reader.new_key.is_valid() || !keys.learn(std::move(reader.new_key))) return false;
            side = {};
        }
    }

    // False if values of the type that the first image has can't be read.
    bool make_reader(const nb::list& images, const ImageKeys& keys) {
        const nb::object first = images[0];
        const nb::object value = PyDict_CheckExact(first.ptr()) ? find_value(first, keys.first()) : nb::object();
        if (!value.is_valid()) return false;
        const nb::handle type = value.type();
        if (!reader_ || !reader_->is_for(type)) {
            ViewReader made(nb::borrow(type));  // which may call Python
            reader_ = std::move(made);
        }
        return reader_->can_read();
    }

    static bool read_columns(const nb::dict& columns, const std::vector<size_t>& num_rows, std::vector<Input>& arrays, GivenSide& side) {
        side.num_rows = num_rows;
        side.block_rows = {side.size()};
        for (const auto [name, value] : columns) {
            Input array;
            if (!nb::try_cast(value, array, false)) return false;
            const BatchColumn column = column_named(nb::cast<std::string>(name));
            if (array.size() != side.size() * (column == kBox ? 4 : 1)) return false;
            if (array.size() > 0 && reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() != 0) return false;
            side.columns[column] = {array.dtype(), {array.data()}};
            arrays.push_back(std::move(array));
        }
        return true;
    }

    template <class T>
    static nb::object last_of(const std::vector<T>& column, size_t num, std::initializer_list<size_t> shape) {
        return to_numpy(std::vector<T>(column.end() - num, column.end()), shape);
    }

    nb::object tally_of_rows(const BatchRows& rows, const Rules& rules, size_t num_threads) const {
        const nb::object boxes = make_boxes(as_input(rows.box), rules_.box_format, is_inclusive_);
        const nb::object truth_boxes = make_boxes(as_input(rows.truth_box), rules_.box_format, is_inclusive_);
        const DetectionsObject detections(as_input(rows.image), as_input(rows.label),
                                          rows.narrow_score.empty() ? as_input(rows.score) : as_input(rows.narrow_score), boxes,
                                          std::nullopt, std::nullopt);
        const bool has_area = !rows.area.empty();
        const TruthsObject truths(as_input(rows.truth_image), as_input(rows.truth_label), truth_boxes,
                                  has_area ? std::optional(as_input(rows.area)) : std::nullopt, as_input(rows.kind));
        return detections.geometry->match(detections, truths, rules_.classes, rules, nullptr, num_threads);
    }

    std::array<nb::object, 2> owners_;  // of the keys
    std::array<ImageKeys*, 2> keys_{};  // of the detections, and of the truths
    bool is_inclusive_;
    BatchRules rules_;
    BatchRows rows_;
    size_t num_before_ = 0, num_truths_before_ = 0, num_invalid_before_ = 0;  // rows that were there before the last batch
    std::optional<ViewReader> reader_;
};

}  // namespace

void bind_batches(nb::module_& module) {
    nb::class_<ImageKeys>(module, "ImageKeys").def(nb::init<const nb::dict&, nb::object>(), "columns"_a, "is_unread"_a);
    nb::class_<BatchBuffer>(module, "BatchBuffer")
        .def(nb::init<nb::object, nb::object, BoxFormat, bool, double, uint8_t, bool, const std::optional<Input>&>(), nb::kw_only(),
             "keys"_a, "truth_keys"_a, "box_format"_a, "is_inclusive"_a, "largest_side"_a, "ignored_kind"_a, "drops_invalid"_a,
             "labels"_a.none())
        .def("__len__", &BatchBuffer::size)
        .def_prop_ro("num_truths", &BatchBuffer::num_truths)
        .def_prop_ro("num_invalid", &BatchBuffer::num_invalid)
        .def_prop_ro("num_last_invalid", &BatchBuffer::num_last_invalid)
        .def_prop_ro("num_rows", &BatchBuffer::num_rows)
        .def("add_images", &BatchBuffer::add_images, "preds"_a, "targets"_a, "image_ids"_a)
        .def("add_columns", &BatchBuffer::add_columns, "detections"_a, "num_detections"_a, "truths"_a, "num_truths"_a, "image_ids"_a)
        .def("last_columns", &BatchBuffer::last_columns)
        .def("invalid_images", &BatchBuffer::invalid_images)
        .def("remove_last", &BatchBuffer::remove_last)
        .def("clear", &BatchBuffer::clear)
        .def("match", &BatchBuffer::match, "rules"_a, "num_threads"_a);
}

}  // namespace boxscore
