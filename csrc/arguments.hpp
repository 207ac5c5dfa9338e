// What a call of the core can fail with. Python's copy of the codes is siggpde/numerics/inputs.py.
#pragma once

#include <cstdint>

namespace siggpde {

struct Failure {
    enum Code {
        none = 0,
        not_finite = 1,  // an input is NaN or infinite
        overflow = 2,    // a result is out of the range of its type
        memory = 3,      // an allocation failed
        inaccurate = 4,  // the result is there, but rounding has taken most of its digits
        lost = 5,        // rounding has taken all digits of the result
        costly = 6,      // segments are so long that their pieces would take too much work
        negative = 7,    // k(X, X) came out below zero, where it is not by finite differences
    };
    Code code = none;
    long series = -1;
    long index = -1;  // not_finite: the time index; overflow of k(X_i, Y_j): j, with i in `series`
    long channel = -1;
    int side = 0;  // 0: the series belongs to x, 1: to y
    explicit operator bool() const { return code != none; }
};

// Memory of the caller: tensors come as addresses, checked, contiguous and alive.
template <class T>
T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace siggpde
