// Python classes of geometries, detections and truths. Another extension module can add a geometry: it includes this file, derives a
// class from PolicyGeometry and calls bind_geometry.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <array>
#include <functional>
#include <optional>
#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

#include "match/images.h"
#include "match/match.h"
#include "match/nearest.h"
#include "python/arrays.h"
#include "python/finished.h"
#include "python/tally.h"
#include "python/unlocked.h"

namespace boxscore {

struct DetectionsObject;
struct TruthsObject;

// The shapes of all detections, or of all truths, one row each.
class Geometry {
public:
    virtual ~Geometry() = default;
    virtual size_t size() const = 0;

    // The functions below are called on the geometry of the detections.
    // Match and return a tally, with its input rows if `is_traced`. With `wanted`, return a FinishedObject, or (tally, FinishedObject).
    virtual nb::object match(const DetectionsObject& detections, const TruthsObject& truths, const std::vector<int64_t>& classes,
                             const Rules& rules, bool is_traced, const WantedNumbers* wanted, size_t num_threads) const = 0;
    virtual nb::object find_nearest(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                                    const Input& is_truth_used, size_t num_threads) const = 0;
    // Similarities of all pairs of each group, concatenated; the rows of both sides must be sorted by group.
    virtual nb::object measure(const Geometry& truths, const ImageGroups& groups, const uint8_t* is_crowd,
                               size_t num_threads) const = 0;
    // All pairs of the same image and class that reach the cutoff, of which `rules` has one: rows of detections and truths, similarities.
    virtual nb::object find_pairs(const DetectionsObject& detections, const TruthsObject& truths, bool is_relative,
                                  const Rules& rules, size_t num_threads) const = 0;
    virtual nb::object match_across(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                                    const Input& is_truth_used, const Rules& rules, size_t num_threads) const = 0;
};

// The geometry in a Python object, which must have `size` rows.
inline const Geometry* geometry_of(const nb::object& object, size_t size) {
    const Geometry* geometry = nullptr;
    if (!nb::try_cast(object, geometry, false) || geometry == nullptr) throw std::invalid_argument("geometry: expected a Geometry");
    if (geometry->size() != size) throw std::invalid_argument("geometry: unexpected size");
    return geometry;
}

struct DetectionsObject {
    Input image, label, score;
    nb::object owner;  // of the geometry
    const Geometry* geometry = nullptr;
    std::optional<Input> coverage, area;

    DetectionsObject(Input image, Input label, Input score, nb::object geometry, std::optional<Input> coverage,
                     std::optional<Input> area)
        : image(std::move(image)), label(std::move(label)), score(std::move(score)), owner(std::move(geometry)),
          coverage(std::move(coverage)), area(std::move(area)) {
        check_size(this->label, size(), "label");
        check_size(this->score, size(), "score");
        this->geometry = geometry_of(owner, size());
        if (this->coverage) typed<uint8_t>(*this->coverage, size(), "coverage");
        if (this->area) typed<double>(*this->area, size(), "area");
    }

    size_t size() const { return image.size(); }
};

struct TruthsObject {
    Input image, label;
    nb::object owner;  // of the geometry
    const Geometry* geometry = nullptr;
    std::optional<Input> area, kind;

    TruthsObject(Input image, Input label, nb::object geometry, std::optional<Input> area, std::optional<Input> kind)
        : image(std::move(image)), label(std::move(label)), owner(std::move(geometry)), area(std::move(area)),
          kind(std::move(kind)) {
        check_size(this->label, size(), "label");
        this->geometry = geometry_of(owner, size());
        if (this->area) typed<double>(*this->area, size(), "area");
        if (this->kind) typed<uint8_t>(*this->kind, size(), "kind");
    }

    size_t size() const { return image.size(); }
};

// The distinct images and classes of both sides, the rows of each side grouped by image, and class indices of the rows.
struct IdIndex {
    enum Use { kForMatching, kForUsedRows };
    struct Side {
        Groups by_image;        // for matching
        Buffer<int32_t> image;  // indices, for used rows
        Buffer<int32_t> label;
    };

    std::vector<int64_t> images, classes;
    Side detections, truths;

