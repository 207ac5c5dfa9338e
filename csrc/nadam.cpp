// Python's view of Nadam. Tensors come as addresses: checked, contiguous and alive, by the caller.
#include "nadam.hpp"

#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"

namespace nb = nanobind;

namespace siggpde {

SIGGPDE_DECLARE(NadamLoops, nadam_loops)

namespace {

// Entries to a task: enough to be worth a thread, few enough to share out a small triangle.
constexpr long task_entries = 1 << 14;

template <class T>
NadamRows<T> loop() {
    const NadamLoops* loops = &baseline::nadam_loops;
#if defined(SIGGPDE_X86)
    if (best_isa() == Isa::avx2) loops = &avx2::nadam_loops;
    if (best_isa() == Isa::avx512) loops = &avx512::nadam_loops;
#endif
    if constexpr (std::is_same_v<T, double>)
        return loops->rows_double;
    else
        return loops->rows_float;
}

// First rows of the tasks, and the end. The threads have no say in it, nor in the order of any sum.
std::vector<long> cuts(long begin, long end) {
    std::vector<long> rows{begin};
    long entries = 0;
    for (long i = begin; i < end; ++i)
        if ((entries += i + 1) >= task_entries || i + 1 == end) {
            rows.push_back(i + 1);
            entries = 0;
        }
    return rows;
}

// One step of rows [begin, end) of a matrix, for which there is a gradient; returns their sums of R_ij^2 and of
// log |R_ii| before it.
template <class T>
nb::object step(std::uintptr_t value, std::uintptr_t gradient, std::uintptr_t first, std::uintptr_t second, long size,
                long begin, long end, double beta1, double beta2, double of_gradient, double of_first, double correction,
                double eps, int threads) {
    const NadamRates<T> rates{T(1 - beta1), T(beta2), T(1 - beta2), T(of_gradient), T(of_first), T(1 / correction),
                              T(eps)};
    double squares = 0, logs = 0;
    {
        nb::gil_scoped_release unlocked;
        const NadamRows<T> rows = loop<T>();
        const NadamMatrix<T> matrix{reinterpret_cast<T*>(value), reinterpret_cast<const T*>(gradient),
                                    reinterpret_cast<T*>(first), reinterpret_cast<T*>(second), size, begin};
        const std::vector<long> cut = cuts(begin, end);
        const long tasks = long(cut.size()) - 1;
        std::vector<double> totals(2 * tasks);
        const double operations = 4.0 * double(end - begin) * double(end + begin);
        parallel_for(useful_threads(threads, operations), tasks, [&](long task) {
            double logarithms = 0;
            for (long i = cut[task]; i < cut[task + 1]; ++i)
                logarithms += std::log(std::abs(double(matrix.value[i * (size + 1)])));
            totals[2 * task] = rows(matrix, rates, cut[task], cut[task + 1]);
            totals[2 * task + 1] = logarithms;
        });
        for (long task = 0; task < tasks; ++task) {
            squares += totals[2 * task];
            logs += totals[2 * task + 1];
        }
    }
    return nb::make_tuple(squares, logs);
}

}  // namespace

void bind_nadam(nb::module_& module) {
    module.def("nadam_lower_f64", &step<double>);
    module.def("nadam_lower_f32", &step<float>);
}

}  // namespace siggpde
