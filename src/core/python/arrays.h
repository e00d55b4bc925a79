// NumPy arrays as inputs and outputs of the compiled engine.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/memory.h"
#include "platform/tasks.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

namespace nb = nanobind;

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// Python object that keeps a buffer alive while arrays use its elements.
template <class T>
nb::capsule owner_of(Buffer<T>&& buffer) {
    auto owned = std::make_unique<Buffer<T>>(std::move(buffer));
    nb::capsule owner(owned.get(), [](void* pointer) noexcept { delete static_cast<Buffer<T>*>(pointer); });
    owned.release();
    return owner;
}

// An array that becomes a NumPy array only when Python reads it, so that NumPy is not imported for callers that don't.
template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
Array<T> to_array(Buffer<T>&& buffer, std::initializer_list<size_t> shape) {
    T* data = buffer.data();
    return Array<T>(data, shape, owner_of(std::move(buffer)));
}

template <class T>
nb::object to_numpy(const Array<T>& array) {
    return nb::cast(nb::ndarray<nb::numpy, T>(array));
}

template <class T>
nb::object to_numpy(Buffer<T>&& buffer, std::initializer_list<size_t> shape) {
    return to_numpy(to_array(std::move(buffer), shape));
}

template <class T>
nb::object to_numpy(const std::vector<T>& values, std::initializer_list<size_t> shape) {
    Buffer<T> buffer(values.size());
    std::copy(values.begin(), values.end(), buffer.data());
    return to_numpy(std::move(buffer), shape);
}

// Elements of an array, which must be aligned for their type. Empty arrays of NumPy may not be.
template <class T>
const T* elements(const Input& array) {
    if (array.size() != 0 && reinterpret_cast<uintptr_t>(array.data()) % alignof(T) != 0) {
        throw std::invalid_argument("misaligned array");
    }
    return static_cast<const T*>(array.data());
}

// Call `use` with the elements of an array in their own integer type.
template <class Use>
auto with_integers(const Input& array, Use use) {
    if (array.dtype() == nb::dtype<int64_t>()) return use(elements<int64_t>(array));
    if (array.dtype() == nb::dtype<int32_t>()) return use(elements<int32_t>(array));
    if (array.dtype() == nb::dtype<int16_t>()) return use(elements<int16_t>(array));
    if (array.dtype() == nb::dtype<int8_t>()) return use(elements<int8_t>(array));
    if (array.dtype() == nb::dtype<uint64_t>()) return use(elements<uint64_t>(array));
    if (array.dtype() == nb::dtype<uint32_t>()) return use(elements<uint32_t>(array));
    if (array.dtype() == nb::dtype<uint16_t>()) return use(elements<uint16_t>(array));
    if (array.dtype() == nb::dtype<uint8_t>()) return use(elements<uint8_t>(array));
    throw std::invalid_argument("expected an array of integers");
}

inline bool is_real(const Input& array) { return array.dtype() == nb::dtype<double>() || array.dtype() == nb::dtype<float>(); }

template <class Use>
auto with_reals(const Input& array, Use use) {
    if (array.dtype() == nb::dtype<double>()) return use(elements<double>(array));
    if (array.dtype() == nb::dtype<float>()) return use(elements<float>(array));
    throw std::invalid_argument("expected an array of float32 or float64");
}

template <class T>
const T* typed(const Input& array, size_t size, const char* name) {
    if (array.dtype() != nb::dtype<T>() || array.size() != size) {
        throw std::invalid_argument(std::string(name) + ": unexpected dtype or size");
    }
    return elements<T>(array);
}

// Copy of a short array, so that no other thread can change it between validation and use.
template <class T>
std::vector<T> copy_of(const Input& array, size_t size, const char* name) {
    const T* values = typed<T>(array, size, name);
    return std::vector<T>(values, values + size);
}

// Flat copy of a column that is read more than once, so that no other thread can change it in between.
inline Input snapshot(const Input& array) {
    Buffer<uint8_t> buffer(array.nbytes());
    if (array.nbytes() > 0) std::memcpy(buffer.data(), array.data(), array.nbytes());
    uint8_t* data = buffer.data();
    return Input(data, {array.size()}, owner_of(std::move(buffer)), {}, array.dtype());
}

inline void check_count(size_t num_rows) {
    if (num_rows <= UINT32_MAX / 2) return;
    throw std::invalid_argument("more than 2**31 - 1 rows; match in batches and merge the tallies");
}

inline void check_size(const Input& array, size_t size, const char* name) {
    if (array.size() != size) throw std::invalid_argument(std::string(name) + ": unexpected size");
    check_count(size);
}

inline std::vector<int64_t> distinct_of(const Input& ids) {
    return with_integers(ids, [&](const auto* values) { return distinct(values, ids.size()); });
}

