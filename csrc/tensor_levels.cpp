// Python's view of the recursion of inducing tensors. Tensors come as addresses: checked, contiguous and alive.
#include "tensor_levels.hpp"

#include <nanobind/nanobind.h>

#include "address.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace baseline {
extern const TensorLoops tensor_loops;
}
#if defined(SIGGPDE_X86)
namespace avx2 {
extern const TensorLoops tensor_loops;
}
namespace avx512 {
extern const TensorLoops tensor_loops;
}
#endif

namespace {

const TensorLoops& loops() { SIGGPDE_PICK(tensor_loops) }

int threads_for(const TensorBatch& batch, int allowed) {
    return useful_threads(allowed, double(batch.series) * double(batch.times) * batch.slots() * double(batch.rows));
}

void forward(std::uintptr_t g, long series, long times, long rows, int level, int order, std::uintptr_t values,
             int threads) {
    const nb::gil_scoped_release unlocked;
    const TensorBatch batch{at<const double>(g), series, times, rows, level, order};
    parallel_for(threads_for(batch, threads), series,
                 [&](long one) { loops().forward(batch, one, at<double>(values)); });
}

void backward(std::uintptr_t g, long series, long times, long rows, int level, int order, std::uintptr_t grad,
              std::uintptr_t grad_g, int threads) {
    const nb::gil_scoped_release unlocked;
    const TensorBatch batch{at<const double>(g), series, times, rows, level, order};
    parallel_for(threads_for(batch, threads), series, [&](long one) {
        const Scratch<double> scratch(std::size_t(times) * largest_level * lane_step);
        loops().backward(batch, one, at<const double>(grad), at<double>(grad_g), scratch.get());
    });
}

}  // namespace

void bind_tensor_levels(nb::module_& module) {
    module.attr("tensor_largest_level") = largest_level;
    module.def("tensor_levels", &forward);
    module.def("tensor_levels_reverse", &backward);
}

}  // namespace siggpde
