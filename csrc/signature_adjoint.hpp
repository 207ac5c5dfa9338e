// The adjoint of one step of Chen's identity on a tile (see signature_lanes.hpp for the step and its notation).
//
// With a bar for the derivative of the result, and u's parent p, children w and last letter c:
//
//     Rbar[u][k] = Sbar_u (new),   Rbar[u][n] = sum over w of v_w / (n - k) * Rbar[w][n]   (n > k),
//     Sbar_u (old) = sum over n of Rbar[u][n],   vbar_c += sum over n of Rbar[u][n] * R[p][n] / (n - k + 1).
//
// One depth-first walk does it all: R on the way down, Rbar on the way up. A word without descendants is only read.
#pragma once

#include "signature_lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

// What the walk carries along.
template <class T>
struct Walk {
    const vec<T>* old;  // the next coefficient, before the step, of a word with descendants
    vec<T>* bar;        // the next derivative with respect to a coefficient, of any word
    const vec<T>* q;
    const T* inverse;  // 1, 1/2, 1/3, ...
    // Partial sums of vbar: several, so that one addition need not wait for the last. [0..3] for words without
    // descendants, [levels + 2] for the roots of complete subtrees of 2 levels and more.
    vec<T>* vbar;
    int d;
    int spread;  // 3: use all four of [0..3]; 0: only the first
};

inline constexpr int vbar_sums = max_full_levels + 3;

template <class T, int levels>
struct FullAdjoint {
    static SIGGPDE_INLINE void inlined(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>*) {
        const int d = walk.d;
        const vec<T>* q = walk.q;
        vec<T>* vbar = walk.vbar + (levels + 2) * d;
        vec<T> parent[levels], scaled[levels], parent_bar[levels];
        for (int i = 0; i < levels; ++i) {
            parent[i] = r[i];
            scaled[i] = r[i] * (T(1) / T(i + 1));
            parent_bar[i] = rbar[i];
        }
        for (int c = 0; c < d; ++c) {
            const vec<T> s = *walk.old++;
            vec<T> child[levels], child_bar[levels];
            for (int i = 1; i < levels; ++i) {
                child[i] = s + q[i * d + c] * parent[i];
                child_bar[i] = vec<T>{};
            }
            vec<T>* bar = walk.bar++;
            vec<T>* leaf_vbar = walk.vbar + (c & walk.spread) * d;
            if constexpr (levels > 3)
                FullAdjoint<T, levels - 1>::called(walk, child + 1, child_bar + 1, leaf_vbar);
            else
                FullAdjoint<T, levels - 1>::inlined(walk, child + 1, child_bar + 1, leaf_vbar);
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
        for (int i = 0; i < levels; ++i) rbar[i] = parent_bar[i];
    }
    static __attribute__((noinline)) void called(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>* leaf_vbar) {
        Walk<T> mine = walk;
        inlined(mine, r, rbar, leaf_vbar);
        walk.old = mine.old;
        walk.bar = mine.bar;
    }
};

template <class T>
struct FullAdjoint<T, 1> {
    static SIGGPDE_INLINE void run(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>* vbar, const vec<T>* q, int count) {
        const vec<T> parent = r[0];
        vec<T> total = rbar[0];
        const vec<T>* bar = walk.bar;
        for (int c = 0; c < count; ++c) {
            total += q[c] * bar[c];
            vbar[c] += bar[c] * parent;
        }
        rbar[0] = total;
        walk.bar += count;
    }
    static SIGGPDE_INLINE void inlined(Walk<T>& walk, const vec<T>* r, vec<T>* rbar, vec<T>* leaf_vbar) {
        run(walk, r, rbar, leaf_vbar, walk.q, walk.d);
    }
};

template <class T>
void full_adjoint(Walk<T>& walk, int levels, const vec<T>* r, vec<T>* rbar) {
    switch (levels) {
        case 1: return FullAdjoint<T, 1>::inlined(walk, r, rbar, walk.vbar);
        case 2: return FullAdjoint<T, 2>::called(walk, r, rbar, walk.vbar);
        case 3: return FullAdjoint<T, 3>::called(walk, r, rbar, walk.vbar);
        case 4: return FullAdjoint<T, 4>::called(walk, r, rbar, walk.vbar);
        case 5: return FullAdjoint<T, 5>::called(walk, r, rbar, walk.vbar);
        case 6: return FullAdjoint<T, 6>::called(walk, r, rbar, walk.vbar);
        case 7: return FullAdjoint<T, 7>::called(walk, r, rbar, walk.vbar);
        case 8: return FullAdjoint<T, 8>::called(walk, r, rbar, walk.vbar);
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
            FullAdjoint<T, 1>::run(walk, row + 1, row_bar + 1, walk.vbar + op.letter, walk.q + op.letter, op.levels);
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
