// Python class of a tally: the columns of `boxscore.result.tally.Tally`, with the same names.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "python/arrays.h"

namespace boxscore {

// Holds the columns as Python objects; `input` reads one in place.
struct TallyObject {
    nb::object image, label, score, tier, state, is_true, is_counted, classes, truth_image, truth_label, truth_state, similarity;
    nb::object row, taken, taken_similarity, truth_row;  // None unless the tally is traced

    static Input input(const nb::object& column, const char* name) {
        Input array;
        if (!nb::try_cast(column, array, false)) throw std::invalid_argument(std::string(name) + ": expected a contiguous array");
        return array;
    }

    // The columns with one row per detection.
    RowArrays rows() const {
        return {input(image, "image"), input(label, "label"), input(score, "score"), input(tier, "tier"), input(state, "state")};
    }
};

inline void bind_tally(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<TallyObject>(module, "Tally")
        .def(
            "__init__",
            [](TallyObject* self, nb::object image, nb::object label, nb::object score, nb::object tier, nb::object state,
               nb::object is_true, nb::object is_counted, nb::object classes, nb::object truth_image,
               nb::object truth_label, nb::object truth_state, nb::object similarity) {
                new (self) TallyObject{std::move(image),       std::move(label),       std::move(score),
                                       std::move(tier),        std::move(state),       std::move(is_true),
                                       std::move(is_counted),  std::move(classes),     std::move(truth_image),
                                       std::move(truth_label), std::move(truth_state), std::move(similarity),
                                       nb::none(),             nb::none(),             nb::none(),
                                       nb::none()};
            },
            nb::kw_only(), "image"_a, "label"_a, "score"_a, "tier"_a, "state"_a, "is_true"_a, "is_counted"_a, "classes"_a,
            "truth_image"_a, "truth_label"_a, "truth_state"_a, "similarity"_a.none() = nb::none())
        .def_ro("image", &TallyObject::image)
        .def_ro("label", &TallyObject::label)
        .def_ro("score", &TallyObject::score)
        .def_ro("tier", &TallyObject::tier)
        .def_ro("state", &TallyObject::state)
        .def_ro("is_true", &TallyObject::is_true)
        .def_ro("is_counted", &TallyObject::is_counted)
        .def_ro("classes", &TallyObject::classes)
        .def_ro("truth_image", &TallyObject::truth_image)
        .def_ro("truth_label", &TallyObject::truth_label)
        .def_ro("truth_state", &TallyObject::truth_state)
        .def_ro("similarity", &TallyObject::similarity)
        .def_ro("row", &TallyObject::row)
        .def_ro("taken", &TallyObject::taken)
        .def_ro("taken_similarity", &TallyObject::taken_similarity)
        .def_ro("truth_row", &TallyObject::truth_row);
}

}  // namespace boxscore
