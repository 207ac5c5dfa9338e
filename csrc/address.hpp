// Memory of the caller: tensors come as addresses, checked, contiguous and alive.
#pragma once

#include <cstdint>

namespace siggpde {

template <class T>
T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace siggpde
