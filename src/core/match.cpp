#include "match.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "overlap.h"

namespace boxscore {
namespace {

// Which cells belong to what, as bits, num_words a row.
struct Cells {
    std::vector<uint64_t> of_area;   // all thresholds of an area range
    std::vector<uint64_t> reached;   // by an IoU that reaches so many thresholds, in all area ranges

    explicit Cells(const Rules& rules) {
        const size_t num_words = rules.num_words(), num_thresholds = rules.num_thresholds();
        of_area.resize(rules.num_areas() * num_words);
        reached.resize((num_thresholds + 1) * num_words);
        for (size_t cell = 0; cell < rules.num_cells(); ++cell) {
            const uint64_t bit = uint64_t{1} << cell % kBitsPerWord;
            const size_t word = cell / kBitsPerWord;
            of_area[cell / num_thresholds * num_words + word] |= bit;
            for (size_t num = cell % num_thresholds + 1; num <= num_thresholds; ++num) {
                reached[num * num_words + word] |= bit;
            }
        }
    }
};

// The truths, image by image and in each class by class, with what matching needs to know of them.
struct Truths {
    std::vector<uint32_t> start;  // of each image
    std::vector<uint32_t> row;    // where each was given
    std::vector<int32_t> label;
    std::vector<Box4> box;
    std::vector<uint8_t> is_crowd;
    std::vector<uint64_t> is_regular;  // by cell, num_words a truth
    std::vector<uint64_t> state;       // bit a where it counts in area range a

    Truths(const TruthColumns& columns, size_t num_images, size_t num_classes, const Rules& rules, const Cells& cells,
           const Run& run) {
        const size_t size = columns.size, num_words = rules.num_words(), num_areas = rules.num_areas();
        const Groups by_label = group(columns.label, size, num_classes);
        std::vector<int32_t> image(size);
        for (size_t i = 0; i < size; ++i) image[i] = columns.image[by_label.at(static_cast<uint32_t>(i))];
        Groups by_image = group(image.data(), size, num_images);
        row.resize(size);
        label.resize(size);
        box.resize(size);
        is_crowd.resize(size);
        is_regular.assign(size * num_words, 0);
        state.assign(size, 0);
        constexpr size_t kBlock = size_t{1} << 14;
        for_each_task((size + kBlock - 1) / kBlock, run, [] { return 0; }, [&](size_t block, int) {
            for (size_t g = block * kBlock, end = std::min(size, g + kBlock); g < end; ++g) {
                const uint32_t from = by_label.at(by_image.at(static_cast<uint32_t>(g)));
                const bool is_ignored = columns.ignore != nullptr && columns.ignore[from] != 0;
                row[g] = from;
                label[g] = columns.label[from];
                box[g] = measure(columns.box + size_t{from} * 4, columns.box_format, rules.is_inclusive);
                is_crowd[g] = is_ignored && rules.is_crowd;
                const double size_of = columns.area == nullptr ? box[g].area : columns.area[from];
                for (size_t a = 0; a < num_areas; ++a) {
                    if (is_ignored || size_of < rules.area_low[a] || size_of > rules.area_high[a]) continue;
                    state[g] |= uint64_t{1} << a;
                    for (size_t w = 0; w < num_words; ++w) is_regular[g * num_words + w] |= cells.of_area[a * num_words + w];
                }
            }
        });
        start = std::move(by_image.start);
    }
};

// Truths of an image with which one detection takes long enough to ask whether to go on.
constexpr uint32_t kMany = 1000;

constexpr uint32_t kNone = UINT32_MAX;

// How many rows ahead memory is asked for.
constexpr size_t kAhead = 24;

struct Candidate {
    double iou;
    uint32_t truth;
    uint32_t num_reached;
};

// A detection on its way to its rank.
struct Entry {
    uint64_t key;    // ascends as scores fall
    uint32_t place;  // in its image
};

// A truth by the place of its left side.
struct Edge {
    double left;
    uint32_t truth;
};

// The truths of one class in one image. Where they are many, those that an overlap can be foretold of stand by their left
// sides, and the others, crowds among them, after these.
struct Shelf {
    uint32_t first = 0, end = 0;            // places among the truths; 0, 0 if there are none
    uint32_t first_edge = 0, end_edge = 0;  // in the scratch; 0, 0 if the truths are few
    uint32_t num_sorted = 0;
};

// A thread's own memory; sized once, cleaned up after each image.
struct Scratch {
    std::vector<uint32_t> count, cursor;   // by class
    std::vector<Shelf> shelves;            // by class
    std::vector<Edge> edges;               // of the shelves of this image
    std::vector<uint64_t> is_touched;      // classes with detections in this image, in bits
    std::vector<int32_t> touched;          // the same, ascending
    std::vector<Box4> boxes;               // of this image
    std::vector<Entry> entries;            // of this image, class by class
    std::vector<Entry> spare;
    std::vector<uint64_t> is_free;         // by truth of this image and cell
    std::vector<Candidate> candidates;     // as many as there are truths in this image
    size_t num_candidates = 0;
    std::vector<uint64_t> is_true, is_counted;  // of one detection
    uint32_t taken = kNone;                // the truth that it took in the first cell

