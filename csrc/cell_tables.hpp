// The coefficients of one cell of the Goursat problem, computed by the compiler.
//
// The cell U_st = rho U on the unit square carries the corner value c and, on the left and bottom edges, the derivatives
// a and b in orthonormal shifted Legendre polynomials of degree below M. One step is
//     b' = E(rho) b + F(rho) a + g(rho) c,      a' = E(rho) a + F(rho) b + g(rho) c,
// where E, F and g are power series in rho (formulas and derivation: docs/design.md). Three facts save work: the mean
// of both edges grows by the same amount, hence E_0k = identity + F_0k; and with D = diag((-1)^k), D E D = E^T, hence
// E_kj = (-1)^(j+k) E_jk. What is left to tabulate is F, the triangle 1 <= j <= k of E, and g.
#pragma once

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

}  // namespace siggpde::SIGGPDE_ISA
