// All pairs of rows x with others in blocks of lanes, shared out to threads, for functions of pairs with several levels.
//
// Rows come in `parts` that do not depend on the number of threads, so that no sum of gradients does.
#pragma once

#include <algorithm>

#include "lane_step.hpp"
#include "parallel.hpp"

namespace siggpde {

// Values and their gradients are (level, rows, others). If the others are the rows themselves, `same`, only the pairs
// (i, j) with j >= i are computed, for the levels are symmetric.
struct PairParts {
    long rows, others, parts;
    int level;
    bool same;

    long blocks() const { return (others + lane_step - 1) / lane_step; }
    long begin(long part) const { return rows * part / parts; }
    long end(long part) const { return begin(part + 1); }
    bool wanted(long row, long other) const { return other < others && (!same || other >= row); }
    long at(int m, long row, long other) const { return (m * rows + row) * others + other; }

    // Calls work(row, block) for all rows of a part with every block that is needed.
    template <class Work>
    void each(long part, const Work& work) const {
        for (long block = 0; block < blocks(); ++block) {
            const long last = same ? std::min(end(part), (block + 1) * lane_step) : end(part);
            for (long row = begin(part); row < last; ++row) work(row, block);
        }
    }

    // Calls work(part) for all parts, on at most `allowed` threads; a pair takes `operations`.
    template <class Work>
    void share_out(int allowed, double operations, const Work& work) const {
        parallel_for(useful_threads(allowed, double(rows) * double(others) * operations), parts, work);
    }

    // Puts the levels of one block, (level, lane_step), where they belong.
    void put(const double* found, long row, long block, double* values) const {
        for (long lane = 0; lane < lane_step; ++lane) {
            const long other = block * lane_step + lane;
            if (!wanted(row, other)) continue;
            for (int m = 0; m < level; ++m) {
                values[at(m, row, other)] = found[m * lane_step + lane];
                if (same) values[at(m, other, row)] = found[m * lane_step + lane];
            }
        }
    }

    // The gradients of the levels of one block: the sum over all places where a value stands.
    void gather(const double* grad, long row, long block, double* found) const {
        for (long lane = 0; lane < lane_step; ++lane) {
            const long other = block * lane_step + lane;
            const bool once = wanted(row, other), twice = once && same && other != row;
            for (int m = 0; m < level; ++m)
                found[m * lane_step + lane] =
                    (once ? grad[at(m, row, other)] : 0.0) + (twice ? grad[at(m, other, row)] : 0.0);
        }
    }
};

// Sums of `count` numbers of a block over its lanes.
inline void sum_lanes(const double* lanes, long count, double* sums) {
    for (long i = 0; i < count; ++i) {
        double sum = 0.0;
        for (long lane = 0; lane < lane_step; ++lane) sum += lanes[i * lane_step + lane];
        sums[i] = sum;
    }
}

}  // namespace siggpde
