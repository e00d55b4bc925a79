// Workspace of the curve builder for one class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/bit_counter.h"

namespace boxscore {

// One curve while it is built.
struct CurveState {
    uint32_t num_true = 0;     // so far
    uint32_t num_counted = 0;  // among hits that count at some thresholds of their area range only
};

// True positives that wait to be added to their curves, since batched divisions are faster than single ones.
struct WaitingPoints {
    static constexpr size_t kMany = 256;
    std::vector<int32_t> num_true;
    std::vector<double> num_counted, precision;
    std::vector<uint32_t> to;  // the precision that each may raise
    size_t size = 0;

    // `most`: the number that one hit may add.
    void resize(size_t most) {
        num_true.resize(kMany + most);
        num_counted.resize(kMany + most);
        precision.resize(kMany + most);
        to.resize(kMany + most);
    }
};

// A thread's own memory for the curves of one class. L: the limits whose curves are built.
struct CurveWorkspace {
    bool has_truths = false;            // in any area range
    std::vector<int32_t> num_uniform;   // counted so far at all thresholds of an area range: [L, lanes of area ranges]
    std::vector<CurveState> curves;     // [A, T, L]
    std::vector<BitCounter> hits_counted, hits_true;  // in all cells, by tier: [M, words]
    std::vector<std::vector<uint32_t>> num_reached;  // recall points reached by each number of true positives, from 0 on: [A]
    std::vector<std::vector<uint32_t>> passed_by;    // numbers of recall points between those that it reaches, ascending: [A]
    std::vector<size_t> num_used;       // recall points that any curve reaches: [T]
    std::vector<double> precision;      // [T, 1 + R, A, L]; what comes first is what no recall point is reached by
    std::vector<double> scores;         // likewise, or empty
    WaitingPoints waiting;
    std::vector<double> means;          // over recall points: [A, L]
    std::vector<double> trapezoids;     // sums: [A, T, L]
    std::vector<std::vector<double>> every_precision;  // at each true positive, for the envelope: [A, T, L]
    std::vector<std::vector<double>> every_counted;    // up to each true positive, for its interpolation: [A, T, L]
};

}  // namespace boxscore
