#include "match.h"

#include <algorithm>
#include <cmath>

namespace boxscore {
namespace {

struct Box4 {
    double left, top, right, bottom, area;
};

// The order of operations is that of the references, so that every bit is theirs.
template <class Number>
inline Box4 measure(const Number* box, BoxFormat format, bool is_inclusive) {
    const double a = box[0], b = box[1], c = box[2], d = box[3];
    if (!is_inclusive) {  // as in COCO: xywh decides, so a far corner is left + width even where it was given
        const double width = format == BoxFormat::xyxy ? c - a : c, height = format == BoxFormat::xyxy ? d - b : d;
        const double left = format == BoxFormat::cxcywh ? a - width / 2 : a;
        const double top = format == BoxFormat::cxcywh ? b - height / 2 : b;
        return {left, top, left + width, top + height, width * height};
    }
    Box4 out{a, b, c, d, 0};
    if (format == BoxFormat::xywh) out = {a, b, a + c, b + d, 0};
    if (format == BoxFormat::cxcywh) out = {a - c / 2, b - d / 2, a + c / 2, b + d / 2, 0};
    out.area = (out.right - out.left + 1) * (out.bottom - out.top + 1);
    return out;
}

// The truths, image by image and in each class by class, with what matching needs to know of them.
struct Truths {
    std::vector<uint32_t> start;  // of each image
    std::vector<int32_t> label;
    std::vector<double> left, top, right, bottom, area;
    std::vector<uint8_t> is_crowd;
    std::vector<uint64_t> is_regular;  // by cell, num_words a truth

    Truths(const TruthColumns& columns, size_t num_images, size_t num_classes, const Rules& rules,
           std::vector<int64_t>& num_truths) {
        const size_t size = columns.size, num_words = rules.num_words();
        const size_t num_areas = rules.num_areas(), num_thresholds = rules.num_thresholds();
        const Groups by_label = group(columns.label, size, num_classes);
        std::vector<int32_t> image(size);
        for (size_t i = 0; i < size; ++i) image[i] = columns.image[by_label.at(static_cast<uint32_t>(i))];
        Groups by_image = group(image.data(), size, num_images);
        start = std::move(by_image.start);
        label.resize(size);
        for (auto* column : {&left, &top, &right, &bottom, &area}) column->resize(size);
        is_crowd.resize(size);
        is_regular.assign(size * num_words, 0);
        num_truths.assign(num_classes * num_areas, 0);
        for (size_t g = 0; g < size; ++g) {
            const uint32_t position = by_image.row.empty() ? static_cast<uint32_t>(g) : by_image.row[g];
            const uint32_t row = by_label.at(position);
            const Box4 box = measure(columns.box + size_t{row} * 4, columns.box_format, rules.is_inclusive);
            const bool is_ignored = columns.ignore != nullptr && columns.ignore[row] != 0;
            const double size_of = columns.area == nullptr ? box.area : columns.area[row];
            label[g] = columns.label[row];
            left[g] = box.left, top[g] = box.top, right[g] = box.right, bottom[g] = box.bottom, area[g] = box.area;
            is_crowd[g] = is_ignored && rules.is_crowd;
            for (size_t a = 0; a < num_areas; ++a) {
                if (is_ignored || size_of < rules.area_low[a] || size_of > rules.area_high[a]) continue;
                ++num_truths[label[g] * num_areas + a];
                for (size_t cell = a * num_thresholds; cell < (a + 1) * num_thresholds; ++cell) {
                    is_regular[g * num_words + cell / kBitsPerWord] |= uint64_t{1} << cell % kBitsPerWord;
                }
            }
        }
    }
};

// Truths of an image with which one detection takes long enough to ask whether to go on.
constexpr uint32_t kMany = 1000;

// How many rows ahead memory is asked for.
constexpr size_t kAhead = 24;

struct Candidate {
    double iou;
    uint32_t truth;
    uint32_t num_reached;
};

template <class Score>
struct Entry {
    Score score;
    uint32_t place;  // in its image
};

// A thread's own memory; sized once, cleaned up after each image.
template <class Score>
struct Scratch {
    std::vector<uint32_t> count, cursor;           // by class
    std::vector<uint32_t> first_truth, end_truth;  // by class
    std::vector<uint64_t> is_touched;              // classes with detections in this image, in bits
    std::vector<int32_t> touched;                  // the same, ascending
    std::vector<Box4> boxes;                       // of this image
    std::vector<Entry<Score>> entries;             // of this image, class by class
    std::vector<uint64_t> is_free;  // by truth of this image and cell
    std::vector<Candidate> candidates;
    std::vector<uint64_t> is_true, is_counted;  // of one detection

