// Sums of products of rows, exact product by product.
#pragma once

#include "isa.hpp"

namespace siggpde {

// out[i * out_row + j] += scale * sum over c of x[i * x_row + c] y[j * y_row + c].
//
// Numbers of 16 bits have at most 14 and a sign: sums of their products are exact, whatever their order. Products of two
// numbers of single precision are exact in double precision; they are added in eight sums, c modulo 8, whatever the
// instruction set and the other rows.
template <class T>
struct ProductLoops {
    void (*add)(const T* x, long x_row, long n, const T* y, long y_row, long m, long columns, double scale, double* out,
                long out_row);
};

SIGGPDE_DECLARE(ProductLoops<short>, products_short)
SIGGPDE_DECLARE(ProductLoops<float>, products_float)

}  // namespace siggpde
