#include <nanobind/nanobind.h>

namespace siggpde {
void bind_signature(nanobind::module_&) {}
}  // namespace siggpde
