// All pairs of two sets of series with the linear static kernel, block by block: nothing of a pair is stored.
#include <nanobind/nanobind.h>

#include "address.hpp"
#include "pair_parts.hpp"
#include "scratch.hpp"
#include "sequence_levels.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

struct LinearPairs {
    PairParts parts;
    Increments of;

    double operations() const {
        return double(of.rows * of.columns) * double(PairBatch::state(parts.level) + of.channels);
    }
    PairBatch batch(const double* d) const { return {d, 1, of.rows, of.columns, lane_step, parts.level}; }
};

void forward_part(const LinearPairs& pairs, long part, double* values) {
    const Scratch<double> d(std::size_t(pairs.of.cells()));
    const PairBatch batch = pairs.batch(d.get());
    const Scratch<double> scratch(std::size_t(batch.forward_scratch() * lane_step));
    double found[largest_pair_level * lane_step];
    pairs.parts.each(part, [&](long row, long block) {
        pair_loops().products(pairs.of, row, block, d.get());
        pair_loops().forward[batch.level - least_pair_level](batch, 0, 0, found, scratch.get());
        pairs.parts.put(found, row, block, values);
    });
}

void backward_part(const LinearPairs& pairs, long part, const double* grad, double* grad_x, double* grad_y) {
    const Increments& of = pairs.of;
    const Scratch<double> d(std::size_t(of.cells())), grad_d(std::size_t(of.cells()));
    const PairBatch batch = pairs.batch(d.get());
    const Scratch<double> scratch(std::size_t(batch.backward_scratch() * lane_step));
    const long begin = pairs.parts.begin(part), rows = pairs.parts.end(part) - begin, lanes = of.of_x() * lane_step;
    const Scratch<double> of_x(std::size_t(rows * lanes + 1));
    std::fill_n(of_x.get(), rows * lanes, 0.0);
    double of_levels[largest_pair_level * lane_step];
    pairs.parts.each(part, [&](long row, long block) {
        pairs.parts.gather(grad, row, block, of_levels);
        pair_loops().products(of, row, block, d.get());
        pair_loops().backward[batch.level - least_pair_level](batch, 0, 0, of_levels, grad_d.get(), scratch.get());
        double* of_y = grad_y ? grad_y + (part * pairs.parts.blocks() + block) * of.of_y() : nullptr;
        pair_loops().pull_products(of, row, block, grad_d.get(), of_x.get() + (row - begin) * lanes, of_y);
    });
    sum_lanes(of_x.get(), rows * of.of_x(), grad_x + begin * of.of_x());
}

LinearPairs pairs_of(std::uintptr_t x, std::uintptr_t y, long series, long rows, long others, long columns, long channels,
                     int level, bool same, long parts) {
    return {{series, others, parts, level, same}, {at<const double>(x), at<const double>(y), rows, columns, channels}};
}

void forward(std::uintptr_t x, std::uintptr_t y, long series, long rows, long others, long columns, long channels,
             int level, bool same, long parts, std::uintptr_t values, int threads) {
    const nb::gil_scoped_release unlocked;
    const LinearPairs pairs = pairs_of(x, y, series, rows, others, columns, channels, level, same, parts);
    pairs.parts.share_out(threads, pairs.operations(),
                          [&](long part) { forward_part(pairs, part, at<double>(values)); });
}

// Gradients in x, and in y where there is an address: zeros (parts, blocks, columns, channels, lanes) to be added to.
void backward(std::uintptr_t x, std::uintptr_t y, long series, long rows, long others, long columns, long channels,
              int level, bool same, long parts, std::uintptr_t grad, std::uintptr_t grad_x, std::uintptr_t grad_y,
              int threads) {
    const nb::gil_scoped_release unlocked;
    const LinearPairs pairs = pairs_of(x, y, series, rows, others, columns, channels, level, same, parts);
    pairs.parts.share_out(threads, pairs.operations(), [&](long part) {
        backward_part(pairs, part, at<const double>(grad), at<double>(grad_x), at<double>(grad_y));
    });
}

}  // namespace

void bind_linear_pairs(nb::module_& module) {
    module.def("linear_pair_levels", &forward);
    module.def("linear_pair_levels_reverse", &backward);
}

}  // namespace siggpde
