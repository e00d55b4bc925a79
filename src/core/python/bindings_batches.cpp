// Batches of dicts, one per image, or of padded arrays: a reader of their columns, and a buffer that collects rows until they are
// worth matching on all threads.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
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

// The keys of the dicts of detections or of truths, with the column of each. Asks Python once about each unknown key, which may be a
// misspelled one.
class ImageKeys {
public:
    static constexpr int kUnread = -1, kUnknown = -2;

    ImageKeys(const nb::dict& columns, nb::object is_unread) : is_unread_(std::move(is_unread)) {
        constexpr size_t kMostColumns = 32;
        for (const auto [key, value] : columns) {
            const auto name = nb::cast<std::string>(value);
            auto found = std::find(names_.begin(), names_.end(), name);
            if (found == names_.end()) found = names_.insert(found, name);
            keys_.push_back({nb::borrow(key), static_cast<int>(found - names_.begin())});
        }
        if (names_.empty() || names_.size() > kMostColumns) throw std::invalid_argument("columns: expected 1 to 32 of them");
    }

    // The names of the columns.
    const std::vector<std::string>& names() const { return names_; }

    // Index of the column of a key, or kUnread, or kUnknown. Runs no Python code.
    int find(PyObject* key) const {
        for (const Known& known : keys_) {
            if (known.key.ptr() == key) return known.column;  // nearly always the same object
        }
        if (!PyUnicode_CheckExact(key)) return kUnknown;
        for (const Known& known : keys_) {
            if (PyUnicode_Compare(known.key.ptr(), key) == 0) return known.column;
        }
        return kUnknown;
    }

    // Ask Python about an unknown key. Return false unless it may be skipped.
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
    std::vector<std::string> names_;
    nb::object is_unread_;
};

// The given arrays of the detections or of the truths of a batch, held by strong references: one per image and column, or one padded
// array per column. Their rows are read on use.
class ArrayBatch {
public:
    // Collect the arrays of all images. None if an image is not a dict, if columns differ, or if a key may be a misspelled one.
    static std::optional<ArrayBatch> of_images(const nb::list& images, ImageKeys& keys) {
        for (;;) {
            ArrayBatch batch;
            nb::object new_key;
            if (batch.collect(images, keys, new_key)) return batch;
            // Calling Python lets other threads change the images, so start again.
            if (!new_key.is_valid() || !keys.learn(std::move(new_key))) return std::nullopt;
        }
    }

    // Collect padded arrays by the names of their columns. `label` is below 0 in padding; the other arrays have the same first two axes;
    // `discarded` flags further rows to skip.
    static ArrayBatch of_padded(const nb::dict& arrays) {
        ArrayBatch batch;
        batch.is_padded_ = true;
        for (const auto [name, value] : arrays) batch.columns_.push_back({nb::cast<std::string>(name), {nb::borrow(value)}});
        return batch;
    }

    // Read the rows. Return false if an array can't be read, or differs from other images in dtype or shape. The memory of `side` is only
    // valid until Python code runs.
    bool read(GivenSide& side) const {
        std::vector<ViewReader> readers;  // made first, since making one may call Python
        for (const Column& column : columns_) readers.push_back(reader_of(column.values[0].type()));
        return is_padded_ ? read_padded(readers, side) : read_images(readers, side);
    }

    // Concatenated rows of all images as NumPy arrays by column name, and the number of rows per image. None if they can't be read.
    nb::object columns() const {
        GivenSide side;
        if (!read(side)) return nb::none();
        nb::dict made;
        for (const GivenColumn& column : side.columns) made[column.name] = concatenated(side, column);
        return nb::make_tuple(made, side.num_rows);
    }

    // The given arrays by column name.
    nb::dict arrays() const {
        nb::dict made;
        for (const Column& column : columns_) made[column.name.c_str()] = column.values;
        return made;
    }

private:
    struct Column {
        std::string name;
        std::vector<nb::object> values;
    };

