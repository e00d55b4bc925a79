#include "curves/ordered_hits.h"

#include <algorithm>
#include <numeric>

#include "curves/curve_rows.h"
#include "curves/hit_sorter.h"

namespace boxscore {

template <class Score, class State>
OrderedHits order_hits(const std::vector<TallyColumns<Score, State>>& parts, const Rules& rules, const Run& run) {
    const TallyColumns<Score, State>& tally = parts.front();
    const Rows<State> rows = group_by_class(parts, rules, run);
    run.check();
    std::vector<uint32_t> num_hits;
    std::vector<int64_t> num_detections;
    for (size_t k = 0; k < tally.num_classes; ++k) {
        num_hits.push_back(static_cast<uint32_t>(rows.num_hits(k)));
        num_detections.push_back(static_cast<int64_t>(rows.num_hits(k) + rows.num_others(k)));
    }
    const size_t most_hits = num_hits.empty() ? 0 : *std::max_element(num_hits.begin(), num_hits.end());
    OrderedHits ordered(num_hits, num_detections, rules);
    const std::vector<uint32_t> classes = by_falling(num_detections);
    for_each_task(
        classes.size(), run, [&] { return HitSorter<State>(rules, most_hits); },
        [&](size_t task, HitSorter<State>& sorter) { sorter.sort(classes[task], rows, tally.is_true, tally.is_counted, ordered); });
    return ordered;
}

template OrderedHits order_hits(const std::vector<TallyColumns<float, uint8_t>>&, const Rules&, const Run&);
template OrderedHits order_hits(const std::vector<TallyColumns<float, uint64_t>>&, const Rules&, const Run&);
template OrderedHits order_hits(const std::vector<TallyColumns<double, uint8_t>>&, const Rules&, const Run&);
template OrderedHits order_hits(const std::vector<TallyColumns<double, uint64_t>>&, const Rules&, const Run&);

}  // namespace boxscore