    explicit Scratch(size_t num_classes, size_t num_words)
        : count(num_classes), cursor(num_classes), first_truth(num_classes), end_truth(num_classes),
          is_touched(num_classes / kBitsPerWord + 1), is_true(num_words), is_counted(num_words) {}
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
            const Rules& rules, TallyRows<Score, State>& tally)
        : detections_(detections), truths_(truths), by_image_(by_image), rules_(rules), tally_(tally),
          num_words_(rules.num_words()), num_areas_(rules.num_areas()), num_thresholds_(rules.num_thresholds()),
          extent_(rules.is_inclusive ? 1.0 : 0.0), is_reached_((num_thresholds_ + 1) * num_words_),
          in_area_(num_areas_ * num_words_) {
        for (size_t cell = 0; cell < rules.num_cells(); ++cell) {
            const uint64_t bit = uint64_t{1} << cell % kBitsPerWord;
            const size_t word = cell / kBitsPerWord;
            for (size_t num = cell % num_thresholds_ + 1; num <= num_thresholds_; ++num) {
                is_reached_[num * num_words_ + word] |= bit;
            }
            in_area_[cell / num_thresholds_ * num_words_ + word] |= bit;
        }
        // A pair below this can't reach the lowest threshold, however the division rounds.
        surely_below_ = rules.cutoffs[0] * (1 - 1e-9);
    }

    void match_image(size_t image, Scratch<Score>& scratch, Chunk& chunk, const Run& run) const {
        const uint32_t begin = by_image_.start[image], end = by_image_.start[image + 1];
        if (begin == end) return;
        group_by_class(begin, end, scratch);
        const uint32_t first_truth = truths_.start[image], end_truth = truths_.start[image + 1];
        for (uint32_t g = first_truth; g < end_truth; ++g) {
            const int32_t label = truths_.label[g];
            if (scratch.end_truth[label] == 0) scratch.first_truth[label] = g;
            scratch.end_truth[label] = g + 1;
        }
        scratch.is_free.assign((end_truth - first_truth) * num_words_, ~uint64_t{0});

        size_t position = 0;
        for (const int32_t label : scratch.touched) {
            const size_t num = scratch.count[label];
            Entry<Score>* entries = scratch.entries.data() + position;
            position += num;
            sort_by_score(entries, num);
            const size_t num_kept = std::min<size_t>(num, rules_.limits.back());
            const size_t first_out = chunk.first_row + chunk.num_rows;
            chunk.num_rows += num_kept;
            std::fill_n(tally_.image + first_out, num_kept, static_cast<int32_t>(image));
            std::fill_n(tally_.label + first_out, num_kept, label);
            for (size_t rank = 0; rank < num_kept; ++rank) tally_.score[first_out + rank] = entries[rank].score;
            uint8_t* const tiers = tally_.tier + first_out;
            size_t tier = 0;
            for (size_t rank = 0; rank < num_kept; ++rank) {
                while (rank >= rules_.limits[tier]) ++tier;
                tiers[rank] = static_cast<uint8_t>(tier);
            }
            State* const states = tally_.state + first_out;
            for (size_t rank = 0; rank < num_kept; ++rank) {
                if (end_truth - first_truth > kMany) run.check();
                states[rank] = static_cast<State>(judge(scratch.boxes[entries[rank].place], label, first_truth, scratch, chunk));
            }
            scratch.count[label] = 0;
        }
        scratch.touched.clear();
        for (uint32_t g = first_truth; g < end_truth; ++g) scratch.end_truth[truths_.label[g]] = 0;
    }

private:
    void group_by_class(uint32_t begin, uint32_t end, Scratch<Score>& scratch) const {
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
            scratch.entries[scratch.cursor[detections_.label[row]]++] = {detections_.score[row], i - begin};
        }
    }

