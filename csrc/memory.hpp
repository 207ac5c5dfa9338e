// Aligned working memory. Small buffers are kept for the next call of the same thread, because the allocator takes
// longer than solving short series.
#pragma once

#include <cstddef>
#include <cstdio>
#include <new>

namespace siggpde {

// Null if the allocation fails. Defined in one file for all instruction sets.
void* acquire_memory(std::size_t bytes);
void release_memory(void* memory);

// Working memory that there is not.
class OutOfMemory : public std::bad_alloc {
public:
    explicit OutOfMemory(std::size_t bytes) {
        std::snprintf(text_, sizeof text_, "the core needs %.3g GB of working memory, which there is not", double(bytes) / 1e9);
    }
    const char* what() const noexcept override { return text_; }

private:
    char text_[96];
};

// Aligned working memory that frees itself, for the drivers.
template <class T>
class Scratch {
public:
    explicit Scratch(std::size_t count) : data_(static_cast<T*>(acquire_memory(count * sizeof(T)))) {
        if (!data_) throw OutOfMemory(count * sizeof(T));
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
