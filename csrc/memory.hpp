// Aligned working memory. Small buffers are kept for the next call of the same thread, because the allocator takes
// longer than solving short series.
#pragma once

#include <cstddef>
#include <new>

namespace siggpde {

// Null if the allocation fails. Defined in one file for all instruction sets.
void* acquire_memory(std::size_t bytes);
void release_memory(void* memory);

// Aligned working memory that frees itself, for the drivers.
template <class T>
class Scratch {
public:
    explicit Scratch(std::size_t count) : data_(static_cast<T*>(acquire_memory(count * sizeof(T)))) {
        if (!data_) throw std::bad_alloc();
    }
    ~Scratch() { release_memory(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    T* get() const { return data_; }
    T& operator[](std::size_t i) const { return data_[i]; }

private:
    T* data_;
};

}  // namespace siggpde
