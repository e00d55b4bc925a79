// Matching, image by image: the data of one image fits in the L1 cache; thresholds and area ranges are bits of one word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "match/candidates.h"
#include "match/image_truths.h"
#include "match/match_rows.h"
#include "match/match_workspace.h"
#include "match/ranking.h"
#include "platform/tasks.h"
#include "rows/area_ranges.h"
#include "rows/cells.h"
#include "rows/order.h"
#include "rows/rules.h"

namespace boxscore {

template <class Score>
struct DetectionColumns {
    size_t size;
    const Groups* by_image;
    const int32_t* label;  // indices among the classes
    const Score* score;
    const uint8_t* coverage;  // null: all are exhaustive
    const double* area;       // null: the areas of the shapes
};

// The default recorder: the matcher writes a tally. With an active one it calls the recorder instead.
struct NoRecorder {
    static constexpr bool kIsActive = false;
};

template <class Policy, class Score, class State, class Recorder>
class Matcher {
public:
    using Shape = typename Policy::Shape;
    using Workspace = MatchWorkspace<Policy>;

    Matcher(const Policy& policy, const DetectionColumns<Score>& detections, const TruthReader<Policy>& truths,
            const Rules& rules, const Cells& cells, TallyRows<Score, State>& tally, const Recorder& recorder)
        : policy_(policy), detections_(detections), truths_(truths), by_image_(*detections.by_image), rules_(rules), cells_(cells),
          tally_(tally), recorder_(recorder), rows_(by_image_.row.empty() ? nullptr : by_image_.row.data()),
          finder_(policy, rules.cutoffs, rules.is_strict, rules.is_last_first), ranges_(rules),
          num_words_(rules.num_words()), num_areas_(rules.num_areas()),
          is_next_best_(rules.matching == Matching::next_best),
          notes_takes_(Recorder::kIsActive || rules.keeps_similarity || tally.trace.is_wanted),
          has_limit_ranks_(rules.is_limit_per_image || detections.coverage != nullptr) {}

    Workspace make_workspace(size_t num_classes) const { return {num_classes, num_words_, finder_.make_list()}; }

    // Match one image: write the rows of all detections as unmatched, then judge the ones whose class has truths.
    void match_image(size_t image, Workspace& work, MatchChunk& chunk, const Run& run) const {
        truths_.read(image, work.truths);
        write_truths(image, work.truths);
        const uint32_t begin = by_image_.start[image], end = by_image_.start[image + 1];
        if (begin == end) return;
        group_by_class(begin, end, work);
        rank_in_classes(work);
        if (has_limit_ranks_) remember_ranks(work);
        leave_out(begin, work);
        const size_t first_out = chunk.first_row + chunk.num_rows;
        write_rows(begin, image, first_out, work);
        const uint32_t num_truths = work.truths.size();
        work.is_free.assign(num_truths * num_words_, ~uint64_t{0});
        finder_.start_image(num_truths, work.candidates);
        for (uint32_t g = 0, next; g < num_truths; g = next) {
            const int32_t label = work.truths.entries[g].label;
            for (next = g; next < num_truths && work.truths.entries[next].label == label;) ++next;
            if (work.start[label] == work.end[label]) continue;
            const TruthGroup<Policy> group = finder_.add_group(work.truths.shapes(), g, next, work.candidates);
            const uint32_t first_entry = work.start[label], num_entries = work.end[label] - first_entry;
            const auto shape_at = [entries = work.entries.data() + first_entry, shapes = work.shapes.data()](uint32_t i)
                                      BOXSCORE_INLINE -> const Shape& { return shapes[entries[i].index()]; };
            finder_.look_up(shape_at, num_entries, group, work.candidates);
            for (uint32_t i = 0; i < num_entries; ++i) {
                if (num_truths > kMany) run.check();
                judge_row(begin, first_out, first_entry, i, group, work);
            }
        }
        chunk.num_rows += work.entries.size();
        for (const int32_t label : work.present) work.start[label] = work.end[label] = 0;
        work.present.clear();
    }

    // Move the words of hits to the chunk. A `Buffer` has the exact size, and its memory can be reused by later calls.
    void end_chunk(Workspace& work, MatchChunk& chunk) const {
        const size_t num_words = work.hit_true.size();
        chunk.words = Buffer<uint64_t>(2 * num_words);
        std::copy_n(work.hit_true.data(), num_words, chunk.words.data());
        std::copy_n(work.hit_counted.data(), num_words, chunk.words.data() + num_words);
        chunk.similarity = work.hit_similarity;
        work.hit_true.clear(), work.hit_counted.clear(), work.hit_similarity.clear();
    }

private:
    uint32_t row_at(uint32_t position) const { return rows_ == nullptr ? position : rows_[position]; }

