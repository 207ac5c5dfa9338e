// All pairs of two sets of series with the linear static kernel, block by block: nothing of a pair is stored.
#include <nanobind/nanobind.h>

#include <algorithm>

#include "address.hpp"
#include "parallel.hpp"
#include "scratch.hpp"
#include "sequence_levels.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

// Series x are shared out in so many parts, whatever the number of threads, so that no sum depends on it.
constexpr long parts = 16;

// Values and their gradients are (level, groups, others). If the other series are x themselves, `same`, the pairs (g, j)
// with j >= g are computed, for the levels are symmetric.
struct Pairs {
    Increments of;
    long others;
    int level;
    bool same;

    bool wanted(long group, long other) const { return other < others && (!same || other >= group); }
    long at(int m, long group, long other) const { return (m * of.groups + group) * others + other; }
    PairBatch batch(const double* d) const { return {d, 1, of.rows, of.columns, pair_step, level}; }

    // Calls work(group, block) for all groups of a part with every block of others that is needed.
    template <class Work>
    void each(long part, const Work& work) const {
        const long begin = of.groups * part / parts, end = of.groups * (part + 1) / parts;
        for (long block = 0; block < of.blocks; ++block)
            for (long group = begin; group < (same ? std::min(end, (block + 1) * pair_step) : end); ++group)
                work(group, block);
    }

    int threads(int allowed) const {
        const double cells = double(of.groups) * double(of.blocks) * double(of.cells());
        return useful_threads(allowed, cells * double(PairBatch::state(level) + of.channels));
    }
};

void forward_part(const Pairs& pairs, long part, double* values) {
    const PairBatch any = pairs.batch(nullptr);
    const Scratch<double> d(std::size_t(pairs.of.cells())), scratch(std::size_t(any.forward_scratch() * pair_step));
    const PairBatch batch = pairs.batch(d.get());
    double found[largest_pair_level * pair_step];
    pairs.each(part, [&](long group, long block) {
        pair_loops().products(pairs.of, group, block, d.get());
        pair_loops().forward[pairs.level - least_pair_level](batch, 0, 0, found, scratch.get());
        for (long lane = 0; lane < pair_step; ++lane) {
            const long other = block * pair_step + lane;
            if (!pairs.wanted(group, other)) continue;
            for (int m = 0; m < pairs.level; ++m) {
                const double value = found[m * pair_step + lane];
                values[pairs.at(m, group, other)] = value;
                if (pairs.same) values[pairs.at(m, other, group)] = value;
            }
        }
    });
}

// The gradients of the levels of one block, (level, pair_step): the sum over all places where a value stands.
void gather(const Pairs& pairs, const double* grad, long group, long block, double* found) {
    for (long lane = 0; lane < pair_step; ++lane) {
        const long other = block * pair_step + lane;
        const bool wanted = pairs.wanted(group, other), twice = wanted && pairs.same && other != group;
        for (int m = 0; m < pairs.level; ++m)
            found[m * pair_step + lane] =
                (wanted ? grad[pairs.at(m, group, other)] : 0.0) + (twice ? grad[pairs.at(m, other, group)] : 0.0);
    }
}

void backward_part(const Pairs& pairs, long part, const double* grad, double* grad_x, double* grad_y) {
    const Increments& of = pairs.of;
    const PairBatch any = pairs.batch(nullptr);
    const Scratch<double> d(std::size_t(of.cells())), grad_d(std::size_t(of.cells()));
    const Scratch<double> scratch(std::size_t(any.backward_scratch() * pair_step));
    const long begin = of.groups * part / parts, end = of.groups * (part + 1) / parts, lanes = of.of_x() * pair_step;
    const Scratch<double> of_x(std::size_t(std::max(1L, (end - begin) * lanes)));
    std::fill_n(of_x.get(), (end - begin) * lanes, 0.0);
    const PairBatch batch = pairs.batch(d.get());
    double of_levels[largest_pair_level * pair_step];
    pairs.each(part, [&](long group, long block) {
        gather(pairs, grad, group, block, of_levels);
        pair_loops().products(of, group, block, d.get());
        pair_loops().backward[pairs.level - least_pair_level](batch, 0, 0, of_levels, grad_d.get(), scratch.get());
        double* of_y = grad_y ? grad_y + (part * of.blocks + block) * of.of_y() : nullptr;
        pair_loops().pull_products(of, group, block, grad_d.get(), of_x.get() + (group - begin) * lanes, of_y);
    });
    for (long at = 0; at < (end - begin) * of.of_x(); ++at) {
        double sum = 0.0;
        for (long lane = 0; lane < pair_step; ++lane) sum += of_x[at * pair_step + lane];
        grad_x[begin * of.of_x() + at] = sum;
    }
}

Pairs pairs_of(std::uintptr_t x, std::uintptr_t y, long groups, long rows, long others, long columns, long channels,
               int level, bool same) {
    const long blocks = (others + pair_step - 1) / pair_step;
    return {{at<const double>(x), at<const double>(y), groups, rows, blocks, columns, channels}, others, level, same};
}

void forward(std::uintptr_t x, std::uintptr_t y, long groups, long rows, long others, long columns, long channels,
             int level, bool same, std::uintptr_t values, int threads) {
    const nb::gil_scoped_release unlocked;
    const Pairs pairs = pairs_of(x, y, groups, rows, others, columns, channels, level, same);
    parallel_for(pairs.threads(threads), parts, [&](long part) { forward_part(pairs, part, at<double>(values)); });
}

// Gradients in x, and in y where there is an address: zeros (parts, blocks, columns, channels, pair_step) to be added to.
void backward(std::uintptr_t x, std::uintptr_t y, long groups, long rows, long others, long columns, long channels,
              int level, bool same, std::uintptr_t grad, std::uintptr_t grad_x, std::uintptr_t grad_y, int threads) {
    const nb::gil_scoped_release unlocked;
    const Pairs pairs = pairs_of(x, y, groups, rows, others, columns, channels, level, same);
    parallel_for(pairs.threads(threads), parts, [&](long part) {
        backward_part(pairs, part, at<const double>(grad), at<double>(grad_x), at<double>(grad_y));
    });
}

}  // namespace

void bind_linear_pairs(nb::module_& module) {
    module.attr("linear_pair_parts") = parts;
    module.def("linear_pair_levels", &forward);
    module.def("linear_pair_levels_reverse", &backward);
}

}  // namespace siggpde
