// The grids for one instruction set.
#include "cross_grid.hpp"
#include "diagonal_grid.hpp"
#include "grid_rows.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T>
constexpr GridFunctions<T> functions() {
    return {load_increments<T>,
            load_points<T>,
            store_point_gradients<T>,
            {solve_diagonal<T, 1, 2>, solve_diagonal<T, 2, 0>, solve_diagonal<T, 3, 0>, solve_diagonal<T, 4, 0>,
             solve_diagonal<T, 5, 0>, solve_diagonal<T, 6, 0>, solve_diagonal<T, 8, 0>},
            {solve_cross<T, 1, 2>, solve_cross<T, 2, 0>, solve_cross<T, 3, 0>, solve_cross<T, 4, 0>,
             solve_cross<T, 5, 0>, solve_cross<T, 6, 0>, solve_cross<T, 8, 0>}};
}

extern const GoursatLoops goursat_loops;
const GoursatLoops goursat_loops = {width<double>, width<float>, functions<double>(), functions<float>()};

}  // namespace siggpde::SIGGPDE_ISA