// Copy of a lookup table of ids, which must ascend strictly.
inline std::vector<int64_t> ascending(const Input& ids, const char* name) {
    const int64_t* values = typed<int64_t>(ids, ids.size(), name);
    std::vector<int64_t> table(values, values + ids.size());
    for (size_t k = 1; k < table.size(); ++k) {
        if (table[k - 1] >= table[k]) throw std::invalid_argument(std::string(name) + ": not ascending");
    }
    return table;
}

// Look up the index of each id in an ascending table; -1 where missing. Return whether all were found.
inline bool find_all(const Input& ids, const std::vector<int64_t>& table, Buffer<int32_t>& index) {
    return with_integers(ids, [&](const auto* values) { return find_indices(values, ids.size(), table, index.data()); });
}

// One look-up: a column of ids, their ascending table, and the output column of indices.
struct LookUp {
    const Input& ids;
    const std::vector<int64_t>& table;
    Buffer<int32_t>& index;
};

// Look up several columns in parallel, in blocks of rows. Return whether all ids were found.
inline bool find_all(const std::vector<LookUp>& columns, const Run& run) {
    struct Block {
        const LookUp* column;
        size_t begin, num;
    };
    constexpr size_t kRows = size_t{1} << 15;
    std::vector<Block> blocks;
    for (const LookUp& column : columns) {
        const size_t size = column.ids.size();
        column.index = Buffer<int32_t>(size);
        for (size_t begin = 0; begin < size; begin += kRows) blocks.push_back({&column, begin, std::min(size - begin, kRows)});
    }
    std::atomic<bool> is_all_there{true};
    for_each_task(blocks.size(), run, [] { return 0; }, [&](size_t task, int) {
        const auto [column, begin, num] = blocks[task];
        with_integers(column->ids, [&, begin = begin, num = num, column = column](const auto* values) {
            if (!find_indices(values + begin, num, column->table, column->index.data() + begin)) is_all_there = false;
        });
    });
    return is_all_there;
}

inline Buffer<int32_t> indices_of(const Input& ids, const std::vector<int64_t>& table, const char* name,
                                 const char* table_name) {
    Buffer<int32_t> index(ids.size());
    if (!find_all(ids, table, index)) throw std::invalid_argument(std::string(name) + ": not among " + table_name);
    return index;
}

// The columns of a tally, or of a part of one, with one row per detection.
struct RowArrays {
    Input image, label, score, tier, state;

    size_t size() const { return label.size(); }
};

// A tally in one or more parts, and the verdicts of all hits.
struct TallyArrays {
    std::vector<RowArrays> parts;
    Input is_true, is_counted;
};

// Validate the columns and return the number of hits.
template <class Score, class State>
size_t checked_hits(const RowArrays& rows, const Rules& rules) {
    const size_t size = rows.size();
    check_size(rows.image, size, "image");
    typed<Score>(rows.score, size, "score");
    const uint8_t* tier = typed<uint8_t>(rows.tier, size, "tier");
    const State* state = typed<State>(rows.state, size, "state");
    uint8_t last_tier = 0;
    size_t num_hits = 0;
    uint64_t all_bits = 0;
    for (size_t i = 0; i < size; ++i) {
        last_tier = std::max(last_tier, tier[i]);
        num_hits += state[i] & 1;
        all_bits |= state[i];
    }
    if (last_tier >= rules.num_limits()) throw std::invalid_argument("tier: beyond the limits");
    if (all_bits >> rules.num_areas() > 1) throw std::invalid_argument("state: beyond the area ranges");
    return num_hits;
}

// Validate a tally and call `use` with a value of its score type and one of its state type.
template <class Use>
void with_tally(const TallyArrays& tally, const Rules& rules, Use use) {
    if (tally.parts.empty()) throw std::invalid_argument("no part of a tally");
    const size_t num_words = rules.num_words() * (tally.is_true.size() / rules.num_words());
    typed<uint64_t>(tally.is_true, num_words, "is_true");
    typed<uint64_t>(tally.is_counted, num_words, "is_counted");
    auto check = [&](auto score, auto state) {
        size_t num_rows = 0, num_hits = 0;
        for (const RowArrays& rows : tally.parts) {
            num_rows += rows.size();
            num_hits += checked_hits<decltype(score), decltype(state)>(rows, rules);
        }
        check_count(num_rows);
        if (num_hits * rules.num_words() != num_words) throw std::invalid_argument("is_true: expected one row per hit");
        use(score, state);
    };
    with_reals(tally.parts.front().score, [&](const auto* scores) {
        using Score = std::decay_t<decltype(*scores)>;
        rules.num_areas() < 8 ? check(Score{}, uint8_t{}) : check(Score{}, uint64_t{});
    });
}

}  // namespace boxscore