    IdIndex(const DetectionsObject& given, const TruthsObject& given_truths, const std::vector<int64_t>& more_classes, const Run& run,
            Use use) {
        // The columns of the detections are the longest, so their tasks start first.
        const std::array<const Input*, 4> ids{&given.image, &given.label, &given_truths.image, &given_truths.label};
        std::array<std::vector<int64_t>, 4> seen;
        std::array<RowsById, 2> rows;
        const Run run_ids = given.size() < kFewRows ? run.on_one_thread() : run;  // less work than waking a thread
        for_each_task(ids.size(), run_ids, [] { return 0; }, [&](size_t i, int) {
            const bool is_grouped = use == kForMatching && i % 2 == 0;
            seen[i] = is_grouped ? group(*ids[i], rows[i / 2]) : distinct_of(*ids[i]);
        });
        images = united(seen[0], seen[2]);
        classes = united(united(seen[1], seen[3]), more_classes);
        std::vector<LookUp> columns{{given.label, classes, detections.label}, {given_truths.label, classes, truths.label}};
        if (use == kForMatching) {
            detections.by_image = std::move(rows[0]).groups(images);
            truths.by_image = std::move(rows[1]).groups(images);
        } else {
            columns.push_back({given.image, images, detections.image});
            columns.push_back({given_truths.image, images, truths.image});
        }
        check(find_all(columns, run_ids));
    }

    MatchSizes sizes() const { return {images.size(), classes.size()}; }

    template <class Score>
    DetectionColumns<Score> columns_of(const DetectionsObject& given, const Score* score) const {
        const uint8_t* coverage = given.coverage ? elements<uint8_t>(*given.coverage) : nullptr;
        return {given.size(), &detections.by_image, detections.label.data(), score, coverage,
                given.area ? elements<double>(*given.area) : nullptr};
    }

    TruthColumns columns_of(const TruthsObject& given) const {
        return {given.size(), &truths.by_image, truths.label.data(), given.area ? elements<double>(*given.area) : nullptr,
                given.kind ? elements<uint8_t>(*given.kind) : nullptr};
    }

    // The rows whose flag is not 0.
    UsedRows used_detections(const uint8_t* is_used) const { return used_rows(detections, is_used); }
    UsedRows used_truths(const uint8_t* is_used) const { return used_rows(truths, is_used); }

private:
    static constexpr size_t kFewRows = size_t{1} << 15;

    static void check(bool is_all_there) {
        if (!is_all_there) throw std::invalid_argument("`image` or `label` was changed by another thread while it was read");
    }

    static std::vector<int64_t> group(const Input& ids, RowsById& rows) {
        check(with_integers(ids, [&](const auto* values) { return group_by_id(values, ids.size(), rows); }));
        return rows.id;
    }

    static UsedRows used_rows(const Side& side, const uint8_t* is_used) {
        return {side.label.size(), side.image.data(), side.label.data(), is_used};
    }
};

// A column of ids of a tally: in 32 bits if all ids of the table fit, else in 64. Matching writes the ids directly if they fit and
// nothing else needs indices; otherwise it writes indices, which `look_up` replaces by ids.
struct TallyIds {
    bool is_narrow = true, are_indices = true;
    std::vector<int32_t> written;
    Buffer<int32_t> narrow;
    Buffer<int64_t> wide;

    TallyIds() = default;
    TallyIds(const std::vector<int64_t>& table, size_t size, bool are_indices_needed)
        : is_narrow(table.empty() || (table.front() >= INT32_MIN && table.back() <= INT32_MAX)),
          are_indices(are_indices_needed || !is_narrow), written(table.size()), narrow(size) {
        for (size_t k = 0; k < table.size(); ++k) written[k] = static_cast<int32_t>(are_indices ? int64_t(k) : table[k]);
    }

    void look_up(const std::vector<int64_t>& table, size_t size, const Run& run) {
        if (!are_indices) return;
        if (!is_narrow) wide = Buffer<int64_t>(size);
        constexpr size_t kRows = size_t{1} << 16;
        for_each_task((size + kRows - 1) / kRows, run, [] { return 0; }, [&](size_t task, int) {
            const size_t begin = task * kRows, end = std::min(size, begin + kRows);
            if (is_narrow) {
                for (size_t i = begin; i < end; ++i) narrow[i] = static_cast<int32_t>(table[narrow[i]]);
            } else {
                for (size_t i = begin; i < end; ++i) wide[i] = table[narrow[i]];
            }
        });
    }

    nb::object release(size_t size) {
        return is_narrow ? to_numpy(std::move(narrow), {size}) : to_numpy(std::move(wide), {size});
    }

