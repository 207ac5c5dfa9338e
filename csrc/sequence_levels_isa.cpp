// The levels of pairs of series, compiled once for each instruction set: one lane per pair.
#include "pair_products.hpp"
#include "pair_reversal.hpp"

namespace siggpde::SIGGPDE_ISA {

namespace {

template <int n>
void forward(const PairBatch& batch, long group, long first, double* values, double* scratch) {
    for (long lane = 0; lane < lane_step; lane += W) pairs_forward<n>(batch, group, first + lane, values, scratch);
}

template <int n>
void backward(const PairBatch& batch, long group, long first, const double* grad, double* grad_d, double* scratch) {
    for (long lane = 0; lane < lane_step; lane += W)
        pairs_backward<n>(batch, group, first + lane, grad, grad_d, scratch);
}

}  // namespace

extern const PairLoops pair_loops;
const PairLoops pair_loops = {
    {forward<2>, forward<3>, forward<4>, forward<5>},
    {backward<2>, backward<3>, backward<4>, backward<5>},
    products,
    pull_products,
};

}  // namespace siggpde::SIGGPDE_ISA
