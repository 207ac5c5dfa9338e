// The coefficients of one cell of the Goursat problem, computed by the compiler.
//
// The cell U_st = rho U on the unit square carries the corner value c and, on the left and bottom edges, the derivatives
// a and b in orthonormal shifted Legendre polynomials of degree below M. One step is
//     b' = E(rho) b + F(rho) a + g(rho) c,      a' = E(rho) a + F(rho) b + g(rho) c,
// where E, F and g are power series in rho (formulas and derivation: docs/design.md). Three facts save work: the mean
// of both edges grows by the same amount, hence E_0k = identity + F_0k; and with D = diag((-1)^k), D E D = E^T, hence
// E_kj = (-1)^(j+k) E_jk. What is left to tabulate is F, the triangle 1 <= j <= k of E, and g.
#pragma once

#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

constexpr double factorial(int n) {
    double product = 1;
    for (int i = 2; i <= n; ++i) product *= i;
    return product;
}

constexpr double square_root(double x) {
    double root = x > 1 ? x : 1;
    for (int i = 0; i < 60; ++i) root = 0.5 * (root + x / root);
    return root;
}

// Powers of rho from `low` to `high`, at least one, low >= 1.
template <int Powers>
struct Polynomial {
    double coefficient[Powers + 1] = {};
    int low = 1;
    int high = 0;
    constexpr bool empty() const { return high < low; }
};

// Cut = 0 keeps the powers of rho that matter at |rho| <= 1 beside the error of the degree itself; a positive Cut keeps
// exactly the powers up to Cut (degree 1 with Cut 2 is the finite-difference scheme).
template <int M, int Cut>
struct CellTables {
    static constexpr int powers = 2 * M + 4;
    Polynomial<powers> E[M][M];  // less the identity
    Polynomial<powers> F[M][M];
    Polynomial<powers> g[M];

    constexpr CellTables() {
        for (int k = 0; k < M; ++k) fill_E(k);
        for (int n = 1; n <= powers; ++n)
            for (int j = 0; j < M && j < n; ++j) {
                double row = square_root(2 * j + 1) / (factorial(n - 1 - j) * factorial(n + j));
                g[j].coefficient[n] = row / n;
                for (int k = 0; k < M && k <= n; ++k) {
                    double ratio = factorial(n) * factorial(n - 1) / (factorial(n - k) * factorial(n + k + 1));
                    F[j][k].coefficient[n] = (k % 2 ? -1 : 1) * row * ratio * square_root(2 * k + 1);
                }
            }
        for (int j = 0; j < M; ++j) {
            trim(g[j], dual_size(j), j);
            for (int k = 0; k < M; ++k) {
                trim(F[j][k], dual_size(j) * edge_size(k), j + k + 1);
                trim(E[j][k], dual_size(j) * edge_size(k), j + k + 1);
            }
        }
        for (int j = 0; j < M; ++j)
            for (int k = j + 1; k < M; ++k) {
                int high = E[j][k].high > E[k][j].high ? E[j][k].high : E[k][j].high;
                E[j][k].high = E[k][j].high = high;
            }
    }

private:
    // Column k of J^n / n!, J being the integration from 0.
    constexpr void fill_E(int k) {
        constexpr int size = M + powers + 2;
        double now[size] = {}, next[size] = {};
        now[k] = 1;
        for (int n = 1; n <= powers; ++n) {
            for (int j = 0; j < size; ++j) next[j] = 0;
            for (int j = 0; j + 1 < size; ++j) {
                double half = now[j] / (2 * (2 * j + 1));
                next[j + 1] += half;
                next[j == 0 ? 0 : j - 1] += j == 0 ? half : -half;
            }
            for (int j = 0; j < size; ++j) now[j] = next[j];
            for (int j = 0; j < M; ++j)
                E[j][k].coefficient[n] = now[j] / factorial(n) * square_root(2 * k + 1) / square_root(2 * j + 1);
        }
    }

    // Sizes, at unit segments, of the k-th coefficient of an edge and of its weight in the final value.
    static constexpr double edge_size(int k) { return factorial(k) / factorial(2 * k) / square_root(2 * k + 1); }
    static constexpr double dual_size(int j) { return edge_size(j); }