    explicit Scratch(size_t num_classes, size_t num_words)
        : count(num_classes), cursor(num_classes), shelves(num_classes), is_touched(num_classes / kBitsPerWord + 1),
          is_true(num_words), is_counted(num_words) {}
};

// A run of images that one thread does in one go; its rows start where those of the images before would end.
struct Chunk {
    size_t first_image, end_image;
    size_t first_row, num_rows = 0;
    std::vector<uint64_t> is_true, is_counted;
};

template <class Box, class Score, class State>
class Matcher {
public:
    Matcher(const DetectionColumns<Box, Score>& detections, const Truths& truths, const Groups& by_image,
            const Rules& rules, const Cells& cells, TallyRows<Score, State>& tally)
        : detections_(detections), truths_(truths), by_image_(by_image), rules_(rules), cells_(cells), tally_(tally),
          num_words_(rules.num_words()), num_areas_(rules.num_areas()), num_thresholds_(rules.num_thresholds()),
          extent_(rules.is_inclusive ? 1.0 : 0.0), surely_below_(rules.cutoffs[0] * (1 - 1e-9)) {
        for (size_t a = 0; a < num_areas_; ++a) bounds_.push_back({rules.area_low[a], rules.area_high[a]});
        while (bounds_.size() % kAreasAtOnce != 0) bounds_.push_back({1, 0});  // nothing is in there
    }