    // Collect the arrays without running Python code. Return false and set `new_key` at an unknown key.
    bool collect(const nb::list& images, const ImageKeys& keys, nb::object& new_key) {
        columns_.reserve(keys.names().size());
        for (const std::string& name : keys.names()) columns_.push_back({name, {}});
        unsigned of_first = 0;  // columns of the first image, as bits
        for (const nb::handle image : images) {
            if (!PyDict_CheckExact(image.ptr())) return false;
            unsigned found = 0;
            PyObject *key, *value;
            for (Py_ssize_t position = 0; PyDict_Next(image.ptr(), &position, &key, &value);) {
                const int column = keys.find(key);
                if (column == ImageKeys::kUnread) continue;
                if (column == ImageKeys::kUnknown) {
                    new_key = nb::borrow(key);
                    return false;
                }
                if ((found >> column & 1) != 0) return false;  // two keys for one column
                found |= 1U << column;
                std::vector<nb::object>& values = columns_[static_cast<size_t>(column)].values;
                if (values.empty()) values.reserve(images.size());
                values.push_back(nb::borrow(value));
            }
            if (num_images_++ == 0) of_first = found;
            if (found == 0 || found != of_first) return false;
        }
        columns_.erase(std::remove_if(columns_.begin(), columns_.end(), [](const Column& each) { return each.values.empty(); }),
                       columns_.end());
        return num_images_ > 0;
    }

    bool read_images(const std::vector<ViewReader>& readers, GivenSide& side) const {
        std::vector<Known> known(columns_.size());
        for (const Column& column : columns_) {
            side.columns.push_back({column.name.c_str(), {}, {}, {}});
            side.columns.back().blocks.reserve(num_images_);
        }
        side.num_rows.reserve(num_images_);
        for (size_t i = 0; i < num_images_; ++i) {
            for (size_t c = 0; c < columns_.size(); ++c) {
                View view;
                if (!readers[c].read(columns_[c].values[i], view, side.owners) || view.num_axes == 0) return false;
                if (c == 0) side.num_rows.push_back(view.shape[0]);
                if (view.shape[0] != side.num_rows.back() || !known[c].fits(view, 1, side.columns[c])) return false;
                side.columns[c].blocks.push_back(compact_block(view, side));
            }
        }
        side.block_rows = side.num_rows;
        return true;
    }

    bool read_padded(const std::vector<ViewReader>& readers, GivenSide& side) const {
        std::vector<View> views(columns_.size());
        const View *labels = nullptr, *discarded = nullptr;
        for (size_t c = 0; c < columns_.size(); ++c) {
            if (!readers[c].read(columns_[c].values[0], views[c], side.owners) || views[c].num_axes < 2) return false;
            views[c].data = static_cast<const uint8_t*>(compact_block(views[c], side));
            if (columns_[c].name == "labels") labels = &views[c];
            if (columns_[c].name == "discarded") discarded = &views[c];
        }
        if (labels == nullptr || labels->num_axes != 2) return false;
        const size_t num_images = labels->shape[0], length = labels->shape[1], num = num_images * length;
        std::vector<uint8_t> is_kept(num, 1);
        if (!keep(*labels, is_kept, [](auto label) { return label >= 0; })) return false;
        bool are_flags = true;
        const auto is_unmarked = [&](auto flag) {
            are_flags &= flag == 0 || flag == 1;
            return flag == 0;
        };
        if (discarded != nullptr && (discarded->num_axes != 2 || !keep(*discarded, is_kept, is_unmarked) || !are_flags)) return false;

        std::vector<size_t> starts;  // of contiguous ranges of kept rows
        side.num_rows.assign(num_images, 0);
        for (size_t row = 0; row < num; ++row) {
            if (is_kept[row] == 0) continue;
            ++side.num_rows[row / length];
            if (row == 0 || is_kept[row - 1] == 0) starts.push_back(row), side.block_rows.push_back(0);
            ++side.block_rows.back();
        }
        for (size_t c = 0; c < columns_.size(); ++c) {
            const View& view = views[c];
            if (view.shape[0] != num_images || view.shape[1] != length) return false;
            if (&view == discarded) continue;
            GivenColumn column{columns_[c].name.c_str(), view.dtype, {view.shape.begin() + 2, view.shape.begin() + view.num_axes}, {}};
            for (const size_t start : starts) column.blocks.push_back(view.data + start * column.row_size() * view.item_size());
            side.columns.push_back(std::move(column));
        }
        return true;
    }

    // Clear `is_kept` of the rows for which `is_right` fails. Return false if the numbers are neither integers nor bools.
    template <class IsRight>
    static bool keep(const View& view, std::vector<uint8_t>& is_kept, IsRight is_right) {
        if (view.num_items() != is_kept.size()) return false;
        const nb::dlpack::dtype dtype = view.dtype == nb::dtype<bool>() ? nb::dtype<uint8_t>() : view.dtype;
        const auto keep_as = [&](auto zero) {
            const auto* const numbers = reinterpret_cast<const decltype(zero)*>(view.data);
            for (size_t row = 0; row < is_kept.size(); ++row) is_kept[row] &= is_right(numbers[row]) ? 1 : 0;
            return true;
        };
        const auto keep_if = [&](auto zero) { return dtype == nb::dtype<decltype(zero)>() && keep_as(zero); };
        return keep_if(int64_t{}) || keep_if(int32_t{}) || keep_if(int16_t{}) || keep_if(int8_t{}) || keep_if(uint64_t{}) ||
               keep_if(uint32_t{}) || keep_if(uint16_t{}) || keep_if(uint8_t{});
    }

