#include "memory.hpp"

#include <cstdlib>

namespace siggpde {

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
