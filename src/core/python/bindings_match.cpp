// The Python side of matching: columns in, or a batch of images; the columns of a tally out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "checks.h"
#include "match.h"
#include "order.h"
#include "python/tally.h"
#include "python/unlocked.h"

namespace boxscore {

using namespace nb::literals;

void bind_match(nb::module_& module);

namespace {

struct Columns {
    Input image, label, box;
    BoxFormat box_format;
};

// Ids as a tally holds them: in 32 bits where all of a table fit, else in 64. Matching writes the narrow ones as it goes;
// wide ones are looked up afterwards.
struct IdColumn {
    bool is_narrow;
    std::vector<int32_t> written;
    Buffer<int32_t> narrow;
    Buffer<int64_t> wide;

    IdColumn() = default;
    IdColumn(const std::vector<int64_t>& table, size_t size)
        : is_narrow(table.empty() || (table.front() >= INT32_MIN && table.back() <= INT32_MAX)), written(table.size()),
          narrow(size) {
        for (size_t k = 0; k < table.size(); ++k) written[k] = static_cast<int32_t>(is_narrow ? table[k] : int64_t(k));
    }

    void widen(const std::vector<int64_t>& table, size_t size) {
        if (is_narrow) return;
        wide = Buffer<int64_t>(size);
        for (size_t i = 0; i < size; ++i) wide[i] = table[narrow[i]];
    }

    nb::object release(size_t size) {
        return is_narrow ? to_numpy(std::move(narrow), {size}) : to_numpy(std::move(wide), {size});
    }