    // Whether the row shape and the dtype of a column are known from earlier images.
    struct Known {
        bool has_shape = false, has_dtype = false;

        // Whether a view fits the earlier ones. An array without rows doesn't fix the dtype, and may lack its other axes.
        bool fits(const View& view, size_t axis, GivenColumn& column) {
            const auto begin = view.shape.begin() + static_cast<ptrdiff_t>(axis);
            const auto end = view.shape.begin() + static_cast<ptrdiff_t>(view.num_axes);
            const bool is_empty = view.shape[0] == 0;
            if (!is_empty || begin != end) {
                if (!has_shape) column.row_shape.assign(begin, end);
                else if (!std::equal(begin, end, column.row_shape.begin(), column.row_shape.end())) return false;
                has_shape = true;
            }
            if (!has_dtype && (!is_empty || column.blocks.empty())) column.dtype = view.dtype;
            else if (!is_empty && view.dtype != column.dtype) return false;
            has_dtype |= !is_empty;
            return true;
        }
    };

    static const void* compact_block(const View& view, GivenSide& side) {
        if (view.is_compact()) return view.data;
        Buffer<uint8_t>& copy = side.copies.emplace_back(view.num_items() * view.item_size());
        view.copy_to(copy.data());
        return copy.data();
    }

    static nb::object concatenated(const GivenSide& side, const GivenColumn& column) {
        const size_t row_bytes = column.row_size() * (column.dtype.bits / 8);
        Buffer<uint8_t> all(side.size() * row_bytes);
        uint8_t* out = all.data();
        for (size_t i = 0; i < column.blocks.size(); ++i) {
            const size_t num_bytes = side.block_rows[i] * row_bytes;
            if (num_bytes > 0) std::memcpy(out, column.blocks[i], num_bytes);
            out += num_bytes;
        }
        std::vector<size_t> shape{side.size()};
        shape.insert(shape.end(), column.row_shape.begin(), column.row_shape.end());
        uint8_t* data = all.data();
        return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner_of(std::move(all)), nullptr, column.dtype));
    }

    std::vector<Column> columns_;
    size_t num_images_ = 0;
    bool is_padded_ = false;
};

Input as_input(const void* data, size_t size, nb::dlpack::dtype dtype) { return Input(data, {size}, nb::handle(), {}, dtype); }

template <class T>
Input as_input(const std::vector<T>& column) {
    return as_input(column.data(), column.size(), nb::dtype<T>());
}

class BatchBuffer {
public:
    BatchBuffer(BoxFormat box_format, bool is_inclusive, double largest_side, uint8_t ignored_kind, bool drops_invalid, bool fills_areas,
                const std::optional<Input>& labels)
        : is_inclusive_(is_inclusive),
          rules_{box_format, largest_side, ignored_kind, drops_invalid, fills_areas, labels.has_value(), {}} {
        if (labels) rules_.classes = distinct(typed<int64_t>(*labels, labels->size(), "labels"), labels->size());
    }

    size_t size() const { return rows_.size(); }
    size_t num_truths() const { return rows_.num_truths(); }
    size_t num_invalid() const { return rows_.invalid_image.size(); }
    size_t num_last_invalid() const { return num_invalid() - std::min(num_invalid_before_, num_invalid()); }
    size_t num_rows() const { return size() + num_truths() + num_invalid(); }

    // Largest number of detections per image in the last batch.
    size_t most_last_detections() const {
        size_t most = 0, num = 0;
        for (size_t row = std::min(num_before_, size()); row < size(); ++row) {
            num = row > num_before_ && rows_.image[row] == rows_.image[row - 1] ? num + 1 : 1;
            most = std::max(most, num);
        }
        return most;
    }

    // Append a batch. Return false, and append nothing, if rows must be converted or reported.
    bool add(const ArrayBatch& preds, const ArrayBatch& targets, nb::handle image_ids) {
        std::vector<int64_t> ids;
        if (!nb::try_cast(image_ids, ids, false) || ids.empty()) return false;  // only ints: converting other types would call Python
        num_before_ = rows_.size(), num_truths_before_ = rows_.num_truths(), num_invalid_before_ = num_invalid();
        bool is_added = false;
        try {
            is_added = append(preds, targets, ids);
        } catch (...) {
            remove_last();
            throw;
        }
        if (!is_added) remove_last();
        return is_added;
    }