    // Rows of one image may be far apart: ask for those to come while the ones before are worked on.
    void fetch(uint32_t row) const {
        prefetch(detections_.label + row);
        prefetch(detections_.score + row);
        prefetch(detections_.box + size_t{row} * 4);
    }

    // By falling score; of equal ones the first row stays first.
    static void sort_by_score(Entry<Score>* entries, size_t num) {
        if (num > kFew) {
            std::stable_sort(entries, entries + num,
                             [](const Entry<Score>& a, const Entry<Score>& b) { return a.score > b.score; });
            return;
        }
        for (size_t i = 1; i < num; ++i) {
            const Entry<Score> moving = entries[i];
            size_t place = i;
            for (; place > 0 && moving.score > entries[place - 1].score; --place) entries[place] = entries[place - 1];
            entries[place] = moving;
        }
    }

    // The state of one detection; for a hit its words go to the chunk.
    uint64_t judge(const Box4& box, int32_t label, uint32_t first_truth, Scratch<Score>& scratch, Chunk& chunk) const {
        uint64_t state = 0;
        for (size_t a = 0; a < num_areas_; ++a) {
            const bool is_inside = rules_.area_low[a] <= box.area && box.area <= rules_.area_high[a];
            state |= uint64_t{is_inside} << (a + 1);
        }
        if (scratch.end_truth[label] == 0) return state;
        find_candidates(box, scratch.first_truth[label], scratch.end_truth[label], scratch.candidates);
        if (scratch.candidates.empty()) return state;
        if (rules_.matching == Matching::best) scratch.candidates.resize(1);
        settle(state, first_truth, scratch);
        return summarize(scratch, chunk);
    }

