// Aligned working memory. Small buffers are kept for the next call of the same thread, because the allocator takes
// longer than solving short series.
#pragma once

#include <cstddef>

namespace siggpde {

// Null if the allocation fails. Defined in one file for all instruction sets.
void* acquire_memory(std::size_t bytes);
void release_memory(void* memory);

}  // namespace siggpde
