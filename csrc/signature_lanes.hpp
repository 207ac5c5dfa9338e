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

// The complete subtree of `levels` levels below a word whose R for those levels is r[0], r[1], ...
// Reads `in` and writes `out` (which may be the same) from position `at` on; returns the position after the subtree.
template <class T, int levels>
struct Full {
    static SIGGPDE_INLINE long inlined(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d, const vec<T>* r) {
        vec<T> parent[levels];
        for (int i = 0; i < levels; ++i) parent[i] = r[i];
        for (int c = 0; c < d; ++c) {
            const vec<T> s = in[at];
            vec<T> child[levels];
            for (int i = 0; i < levels; ++i) child[i] = s + q[i * d + c] * parent[i];
            out[at++] = child[0];
            if constexpr (levels > 3)
                at = Full<T, levels - 1>::called(in, out, at, q, d, child + 1);
            else
                at = Full<T, levels - 1>::inlined(in, out, at, q, d, child + 1);
        }
        return at;
    }
    static __attribute__((noinline)) long called(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d,
                                                 const vec<T>* r) {
        return inlined(in, out, at, q, d, r);
    }
};

template <class T>
struct Full<T, 1> {
    static SIGGPDE_INLINE long inlined(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d, const vec<T>* r) {
        const vec<T> parent = r[0];
        for (int c = 0; c < d; ++c) out[at + c] = in[at + c] + q[c] * parent;
        return at + d;
    }
    static long called(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, int d, const vec<T>* r) {
        return inlined(in, out, at, q, d, r);
    }
};

// One step of every word of a tile, from `in` to `out`. `rows` has `stride` vectors a row, and row 0 is filled.
template <class T>
void step(const TreeOp* ops, int n_ops, const vec<T>* in, vec<T>* out, const vec<T>* q, int d, vec<T>* rows, long stride) {
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
            at = Full<T, 1>::inlined(in, out, at, q + op.letter, op.levels, r);
            continue;
        }
        switch (op.levels) {
            case 1: at = Full<T, 1>::inlined(in, out, at, q, d, r); break;
            case 2: at = Full<T, 2>::inlined(in, out, at, q, d, r); break;
            case 3: at = Full<T, 3>::called(in, out, at, q, d, r); break;
            case 4: at = Full<T, 4>::called(in, out, at, q, d, r); break;
            case 5: at = Full<T, 5>::called(in, out, at, q, d, r); break;
            case 6: at = Full<T, 6>::called(in, out, at, q, d, r); break;
            case 7: at = Full<T, 7>::called(in, out, at, q, d, r); break;
            case 8: at = Full<T, 8>::called(in, out, at, q, d, r); break;
        }
    }
}

}  // namespace siggpde::SIGGPDE_ISA
