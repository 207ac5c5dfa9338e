// Aligned working memory that frees itself.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace siggpde {

template <class T>
class Scratch {
public:
    explicit Scratch(std::size_t count) {
        std::size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
        data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
        if (!data_) throw std::bad_alloc();
    }
    ~Scratch() { std::free(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    T* get() const { return data_; }
    T& operator[](std::size_t i) const { return data_[i]; }

private:
    T* data_;
};

}  // namespace siggpde
