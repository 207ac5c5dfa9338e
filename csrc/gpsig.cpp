// The truncated kernels of GPSig: inducing tensors against series (GPSig-IT), and pairs of series (GPSig-IS).
#include "gpsig.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>

#include "arguments.hpp"
#include "isa.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

// All pairs of rows x with others in blocks of lanes, shared out to threads, for functions of pairs with several levels.
// Rows come in `parts` that do not depend on the number of threads, so that no sum of gradients does.
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

// Python's view of the recursion of inducing tensors. Tensors come as addresses: checked, contiguous and alive.

SIGGPDE_DECLARE(TensorLoops, tensor_loops)

namespace {

const TensorLoops& loops() { SIGGPDE_PICK(tensor_loops) }

int threads_for(const TensorBatch& batch, int allowed) {
    return useful_threads(allowed, double(batch.series) * double(batch.times) * batch.slots() * double(batch.rows));
}

void tensor_levels_forward(std::uintptr_t g, long series, long times, long rows, int level, int order, std::uintptr_t values,
             int threads) {
    const WithoutGil unlocked;
    const TensorBatch batch{at<const double>(g), series, times, rows, level, order};
    parallel_for(threads_for(batch, threads), series,
                 [&](long one) { loops().forward(batch, one, at<double>(values)); });
}

void tensor_levels_backward(std::uintptr_t g, long series, long times, long rows, int level, int order, std::uintptr_t grad,
              std::uintptr_t grad_g, int threads) {
    const WithoutGil unlocked;
    const TensorBatch batch{at<const double>(g), series, times, rows, level, order};
    parallel_for(threads_for(batch, threads), series, [&](long one) {
        const Scratch<double> scratch(std::size_t(times) * largest_level * lane_step);
        loops().backward(batch, one, at<const double>(grad), at<double>(grad_g), scratch.get());
    });
}

}  // namespace

// Python's view of the levels of pairs of series. Tensors come as addresses: checked, contiguous and alive.

SIGGPDE_DECLARE(PairLoops, pair_loops)

const PairLoops& pair_loops() { SIGGPDE_PICK(pair_loops) }

namespace {

// Calls work(group, first, scratch) for all blocks of pairs.
template <class Work>
void over_blocks(const PairBatch& batch, long scratch_size, int allowed, const Work& work) {
    const long blocks = batch.pairs / lane_step;
    const double cells = double(batch.groups) * double(batch.pairs) * double(batch.rows) * double(batch.columns);
    parallel_for(useful_threads(allowed, cells * PairBatch::state(batch.level)), batch.groups * blocks, [&](long task) {
        const Scratch<double> scratch(std::size_t(scratch_size) * lane_step);
        work(task / blocks, task % blocks * lane_step, scratch.get());
    });
}

void pair_levels_forward(std::uintptr_t d, long groups, long rows, long columns, long pairs, int level,
             std::uintptr_t values, int threads) {
    const WithoutGil unlocked;
    const PairBatch batch{at<const double>(d), groups, rows, columns, pairs, level};
    over_blocks(batch, batch.forward_scratch(), threads, [&](long group, long first, double* scratch) {
        pair_loops().forward[level - least_pair_level](batch, group, first, at<double>(values), scratch);
    });
}

void pair_levels_backward(std::uintptr_t d, long groups, long rows, long columns, long pairs, int level,
              std::uintptr_t grad, std::uintptr_t grad_d, int threads) {
    const WithoutGil unlocked;
    const PairBatch batch{at<const double>(d), groups, rows, columns, pairs, level};
    over_blocks(batch, batch.backward_scratch(), threads, [&](long group, long first, double* scratch) {
        pair_loops().backward[level - least_pair_level](batch, group, first, at<const double>(grad), at<double>(grad_d),
                                                        scratch);
    });
}

// Bytes of working memory that the reverse of one block takes.
long reverse_bytes(long rows, long columns, int level) {
    const PairBatch batch{nullptr, 1, rows, columns, lane_step, level};
    return batch.backward_scratch() * lane_step * long(sizeof(double));
}

}  // namespace

// All pairs of two sets of series with the linear static kernel, block by block: nothing of a pair is stored.

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
        check_interrupt();
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
        check_interrupt();
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

void linear_levels_forward(std::uintptr_t x, std::uintptr_t y, long series, long rows, long others, long columns, long channels,
             int level, bool same, long parts, std::uintptr_t values, int threads) {
    const WithoutGil unlocked;
    const LinearPairs pairs = pairs_of(x, y, series, rows, others, columns, channels, level, same, parts);
    pairs.parts.share_out(threads, pairs.operations(),
                          [&](long part) { forward_part(pairs, part, at<double>(values)); });
}

// Gradients in x, and in y where there is an address: zeros (parts, blocks, columns, channels, lanes) to be added to.
void linear_levels_backward(std::uintptr_t x, std::uintptr_t y, long series, long rows, long others, long columns, long channels,
              int level, bool same, long parts, std::uintptr_t grad, std::uintptr_t grad_x, std::uintptr_t grad_y,
              int threads) {
    const WithoutGil unlocked;
    const LinearPairs pairs = pairs_of(x, y, series, rows, others, columns, channels, level, same, parts);
    pairs.parts.share_out(threads, pairs.operations(), [&](long part) {
        backward_part(pairs, part, at<const double>(grad), at<double>(grad_x), at<double>(grad_y));
    });
}

}  // namespace

void bind_gpsig(nb::module_& module) {
    module.attr("tensor_largest_level") = largest_level;
    module.def("tensor_levels", &tensor_levels_forward);
    module.def("tensor_levels_reverse", &tensor_levels_backward);
    module.attr("least_pair_level") = least_pair_level;
    module.attr("largest_pair_level") = largest_pair_level;
    module.def("sequence_levels", &pair_levels_forward);
    module.def("sequence_levels_reverse", &pair_levels_backward);
    module.def("sequence_levels_reverse_bytes", &reverse_bytes);
    module.def("linear_pair_levels", &linear_levels_forward);
    module.def("linear_pair_levels_reverse", &linear_levels_backward);
}

}  // namespace siggpde
