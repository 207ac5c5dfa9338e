// The Python module siggpde._core: plain buffers in, plain buffers out, no torch header.
//
// Signature: word_tree.* (words cut into tiles), chen_step.hpp and chen_adjoint.hpp (one step and its reverse),
//     signature_layout.hpp (series to lanes), signature_isa.cpp (forward and backward), signature_bindings.cpp.
// Logarithm of signatures: logsignature_loops.hpp, logsignature_isa.cpp, logsignature_bindings.cpp.
// Signature kernel: cell_tables.hpp and cell.hpp (one cell), diagonal_grid.hpp, diagonal_reversal.hpp and cross_grid.hpp
//     (all cells of k(X, X) and of k(X, y)), scaled_cells.hpp (numbers out of range), checkpoints.hpp (the reverse sweep),
//     goursat_isa.cpp; coefficients: channel_products.hpp, or for static kernels (static_kernel.hpp) lifted_rows.hpp,
//     radial.hpp and lane_math.hpp; plan.* (degree and splitting of a series), batch_plans.hpp, lane_blocks.hpp,
//     packed_block.hpp, series_batch.hpp (batches);
//     goursat_diagonal.cpp and goursat_gram.cpp (whole batches), goursat_bindings.cpp.
// Windows: window_view.hpp (a view of series), window_series.hpp (lifted, smoothed series in lanes), window_signature.hpp
//     (signatures of windows), window_pool.hpp (their statistics), window_isa.cpp, window_bindings.cpp;
//     quantiles.cpp (of their words).
// Optimiser: nadam.*, nadam_isa.cpp.
// Baselines: inducing tensors of GPSig-IT, tensor_levels.*, tensor_levels_isa.cpp; pairs of series,
//     pair_sweep.hpp and pair_reversal.hpp (all cells of a pair), pair_products.hpp, sequence_levels.*,
//     sequence_levels_isa.cpp, linear_pairs.cpp; pair_parts.hpp (all pairs, for threads).
// Files named *_isa.cpp are compiled once for each instruction set, with lanes.hpp; isa.* picks one at run time.
#include <nanobind/nanobind.h>

#include "isa.hpp"
#include "lane_step.hpp"

namespace nb = nanobind;

namespace siggpde {
void bind_signature(nb::module_& module);
void bind_logsignature(nb::module_& module);
void bind_goursat(nb::module_& module);
void bind_nadam(nb::module_& module);
void bind_windows(nb::module_& module);
void bind_quantiles(nb::module_& module);
void bind_tensor_levels(nb::module_& module);
void bind_sequence_levels(nb::module_& module);
void bind_linear_pairs(nb::module_& module);
}  // namespace siggpde

NB_MODULE(_core, module) {
    module.def("isa", [] { return siggpde::isa_name(siggpde::best_isa()); }, "The instruction set picked at run time.");
    module.attr("lane_step") = siggpde::lane_step;
    siggpde::bind_signature(module);
    siggpde::bind_logsignature(module);
    siggpde::bind_goursat(module);
    siggpde::bind_nadam(module);
    siggpde::bind_windows(module);
    siggpde::bind_quantiles(module);
    siggpde::bind_tensor_levels(module);
    siggpde::bind_sequence_levels(module);
    siggpde::bind_linear_pairs(module);
}
