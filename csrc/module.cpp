// The Python module siggpde._core: plain buffers in, plain buffers out, no torch header.
#include <nanobind/nanobind.h>

#include "isa.hpp"

namespace nb = nanobind;

namespace siggpde {
void bind_signature(nb::module_& module);
void bind_goursat(nb::module_& module);
void bind_nadam(nb::module_& module);
}  // namespace siggpde

NB_MODULE(_core, module) {
    module.def("isa", [] { return siggpde::isa_name(siggpde::best_isa()); }, "The instruction set picked at run time.");
    siggpde::bind_signature(module);
    siggpde::bind_goursat(module);
    siggpde::bind_nadam(module);
}