    // Rows of the last batch as columns by name: of the detections, and of the truths.
    nb::object last_columns() const {
        const size_t num = rows_.size() - std::min(num_before_, rows_.size());
        const size_t num_truth_rows = rows_.num_truths() - std::min(num_truths_before_, rows_.num_truths());
        nb::dict detections, truths;
        detections["image_ids"] = last_of(rows_.image, num, {num});
        detections["labels"] = last_of(rows_.label, num, {num});
        detections["scores"] = rows_.narrow_score.empty() ? last_of(rows_.score, num, {num}) : last_of(rows_.narrow_score, num, {num});
        detections["boxes"] = last_of(rows_.box, 4 * num, {num, 4});
        truths["image_ids"] = last_of(rows_.truth_image, num_truth_rows, {num_truth_rows});
        truths["labels"] = last_of(rows_.truth_label, num_truth_rows, {num_truth_rows});
        truths["boxes"] = last_of(rows_.truth_box, 4 * num_truth_rows, {num_truth_rows, 4});
        return nb::make_tuple(detections, truths);
    }

    // Image of each dropped detection.
    nb::object invalid_images() const { return last_of(rows_.invalid_image, num_invalid(), {num_invalid()}); }

    // Remove the last batch.
    void remove_last() { rows_.shrink(num_before_, num_truths_before_, num_invalid_before_); }

    // Clear the buffer. Keep its capacity unless it exceeds `kMostKeptRows`.
    void clear() {
        constexpr size_t kMostKeptRows = size_t{1} << 16;
        if (std::max(rows_.size(), rows_.num_truths()) > kMostKeptRows) rows_ = {};
        rows_.shrink(num_before_ = 0, num_truths_before_ = 0, num_invalid_before_ = 0);
    }

    // Match all rows and return a tally. The rows stay in the buffer.
    nb::object match(const Rules& rules, size_t num_threads) {
        // Matching lets other threads run, so take the rows out of the buffer meanwhile.
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
    bool append(const ArrayBatch& preds, const ArrayBatch& targets, const std::vector<int64_t>& ids) {
        {
            GivenSide side;
            if (!preds.read(side) || side.num_rows.size() != ids.size() || !rows_.append_detections(side, ids, rules_)) return false;
        }
        GivenSide side;
        return targets.read(side) && side.num_rows.size() == ids.size() && rows_.append_truths(side, ids, rules_);
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
        return detections.geometry->match(detections, truths, rules_.classes, rules, false, nullptr, num_threads);
    }

    bool is_inclusive_;
    BatchRules rules_;
    BatchRows rows_;
    size_t num_before_ = 0, num_truths_before_ = 0, num_invalid_before_ = 0;  // numbers of rows before the last batch
};

}  // namespace

void bind_batches(nb::module_& module) {
    nb::class_<ImageKeys>(module, "ImageKeys").def(nb::init<const nb::dict&, nb::object>(), "columns"_a, "is_unread"_a);
    nb::class_<ArrayBatch>(module, "ArrayBatch")
        .def_static("of_images", &ArrayBatch::of_images, "images"_a, "keys"_a)
        .def_static("of_padded", &ArrayBatch::of_padded, "arrays"_a)
        .def("arrays", &ArrayBatch::arrays)
        .def("columns", &ArrayBatch::columns);
    nb::class_<BatchBuffer>(module, "BatchBuffer")
        .def(nb::init<BoxFormat, bool, double, uint8_t, bool, bool, const std::optional<Input>&>(), nb::kw_only(), "box_format"_a,
             "is_inclusive"_a, "largest_side"_a, "ignored_kind"_a, "drops_invalid"_a, "fills_areas"_a, "labels"_a.none())
        .def("__len__", &BatchBuffer::size)
        .def_prop_ro("num_truths", &BatchBuffer::num_truths)
        .def_prop_ro("num_invalid", &BatchBuffer::num_invalid)
        .def_prop_ro("num_last_invalid", &BatchBuffer::num_last_invalid)
        .def_prop_ro("num_rows", &BatchBuffer::num_rows)
        .def_prop_ro("most_last_detections", &BatchBuffer::most_last_detections)
        .def("add", &BatchBuffer::add, "preds"_a, "targets"_a, "image_ids"_a)
        .def("last_columns", &BatchBuffer::last_columns)
        .def("invalid_images", &BatchBuffer::invalid_images)
        .def("remove_last", &BatchBuffer::remove_last)
        .def("clear", &BatchBuffer::clear)
        .def("match", &BatchBuffer::match, "rules"_a, "num_threads"_a);
}

}  // namespace boxscore