    void write_truths(size_t image, const ImageTruths<Policy>& truths) const {
        if constexpr (!Recorder::kIsActive) {
            for (uint32_t g = 0; g < truths.size(); ++g) {
                tally_.truth_image[truths.first + g] = tally_.image_id[image];
                tally_.truth_label[truths.first + g] = tally_.label_id[truths.entries[g].label];
                tally_.truth_state[truths.first + g] = static_cast<State>(truths.state[g]);
            }
            if (!tally_.trace.is_wanted) return;
            for (uint32_t g = 0; g < truths.size(); ++g) {
                tally_.trace.truth_row[truths.first + g] = truths_.row(truths.first + truths.entries[g].index);
            }
        }
    }

    // Group the entries by class; each class keeps the order of rows.
    void group_by_class(uint32_t begin, uint32_t end, Workspace& work) const {
        // Read the shapes in the order of rows, sequentially; later random accesses then stay in the L1 cache.
        if (work.shapes.size() < end - begin) work.shapes.resize(end - begin);
        work.entries.resize(end - begin);
        work.larger.clear();
        uint32_t* const counts = work.end.data();
        uint64_t* const is_present = work.is_present.data();
        for (uint32_t i = begin; i < end; ++i) {
            if (rows_ != nullptr && i + kAhead < detections_.size) fetch(rows_[i + kAhead]);
            const uint32_t row = row_at(i);
            const int32_t label = detections_.label[row];
            ++counts[label];
            is_present[label / kBitsPerWord] |= uint64_t{1} << label % kBitsPerWord;
            work.shapes[i - begin] = policy_.detection(row);
        }
        uint32_t position = 0;
        int32_t* pair = work.pairs.data();
        for (size_t word = 0; word < work.is_present.size(); ++word) {
            for (uint64_t& bits = is_present[word]; bits != 0; bits &= bits - 1) {
                const int32_t label = static_cast<int32_t>(word * kBitsPerWord + count_trailing_zeros(bits));
                const uint32_t num = std::exchange(counts[label], position);
                work.present.push_back(label);
                if (num > 2) work.larger.push_back(label);
                *pair = label;
                pair += num == 2;  // unpredictable, so no branch
                work.start[label] = position;
                position += num;
            }
        }
        RankEntry* const entries = work.entries.data();
        uint64_t last_key = 0;
        bool is_ranked = true;
        for (uint32_t i = begin; i < end; ++i) {
            const uint32_t row = row_at(i);
            const int32_t label = detections_.label[row];
            const uint64_t key = falling_key(detections_.score[row]);
            entries[counts[label]++] = {key, uint64_t(label) << 32 | (i - begin)};
            is_ranked &= last_key <= key;
            last_key = key;
        }
        work.is_ranked = is_ranked;
        work.num_pairs = pair - work.pairs.data();
    }

    // Prefetch a row: rows of one image may be far apart in memory.
    void fetch(uint32_t row) const {
        prefetch(detections_.label + row);
        prefetch(detections_.score + row);
        policy_.prefetch(row);
    }

    // Sort the entries of each class by falling score, ties by row.
    static void rank_in_classes(Workspace& work) {
        if (work.is_ranked) return;
        for (size_t i = 0; i < work.num_pairs; ++i) sort_pair(work.entries.data() + work.start[work.pairs[i]]);
        for (const int32_t label : work.larger) {
            sort_by_score(work.entries.data() + work.start[label], work.end[label] - work.start[label], work.spare);
        }
    }

    // Store the rank of each detection that limits refer to: in its class, or in the whole image. It is found before any detection is
    // dropped.
    void remember_ranks(Workspace& work) const {
        const size_t num = work.entries.size();
        work.limit_rank.resize(num);
        if (!rules_.is_limit_per_image) {
            for (uint32_t i = 0; i < num; ++i) {
                const RankEntry& entry = work.entries[i];
                work.limit_rank[entry.index()] = i - work.start[entry.label()];
            }
            return;
        }
        std::vector<RankEntry> by_row(num);
        for (const RankEntry& entry : work.entries) by_row[entry.index()] = entry;
        sort_by_score(by_row.data(), num, work.spare);
        for (uint32_t rank = 0; rank < num; ++rank) work.limit_rank[by_row[rank].index()] = rank;
    }

