#include "isa.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace siggpde {

namespace {

Isa detect() {
    Isa best = Isa::baseline;
#if defined(SIGGPDE_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        best = Isa::avx512;
#endif
    if (const char* wanted = std::getenv("SIGGPDE_ISA")) {
        for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
            if (std::strcmp(wanted, isa_name(isa)) == 0 && isa < best) best = isa;
    }
    return best;
}

}  // namespace

Isa best_isa() {
    static const Isa isa = detect();
    return isa;
}

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::avx512: return "avx512";
        case Isa::avx2: return "avx2";
        default: return "baseline";
    }
}

}  // namespace siggpde
