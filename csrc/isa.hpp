// Which instruction sets are compiled in, and which one this CPU gets.
#pragma once

namespace siggpde {

enum class Isa { baseline = 0, avx2 = 1, avx512 = 2 };

// The widest instruction set that is both compiled in and supported by this CPU. The environment variable
// SIGGPDE_ISA (baseline, avx2, avx512) lowers it, for tests; it is read at the first call.
Isa best_isa();

const char* isa_name(Isa isa);

}  // namespace siggpde