    static constexpr void trim(Polynomial<powers>& p, double size, int order) {
        double threshold = 0.1 * edge_size(M - 1) * dual_size(M) / (2 * (2 * M - 1));
        p.low = 0;
        p.high = 0;
        for (int n = 1; n <= powers; ++n) {
            double c = p.coefficient[n] < 0 ? -p.coefficient[n] : p.coefficient[n];
            if (c < 1e-300) continue;
            if (p.low == 0) p.low = n;
            bool keep = Cut > 0 ? n <= Cut : (c * size >= threshold || 2 * n + order <= 2 * M + 1);
            if (keep) p.high = n;
        }
        if (p.low == 0) p.low = 1;
    }
};

template <int M, int Cut>
inline constexpr CellTables<M, Cut> cell_tables{};

// One cell of the Goursat problem for a vector of series: the step and its exact adjoint.
template <int I>
struct Index {
    static constexpr int value = I;
    constexpr operator int() const { return I; }
};

template <int Begin, int End, class Body>
[[gnu::always_inline]] inline void unroll(const Body& body) {
    if constexpr (Begin < End) {
        body(Index<Begin>{});
        unroll<Begin + 1, End>(body);
    }
}

template <class T, int M, int Cut>
struct Cell {
    using V = vec<T>;
    static constexpr const CellTables<M, Cut>& tables = cell_tables<M, Cut>;

    // rho, rho^2, ...: the lowest power of an entry is at most 2 M.
    struct Powers {
        V of[2 * M + 2];
        [[gnu::always_inline]] explicit Powers(V rho) {
            of[1] = rho;
            unroll<2, 2 * M + 2>([&](auto n) __attribute__((always_inline)) { of[n] = of[n / 2] * of[n - n / 2]; });
        }
    };

    enum Family { keep_family, swap_family, lift_family };

    template <Family family, int j, int k>
    static constexpr const auto& entry() {
        if constexpr (family == keep_family) return tables.E[j][k];
        else if constexpr (family == swap_family) return tables.F[j][k];
        else return tables.g[j];
    }

    template <Family family, int j, int k>
    static constexpr bool present = !entry<family, j, k>().empty();

    // The entry at rho, by Horner's rule.
    template <Family family, int j, int k>
    [[gnu::always_inline]] static V at(const Powers& rho) {
        constexpr auto& p = entry<family, j, k>();
        V sum = broadcast<T>(T(p.coefficient[p.high]));
        unroll<1, p.high - p.low + 1>([&](auto n) __attribute__((always_inline)) {
            sum = sum * rho.of[1] + T(entry<family, j, k>().coefficient[entry<family, j, k>().high - n]);
        });
        return sum * rho.of[p.low];
    }

    // Its derivative in rho.
    template <Family family, int j, int k>
    [[gnu::always_inline]] static V slope(const Powers& rho) {
        constexpr auto& p = entry<family, j, k>();
        V sum = broadcast<T>(T(p.high * p.coefficient[p.high]));
        unroll<1, p.high - p.low + 1>([&](auto n) __attribute__((always_inline)) {
            constexpr auto& q = entry<family, j, k>();
            sum = sum * rho.of[1] + T((q.high - n) * q.coefficient[q.high - n]);
        });
        if constexpr (p.low > 1) return sum * rho.of[p.low - 1];
        else return sum;
    }

