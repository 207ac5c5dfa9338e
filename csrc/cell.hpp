// One cell of the Goursat problem for a vector of series: the step and its exact adjoint.
#pragma once

#include "cell_tables.hpp"
#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

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

}  // namespace siggpde::SIGGPDE_ISA