    void match_image(size_t image, Scratch& scratch, Chunk& chunk, const Run& run) const {
        const uint32_t begin = by_image_.start[image], end = by_image_.start[image + 1];
        if (begin == end) return;
        group_by_class(begin, end, scratch);
        const uint32_t first_truth = truths_.start[image], end_truth = truths_.start[image + 1];
        put_on_shelves(first_truth, end_truth, scratch);
        const bool is_long = end_truth - first_truth > kMany;
        const uint32_t first_limit = rules_.limits[0], last_limit = rules_.limits.back();
        const size_t first_out = chunk.first_row + chunk.num_rows;
        size_t out = first_out;
        Entry* entries = scratch.entries.data();
        for (const int32_t label : scratch.touched) {
            const uint32_t num = std::exchange(scratch.count[label], 0);
            sort_by_score(entries, num, scratch.spare);
            const Shelf shelf = scratch.shelves[label];
            const int32_t label_id = tally_.label_id[label];
            uint32_t tier = 0, tier_end = first_limit;
            for (uint32_t rank = 0, num_kept = std::min(num, last_limit); rank < num_kept; ++rank, ++out) {
                while (rank >= tier_end) tier_end = rules_.limits[++tier];
                const Box4& box = scratch.boxes[entries[rank].place];
                uint64_t state = state_of(box.area);
                scratch.taken = kNone;
                if (shelf.end != 0) {
                    if (is_long) run.check();
                    state = judge(box, state, shelf, first_truth, scratch, chunk);
                }
                const uint32_t row = by_image_.at(begin + entries[rank].place);
                tally_.label[out] = label_id;
                tally_.score[out] = detections_.score[row];
                tally_.tier[out] = static_cast<uint8_t>(tier);
                tally_.state[out] = static_cast<State>(state);
                if (tally_.pairs != nullptr) write_down(row, state, scratch, chunk);
            }
            entries += num;
        }
        std::fill(tally_.image + first_out, tally_.image + out, tally_.image_id[image]);
        chunk.num_rows += out - first_out;
        scratch.touched.clear();
        for (uint32_t g = first_truth; g < end_truth; ++g) scratch.shelves[truths_.label[g]] = {};
    }

private:
    // Where the truths of each class are. A pair with an IoU of c overlaps in c of either width or more; so the left side of a
    // truth is at most (1 - c) of the detection's width to the right of the detection's, and (1 - c) / c to the left of it. So
    // much for exact numbers: boxes that are thin for where they are, whose sides rounding may move, are not foretold of.
    void put_on_shelves(uint32_t first_truth, uint32_t end_truth, Scratch& scratch) const {
        constexpr uint32_t kManyOnShelf = 16;
        scratch.is_free.assign((end_truth - first_truth) * num_words_, ~uint64_t{0});
        scratch.candidates.resize(std::max<size_t>(scratch.candidates.size(), end_truth - first_truth));
        scratch.edges.clear();
        for (uint32_t g = first_truth, next; g < end_truth; g = next) {
            const int32_t label = truths_.label[g];
            for (next = g; next < end_truth && truths_.label[next] == label;) ++next;
            Shelf& shelf = scratch.shelves[label];
            shelf.first = g, shelf.end = next;
            if (next - g < kManyOnShelf || surely_below_ < kLeastForeseeable) continue;
            shelf.first_edge = static_cast<uint32_t>(scratch.edges.size());
            for (const bool is_sorted_part : {true, false}) {
                for (uint32_t i = g; i < next; ++i) {
                    if (is_sorted_part == (is_solid(truths_.box[i]) && !truths_.is_crowd[i])) {
                        scratch.edges.push_back({truths_.box[i].left, i});
                    }
                }
                if (!is_sorted_part) continue;
                shelf.num_sorted = static_cast<uint32_t>(scratch.edges.size()) - shelf.first_edge;
                std::sort(scratch.edges.begin() + shelf.first_edge, scratch.edges.end(),
                          [](const Edge& a, const Edge& b) { return a.left < b.left; });
            }
            shelf.end_edge = static_cast<uint32_t>(scratch.edges.size());
        }
    }

    // Whether rounding can't move the sides of a box by more than a millionth of its size.
    bool is_solid(const Box4& box) const {
        const double farthest = std::max(std::max(std::abs(box.left), std::abs(box.right)),
                                         std::max(std::abs(box.top), std::abs(box.bottom)));
        return std::min(box.right - box.left, box.bottom - box.top) + extent_ >= farthest * 1e-6;
    }

    // The state of a detection that meets no truth: false where its area is in range, else ignored.
    uint64_t state_of(double area) const {
        uint64_t state = 0;
        for (size_t a = 0; a < bounds_.size(); a += kAreasAtOnce) {
            for (size_t i = a; i < a + kAreasAtOnce; ++i) {
                state |= static_cast<uint64_t>((bounds_[i].low <= area) & (area <= bounds_[i].high)) << i;
            }
        }
        return state << 1;
    }

    void group_by_class(uint32_t begin, uint32_t end, Scratch& scratch) const {
        // In the order of rows, which is that of memory; what follows jumps about in the nearest cache only.
        scratch.boxes.resize(end - begin);
        for (uint32_t i = begin; i < end; ++i) {
            if (!by_image_.row.empty() && i + kAhead < detections_.size) fetch(by_image_.row[i + kAhead]);
            const uint32_t row = by_image_.at(i);
            const int32_t label = detections_.label[row];
            ++scratch.count[label];
            scratch.is_touched[label / kBitsPerWord] |= uint64_t{1} << label % kBitsPerWord;
            scratch.boxes[i - begin] =
                measure(detections_.box + size_t{row} * 4, detections_.box_format, rules_.is_inclusive);
        }
        uint32_t position = 0;
        for (size_t word = 0; word < scratch.is_touched.size(); ++word) {
            for (uint64_t& bits = scratch.is_touched[word]; bits != 0; bits &= bits - 1) {
                const int32_t label = static_cast<int32_t>(word * kBitsPerWord + count_trailing_zeros(bits));
                scratch.touched.push_back(label);
                scratch.cursor[label] = position;
                position += scratch.count[label];
            }
        }
        scratch.entries.resize(end - begin);
        for (uint32_t i = begin; i < end; ++i) {
            const uint32_t row = by_image_.at(i);
            scratch.entries[scratch.cursor[detections_.label[row]]++] = {falling_key(detections_.score[row]), i - begin};
        }
    }