    // (c, a, b) -> (a', b') in place. What depends on `a` comes last: it is the chain from cell to cell along a row.
    [[gnu::always_inline]] static void step(V rho1, V c, V (&a)[M], V (&b)[M]) {
        const Powers rho(rho1);
        V top[M], right[M], on_left[M];  // on_left: row 0 of F, the growth of both means
        V base = at<lift_family, 0, 0>(rho) * c;
        unroll<0, M>([&](auto k) __attribute__((always_inline)) {
            if constexpr (present<swap_family, 0, k>) {
                on_left[k] = at<swap_family, 0, k>(rho);
                base += on_left[k] * b[k];
            }
        });
        right[0] = base;
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            right[j] = top[j] = V{};
            if constexpr (present<lift_family, j, 0>) right[j] = top[j] = at<lift_family, j, 0>(rho) * c;
            top[j] += b[j];
        });
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            unroll<0, M>([&](auto k) __attribute__((always_inline)) {
                if constexpr (present<swap_family, j, k>) {
                    const V f = at<swap_family, j, k>(rho);
                    right[j] += f * b[k];
                    top[j] += f * a[k];
                }
            });
        });
        V first = broadcast<T>(1) + on_left[0];
        V mean = base;
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            if constexpr (present<swap_family, 0, j>) {
                mean += on_left[j] * a[j];
                const V e = j % 2 ? -on_left[j] : on_left[j];  // E_j0
                right[j] += e * a[0];
                top[j] += e * b[0];
            }
        });
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            if constexpr (present<keep_family, j, j>) {
                const V e = at<keep_family, j, j>(rho);
                top[j] += e * b[j];
                right[j] += (broadcast<T>(1) + e) * a[j];
            } else {
                right[j] += a[j];
            }
            unroll<j + 1, M>([&](auto k) __attribute__((always_inline)) {
                if constexpr (present<keep_family, j, k>) {
                    const V e = at<keep_family, j, k>(rho);
                    const V mirrored = (j + k) % 2 ? -e : e;
                    right[j] += e * a[k];
                    top[j] += e * b[k];
                    right[k] += mirrored * a[j];
                    top[k] += mirrored * b[j];
                }
            });
        });
        b[0] += mean + on_left[0] * a[0];
        a[0] = mean + first * a[0];
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            a[j] = right[j];
            b[j] = top[j];
        });
    }

    // The adjoint of `step` at the inputs (c, a, b): turns the sensitivities la, lb of the outputs into those of the
    // inputs, adds that of c to lc, and returns the sensitivity of rho.
    [[gnu::always_inline]] static V adjoint(V rho1, V c, const V (&a)[M], const V (&b)[M], V (&la)[M], V (&lb)[M],
                                            V& lc) {
        const Powers rho(rho1);
        const V both = la[0] + lb[0];
        V left[M], bottom[M];
        V mean_slope = slope<lift_family, 0, 0>(rho) * c;
        V corner = at<lift_family, 0, 0>(rho) * both;
        V result = V{};
        unroll<0, M>([&](auto k) __attribute__((always_inline)) {
            left[k] = la[k];
            bottom[k] = lb[k];
            if constexpr (present<swap_family, 0, k>) {
                const V f = at<swap_family, 0, k>(rho);
                const V df = slope<swap_family, 0, k>(rho);
                const V growth = f * both;
                left[k] += growth;
                bottom[k] += growth;
                mean_slope += df * (a[k] + b[k]);
                if constexpr (k > 0) {
                    const V pair = a[0] * la[k] + b[0] * lb[k];
                    left[0] += k % 2 ? -f * la[k] : f * la[k];
                    bottom[0] += k % 2 ? -f * lb[k] : f * lb[k];
                    result += k % 2 ? -df * pair : df * pair;
                }
            }
        });
        result += mean_slope * both;
        unroll<1, M>([&](auto j) __attribute__((always_inline)) {
            if constexpr (present<lift_family, j, 0>) {
                const V sum = la[j] + lb[j];
                corner += at<lift_family, j, 0>(rho) * sum;
                result += slope<lift_family, j, 0>(rho) * (c * sum);
            }
            unroll<0, M>([&](auto k) __attribute__((always_inline)) {
                if constexpr (present<swap_family, j, k>) {
                    const V f = at<swap_family, j, k>(rho);
                    bottom[k] += f * la[j];
                    left[k] += f * lb[j];
                    result += slope<swap_family, j, k>(rho) * (b[k] * la[j] + a[k] * lb[j]);
                }
            });
            unroll<j, M>([&](auto k) __attribute__((always_inline)) {
                if constexpr (present<keep_family, j, k>) {
                    const V e = at<keep_family, j, k>(rho);
                    left[k] += e * la[j];
                    bottom[k] += e * lb[j];
                    V pair = a[k] * la[j] + b[k] * lb[j];
                    if constexpr (k > j) {
                        const V mirrored = (j + k) % 2 ? -e : e;
                        const V pair_mirrored = a[j] * la[k] + b[j] * lb[k];
                        left[j] += mirrored * la[k];
                        bottom[j] += mirrored * lb[k];
                        pair += (j + k) % 2 ? -pair_mirrored : pair_mirrored;
                    }
                    result += slope<keep_family, j, k>(rho) * pair;
                }
            });
        });
        unroll<0, M>([&](auto k) __attribute__((always_inline)) {
            la[k] = left[k];
            lb[k] = bottom[k];
        });
        lc += corner;
        return result;
    }
};

