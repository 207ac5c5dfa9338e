// Kernels of finite features as Python sees them, and products of matrices with more digits than their numbers.
#include "products.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arguments.hpp"
#include "parallel.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

template <class T>
const ProductLoops<T>& loops();

template <>
const ProductLoops<short>& loops<short>() { SIGGPDE_PICK(products_short) }

template <>
const ProductLoops<float>& loops<float>() { SIGGPDE_PICK(products_float) }

constexpr long rows_together = 64;  // of x and of y, which stay in the cache

// A part of the features of m landmarks: address, row, columns, and the number of its kernel.
struct Part {
    long long y, y_row, columns, kernel;
};

// Adds the products of n rows of x, whose columns are those of the parts first .. first + units.size(), with the landmarks to
// the matrices (n, m) of their kernels in `out`, and with themselves to the rows (n) of `norms`. `units` are those of x and
// then of the landmarks.
void add_features(std::uintptr_t parts, long first, const std::vector<double>& x_units, const std::vector<double>& y_units,
                  std::uintptr_t x, long x_row, long n, long m, std::uintptr_t out, std::uintptr_t norms, int threads) {
    const WithoutGil unlocked;
    const Part* const part = at<const Part>(parts) + first;
    const long count = long(x_units.size()), tasks = (m + rows_together - 1) / rows_together;
    double columns = 0;
    for (long k = 0; k < count; ++k) columns += double(part[k].columns);
    parallel_for(useful_threads(threads, columns * double(n) * double(m) / 16), tasks, [&](long task) {
        const long begin = task * rows_together, some = std::min(rows_together, m - begin);
        const short* of_part = at<const short>(x);
        for (long k = 0; k < count; of_part += part[k].columns, ++k) {
            check_interrupt();
            const auto [y, y_row, width, kernel] = part[k];
            const double scale = x_units[k] * y_units[k], own = x_units[k] * x_units[k];
            for (long i = 0; i < n && task == 0; ++i)
                loops<short>().add(of_part + i * x_row, 0, 1, of_part + i * x_row, 0, 1, width, own,
                                   at<double>(norms) + kernel * n + i, 1);
            for (long i = 0; i < n; i += rows_together)
                loops<short>().add(of_part + i * x_row, x_row, std::min(rows_together, n - i),
                                   at<const short>(y) + begin * y_row, y_row, some, width, scale,
                                   at<double>(out) + (kernel * n + i) * m + begin, m);
        }
    });
}

// out (n, m) += x (n, columns) y (m, columns)^T.
void add_product(std::uintptr_t x, std::uintptr_t y, long n, long m, long columns, std::uintptr_t out, int threads) {
    const WithoutGil unlocked;
    const long tasks = (m + rows_together - 1) / rows_together;
    parallel_for(useful_threads(threads, double(columns) * double(n) * double(m) / 4), tasks, [&](long task) {
        const long begin = task * rows_together;
        loops<float>().add(at<const float>(x), columns, n, at<const float>(y) + begin * columns, columns,
                           std::min(rows_together, m - begin), columns, 1, at<double>(out) + begin, m);
    });
}

}  // namespace

void bind_products(nb::module_& module) {
    module.def("add_features", &add_features);
    module.def("add_product", &add_product);
}

}  // namespace siggpde