    // Rows of one image may be far apart: ask for those to come while the ones before are worked on.
    void fetch(uint32_t row) const {
        prefetch(detections_.label + row);
        prefetch(detections_.score + row);
        prefetch(detections_.box + size_t{row} * 4);
    }

    // By falling score; of equal ones the first row stays first.
    static void sort_by_score(Entry* entries, size_t num, std::vector<Entry>& spare) {
        if (num > kFew) {
            spare.assign(entries, entries + num);
            sort_by_key(spare.data(), entries, num);
        } else {
            insertion_sort(entries, entries + num, [](const Entry& a, const Entry& b) { return a.key < b.key; });
        }
    }

    // The state of a detection of a class that has truths here; for a hit its words go to the chunk.
    uint64_t judge(const Box4& box, uint64_t state, const Shelf& shelf, uint32_t first_truth, Scratch& scratch,
                   Chunk& chunk) const {
        find_candidates(box, shelf, scratch);
        if (scratch.num_candidates == 0) return state;
        if (rules_.matching == Matching::best) scratch.num_candidates = 1;
        settle(state, first_truth, scratch);
        return summarize(scratch, chunk);
    }

    void find_candidates(const Box4& box, const Shelf& shelf, Scratch& scratch) const {
        scratch.num_candidates = 0;
        if (shelf.end_edge == 0 || !is_solid(box)) {
            for (uint32_t g = shelf.first; g < shelf.end; ++g) consider(box, g, scratch);
        } else {
            const double width = (box.right - box.left + extent_) * (1 + 1e-5), least = surely_below_;
            const Edge* const edges = scratch.edges.data() + shelf.first_edge;
            const Edge* const end = edges + shelf.num_sorted;
            const double first = box.left - width * (1 - least) / least, last = box.left + width * (1 - least);
            const Edge* edge = std::lower_bound(edges, end, first, [](const Edge& e, double left) { return e.left < left; });
            for (; edge < end && edge->left <= last; ++edge) consider(box, edge->truth, scratch);
            for (edge = end; edge < scratch.edges.data() + shelf.end_edge; ++edge) consider(box, edge->truth, scratch);
        }
        // Best first; of equal ones the last in COCO, else the first.
        Candidate* const candidates = scratch.candidates.data();
        const bool is_last_first = rules_.matching == Matching::next_best;
        auto is_better = [is_last_first](const Candidate& a, const Candidate& b) {
            return a.iou > b.iou || (a.iou == b.iou && (a.truth > b.truth) == is_last_first);
        };
        if (scratch.num_candidates > kFew) {
            std::sort(candidates, candidates + scratch.num_candidates, is_better);
        } else {
            insertion_sort(candidates, candidates + scratch.num_candidates, is_better);
        }
    }

    void consider(const Box4& box, uint32_t g, Scratch& scratch) const {
        const Overlap pair = overlap(box, truths_.box[g], truths_.is_crowd[g], extent_);
        if (pair.shared < surely_below_ * pair.whole) return;
        const double iou = pair.iou();
        const double* const cutoffs = rules_.cutoffs.data();
        uint32_t num_reached = 0;
        while (num_reached < num_thresholds_ && reaches(iou, cutoffs[num_reached])) ++num_reached;
        if (num_reached > 0) scratch.candidates[scratch.num_candidates++] = {iou, g, num_reached};
    }

    bool reaches(double iou, double cutoff) const { return rules_.is_strict ? iou > cutoff : iou >= cutoff; }

