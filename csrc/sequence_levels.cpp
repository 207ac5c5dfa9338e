// Python's view of the levels of pairs of series. Tensors come as addresses: checked, contiguous and alive.
#include "sequence_levels.hpp"

#include <nanobind/nanobind.h>

#include "address.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace baseline {
extern const PairLoops pair_loops;
}
#if defined(SIGGPDE_X86)
namespace avx2 {
extern const PairLoops pair_loops;
}
namespace avx512 {
extern const PairLoops pair_loops;
}
#endif

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

void forward(std::uintptr_t d, long groups, long rows, long columns, long pairs, int level,
             std::uintptr_t values, int threads) {
    const nb::gil_scoped_release unlocked;
    const PairBatch batch{at<const double>(d), groups, rows, columns, pairs, level};
    over_blocks(batch, batch.forward_scratch(), threads, [&](long group, long first, double* scratch) {
        pair_loops().forward[level - least_pair_level](batch, group, first, at<double>(values), scratch);
    });
}

void backward(std::uintptr_t d, long groups, long rows, long columns, long pairs, int level,
              std::uintptr_t grad, std::uintptr_t grad_d, int threads) {
    const nb::gil_scoped_release unlocked;
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

void bind_sequence_levels(nb::module_& module) {
    module.attr("least_pair_level") = least_pair_level;
    module.attr("largest_pair_level") = largest_pair_level;
    module.def("sequence_levels", &forward);
    module.def("sequence_levels_reverse", &backward);
    module.def("sequence_levels_reverse_bytes", &reverse_bytes);
}

}  // namespace siggpde