    // A short column that matching wrote in the same form.
    nb::object release(Buffer<int32_t> column, const std::vector<int64_t>& table) const {
        const size_t size = column.size();
        if (is_narrow) {
            for (size_t i = 0; are_indices && i < size; ++i) column[i] = static_cast<int32_t>(table[column[i]]);
            return to_numpy(std::move(column), {size});
        }
        Buffer<int64_t> looked_up(size);
        for (size_t i = 0; i < size; ++i) looked_up[i] = table[column[i]];
        return to_numpy(std::move(looked_up), {size});
    }
};

// Make a tally by `match_rows`. Only this function depends on the geometry, so the rest is compiled once for all geometries.
template <class Score, class State>
nb::object tally_of(const DetectionsObject& detections, const TruthsObject& truths, const std::vector<int64_t>& classes,
                    const Rules& rules, bool is_traced, const WantedNumbers* wanted, size_t num_threads,
                    const std::function<void(const IdIndex&, const Run&, TallyRows<Score, State>&)>& match_rows) {
    const size_t size = detections.size(), num_words = rules.num_words();
    if (wanted != nullptr) wanted->check(rules);
    Buffer<Score> out_score(size);
    Buffer<uint8_t> tier(size);
    Buffer<State> state(size);
    std::optional<IdIndex> ids;
    TallyIds image, label;
    TallyRows<Score, State> tally{};
    if (is_traced) tally.trace = TraceColumns(size, truths.size());
    std::vector<int64_t> num_truths;
    Finished finished;
    run_without_lock(size, num_threads, [&](const Run& run) {
        ids.emplace(detections, truths, classes, run, IdIndex::kForMatching);
        image = TallyIds(ids->images, size, false);
        label = TallyIds(ids->classes, size, wanted != nullptr);
        tally.image_id = image.written.data(), tally.label_id = label.written.data();
        tally.image = image.narrow.data(), tally.label = label.narrow.data();
        tally.score = out_score.data(), tally.tier = tier.data(), tally.state = state.data();
        match_rows(*ids, run, tally);
        if (wanted != nullptr) {
            num_truths = count_truths(tally.truth_label.data(), tally.truth_state.data(), truths.size(), ids->classes.size(),
                                      rules.num_areas());
            check_truths(num_truths);
            const TallyColumns<Score, State> columns{tally.size,           tally.label,          nullptr,
                                                     tally.score,          tally.tier,           tally.state,
                                                     tally.is_true.data(), tally.is_counted.data(),
                                                     tally.is_true.size() / num_words, 0, ids->classes.size(), num_truths.data()};
            finished = wanted->finish(columns, rules, ids->classes, run);
            if (!wanted->keeps_tally()) return;
        }
        image.look_up(ids->images, tally.size, run);
        label.look_up(ids->classes, tally.size, run);
    });
    if (wanted != nullptr && !wanted->keeps_tally()) {
        return nb::cast(FinishedObject(std::move(finished), ids->classes, num_truths, rules));
    }
    const size_t num_hits = tally.is_true.size() / num_words;
    const auto traced = [&](auto& column, size_t length) -> nb::object {
        return is_traced ? to_numpy(std::move(column), {length}) : nb::none();
    };
    const nb::object truth_image = image.release(std::move(tally.truth_image), ids->images);
    const nb::object truth_label = label.release(std::move(tally.truth_label), ids->classes);
    nb::object matched = nb::cast(
        TallyObject{image.release(tally.size), label.release(tally.size), to_numpy(std::move(out_score), {tally.size}),
                    to_numpy(std::move(tier), {tally.size}), to_numpy(std::move(state), {tally.size}),
                    to_numpy(std::move(tally.is_true), {num_hits, num_words}), to_numpy(std::move(tally.is_counted), {num_hits, num_words}),
                    to_numpy(ids->classes, {ids->classes.size()}), truth_image, truth_label,
                    to_numpy(std::move(tally.truth_state), {truths.size()}),
                    rules.keeps_similarity ? to_numpy(tally.similarity, {num_hits}) : nb::none(),
                    traced(tally.trace.row, tally.size), traced(tally.trace.taken, tally.size),
                    traced(tally.trace.taken_similarity, tally.size), traced(tally.trace.truth_row, truths.size())});
    if (wanted == nullptr) return matched;
    return nb::make_tuple(matched, nb::cast(FinishedObject(std::move(finished), ids->classes, num_truths, rules)));
}

template <class Score, class State, class Policy>
nb::object match_columns(const Policy& policy, const DetectionsObject& detections, const Score* score, const TruthsObject& truths,
                         const std::vector<int64_t>& classes, const Rules& rules, bool is_traced, const WantedNumbers* wanted,
                         size_t num_threads) {
    const auto match_rows = [&](const IdIndex& ids, const Run& run, TallyRows<Score, State>& tally) {
        match(policy, ids.columns_of(detections, score), ids.columns_of(truths), ids.sizes(), rules, run, tally);
    };
    return tally_of<Score, State>(detections, truths, classes, rules, is_traced, wanted, num_threads, match_rows);
}

// A geometry whose similarity is a policy. `Self` has `with_policy(truths, use)`: it calls `use` with the policy for its own shapes as
// detections and the shapes of `truths`, of the same class.
template <class Self>
class PolicyGeometry : public Geometry {
public:
    nb::object match(const DetectionsObject& detections, const TruthsObject& truths, const std::vector<int64_t>& classes,
                     const Rules& rules, bool is_traced, const WantedNumbers* wanted, size_t num_threads) const override {
        return with_policy(truths, [&](const auto& policy) {
            return with_reals(detections.score, [&](const auto* score) {
                using Score = std::decay_t<decltype(*score)>;
                auto match_as = rules.num_areas() < 8 ? &match_columns<Score, uint8_t, std::decay_t<decltype(policy)>>
                                                      : &match_columns<Score, uint64_t, std::decay_t<decltype(policy)>>;
                return match_as(policy, detections, score, truths, classes, rules, is_traced, wanted, num_threads);
            });
        });
    }