    // The verdict of one detection in all cells, and what it takes.
    void settle(uint64_t state, uint32_t first_truth, Scratch& scratch) const {
        const bool is_next_best = rules_.matching == Matching::next_best;
        for (size_t w = 0; w < num_words_; ++w) {
            uint64_t is_wanted = ~uint64_t{0}, is_true = 0, is_false = 0;
            for (size_t i = 0; i < scratch.num_candidates; ++i) {
                const Candidate& candidate = scratch.candidates[i];
                uint64_t& is_free = scratch.is_free[(candidate.truth - first_truth) * num_words_ + w];
                uint64_t pick = is_wanted & cells_.reached[candidate.num_reached * num_words_ + w] &
                                truths_.is_regular[candidate.truth * num_words_ + w];
                if (is_next_best) pick &= is_free;
                is_true |= pick & is_free;
                if (w == 0 && (pick & is_free & 1) != 0) scratch.taken = candidate.truth;
                is_false |= pick & ~is_free;
                is_free &= ~pick;
                is_wanted &= ~pick;
            }
            uint64_t is_ignored = 0;
            for (size_t i = 0; i < scratch.num_candidates; ++i) {
                const Candidate& candidate = scratch.candidates[i];
                uint64_t& is_free = scratch.is_free[(candidate.truth - first_truth) * num_words_ + w];
                uint64_t pick = is_wanted & cells_.reached[candidate.num_reached * num_words_ + w] &
                                ~truths_.is_regular[candidate.truth * num_words_ + w];
                if (is_next_best && !truths_.is_crowd[candidate.truth]) {
                    pick &= is_free;
                    is_free &= ~pick;
                }
                is_ignored |= pick;
                is_wanted &= ~pick;
                if (w == 0 && (pick & 1) != 0) scratch.taken = candidate.truth;
            }
            uint64_t is_inside = 0;
            for (size_t a = 0; a < num_areas_; ++a) {
                if (state >> (a + 1) & 1) is_inside |= cells_.of_area[a * num_words_ + w];
            }
            scratch.is_true[w] = is_true;
            scratch.is_counted[w] = is_true | ((is_false | is_wanted) & is_inside);
        }
    }

    // The state of a detection that has candidates. If it is the same at all thresholds and nowhere true, it is no hit after
    // all; so there is one way to write down a verdict.
    uint64_t summarize(const Scratch& scratch, Chunk& chunk) const {
        uint64_t plain = 0;
        bool is_hit = std::any_of(scratch.is_true.begin(), scratch.is_true.end(), [](uint64_t word) { return word != 0; });
        for (size_t a = 0; a < num_areas_ && !is_hit; ++a) {
            bool is_all = true, is_any = false;
            for (size_t w = 0; w < num_words_; ++w) {
                const uint64_t area = cells_.of_area[a * num_words_ + w], counted = scratch.is_counted[w] & area;
                is_all &= counted == area;
                is_any |= counted != 0;
            }
            is_hit = is_any != is_all;
            plain |= uint64_t{is_any} << (a + 1);
        }
        if (!is_hit) return plain;
        chunk.is_true.insert(chunk.is_true.end(), scratch.is_true.begin(), scratch.is_true.end());
        chunk.is_counted.insert(chunk.is_counted.end(), scratch.is_counted.begin(), scratch.is_counted.end());
        return 1;
    }

    // What became of one detection in the first cell, and of the truth that it took.
    void write_down(uint32_t row, uint64_t state, const Scratch& scratch, const Chunk& chunk) const {
        Pairs& pairs = *tally_.pairs;
        if ((state & 1) != 0) {
            const size_t words = chunk.is_true.size() - num_words_;  // of the last hit
            pairs.verdict[row] = static_cast<uint8_t>((chunk.is_true[words] & 1) + (chunk.is_counted[words] & 1));
        } else {
            pairs.verdict[row] = state >> 1 & 1;
        }
        if (scratch.taken != kNone) pairs.truth[row] = static_cast<int32_t>(truths_.row[scratch.taken]);
    }