    void find_candidates(const Box4& box, uint32_t begin, uint32_t end, std::vector<Candidate>& candidates) const {
        candidates.clear();
        for (uint32_t g = begin; g < end; ++g) {
            const double width = std::min(box.right, truths_.right[g]) - std::max(box.left, truths_.left[g]) + extent_;
            const double height = std::min(box.bottom, truths_.bottom[g]) - std::max(box.top, truths_.top[g]) + extent_;
            double shared = 0, whole = 1;
            if (width > 0 && height > 0) {
                shared = width * height;
                // as in COCO: a crowd is as large as what is found in it
                whole = truths_.is_crowd[g] ? box.area : box.area + truths_.area[g] - shared;
            }
            if (shared < surely_below_ * whole) continue;
            const double iou = shared > 0 ? shared / whole : 0;
            uint32_t num_reached = 0;
            while (num_reached < num_thresholds_ && reaches(iou, rules_.cutoffs[num_reached])) ++num_reached;
            if (num_reached > 0) candidates.push_back({iou, g, num_reached});
        }
        // Best first; of equal ones the last in COCO, else the first.
        if (candidates.size() < 2) return;
        if (rules_.matching == Matching::next_best) std::reverse(candidates.begin(), candidates.end());
        std::stable_sort(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.iou > b.iou; });
    }

    bool reaches(double iou, double cutoff) const { return rules_.is_strict ? iou > cutoff : iou >= cutoff; }

    // The verdict of one detection in all cells, and what it takes.
    void settle(uint64_t state, uint32_t first_truth, Scratch<Score>& scratch) const {
        const bool is_next_best = rules_.matching == Matching::next_best;
        for (size_t w = 0; w < num_words_; ++w) {
            uint64_t is_wanted = ~uint64_t{0}, is_true = 0, is_false = 0;
            for (const Candidate& candidate : scratch.candidates) {
                uint64_t& is_free = scratch.is_free[(candidate.truth - first_truth) * num_words_ + w];
                uint64_t pick = is_wanted & is_reached_[candidate.num_reached * num_words_ + w] &
                                truths_.is_regular[candidate.truth * num_words_ + w];
                if (is_next_best) pick &= is_free;
                is_true |= pick & is_free;
                is_false |= pick & ~is_free;
                is_free &= ~pick;
                is_wanted &= ~pick;
            }
            uint64_t is_ignored = 0;
            for (const Candidate& candidate : scratch.candidates) {
                uint64_t& is_free = scratch.is_free[(candidate.truth - first_truth) * num_words_ + w];
                uint64_t pick = is_wanted & is_reached_[candidate.num_reached * num_words_ + w] &
                                ~truths_.is_regular[candidate.truth * num_words_ + w];
                if (is_next_best && !truths_.is_crowd[candidate.truth]) {
                    pick &= is_free;
                    is_free &= ~pick;
                }
                is_ignored |= pick;
                is_wanted &= ~pick;
            }
            uint64_t is_inside = 0;
            for (size_t a = 0; a < num_areas_; ++a) {
                if (state >> (a + 1) & 1) is_inside |= in_area_[a * num_words_ + w];
            }
            scratch.is_true[w] = is_true;
            scratch.is_counted[w] = is_true | ((is_false | is_wanted) & is_inside);
        }
    }

    // The state of a detection that has candidates. If it is the same at all thresholds and nowhere true, it is no hit after
    // all; so there is one way to write down a verdict.
    uint64_t summarize(const Scratch<Score>& scratch, Chunk& chunk) const {
        uint64_t plain = 0;
        bool is_hit = false;
        for (size_t a = 0; a < num_areas_ && !is_hit; ++a) {
            bool is_all = true, is_any = false;
            for (size_t w = 0; w < num_words_; ++w) {
                const uint64_t area = in_area_[a * num_words_ + w], counted = scratch.is_counted[w] & area;
                is_all &= counted == area;
                is_any |= counted != 0;
                is_hit |= scratch.is_true[w] != 0;
            }
            is_hit |= is_any != is_all;
            plain |= uint64_t{is_any} << (a + 1);
        }
        if (!is_hit) return plain;
        chunk.is_true.insert(chunk.is_true.end(), scratch.is_true.begin(), scratch.is_true.end());
        chunk.is_counted.insert(chunk.is_counted.end(), scratch.is_counted.begin(), scratch.is_counted.end());
        return 1;
    }

    const DetectionColumns<Box, Score>& detections_;
    const Truths& truths_;
    const Groups& by_image_;
    const Rules& rules_;
    TallyRows<Score, State>& tally_;
    const size_t num_words_, num_areas_, num_thresholds_;
    const double extent_;
    std::vector<uint64_t> is_reached_;  // cells reached by an IoU that reaches so many thresholds
    std::vector<uint64_t> in_area_;     // cells of an area range
    double surely_below_;
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
    const Truths truths(truth_columns, num_images, num_classes, rules, tally.num_truths);
    const Groups by_image = group(detections.image, detections.size, num_images);
    run.check();
    const Matcher<Box, Score, State> matcher(detections, truths, by_image, rules, tally);
    std::vector<Chunk> chunks = cut(by_image, num_images);
    for_each_task(
        chunks.size(), run, [&] { return Scratch<Score>(num_classes, rules.num_words()); },
        [&](size_t task, Scratch<Score>& scratch) {
            Chunk& chunk = chunks[task];
            for (size_t image = chunk.first_image; image < chunk.end_image; ++image) {
                matcher.match_image(image, scratch, chunk, run);
            }
        });
    close_gaps(chunks, tally);
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