    nb::object find_nearest(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                            const Input& is_truth_used, size_t num_threads) const override {
        const size_t size = detections.size();
        Buffer<int32_t> own_truth(size), other_truth(size);
        Buffer<double> own_similarity(size), other_similarity(size);
        with_rows(detections, truths, is_used, is_truth_used, num_threads,
                  [&](const auto& policy, const UsedRows& rows, const UsedRows& truth_rows, size_t num_images, const Run& run) {
            boxscore::find_nearest(policy, rows, truth_rows, num_images, run, {own_truth.data(), own_similarity.data()},
                                   {other_truth.data(), other_similarity.data()});
        });
        return nb::make_tuple(to_numpy(std::move(own_truth), {size}), to_numpy(std::move(own_similarity), {size}),
                              to_numpy(std::move(other_truth), {size}), to_numpy(std::move(other_similarity), {size}));
    }

    nb::object match_across(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                            const Input& is_truth_used, const Rules& rules, size_t num_threads) const override {
        const size_t size = detections.size();
        const double* score = typed<double>(detections.score, size, "score");
        Buffer<int32_t> taken(size);
        with_rows(detections, truths, is_used, is_truth_used, num_threads,
                  [&](const auto& policy, const UsedRows& rows, const UsedRows& truth_rows, size_t num_images, const Run& run) {
            boxscore::match_across(policy, rows, score, truth_rows, num_images, rules, run, taken.data());
        });
        return to_numpy(std::move(taken), {size});
    }

    nb::object find_pairs(const DetectionsObject& detections, const TruthsObject& truths, bool is_relative, const Rules& rules,
                          size_t num_threads) const override {
        const std::vector<uint8_t> all(detections.size(), 1), all_truths(truths.size(), 1);
        SimilarPairs pairs;
        with_policy(truths, [&](const auto& policy) {
            run_without_lock(detections.size(), num_threads, [&](const Run& run) {
                const IdIndex ids(detections, truths, {}, run, IdIndex::kForUsedRows);
                pairs = boxscore::find_pairs(policy, ids.used_detections(all.data()), ids.used_truths(all_truths.data()),
                                             ids.images.size(), is_relative, rules, run);
            });
        });
        const size_t size = pairs.similarity.size();
        return nb::make_tuple(to_numpy(pairs.detection, {size}), to_numpy(pairs.truth, {size}), to_numpy(pairs.similarity, {size}));
    }

    nb::object measure(const Geometry& truths, const ImageGroups& groups, const uint8_t* is_crowd,
                       size_t num_threads) const override {
        Buffer<double> values(groups.matrix_starts().back());
        with_policy(truths, [&](const auto& policy) {
            run_without_lock(values.size(), num_threads,
                             [&](const Run& run) { measure_pairs(policy, groups, is_crowd, run, values.data()); });
        });
        const size_t size = values.size();
        return to_numpy(std::move(values), {size});
    }

private:
    template <class Use>
    auto with_policy(const TruthsObject& truths, Use use) const {
        return with_policy(*truths.geometry, use);
    }

    template <class Use>
    auto with_policy(const Geometry& truths, Use use) const {
        if (typeid(truths) != typeid(*this)) throw std::invalid_argument("geometry: detections and truths must have the same");
        return static_cast<const Self*>(this)->with_policy(static_cast<const Self&>(truths), use);
    }

    template <class Use>
    void with_rows(const DetectionsObject& detections, const TruthsObject& truths, const Input& is_used,
                   const Input& is_truth_used, size_t num_threads, Use use) const {
        const uint8_t* flags = typed<uint8_t>(is_used, detections.size(), "is_used");
        const uint8_t* truth_flags = typed<uint8_t>(is_truth_used, truths.size(), "is_truth_used");
        with_policy(truths, [&](const auto& policy) {
            run_without_lock(detections.size(), num_threads, [&](const Run& run) {
                const IdIndex ids(detections, truths, {}, run, IdIndex::kForUsedRows);
                use(policy, ids.used_detections(flags), ids.used_truths(truth_flags), ids.images.size(), run);
            });
        });
    }
};

// Bind a geometry to Python. `Parameters`: the types of the parameters of its constructor.
template <class Self, class... Parameters, class... Names>
void bind_geometry(nb::module_& module, const char* name, const Names&... names) {
    nb::class_<Self, Geometry>(module, name).def(nb::init<Parameters...>(), names...);
}

}  // namespace boxscore
