// The adjoint of one step of Chen's identity on a tile (see chen_step.hpp for the step and its notation).
//
// With a bar for the derivative of the result, and u's parent p, children w and last letter c:
//
//     Rbar[u][k] = Sbar_u (new),   Rbar[u][n] = sum over w of v_w / (n - k) * Rbar[w][n]   (n > k),
//     Sbar_u (old) = sum over n of Rbar[u][n],   vbar_c += sum over n of Rbar[u][n] * R[p][n] / (n - k + 1).
//
// One depth-first walk does it all: R on the way down, Rbar on the way up. A word without descendants is only read.
#pragma once

#include "chen_step.hpp"

namespace siggpde::SIGGPDE_ISA {

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