    // A short column that was written the same way.
    nb::object release(const std::vector<int32_t>& column, const std::vector<int64_t>& table) const {
        if (is_narrow) return to_numpy(column, {column.size()});
        std::vector<int64_t> looked_up;
        for (const int32_t place : column) looked_up.push_back(table[place]);
        return to_numpy(looked_up, {looked_up.size()});
    }
};

// The verdict of a detection beyond the last limit: it never came to one.
constexpr uint8_t kBeyond = 3;

// With `is_paired`, what became of each detection and truth in the first cell; else the columns of a tally.
template <class Box, class Score, class State>
nb::object match_typed(const Columns& found, const Box* box, const Score* score, const Columns& there,
                      const std::optional<Input>& area, const std::optional<Input>& ignore,
                      const std::vector<int64_t>& named, const Rules& rules, size_t num_threads, bool is_paired) {
    const size_t size = found.image.size(), num_truths = there.image.size();
    std::vector<uint8_t> verdict(is_paired ? size : 0, kBeyond), counts(is_paired ? num_truths : 0);
    std::vector<int32_t> taken(is_paired ? size : 0, -1);
    Pairs pairs{verdict.data(), taken.data(), counts.data()};
    Buffer<Score> out_score(size);
    Buffer<uint8_t> tier(size);
    Buffer<State> state(size);
    TruthColumns truths{num_truths,
                        nullptr,
                        nullptr,
                        typed<double>(there.box, num_truths * 4, "truth_box"),
                        there.box_format,
                        area ? typed<double>(*area, num_truths, "area") : nullptr,
                        ignore ? typed<uint8_t>(*ignore, num_truths, "ignore") : nullptr};
    std::vector<int64_t> images, classes;
    IdColumn image, label;
    TallyRows<Score, State> tally{};
    run_without_lock(size, num_threads, [&](const Run& run) {
        // The two columns of the detections are the long ones; so they come first, a thread each.
        const std::array<const Input*, 4> ids{&found.image, &found.label, &there.image, &there.label};
        std::array<std::vector<int64_t>, 4> seen;
        for_each_task(ids.size(), run, [] { return 0; }, [&](size_t i, int) { seen[i] = distinct_of(*ids[i]); });
        images = united(seen[0], seen[2]);
        classes = united(united(seen[1], seen[3]), named);
        std::array<Buffer<int32_t>, 4> place;
        for_each_task(ids.size(), run, [] { return 0; }, [&](size_t i, int) {
            place[i] = Buffer<int32_t>(ids[i]->size());
            if (!find_all(*ids[i], i % 2 == 0 ? images : classes, place[i])) {
                throw std::invalid_argument("`image` or `label` was changed by another thread while it was read");
            }
        });
        image = IdColumn(images, size);
        label = IdColumn(classes, size);
        tally.image_id = image.written.data(), tally.label_id = label.written.data();
        tally.image = image.narrow.data(), tally.label = label.narrow.data();
        tally.score = out_score.data(), tally.tier = tier.data(), tally.state = state.data();
        if (is_paired) tally.pairs = &pairs;
        truths.image = place[2].data(), truths.label = place[3].data();
        const DetectionColumns<Box, Score> detections{size,  place[0].data(), place[1].data(),
                                                      score, box,             found.box_format};
        match(detections, truths, images.size(), classes.size(), rules, run, tally);
        image.widen(images, tally.size);
        label.widen(classes, tally.size);
    });
    if (is_paired) {
        return nb::make_tuple(to_numpy(verdict, {size}), to_numpy(taken, {size}), to_numpy(counts, {num_truths}));
    }
    const size_t num_words = rules.num_words(), num_hits = tally.is_true.size() / num_words;
    const nb::object truth_image = image.release(tally.truth_image, images);
    const nb::object truth_label = label.release(tally.truth_label, classes);
    nb::object truths_counting = to_numpy(tally.truth_state, {num_truths});
    return nb::cast(TallyObject{image.release(tally.size), label.release(tally.size),
                                to_numpy(std::move(out_score), {tally.size}), to_numpy(std::move(tier), {tally.size}),
                                to_numpy(std::move(state), {tally.size}), to_numpy(tally.is_true, {num_hits, num_words}),
                                to_numpy(tally.is_counted, {num_hits, num_words}), to_numpy(classes, {classes.size()}),
                                truth_image, truth_label, std::move(truths_counting)});
}

nb::object match_columns(const Input& image, const Input& label, const Input& score, const Input& box,
                        BoxFormat box_format, const Input& truth_image, const Input& truth_label, const Input& truth_box,
                        BoxFormat truth_box_format, const std::optional<Input>& area, const std::optional<Input>& ignore,
                        const Input& named, const Rules& rules, size_t num_threads, bool is_paired) {
    const int64_t* names = typed<int64_t>(named, named.size(), "named");
    const std::vector<int64_t> named_ids = distinct(names, named.size());
    check_size(label, image.size(), "label");
    check_size(score, image.size(), "score");
    check_size(truth_label, truth_image.size(), "truth_label");
    if (box.size() != image.size() * 4) throw std::invalid_argument("box: unexpected size");
    const Columns found{image, label, box, box_format}, there{truth_image, truth_label, truth_box, truth_box_format};
    return with_reals(box, [&](const auto* boxes) {
        return with_reals(score, [&](const auto* scores) {
            using Box = std::decay_t<decltype(*boxes)>;
            using Score = std::decay_t<decltype(*scores)>;
            if (rules.num_areas() < 8) {
                return match_typed<Box, Score, uint8_t>(found, boxes, scores, there, area, ignore, named_ids, rules,
                                                        num_threads, is_paired);
            }
            return match_typed<Box, Score, uint64_t>(found, boxes, scores, there, area, ignore, named_ids, rules,
                                                     num_threads, is_paired);
        });
    });
}

// Numbers of our own, as arrays are taken.
template <class T>
Input view(const std::vector<T>& values) {
    return Input(values.data(), {values.size()}, nb::handle(), {}, nb::dtype<T>());
}

// The images of rows that stand image by image.
bool repeat(const std::vector<int64_t>& images, const std::vector<size_t>& num_rows, size_t size, std::vector<int64_t>& rows) {
    if (num_rows.size() != images.size()) return false;
    if (std::accumulate(num_rows.begin(), num_rows.end(), size_t{0}) != size) return false;
    rows.reserve(size);
    for (size_t i = 0; i < images.size(); ++i) rows.insert(rows.end(), num_rows[i], images[i]);
    return true;
}

// Reals as doubles; false if they are not that, or not finite.
bool read_doubles(const Input& array, std::vector<double>& values) {
    return with_reals(array, [&](const auto* data) {
        values.assign(data, data + array.size());
        return are_finite(data, array.size());
    });
}

// Flags, booleans or integers 0 and 1, as bytes.
bool read_flags(const nb::handle& value, size_t size, std::vector<uint8_t>& flags) {
    using Kind = nb::dlpack::dtype_code;
    Input array;
    if (read_column(value, Kind::Bool, size, array)) {
        const auto* data = static_cast<const uint8_t*>(array.data());
        flags.assign(data, data + size);
        return true;
    }
    if (!read_column(value, Kind::Int, size, array)) return false;
    return with_integers(array, [&](const auto* data) {
        flags.resize(size);
        bool is_fine = true;
        for (size_t i = 0; i < size; ++i) is_fine &= data[i] == 0 || data[i] == 1, flags[i] = static_cast<uint8_t>(data[i]);
        return is_fine;
    });
}

bool are_named(const Input& label, const std::vector<int64_t>& named) {
    const std::vector<int64_t> seen = distinct_of(label);
    return std::includes(named.begin(), named.end(), seen.begin(), seen.end());
}

bool are_fine(const Input& box, BoxFormat format, double largest) {
    return with_reals(box, [&](const auto* data) { return are_boxes_fine(data, box.shape(0), format, largest); });
}

// A batch of images, rows image by image: checked and matched in one step. None if there is anything to say of it, or to
// convert, as it is not what loaders and detectors mostly give; for the careful way to look at.
nb::object match_images(const nb::handle& image_ids, const nb::handle& box, const nb::handle& score, const nb::handle& label,
                        const std::vector<size_t>& num_rows, const nb::handle& truth_box, const nb::handle& truth_label,
                        const nb::handle& area, const nb::handle& ignore, const std::vector<size_t>& truth_num_rows,
                        BoxFormat format, double largest, const nb::handle& named, const Rules& rules, size_t num_threads) {
    using Kind = nb::dlpack::dtype_code;
    std::vector<int64_t> images, names, image, truth_image;
    Input boxes, scores, labels, truth_boxes, truth_labels, areas;
    if (!nb::try_cast(image_ids, images, false) || distinct(images.data(), images.size()).size() < images.size()) {
        return nb::none();
    }
    if (!read_boxes(box, boxes) || !are_fine(boxes, format, largest)) return nb::none();
    if (!read_boxes(truth_box, truth_boxes) || !are_fine(truth_boxes, format, largest)) return nb::none();
    const size_t size = boxes.shape(0), num_truths = truth_boxes.shape(0);
    if (!read_column(label, Kind::Int, size, labels) || !read_column(truth_label, Kind::Int, num_truths, truth_labels)) {
        return nb::none();
    }
    if (!read_reals(score, size, scores)) return nb::none();
    if (!with_reals(scores, [&](const auto* data) { return are_finite(data, size); })) return nb::none();
    if (!repeat(images, num_rows, size, image) || !repeat(images, truth_num_rows, num_truths, truth_image)) return nb::none();
    if (!named.is_none()) {
        if (!nb::try_cast(named, names, false)) return nb::none();
        std::sort(names.begin(), names.end());
        if (!are_named(labels, names) || !are_named(truth_labels, names)) return nb::none();
    }
    std::vector<double> corners, sizes;
    std::vector<uint8_t> flags;
    if (!read_doubles(truth_boxes, corners)) return nb::none();
    if (!area.is_none()) {
        if (!read_reals(area, num_truths, areas) || !read_doubles(areas, sizes)) return nb::none();
        if (*std::min_element(sizes.begin(), sizes.end()) < 0) return nb::none();
    }
    if (!ignore.is_none() && !read_flags(ignore, num_truths, flags)) return nb::none();
    return match_columns(view(image), labels, scores, boxes, format, view(truth_image), truth_labels, view(corners), format,
                         area.is_none() ? std::nullopt : std::optional(view(sizes)),
                         ignore.is_none() ? std::nullopt : std::optional(view(flags)), view(names), rules, num_threads, false);
}

}  // namespace

void bind_match(nb::module_& module) {
    module.def("match", &match_columns, "image"_a, "label"_a, "score"_a, "box"_a, "box_format"_a, "truth_image"_a,
               "truth_label"_a, "truth_box"_a, "truth_box_format"_a, "area"_a.none(), "ignore"_a.none(), "named"_a,
               "rules"_a, "num_threads"_a, "is_paired"_a = false);
    module.def("match_images", &match_images, "image_ids"_a, "box"_a, "score"_a, "label"_a, "num_rows"_a, "truth_box"_a,
               "truth_label"_a, "area"_a.none(), "ignore"_a.none(), "truth_num_rows"_a, "box_format"_a, "largest"_a,
               "named"_a.none(), "rules"_a, "num_threads"_a);
}

}  // namespace boxscore
