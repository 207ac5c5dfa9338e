// One step of Chen's identity on a tile of words, and its adjoint, for `width` series at once.
//
// A path that moves on by a straight increment v has signature S ⊗ exp(v). For a word u of length k, last letter c
// and parent p, and for every length n from k to that of the longest word below u, let
//
//     R[u][n] = S_u + v_c / (n - k + 1) * R[p][n],      R[empty word][n] = S of the empty word (1).
//
// Then R[u][k] is the new S_u (Horner's rule for the words of length n, shared by all of them). A word needs only its
// parent's R, so a depth-first walk keeps R in one row for each length. Row k holds R[u][k], R[u][k+1], ...
//
// Tables: q[i * channels + c] = v_c / (i + 1).
#pragma once

#include "lanes.hpp"
#include "signature.hpp"

namespace siggpde::SIGGPDE_ISA {

#define SIGGPDE_INLINE inline __attribute__((always_inline))

// The number of channels when it is known at compile time (`channels` > 0): loops over letters are then unrolled.
template <int channels>
SIGGPDE_INLINE int fixed(int d) {
    return channels > 0 ? channels : d;
}

// Whether to expand a subtree of `levels` levels in place: a few dozen words at most.
constexpr bool small(int levels, int channels) {
    if (channels == 0) return levels <= 2;
    int words = 0;
    for (int i = 0, level = 1; i < levels; ++i) words += level *= channels;
    return words <= 42;
}

// The complete subtree of `levels` levels below a word whose R for those levels is r[0], r[1], ...
// Reads `in` and writes `out` (which may be the same) from position `at` on; returns the position after the subtree.
template <class T, int levels, int channels>
struct Full {
    static SIGGPDE_INLINE long inlined(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d_, const vec<T>* r) {
        const int d = fixed<channels>(d_);
        vec<T> parent[levels];
        for (int i = 0; i < levels; ++i) parent[i] = r[i];
#pragma GCC unroll 8
        for (int c = 0; c < d; ++c) {
            const vec<T> s = in[at];
            vec<T> child[levels];
            for (int i = 0; i < levels; ++i) child[i] = s + q[i * d + c] * parent[i];
            out[at++] = child[0];
            if constexpr (levels > 1) {
                if constexpr (small(levels - 1, channels))
                    at = Full<T, levels - 1, channels>::inlined(in, out, at, q, d, child + 1);
                else
                    at = Full<T, levels - 1, channels>::called(in, out, at, q, d, child + 1);
            }
        }
        return at;
    }
    static __attribute__((noinline)) long called(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d,
                                                 const vec<T>* r) {
        return inlined(in, out, at, q, d, r);
    }
};

// One step of every word of a tile, from `in` to `out`. `rows` has `stride` vectors a row, and row 0 is filled.
template <class T, int channels>
void step_for(const TreeOp* ops, int n_ops, const vec<T>* in, vec<T>* out, const vec<T>* q, int d, vec<T>* rows, long stride) {
    long at = 0;
    for (int o = 0; o < n_ops; ++o) {
        const TreeOp op = ops[o];
        if (op.kind == TreeOp::node) {
            vec<T>* row = rows + op.depth * stride;
            const vec<T>* parent = row - stride + 1;
            const vec<T> s = in[at];
            for (int i = 0; i < op.levels; ++i) row[i] = s + q[i * d + op.letter] * parent[i];
            out[at++] = row[0];
            continue;
        }
        const vec<T>* r = rows + op.depth * stride + 1;
        if (op.kind == TreeOp::leaves) {
            at = Full<T, 1, 0>::inlined(in, out, at, q + op.letter, op.levels, r);
            continue;
        }
        switch (op.levels) {
            case 1: at = Full<T, 1, channels>::inlined(in, out, at, q, d, r); break;
            case 2: at = Full<T, 2, channels>::called(in, out, at, q, d, r); break;
            case 3: at = Full<T, 3, channels>::called(in, out, at, q, d, r); break;
            case 4: at = Full<T, 4, channels>::called(in, out, at, q, d, r); break;
            case 5: at = Full<T, 5, channels>::called(in, out, at, q, d, r); break;
            case 6: at = Full<T, 6, channels>::called(in, out, at, q, d, r); break;
            case 7: at = Full<T, 7, channels>::called(in, out, at, q, d, r); break;
            case 8: at = Full<T, 8, channels>::called(in, out, at, q, d, r); break;
        }
    }
}

template <class T>
void step(const TreeOp* ops, int n_ops, const vec<T>* in, vec<T>* out, const vec<T>* q, int d, vec<T>* rows, long stride) {
    switch (d) {
        case 2: return step_for<T, 2>(ops, n_ops, in, out, q, d, rows, stride);
        case 3: return step_for<T, 3>(ops, n_ops, in, out, q, d, rows, stride);
        case 4: return step_for<T, 4>(ops, n_ops, in, out, q, d, rows, stride);
        case 6: return step_for<T, 6>(ops, n_ops, in, out, q, d, rows, stride);
        default: return step_for<T, 0>(ops, n_ops, in, out, q, d, rows, stride);
    }
}

}  // namespace siggpde::SIGGPDE_ISA
