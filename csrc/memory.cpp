#include "memory.hpp"

#include <cstdlib>

namespace siggpde {

namespace {

constexpr std::size_t largest_kept = 8 << 20;
constexpr int pieces_kept = 2;  // the drivers' and the grids'

struct Kept {
    void* memory = nullptr;
    std::size_t bytes = 0;
    bool used = false;
};

struct ThreadMemory {
    Kept kept[pieces_kept];
    ~ThreadMemory() {
        for (Kept& piece : kept) std::free(piece.memory);
    }
};

thread_local ThreadMemory of_thread;

}  // namespace

void* take_memory(std::size_t bytes) {
    bytes = (bytes + 127) / 64 * 64;
    if (bytes <= largest_kept) {
        for (Kept& piece : of_thread.kept) {
            if (piece.used) continue;
            if (piece.bytes < bytes) {
                std::free(piece.memory);
                piece.bytes = bytes + bytes / 2 / 64 * 64;
                piece.memory = std::aligned_alloc(64, piece.bytes);
                if (!piece.memory) piece.bytes = 0;
            }
            piece.used = piece.memory != nullptr;
            return piece.memory;
        }
    }
    return std::aligned_alloc(64, bytes);
}

void return_memory(void* memory) {
    for (Kept& piece : of_thread.kept)
        if (piece.memory == memory && piece.used) {
            piece.used = false;
            return;
        }
    std::free(memory);
}

}  // namespace siggpde
