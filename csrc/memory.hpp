// Aligned working memory. Small pieces are kept for the next call of the same thread: short series are solved in less
// time than the allocator takes.
#pragma once

#include <cstddef>

namespace siggpde {

// Null if there is none. Defined in one file for all instruction sets.
void* take_memory(std::size_t bytes);
void return_memory(void* memory);

}  // namespace siggpde
