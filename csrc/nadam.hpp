// One step of Nadam for lower triangular matrices, with the gradient of a Gaussian's KL divergence added on the way.
#pragma once

namespace siggpde {

// What a step multiplies by; the same for every entry.
//
//     first  += of_first_moment (g - first)
//     second  = keep_second second + of_second_moment g^2
//     value  -= (of_gradient g + of_first first) / (sqrt(second * correction) + eps)
template <class T>
struct NadamRates {
    T of_first_moment, keep_second, of_second_moment, of_gradient, of_first, correction, eps;
};

// A matrix of `size` rows, each row `size` numbers after the one before; only its lower triangle is looked at. The
// gradient may be there in part: its first row is row `origin` of the matrix.
template <class T>
struct NadamMatrix {
    T* value;
    const T* gradient;
    T* first;
    T* second;
    long size;
    long origin;
};

// Rows [begin, end): g is the gradient given plus R - diag(1 / R_ii). Returns the sum of the old R_ij^2.
template <class T>
using NadamRows = double (*)(const NadamMatrix<T>& matrix, const NadamRates<T>& rates, long begin, long end);

struct NadamLoops {
    NadamRows<float> rows_float;
    NadamRows<double> rows_double;
};

}  // namespace siggpde
