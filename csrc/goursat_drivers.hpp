// The two calls of the signature kernel on whole batches.
#pragma once

#include "series_batch.hpp"

namespace siggpde {

template <class T>
struct DiagonalRequest {
    PlanRequest plan;
    bool log = false;
    T* value = nullptr;     // [series]
    T* gradient = nullptr;  // null; [series][point][channel]; or [series][channel] if `scales`
    bool scales = false;    // gradient in the logarithms of the channel scales
    T* parameters = nullptr;  // [series][2], with a gradient of lifted paths: in the logarithms of bandwidth and amplitude
    double* inflation = nullptr;  // [series], or null: how much larger the error can be than planned
    int threads = 1;
};

template <class T>
Failure solve_diagonal(const SeriesBatch<T>& batch, const DiagonalRequest<T>& request);

template <class T>
struct GramRequest {
    PlanRequest plan;
    const double *log_norm_x = nullptr, *log_norm_y = nullptr;  // [x], [y], or null: k is divided by both exponentials
    T* value = nullptr;          // [x][y]; not written if a gradient is wanted
    const T* weight = nullptr;   // [x][y]: sensitivity of every value
    T* gradient_x = nullptr;     // [x][point][channel]
    T* gradient_y = nullptr;     // [y][point][channel]; null if y is x
    double* parameters = nullptr;  // [2], with a gradient of lifted paths: in the logarithms of bandwidth and amplitude
    int threads = 1;
};

// `y` null: the symmetric Gram matrix of x.
template <class T>
Failure solve_gram(const SeriesBatch<T>& x, const SeriesBatch<T>* y, const GramRequest<T>& request);

}  // namespace siggpde
