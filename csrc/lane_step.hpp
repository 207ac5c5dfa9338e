// Rows that are padded to a multiple of this many fill all lanes, whatever the instruction set.
#pragma once

namespace siggpde {

constexpr long lane_step = 8;  // doubles of the widest one

}  // namespace siggpde