    // Drop entries beyond the last limit, and entries whose class was not verified in this image.
    void leave_out(uint32_t begin, Workspace& work) const {
        const uint32_t last_limit = rules_.limits.back();
        if (detections_.coverage == nullptr && work.entries.size() <= last_limit) return;
        uint32_t num_kept = 0;
        for (const int32_t label : work.present) {
            const uint32_t first = std::exchange(work.start[label], num_kept);
            const uint32_t end = std::min<uint64_t>(work.end[label], uint64_t{first} + last_limit);
            for (uint32_t i = first; i < end; ++i) {
                const RankEntry entry = work.entries[i];
                if (has_limit_ranks_ && work.limit_rank[entry.index()] >= last_limit) break;
                if (coverage_of(row_at(begin + entry.index())) == kNotCovered) continue;
                work.entries[num_kept++] = entry;
            }
            work.end[label] = num_kept;
        }
        work.entries.resize(num_kept);
    }

    uint8_t coverage_of(uint32_t row) const {
        return detections_.coverage == nullptr ? uint8_t{kExhaustive} : detections_.coverage[row];
    }

    void write_rows(uint32_t begin, size_t image, size_t first_out, const Workspace& work) const {
        const RankEntry* const entries = work.entries.data();
        const Shape* const shapes = work.shapes.data();
        const size_t num = work.entries.size();
        if constexpr (!Recorder::kIsActive) {
            // `uint8_t` stores may alias; hoist loads into locals.
            const uint32_t* const start = work.start.data();
            const uint32_t* const limit_rank = has_limit_ranks_ ? work.limit_rank.data() : nullptr;
            const uint32_t* const limits = rules_.limits.data();
            const size_t last_tier = rules_.limits.size() - 1;
            const int32_t* const label_id = tally_.label_id;
            int32_t* const out_label = tally_.label + first_out;
            Score* const out_score = tally_.score + first_out;
            uint8_t* const out_tier = tally_.tier + first_out;
            State* const out_state = tally_.state + first_out;
            for (size_t i = 0; i < num; ++i) {
                const RankEntry entry = entries[i];
                const uint32_t row = row_at(begin + entry.index());
                const uint32_t rank = limit_rank != nullptr ? limit_rank[entry.index()] : static_cast<uint32_t>(i) - start[entry.label()];
                uint32_t tier = 0;
                for (size_t m = 0; m < last_tier; ++m) tier += rank >= limits[m];
                out_label[i] = label_id[entry.label()];
                out_score[i] = detections_.score[row];
                out_tier[i] = static_cast<uint8_t>(tier);
                out_state[i] = static_cast<State>(unmatched_state(row, shapes[entry.index()]));
            }
            if (tally_.image != nullptr) std::fill_n(tally_.image + first_out, num, tally_.image_id[image]);
            if (!tally_.trace.is_wanted) return;
            for (size_t i = 0; i < num; ++i) tally_.trace.row[first_out + i] = row_at(begin + entries[i].index());
            std::fill_n(tally_.trace.taken.data() + first_out, num, int64_t{-1});
            std::fill_n(tally_.trace.taken_similarity.data() + first_out, num, std::numeric_limits<double>::quiet_NaN());
        }
    }

    // State of an unmatched detection: a false positive in the area ranges that it is in, else ignored.
    uint64_t unmatched_state(uint32_t row, const Shape& shape) const {
        if (coverage_of(row) == kNotExhaustive) return 0;  // ignored in every area range
        return ranges_.find(detections_.area == nullptr ? policy_.area(shape) : detections_.area[row]) << 1;
    }

    // Judge the detection that is entry i of its class.
    void judge_row(uint32_t begin, size_t first_out, uint32_t first_entry, uint32_t i, const TruthGroup<Policy>& group,
                   Workspace& work) const {
        const uint32_t entry = first_entry + i;
        const uint32_t index = work.entries[entry].index(), row = row_at(begin + index);
        finder_.find(i, work.shapes[index], work.truths.shapes(), group, work.candidates);
        if (work.candidates.size == 0) return;
        const uint64_t state = judge(row, unmatched_state(row, work.shapes[index]), work);
        if constexpr (!Recorder::kIsActive) {
            tally_.state[first_out + entry] = static_cast<State>(state);
            if (notes_takes_) write_take(first_out + entry, work);
        }
    }

    // State of a detection with candidates; `state` is its unmatched state. Appends the words of a hit to the workspace.
    uint64_t judge(uint32_t row, uint64_t state, Workspace& work) const {
        CandidateList<Policy>& candidates = work.candidates;
        if (work.truths.has_groups) split_off_groups(work);
        if (rules_.matching == Matching::best && candidates.size > 1) candidates.size = 1;
        for (size_t w = 0; w < num_words_; ++w) {
            Verdicts verdicts = notes_takes_ ? take_and_note(row, w, work) : take_truths<false>(row, w, work);
            if (work.truths.has_groups) take_groups(row, w, work, verdicts);
            work.is_true[w] = verdicts.is_true;
            work.is_counted[w] = verdicts.is_true | (verdicts.is_open & cells_.of_areas(state >> 1, w));
        }
        return summarize(work);
    }

