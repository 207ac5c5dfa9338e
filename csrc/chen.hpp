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

// The adjoint of one step of Chen's identity on a tile (the step and its notation are above).
//
// With a bar for the derivative of the result, and u's parent p, children w and last letter c:
//
//     Rbar[u][k] = Sbar_u (new),   Rbar[u][n] = sum over w of v_w / (n - k) * Rbar[w][n]   (n > k),
//     Sbar_u (old) = sum over n of Rbar[u][n],   vbar_c += sum over n of Rbar[u][n] * R[p][n] / (n - k + 1).
//
// One depth-first walk does it all: R on the way down, Rbar on the way up. A word without descendants is only read.

// The state of the walk.
template <class T>
struct Walk {
    const vec<T>* old;  // the next coefficient, before the step, of a word with descendants
    vec<T>* bar;        // the next derivative with respect to a coefficient, of any word
    const vec<T>* q;
    const T* inverse;  // 1, 1/2, 1/3, ...
    // Partial sums of vbar: more than one, so that an addition need not wait for the one before. [0..3] for words
    // without descendants, [levels + 2] for the roots of complete subtrees of 2 levels and more.
    vec<T>* vbar;
    int d;
    int spread;  // 3: use all four of [0..3]; 0: only the first
};

inline constexpr int vbar_accumulators = max_full_levels + 3;

// Children without descendants of a word whose R and Rbar for their length are r and rbar.
template <class T>
SIGGPDE_INLINE void leaves_adjoint(Walk<T>& walk, const vec<T>* q, int count, vec<T> r, vec<T>& rbar, vec<T>* vbar) {
    const vec<T>* bar = walk.bar;
    vec<T> total = rbar;
#pragma GCC unroll 8
    for (int c = 0; c < count; ++c) {
        total += q[c] * bar[c];
        vbar[c] += bar[c] * r;
    }
    rbar = total;
    walk.bar += count;
}

// The complete subtree of `levels` levels below a word whose R and Rbar for those levels are r and rbar. `leaf_vbar`
// is the sum that words without descendants add to.
template <class T, int levels, int channels>
struct FullAdjoint {
    static SIGGPDE_INLINE void inlined(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>* leaf_vbar) {
        const int d = fixed<channels>(walk.d);
        const vec<T>* q = walk.q;
        vec<T>* vbar = walk.vbar + (levels + 2) * d;
        vec<T> parent[levels], scaled[levels], parent_bar[levels], leaf_totals[channels + 1];
        for (int i = 0; i < levels; ++i) {
            parent[i] = r[i];
            scaled[i] = r[i] * (T(1) / T(i + 1));
            parent_bar[i] = rbar[i];
        }
        if constexpr (levels == 2 && channels > 0)
            for (int c = 0; c < channels; ++c) leaf_totals[c] = leaf_vbar[c];
#pragma GCC unroll 8
        for (int c = 0; c < d; ++c) {
            const vec<T> s = *walk.old++;
            vec<T> child[levels], child_bar[levels];
            for (int i = 1; i < levels; ++i) {
                child[i] = s + q[i * d + c] * parent[i];
                child_bar[i] = vec<T>{};
            }
            vec<T>* bar = walk.bar++;
            if constexpr (levels == 2)
                leaves_adjoint<T>(walk, q, d, child[1], child_bar[1],
                                  channels > 0 ? leaf_totals : walk.vbar + (c & walk.spread) * d);
            else if constexpr (small(levels - 1, channels))
                FullAdjoint<T, levels - 1, channels>::inlined(walk, child + 1, child_bar + 1,
                                                              walk.vbar + (c & walk.spread) * d);
            else
                FullAdjoint<T, levels - 1, channels>::called(walk, child + 1, child_bar + 1,
                                                             walk.vbar + (c & walk.spread) * d);
            child_bar[0] = *bar;
            vec<T> total = child_bar[0], product = child_bar[0] * scaled[0];
            parent_bar[0] += q[c] * child_bar[0];
            for (int i = 1; i < levels; ++i) {
                total += child_bar[i];
                product += child_bar[i] * scaled[i];
                parent_bar[i] += q[i * d + c] * child_bar[i];
            }
            *bar = total;
            vbar[c] += product;
        }
        if constexpr (levels == 2 && channels > 0)
            for (int c = 0; c < channels; ++c) leaf_vbar[c] = leaf_totals[c];
        for (int i = 0; i < levels; ++i) rbar[i] = parent_bar[i];
    }
    static __attribute__((noinline)) void called(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>* leaf_vbar) {
        Walk<T> mine = walk;
        inlined(mine, r, rbar, leaf_vbar);
        walk.old = mine.old;
        walk.bar = mine.bar;
    }
};

