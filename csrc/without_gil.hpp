// The interpreter's lock, released for a call of the core that Ctrl-C can end.
#pragma once

#include <nanobind/nanobind.h>

#include "interrupt.hpp"

namespace siggpde {

class WithoutGil {
public:
    WithoutGil() { current_call = &call_; }
    ~WithoutGil() { current_call = nullptr; }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    nanobind::gil_scoped_release released_;
    Call call_;
};

}  // namespace siggpde