    // One word of cells of a detection: `is_true` where it takes a truth that counts, `is_open` where it takes none.
    struct Verdicts {
        uint64_t is_true, is_open;
    };

    // Take truths other than groups, regular ones first. `kNotes`: whether to note which ones.
    template <bool kNotes>
    Verdicts take_truths(uint32_t row, size_t w, Workspace& work) const {
        uint64_t is_wanted = ~uint64_t{0}, is_true = 0, is_false = 0;
        for (const Candidate& candidate : work.candidates) {
            uint64_t& is_free = work.is_free[candidate.truth * num_words_ + w];
            uint64_t pick = is_wanted & cells_.reached[candidate.num_reached * num_words_ + w] &
                            work.truths.is_regular[candidate.truth * num_words_ + w];
            if (is_next_best_) pick &= is_free;
            is_true |= pick & is_free;
            is_false |= pick & ~is_free;
            if constexpr (kNotes) note_take(row, w, pick & is_free, candidate, work);
            fill(is_free, pick, row, candidate.truth, work);
            is_wanted &= ~pick;
        }
        for (const Candidate& candidate : work.candidates) {
            uint64_t& is_free = work.is_free[candidate.truth * num_words_ + w];
            uint64_t pick = is_wanted & cells_.reached[candidate.num_reached * num_words_ + w] &
                            ~work.truths.is_regular[candidate.truth * num_words_ + w];
            if (is_next_best_ && work.truths.kind[candidate.truth] != kCrowd) {
                pick &= is_free;
                fill(is_free, pick, row, candidate.truth, work);
            }
            if constexpr (kNotes) note_take(row, w, pick, candidate, work);
            is_wanted &= ~pick;
        }
        return {is_true, is_false | is_wanted};
    }

    // Not inlined: rarely needed.
    BOXSCORE_NOINLINE Verdicts take_and_note(uint32_t row, size_t w, Workspace& work) const {
        if (w == 0) work.taken = kNone;
        return take_truths<true>(row, w, work);
    }

    // Write the truth that a detection took in the first cell to its output row.
    BOXSCORE_NOINLINE void write_take(size_t out, const Workspace& work) const {
        if (!tally_.trace.is_wanted || work.taken == kNone) return;
        tally_.trace.taken[out] = truth_row(work.taken, work);
        tally_.trace.taken_similarity[out] = work.similarity;
    }

    // Move groups from `candidates` to `group_candidates`.
    void split_off_groups(Workspace& work) const {
        work.group_candidates.clear();
        size_t num_others = 0;
        for (const Candidate& candidate : work.candidates) {
            if (work.truths.kind[candidate.truth] == kGroup) {
                work.group_candidates.push_back(candidate);
            } else {
                work.candidates.items[num_others++] = candidate;
            }
        }
        work.candidates.size = num_others;
        if (rules_.matching == Matching::best && work.group_candidates.size() > 1) work.group_candidates.resize(1);
    }

    // Take groups in the open cells, first the ones within the area range. The first detection that takes such a group is true.
    void take_groups(uint32_t row, size_t w, Workspace& work, Verdicts& verdicts) const {
        for (const bool is_inside : {true, false}) {
            for (const Candidate& candidate : work.group_candidates) {
                const uint64_t inside = cells_.of_areas(work.truths.state[candidate.truth], w);
                const uint64_t pick = verdicts.is_open & cells_.reached[candidate.num_reached * num_words_ + w] &
                                      (is_inside ? inside : ~inside);
                uint64_t& is_free = work.is_free[candidate.truth * num_words_ + w];
                if (is_inside) verdicts.is_true |= pick & is_free;
                is_free &= ~pick;
                verdicts.is_open &= ~pick;
                note_take(row, w, pick, candidate, work);
            }
        }
    }

    uint32_t truth_row(uint32_t truth, const Workspace& work) const {
        return truths_.row(work.truths.first + work.truths.entries[truth].index);
    }

    // Note the cells in which a detection takes a truth: all of them for a recorder, else only the first.
    void note_take(uint32_t row, size_t word, uint64_t cells, const Candidate& candidate, Workspace& work) const {
        if constexpr (Recorder::kIsActive) {
            recorder_.take(row, word, cells, truth_row(candidate.truth, work));
        } else if (word == 0 && (cells & 1) != 0) {
            work.taken = candidate.truth;
            work.similarity = candidate.similarity;
        }
    }

