// Aligned working memory that frees itself, for the drivers.
#pragma once

#include <cstddef>
#include <new>

#include "memory.hpp"

namespace siggpde {

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
