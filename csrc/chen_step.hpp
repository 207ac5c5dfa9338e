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
#include "signature_loops.hpp"

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

// `together` steps of the complete subtree of `levels` levels below a word. Step t has the table q[t * q_stride ...],
// and the word's R for those levels is r[t * r_stride], r[t * r_stride + 1], ... Two steps in one walk halve the
// traffic of coefficients, which is what a step costs most.
// Reads `in` and writes `out` (which may be the same) from position `at` on; returns the position after the subtree.
template <class T, int levels, int channels, int together>
struct Full {
    static SIGGPDE_INLINE long inlined(const vec<T>* in, vec<T>* out, long at, const vec<T>* q, long q_stride, int d_,
                                       const vec<T>* r, long r_stride) {
        const int d = fixed<channels>(d_);
        vec<T> parent[together][levels];
        for (int t = 0; t < together; ++t)
            for (int i = 0; i < levels; ++i) parent[t][i] = r[t * r_stride + i];
#pragma GCC unroll 8
        for (int c = 0; c < d; ++c) {
            vec<T> s = in[at];
            vec<T> child[together][levels];
            for (int t = 0; t < together; ++t) {
                for (int i = 0; i < levels; ++i) child[t][i] = s + q[t * q_stride + i * d + c] * parent[t][i];
                s = child[t][0];
            }
            out[at++] = s;
            if constexpr (levels > 1) {
                using Below = Full<T, levels - 1, channels, together>;
                if constexpr (small(levels - 1, channels))
                    at = Below::inlined(in, out, at, q, q_stride, d, &child[0][1], levels);
                else
                    at = Below::called(in, out, at, q, q_stride, d, &child[0][1], levels);
            }
        }
        return at;
    }
    static __attribute__((noinline)) long called(const vec<T>* in, vec<T>* out, long at, const vec<T>* q,
                                                 long q_stride, int d, const vec<T>* r, long r_stride) {
        return inlined(in, out, at, q, q_stride, d, r, r_stride);
    }
};

// A step's tables: see the top of this file. Row k starts at rows[k * row_stride]; row 0 is filled by the caller. What
// belongs to the second of two steps is q_stride or rows_stride further.
template <class T>
struct Tables {
    int d;
    vec<T>* q;
    long q_stride;
    vec<T>* rows;
    long row_stride;
    long rows_stride;
};

template <class T, int channels, int together>
void step_for(const TreeOp* ops, int n_ops, const vec<T>* in, vec<T>* out, const Tables<T>& tables) {
    const auto [d, q, q_stride, rows, row_stride, rows_stride] = tables;
    long at = 0;
    for (int o = 0; o < n_ops; ++o) {
        const TreeOp op = ops[o];
        if (op.kind == TreeOp::node) {
            vec<T> s = in[at];
            for (int t = 0; t < together; ++t) {
                vec<T>* row = rows + t * rows_stride + op.depth * row_stride;
                const vec<T>*parent = row - row_stride + 1, *factor = q + t * q_stride + op.letter;
                for (int i = 0; i < op.levels; ++i) row[i] = s + factor[i * d] * parent[i];
                s = row[0];
            }
            out[at++] = s;
            continue;
        }
        const vec<T>* r = rows + op.depth * row_stride + 1;
        if (op.kind == TreeOp::leaves) {
            at = Full<T, 1, 0, together>::inlined(in, out, at, q + op.letter, q_stride, op.levels, r, rows_stride);
            continue;
        }
        switch (op.levels) {
#define SIGGPDE_CASE(levels) \
    case levels: at = Full<T, levels, channels, together>::called(in, out, at, q, q_stride, d, r, rows_stride); break;
            SIGGPDE_CASE(1) SIGGPDE_CASE(2) SIGGPDE_CASE(3) SIGGPDE_CASE(4)
            SIGGPDE_CASE(5) SIGGPDE_CASE(6) SIGGPDE_CASE(7) SIGGPDE_CASE(8)
#undef SIGGPDE_CASE
        }
    }
}

// One step, or two, of every word of a tile, from `in` to `out`.
template <class T, int together>
void step(const TreeOp* ops, int n_ops, const vec<T>* in, vec<T>* out, const Tables<T>& tables) {
    switch (tables.d) {
#if !defined(__SANITIZE_ADDRESS__)  // sanitizers take many minutes to compile the unrolled loops
        case 2: return step_for<T, 2, together>(ops, n_ops, in, out, tables);
        case 3: return step_for<T, 3, together>(ops, n_ops, in, out, tables);
        case 4: return step_for<T, 4, together>(ops, n_ops, in, out, tables);
        case 6: return step_for<T, 6, together>(ops, n_ops, in, out, tables);
#endif
        default: return step_for<T, 0, together>(ops, n_ops, in, out, tables);
    }
}

}  // namespace siggpde::SIGGPDE_ISA
