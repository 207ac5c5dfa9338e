// Products over the channels of increments: the coefficients of a row of cells, and their gradients.
#pragma once

#include "cell.hpp"

namespace siggpde::SIGGPDE_ISA {

// Calls body(Index<count>, first channel) for groups of channels small enough to stay in registers.
template <class Body>
[[gnu::always_inline]] inline void for_channels(int channels, const Body& body) {
    int first = 0;
    for (; channels - first >= 8; first += 8) body(Index<8>{}, first);
    switch (channels - first) {
        case 7: body(Index<4>{}, first), body(Index<3>{}, first + 4); break;
        case 6: body(Index<6>{}, first); break;
        case 5: body(Index<5>{}, first); break;
        case 4: body(Index<4>{}, first); break;
        case 3: body(Index<3>{}, first); break;
        case 2: body(Index<2>{}, first); break;
        case 1: body(Index<1>{}, first); break;
        default: break;
    }
}

// The increments along the columns: vectors (k(X, X)) or numbers shared by all lanes (k(X, y)).
template <class T>
struct VectorColumns {
    const vec<T>* data;
    [[gnu::always_inline]] vec<T> operator[](long i) const { return data[i]; }
};

template <class T>
struct SharedColumns {
    const T* data;
    [[gnu::always_inline]] vec<T> operator[](long i) const { return broadcast<T>(data[i]); }
};

// rho[j] = <x, y_j> for j in [begin, end).
template <class T, class Columns>
[[gnu::noinline]] void row_of_products(const vec<T>* x, Columns y, int channels, long begin, long end, vec<T>* rho) {
    for_channels(channels, [&](auto count, int first) {
        vec<T> at[count];
        for (int c = 0; c < count; ++c) at[c] = x[first + c];
        for (long j = begin; j < end; ++j) {
            vec<T> sum = first ? rho[j] : vec<T>{};
            unroll<0, count>([&](auto c) __attribute__((always_inline)) { sum += at[c] * y[j * channels + first + c]; });
            rho[j] = sum;
        }
    });
}

// gradient_x += sum_j rho_bar[j] y_j, and, if gradient_y is wanted, gradient_y[j] += rho_bar[j] x.
template <class T, bool WithY, class Columns>
[[gnu::noinline]] void pull_back_row(const vec<T>* x, Columns y, int channels, long begin, long end,
                                     const vec<T>* rho_bar, vec<T>* gradient_x, vec<T>* gradient_y) {
    for_channels(channels, [&](auto count, int first) {
        vec<T> at[count], sum[count];
        for (int c = 0; c < count; ++c) at[c] = x[first + c], sum[c] = gradient_x[first + c];
        for (long j = begin; j < end; ++j) {
            const vec<T> r = rho_bar[j];
            unroll<0, count>([&](auto c) __attribute__((always_inline)) {
                sum[c] += r * y[j * channels + first + c];
                if constexpr (WithY) gradient_y[j * channels + first + c] += r * at[c];
            });
        }
        for (int c = 0; c < count; ++c) gradient_x[first + c] = sum[c];
    });
}

}  // namespace siggpde::SIGGPDE_ISA
