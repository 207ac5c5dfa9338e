// Which instruction sets are compiled in, and which one this CPU gets.
#pragma once

namespace siggpde {

enum class Isa { baseline = 0, avx2 = 1, avx512 = 2 };

// The widest instruction set that is both compiled in and supported by this CPU. The environment variable
// SIGGPDE_ISA (baseline, avx2, avx512) lowers it, for tests; it is read at the first call.
Isa best_isa();

const char* isa_name(Isa isa);

}  // namespace siggpde

// Declares `name`, which is compiled once for each instruction set, in namespace siggpde.
#if defined(SIGGPDE_X86)
#define SIGGPDE_DECLARE(type, name)                     \
    namespace baseline { extern const type name; }      \
    namespace avx2 { extern const type name; }          \
    namespace avx512 { extern const type name; }
#else
#define SIGGPDE_DECLARE(type, name) namespace baseline { extern const type name; }
#endif

// Returns `name` of the namespace of the instruction set picked at run time, from a function of namespace siggpde.
#if defined(SIGGPDE_X86)
#define SIGGPDE_PICK(name)                     \
    switch (best_isa()) {                      \
        case Isa::avx512: return avx512::name; \
        case Isa::avx2: return avx2::name;     \
        default: return baseline::name;        \
    }
#else
#define SIGGPDE_PICK(name) return baseline::name;
#endif

namespace siggpde {

// Rows that are padded to a multiple of this many fill all lanes, whatever the instruction set.
constexpr long lane_step = 8;  // doubles of the widest one

}  // namespace siggpde
