// The recursion of inducing tensors, compiled once for each instruction set: one lane per tensor.
#include "gpsig.hpp"
#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

namespace {

using V = vec<double>;
constexpr int W = width<double>;

// The nested sums h[q] of A_k = g_k h[1], from q = depth down to 1; indices from 1.
inline void nest(int k, int depth, const V* g, const V* sums, V* h) {
    h[depth] = sums[k - depth];
    for (int q = depth - 1; q > 0; --q) h[q] = sums[k - q] + g[k - q] * h[q + 1] * (1.0 / (q + 1));
}

// One time of level m: the sums move on.
template <int fixed>
inline __attribute__((always_inline)) void step(int level, int order, const V* g, V* sums) {
    const int m = fixed ? fixed : level;
    V h[largest_level + 2];
#pragma GCC unroll 12
    for (int k = m; k > 0; --k) {
        nest(k, k < order ? k : order, g, sums, h);
        sums[k] += g[k] * h[1];
    }
}

template <int fixed>
inline __attribute__((always_inline)) void level_forward(const TensorBatch& batch, long series, long row, int level,
                                                         double* values) {
    const int m = fixed ? fixed : level;
    const long line = long(batch.slots()) * batch.rows;
    const double* at = batch.g + series * batch.times * line + row;
    V g[largest_level + 1], sums[largest_level + 1];
    sums[0] = broadcast<double>(1.0);
    for (int k = 1; k <= m; ++k) sums[k] = V{};
    for (long t = 0; t < batch.times; ++t, at += line) {
        for (int k = 1; k <= m; ++k) g[k] = load(at + batch.slot(k, m) * batch.rows);
        step<fixed>(m, batch.order, g, sums);
    }
    store(values + ((m - 1) * batch.series + series) * batch.rows + row, sums[m]);
}

template <int fixed>
inline __attribute__((always_inline)) void level_backward(const TensorBatch& batch, long series, long row, int level,
                                                          const double* grad, double* grad_g, double* scratch) {
    const int m = fixed ? fixed : level;
    const long line = long(batch.slots()) * batch.rows, begin = series * batch.times * line + row;
    V g[largest_level + 1], sums[largest_level + 1], of_sums[largest_level + 1], of_g[largest_level + 1];
    V h[largest_level + 2];
    sums[0] = broadcast<double>(1.0);
    for (int k = 1; k <= m; ++k) sums[k] = of_sums[k] = V{};
    of_sums[0] = V{};
    for (long t = 0; t < batch.times; ++t) {
        for (int k = 1; k <= m; ++k) g[k] = load(batch.g + begin + t * line + batch.slot(k, m) * batch.rows);
        for (int k = 1; k < m; ++k) store(scratch + (t * largest_level + k) * W, sums[k]);
        step<fixed>(m, batch.order, g, sums);
    }
    of_sums[m] = load(grad + ((m - 1) * batch.series + series) * batch.rows + row);
    for (long t = batch.times - 1; t >= 0; --t) {
        for (int k = 1; k <= m; ++k) {
            g[k] = load(batch.g + begin + t * line + batch.slot(k, m) * batch.rows);
            of_g[k] = V{};
        }
        for (int k = 1; k < m; ++k) sums[k] = load(scratch + (t * largest_level + k) * W);
#pragma GCC unroll 12
        for (int k = 1; k <= m; ++k) {
            const int depth = k < batch.order ? k : batch.order;
            nest(k, depth, g, sums, h);
            of_g[k] += of_sums[k] * h[1];
            V down = of_sums[k] * g[k];  // the gradient in h[q]
            for (int q = 1; q < depth; ++q) {
                of_sums[k - q] += down;
                down *= 1.0 / (q + 1);
                of_g[k - q] += down * h[q + 1];
                down *= g[k - q];
            }
            of_sums[k - depth] += down;
        }
        for (int k = 1; k <= m; ++k) store(grad_g + begin + t * line + batch.slot(k, m) * batch.rows, of_g[k]);
    }
}

void forward(const TensorBatch& batch, long series, double* values) {
    for (long row = 0; row < batch.rows; row += W)
        for (int m = 1; m <= batch.level; ++m) switch (m) {
                case 1: level_forward<1>(batch, series, row, 1, values); break;
                case 2: level_forward<2>(batch, series, row, 2, values); break;
                case 3: level_forward<3>(batch, series, row, 3, values); break;
                case 4: level_forward<4>(batch, series, row, 4, values); break;
                default: level_forward<0>(batch, series, row, m, values);
            }
}

void backward(const TensorBatch& batch, long series, const double* grad, double* grad_g, double* scratch) {
    for (long row = 0; row < batch.rows; row += W)
        for (int m = 1; m <= batch.level; ++m) switch (m) {
                case 1: level_backward<1>(batch, series, row, 1, grad, grad_g, scratch); break;
                case 2: level_backward<2>(batch, series, row, 2, grad, grad_g, scratch); break;
                case 3: level_backward<3>(batch, series, row, 3, grad, grad_g, scratch); break;
                case 4: level_backward<4>(batch, series, row, 4, grad, grad_g, scratch); break;
                default: level_backward<0>(batch, series, row, m, grad, grad_g, scratch);
            }
}

}  // namespace

extern const TensorLoops tensor_loops;
const TensorLoops tensor_loops = {forward, backward};

}  // namespace siggpde::SIGGPDE_ISA