    const DetectionColumns<Box, Score>& detections_;
    const Truths& truths_;
    const Groups& by_image_;
    const Rules& rules_;
    const Cells& cells_;
    TallyRows<Score, State>& tally_;
    const size_t num_words_, num_areas_, num_thresholds_;
    const double extent_;
    const double surely_below_;  // a pair below this can't reach the lowest threshold, however the division rounds
    static constexpr double kLeastForeseeable = 0.01;
    static constexpr size_t kAreasAtOnce = 4;
    struct Bounds {
        double low, high;
    };
    std::vector<Bounds> bounds_;  // of the area ranges, as many as are looked at at once
};

// Some chunks a thread, so that one slow image does not keep all waiting; the same for any number of threads.
std::vector<Chunk> cut(const Groups& by_image, size_t num_images) {
    constexpr size_t kRowsPerChunk = size_t{1} << 14;
    std::vector<Chunk> chunks;
    for (size_t image = 0; image < num_images;) {
        Chunk chunk{};
        chunk.first_image = image;
        chunk.first_row = by_image.start[image];
        while (image < num_images && by_image.start[image + 1] - chunk.first_row <= kRowsPerChunk) ++image;
        if (image == chunk.first_image) ++image;
        chunk.end_image = image;
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

// Closes the gaps that detections beyond the limits left between chunks.
template <class Score, class State>
void close_gaps(std::vector<Chunk>& chunks, TallyRows<Score, State>& tally) {
    for (Chunk& chunk : chunks) {
        if (chunk.first_row != tally.size) {
            auto move = [&](auto* column) {
                std::copy(column + chunk.first_row, column + chunk.first_row + chunk.num_rows, column + tally.size);
            };
            move(tally.image), move(tally.label), move(tally.score), move(tally.tier), move(tally.state);
        }
        tally.size += chunk.num_rows;
        tally.is_true.insert(tally.is_true.end(), chunk.is_true.begin(), chunk.is_true.end());
        tally.is_counted.insert(tally.is_counted.end(), chunk.is_counted.begin(), chunk.is_counted.end());
        chunk = {};
    }
}

}  // namespace

template <class Box, class Score, class State>
void match(const DetectionColumns<Box, Score>& detections, const TruthColumns& truth_columns, size_t num_images,
           size_t num_classes, const Rules& rules, const Run& run, TallyRows<Score, State>& tally) {
    const Cells cells(rules);
    const Truths truths(truth_columns, num_images, num_classes, rules, cells, run);
    const Groups by_image = group(detections.image, detections.size, num_images);
    run.check();
    const Matcher<Box, Score, State> matcher(detections, truths, by_image, rules, cells, tally);
    std::vector<Chunk> chunks = cut(by_image, num_images);
    for_each_task(
        chunks.size(), run, [&] { return Scratch(num_classes, rules.num_words()); },
        [&](size_t task, Scratch& scratch) {
            Chunk& chunk = chunks[task];
            for (size_t image = chunk.first_image; image < chunk.end_image; ++image) {
                matcher.match_image(image, scratch, chunk, run);
            }
        });
    close_gaps(chunks, tally);
    for (size_t image = 0; image < num_images; ++image) {
        tally.truth_image.insert(tally.truth_image.end(), truths.start[image + 1] - truths.start[image], tally.image_id[image]);
    }
    for (const int32_t label : truths.label) tally.truth_label.push_back(tally.label_id[label]);
    tally.truth_state.assign(truths.state.begin(), truths.state.end());
    if (tally.pairs != nullptr) {
        for (size_t g = 0; g < truths.row.size(); ++g) tally.pairs->counts[truths.row[g]] = truths.state[g] & 1;
    }
}

#define BOXSCORE_MATCH(Box, Score, State)                                                                             \
    template void match(const DetectionColumns<Box, Score>&, const TruthColumns&, size_t, size_t, const Rules&,       \
                        const Run&, TallyRows<Score, State>&);
BOXSCORE_MATCH(float, float, uint8_t)
BOXSCORE_MATCH(float, float, uint64_t)
BOXSCORE_MATCH(float, double, uint8_t)
BOXSCORE_MATCH(float, double, uint64_t)
BOXSCORE_MATCH(double, float, uint8_t)
BOXSCORE_MATCH(double, float, uint64_t)
BOXSCORE_MATCH(double, double, uint8_t)
BOXSCORE_MATCH(double, double, uint64_t)

}  // namespace boxscore