    void fill(uint64_t& is_free, uint64_t pick, uint32_t row, uint32_t truth, const Workspace& work) const {
        if constexpr (Recorder::kIsActive) {
            if (recorder_.leaves_free(row, truth_row(truth, work))) return;
        }
        is_free &= ~pick;
    }

    // State of a detection with candidates. One that is true nowhere and has equal verdicts at all thresholds is stored like an
    // unmatched one, not as a hit, so that each verdict has one encoding.
    uint64_t summarize(Workspace& work) const {
        uint64_t any_true = 0;
        for (size_t w = 0; w < num_words_; ++w) any_true |= work.is_true[w];
        if (any_true == 0) {
            uint64_t uniform = 0;
            bool is_uniform = true;
            for (size_t a = 0; a < num_areas_; ++a) {
                bool is_all = true, is_any = false;
                for (size_t w = 0; w < num_words_; ++w) {
                    const uint64_t area = cells_.of_area[a * num_words_ + w], counted = work.is_counted[w] & area;
                    is_all &= counted == area;
                    is_any |= counted != 0;
                }
                is_uniform &= is_any == is_all;
                uniform |= uint64_t{is_any} << (a + 1);
            }
            if (is_uniform) return uniform;
        }
        for (size_t w = 0; w < num_words_; ++w) {
            work.hit_true.push_back(work.is_true[w]);
            work.hit_counted.push_back(work.is_counted[w]);
        }
        if (rules_.keeps_similarity) work.hit_similarity.push_back((work.is_true[0] & 1) != 0 ? work.similarity : 0);
        return 1;
    }

    // Above this number of truths, check for an interruption at each detection.
    static constexpr uint32_t kMany = 1000;
    // Prefetch distance in rows.
    static constexpr size_t kAhead = 24;
    // No truth.
    static constexpr uint32_t kNone = UINT32_MAX;

    const Policy& policy_;
    const DetectionColumns<Score>& detections_;
    const TruthReader<Policy>& truths_;
    const Groups& by_image_;
    const Rules& rules_;
    const Cells& cells_;
    TallyRows<Score, State>& tally_;
    const Recorder& recorder_;
    const uint32_t* const rows_;  // sorted by image; null if the input already is
    const CandidateFinder<Policy> finder_;
    const AreaRanges ranges_;
    const size_t num_words_, num_areas_;
    const bool is_next_best_, notes_takes_, has_limit_ranks_;
};

// Ranges of the image and class indices.
struct MatchSizes {
    size_t num_images, num_classes;
};

template <class Policy, class Score, class State, class Recorder = NoRecorder>
void match(const Policy& policy, const DetectionColumns<Score>& detections, const TruthColumns& truth_columns,
           const MatchSizes& sizes, const Rules& rules, const Run& run, TallyRows<Score, State>& tally,
           const Recorder& recorder = {}) {
    const Cells cells(rules);
    const TruthReader<Policy> truths(policy, truth_columns, sizes.num_classes, rules, cells);
    const Matcher<Policy, Score, State, Recorder> matcher(policy, detections, truths, rules, cells, tally, recorder);
    if constexpr (!Recorder::kIsActive) {
        tally.truth_image = Buffer<int32_t>(truth_columns.size);
        tally.truth_label = Buffer<int32_t>(truth_columns.size);
        tally.truth_state = Buffer<State>(truth_columns.size);
    }
    std::vector<MatchChunk> chunks = cut_into_chunks(*detections.by_image, sizes.num_images);
    for_each_task(
        chunks.size(), run, [&] { return matcher.make_workspace(sizes.num_classes); },
        [&](size_t task, MatchWorkspace<Policy>& work) {
            MatchChunk& chunk = chunks[task];
            for (size_t image = chunk.first_image; image < chunk.end_image; ++image) {
                matcher.match_image(image, work, chunk, run);
            }
            matcher.end_chunk(work, chunk);
        });
    if constexpr (!Recorder::kIsActive) close_gaps(chunks, run, tally);
}

// Match with a recorder instead of a tally.
template <class Policy, class Recorder>
void match_into(const Recorder& recorder, const Policy& policy, const DetectionColumns<double>& detections,
                const TruthColumns& truths, const MatchSizes& sizes, const Rules& rules, const Run& run) {
    TallyRows<double, uint64_t> none{};
    match(policy, detections, truths, sizes, rules, run, none, recorder);
}

}  // namespace boxscore
