// The Python module siggpde._core: plain buffers in, plain buffers out, no torch header.
//
// Signature: signature.* (words cut into tiles, and the calls from Python), chen.hpp (one step and its reverse),
//     signature_isa.cpp (series in lanes, forward and backward).
// Logarithm of signatures: logsignature.*, logsignature_isa.cpp.
// Signature kernel: plan.* (degree and splitting of a series), series_batch.hpp (batches, their pieces in lanes), cell.hpp
//     (one cell), grid_rows.hpp (coefficients of a row of cells), static_kernel_lanes.hpp (those of static kernels),
//     diagonal_grid.hpp and cross_grid.hpp (all cells of k(X, X) and of k(X, y), and their reverse), signature_kernel_isa.cpp;
//     signature_kernel_diagonal.cpp and signature_kernel_gram.cpp (whole batches), signature_kernel.cpp (the calls).
// Windows: windows.* (a view of series, the calls, and thresholds for words), window_signature.hpp (lifted series in lanes,
//     signatures of their windows), windows_isa.cpp (statistics of the windows of a series).
// Kernels of features: products.*, products_isa.cpp.
// Optimiser: nadam.*, nadam_isa.cpp.
// Baselines: gpsig.*, gpsig_tensors_isa.cpp, gpsig_sequences_isa.cpp.
// Files named *_isa.cpp are compiled once for each instruction set, with lanes.hpp; `best_isa` picks one at run time.
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "interrupt.hpp"
#include "isa.hpp"
#include "memory.hpp"

namespace nb = nanobind;

namespace siggpde {
void bind_signature(nb::module_& module);
void bind_logsignature(nb::module_& module);
void bind_signature_kernel(nb::module_& module);
void bind_nadam(nb::module_& module);
void bind_windows(nb::module_& module);
void bind_products(nb::module_& module);
void bind_gpsig(nb::module_& module);
}  // namespace siggpde

NB_MODULE(_core, module) {
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const siggpde::Interrupted&) {
        }
    });
    module.def("isa", [] { return siggpde::isa_name(siggpde::best_isa()); }, "The instruction set picked at run time.");
    module.attr("lane_step") = siggpde::lane_step;
    siggpde::bind_signature(module);
    siggpde::bind_logsignature(module);
    siggpde::bind_signature_kernel(module);
    siggpde::bind_nadam(module);
    siggpde::bind_windows(module);
    siggpde::bind_products(module);
    siggpde::bind_gpsig(module);
}

namespace siggpde {

thread_local constinit Call* current_call = nullptr;

void Call::ask() {
    asked_ = ticks();
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() == 0) return;
    stopped_ = true;
    throw Interrupted();
}

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

namespace {

constexpr std::size_t largest_kept = 8 << 20;
constexpr int buffers_kept = 2;  // one for the drivers, one for the grids

struct Buffer {
    void* memory = nullptr;
    std::size_t bytes = 0;
    bool used = false;
};

struct ThreadMemory {
    Buffer kept[buffers_kept];
    ~ThreadMemory() {
        for (Buffer& buffer : kept) std::free(buffer.memory);
    }
};

thread_local ThreadMemory of_thread;

}  // namespace

void* acquire_memory(std::size_t bytes) {
    bytes = (bytes + 127) / 64 * 64;
    if (bytes <= largest_kept) {
        for (Buffer& buffer : of_thread.kept) {
            if (buffer.used) continue;
            if (buffer.bytes < bytes) {
                std::free(buffer.memory);
                buffer.bytes = bytes + bytes / 2 / 64 * 64;
                buffer.memory = std::aligned_alloc(64, buffer.bytes);
                if (!buffer.memory) buffer.bytes = 0;
            }
            buffer.used = buffer.memory != nullptr;
            return buffer.memory;
        }
    }
    return std::aligned_alloc(64, bytes);
}

void release_memory(void* memory) {
    for (Buffer& buffer : of_thread.kept)
        if (buffer.memory == memory && buffer.used) {
            buffer.used = false;
            return;
        }
    std::free(memory);
}

}  // namespace siggpde