template <class T, int channels>
void full_adjoint_for(Walk<T>& walk, int levels, const vec<T>* r, vec<T>* rbar) {
    switch (levels) {
        case 1: return leaves_adjoint<T>(walk, walk.q, walk.d, r[0], rbar[0], walk.vbar);
        case 2: return FullAdjoint<T, 2, channels>::called(walk, r, rbar, walk.vbar);
        case 3: return FullAdjoint<T, 3, channels>::called(walk, r, rbar, walk.vbar);
        case 4: return FullAdjoint<T, 4, channels>::called(walk, r, rbar, walk.vbar);
        case 5: return FullAdjoint<T, 5, channels>::called(walk, r, rbar, walk.vbar);
        case 6: return FullAdjoint<T, 6, channels>::called(walk, r, rbar, walk.vbar);
        case 7: return FullAdjoint<T, 7, channels>::called(walk, r, rbar, walk.vbar);
        case 8: return FullAdjoint<T, 8, channels>::called(walk, r, rbar, walk.vbar);
    }
}

template <class T>
void full_adjoint(Walk<T>& walk, int levels, const vec<T>* r, vec<T>* rbar) {
    switch (walk.d) {
#if !defined(__SANITIZE_ADDRESS__)  // sanitizers take many minutes to compile the unrolled loops
        case 2: return full_adjoint_for<T, 2>(walk, levels, r, rbar);
        case 3: return full_adjoint_for<T, 3>(walk, levels, r, rbar);
        case 4: return full_adjoint_for<T, 4>(walk, levels, r, rbar);
        case 6: return full_adjoint_for<T, 6>(walk, levels, r, rbar);
#endif
        default: return full_adjoint_for<T, 0>(walk, levels, r, rbar);
    }
}

// The adjoint of operations [begin, end), all children of one word whose R is `row` and whose Rbar is `row_bar`.
// Rows of longer words follow, `stride` vectors apart.
template <class T>
void step_adjoint(Walk<T>& walk, const TreeOp* ops, int begin, int end, vec<T>* row, vec<T>* row_bar, long stride) {
    for (int o = begin; o < end; o = ops[o].end) {
        const TreeOp op = ops[o];
        if (op.kind == TreeOp::full) {
            full_adjoint(walk, op.levels, row + 1, row_bar + 1);
        } else if (op.kind == TreeOp::leaves) {
            leaves_adjoint<T>(walk, walk.q + op.letter, op.levels, row[1], row_bar[1], walk.vbar + op.letter);
        } else {
            const vec<T>* q = walk.q + op.letter;
            const vec<T> s = *walk.old++;
            vec<T>* bar = walk.bar++;
            vec<T>*mine = row + stride, *mine_bar = row_bar + stride;
            for (int i = 1; i < op.levels; ++i) {
                mine[i] = s + q[i * walk.d] * row[i + 1];
                mine_bar[i] = vec<T>{};
            }
            step_adjoint(walk, ops, o + 1, op.end, mine, mine_bar, stride);
            mine_bar[0] = *bar;
            vec<T> total{}, product{};
            for (int i = 0; i < op.levels; ++i) {
                total += mine_bar[i];
                product += mine_bar[i] * row[i + 1] * walk.inverse[i];
                row_bar[i + 1] += q[i * walk.d] * mine_bar[i];
            }
            *bar = total;
            walk.vbar[op.letter] += product;
        }
    }
}

}  // namespace siggpde::SIGGPDE_ISA
