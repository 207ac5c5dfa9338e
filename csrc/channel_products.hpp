// Products over the channels of increments: the coefficients of some rows of cells, and their gradients.
//
// Several rows are taken at a time, because long paths do not fit the first cache: the columns' increments are then
// loaded once for all of these rows.
#pragma once

#include "cell.hpp"

namespace siggpde::SIGGPDE_ISA {

inline constexpr int rows_together = 4;

// Calls body(Index<count>, first channel) for groups of at most Most channels, which stay in registers.
template <int Most, class Body>
[[gnu::always_inline]] inline void for_channels(int channels, const Body& body) {
    int first = 0;
    for (; channels - first >= Most; first += Most) body(Index<Most>{}, first);
    if constexpr (Most > 3)
        if (channels - first == 3) body(Index<3>{}, first);
    if constexpr (Most > 2)
        if (channels - first == 2) body(Index<2>{}, first);
    if (channels - first == 1) body(Index<1>{}, first);
}

// The increments along the columns: vectors (k(X, X)) or numbers shared by all lanes (k(X, y)).
template <class T>
struct VectorColumns {
    const vec<T>* data;
    static VectorColumns at(const T* numbers) { return {reinterpret_cast<const vec<T>*>(numbers)}; }
    [[gnu::always_inline]] vec<T> operator[](long i) const { return data[i]; }
};

template <class T>
struct SharedColumns {
    const T* data;
    static SharedColumns at(const T* numbers) { return {numbers}; }
    [[gnu::always_inline]] vec<T> operator[](long i) const { return broadcast<T>(data[i]); }
};

// rho[r * stride + j] = <x_r, y_j> for r < Rows and j in [begin, end).
template <class T, int Rows, class Columns>
[[gnu::noinline]] void products(const vec<T>* x, Columns y, int channels, long begin, long end, vec<T>* rho,
                                long stride) {
    for_channels<4>(channels, [&](auto count, int first) {
        vec<T> at[Rows][count];
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) { at[r][c] = x[r * channels + first + c]; });
        });
        for (long j = begin; j < end; ++j) {
            vec<T> sum[Rows];
            unroll<0, Rows>([&](auto r) { sum[r] = first ? rho[r * stride + j] : vec<T>{}; });
            unroll<0, count>([&](auto c) {
                const vec<T> other = y[j * channels + first + c];
                unroll<0, Rows>([&](auto r) { sum[r] += at[r][c] * other; });
            });
            unroll<0, Rows>([&](auto r) { rho[r * stride + j] = sum[r]; });
        }
    });
}

// gradient_x[r] += sum_j rho_bar[r, j] y_j, and, if wanted, gradient_y[j] += sum_r rho_bar[r, j] x_r.
template <class T, int Rows, bool WithY, class Columns>
[[gnu::noinline]] void pull_back(const vec<T>* x, Columns y, int channels, long begin, long end, const vec<T>* rho_bar,
                                 long stride, vec<T>* gradient_x, vec<T>* gradient_y) {
    for_channels<2>(channels, [&](auto count, int first) {
        vec<T> at[Rows][count], sum[Rows][count];
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) {
                at[r][c] = x[r * channels + first + c];
                sum[r][c] = gradient_x[r * channels + first + c];
            });
        });
        for (long j = begin; j < end; ++j) {
            vec<T> bar[Rows];
            unroll<0, Rows>([&](auto r) { bar[r] = rho_bar[r * stride + j]; });
            unroll<0, count>([&](auto c) {
                const long index = j * channels + first + c;
                const vec<T> other = y[index];
                vec<T> back{};
                if constexpr (WithY) back = gradient_y[index];
                unroll<0, Rows>([&](auto r) {
                    sum[r][c] += bar[r] * other;
                    if constexpr (WithY) back += bar[r] * at[r][c];
                });
                if constexpr (WithY) gradient_y[index] = back;
            });
        }
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) { gradient_x[r * channels + first + c] = sum[r][c]; });
        });
    });
}

// Both for a number of rows known only at run time, from one to rows_together.
template <class T, class Columns>
void products_of_rows(long rows, const vec<T>* x, Columns y, int channels, long begin, long end, vec<T>* rho,
                      long stride) {
    static_assert(rows_together == 4);
    if (rows == 4) return products<T, 4>(x, y, channels, begin, end, rho, stride);
    if (rows == 3) return products<T, 3>(x, y, channels, begin, end, rho, stride);
    if (rows == 2) return products<T, 2>(x, y, channels, begin, end, rho, stride);
    products<T, 1>(x, y, channels, begin, end, rho, stride);
}

template <class T, bool WithY, class Columns>
void pull_back_rows(long rows, const vec<T>* x, Columns y, int channels, long begin, long end, const vec<T>* rho_bar,
                    long stride, vec<T>* gradient_x, vec<T>* gradient_y) {
    if (rows == 4)
        return pull_back<T, 4, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    if (rows == 3)
        return pull_back<T, 3, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    if (rows == 2)
        return pull_back<T, 2, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    pull_back<T, 1, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
}

}  // namespace siggpde::SIGGPDE_ISA
