#include <nanobind/nanobind.h>

namespace siggpde {
void bind_goursat(nanobind::module_&) {}
}  // namespace siggpde