// Numbers of a grid beyond the range of their type: every cell has a scale of its own, in units of 2^300.
//
// The problem is linear in its boundary values, so that the inputs of a cell, its left edge, bottom edge and corner, may
// be multiplied by one power of two; outputs then have the same scale, and are brought to the scale of the next cell, which
// is never smaller. U(s, t) of a straight path is I_0(2 sqrt(s t)): along a row it grows by more than a type holds,
// so no scale common to a row, or to a column, would do.
inline constexpr double scale_unit = 300 * 0.69314718055994530942;  // the logarithm of 2^300

template <class T>
[[gnu::always_inline]] inline bool any_differs(vec<T> a, vec<T> b) {
    const auto differs = a != b;
    bool any = false;
    for (int lane = 0; lane < width<T>; ++lane) any = any || differs[lane];
    return any;
}

// 2^(300 d) for whole d <= 0, and zero below -3, where the number would be out of range; one for positive d.
template <class T>
[[gnu::always_inline]] inline vec<T> scale_factor(vec<T> d) {
    using V = vec<T>;
    const V zero{};
    V factor = d < zero ? broadcast<T>(T(0x1p-300)) : broadcast<T>(1);
    factor = d < broadcast<T>(-1) ? broadcast<T>(T(0x1p-600)) : factor;
    factor = d < broadcast<T>(-2) ? broadcast<T>(T(0x1p-900)) : factor;
    return d < broadcast<T>(-3) ? zero : factor;
}

// The scales of one sweep over a grid. Single precision has none.
template <class T, int M>
struct CellScales {
    using V = vec<T>;
    V* of_columns = nullptr;  // the scale of every bottom edge to come; null: nothing is ever scaled
    V* of_cells = nullptr;    // if the cells are stored: their scales, in the same order

    [[gnu::always_inline]] bool active() const { return sizeof(T) == 8 && of_columns; }

    // Brings the edge `b` of column j, and a and c, which have the scale `own`, to the larger scale of both.
    [[gnu::always_inline]] void align(long j, V (&a)[M], V (&b)[M], V& c, V& own) const {
        const V other = of_columns[j];
        if (!any_differs<T>(other, own)) return;
        const V larger = other > own ? other : own;
        const V of_left = scale_factor<T>(own - larger), of_bottom = scale_factor<T>(other - larger);
        for (int k = 0; k < M; ++k) a[k] *= of_left, b[k] *= of_bottom;
        c *= of_left;
        own = larger;
    }

    // After a cell: where U at its right corner has grown past 2^300, all its outputs go to the next scale.
    [[gnu::always_inline]] static void shrink(V& right, V (&a)[M], V (&b)[M], V& own) {
        const V limit = broadcast<T>(T(0x1p300));
        const V size = right > V{} ? right : -right;
        const auto grown = size > limit;
        bool any = false;
        for (int lane = 0; lane < width<T>; ++lane) any = any || grown[lane];
        if (!any) return;
        const V one = broadcast<T>(1), factor = grown ? broadcast<T>(T(0x1p-300)) : one;
        for (int k = 0; k < M; ++k) a[k] *= factor, b[k] *= factor;
        right *= factor;
        own += grown ? one : V{};
    }
};

}  // namespace siggpde::SIGGPDE_ISA
