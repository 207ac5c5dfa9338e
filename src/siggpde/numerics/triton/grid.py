"""Compiled kernels of the Goursat problem for many pairs of paths: the sweep over the grid and its reverse.

A program advances SERIES pairs, and of each ROWS rows of the grid at a time: a band. Row r of a band is at column t - r
in turn t, so that the cells of an anti-diagonal advance together, as in the parallel solver of the paper. A row stores
its top edges in global memory, where the next row loads them one turn later. Nothing limits lengths. The state between
bands is the bottom edge of every cell to come, and for k(X, X), where only cells on and above the diagonal are solved,
the corner values U(i, i) on it.

With LOG a cell has its own power of two, E: its numbers are the true ones divided by 2^E. It is stored with the
edges and used again by the reverse sweep, so that no number overflows as long as log k is finite.

Layouts, the last index being contiguous: increments [series][channel][step]; `bottom` [pair][M (+ E)][column]; `corner`
[pair][U (and E)][row]; `store`, the inputs of all cells of some rows, [pair][row][2 M + 1 (+ E)][column].
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from siggpde.numerics.triton.cell import adjoint, degree, step

# Sizes change from batch to batch: code is not compiled anew for each.
SIZES = ("pairs", "others", "x_steps", "y_steps", "channels", "begin", "end")
# Numbers of a cell above 2^GROWN are divided by it.
GROWN = tl.constexpr(300.0)
# The exponent of a sensitivity that nothing has contributed to: any factor from there is zero.
FAR = tl.constexpr(1e6)


@triton.jit
def power_of_two(exponent):
    """2^exponent for whole numbers: exact, and zero far below the range."""
    return tl.exp2(exponent.to(tl.float64)).to(exponent.dtype)


@triton.jit
def inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active):
    """rho of the cells: x_at and y_at are the offsets of channel 0."""
    total = tl.load(x + x_at, mask=active, other=0.0) * tl.load(y + y_at, mask=active, other=0.0)
    for channel in range(1, channels):
        of_x = tl.load(x + x_at + channel * x_steps, mask=active, other=0.0)
        total += of_x * tl.load(y + y_at + channel * y_steps, mask=active, other=0.0)
    return total


@triton.jit
def load_edge(memory, at, stride, active, M: tl.constexpr):
    edge = ()
    for k in tl.static_range(M):
        edge = edge + (tl.load(memory + at + k * stride, mask=active, other=0.0),)  # noqa: RUF005
    return edge


@triton.jit
def store_edge(memory, at, stride, active, edge, M: tl.constexpr):
    for k in tl.static_range(M):
        tl.store(memory + at + k * stride, edge[k], mask=active)


@triton.jit
def scaled(edge, factor, M: tl.constexpr):
    out = ()
    for k in tl.static_range(M):
        out = out + (edge[k] * factor,)  # noqa: RUF005
    return out


@triton.jit
def chosen(condition, edge, other, M: tl.constexpr):
    out = ()
    for k in tl.static_range(M):
        out = out + (tl.where(condition, edge[k], other[k]),)  # noqa: RUF005
    return out


@triton.jit
def zero_edge(like, M: tl.constexpr):
    out = ()
    for _ in tl.static_range(M):
        out = out + (tl.zeros(like.shape, like.dtype),)  # noqa: RUF005
    return out


@triton.jit(do_not_specialize=SIZES)
def sweep(
    x, y, x_rows, y_rows, bottom, corner, value, store,
    pairs, others, x_steps, y_steps, channels, begin, end,
    SCHEME: tl.constexpr, SYMMETRIC: tl.constexpr, LOG: tl.constexpr, STORE: tl.constexpr,
    SERIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Rows [begin, end) of every grid: advances `bottom`, fills `corner` (SYMMETRIC) or `value`, and `store` (STORE).

    Pair p is (p // others, p % others), or (p, p) if SYMMETRIC.
    """
    M: tl.constexpr = degree(SCHEME)
    FIELDS: tl.constexpr = 2 * M + 1 + LOG
    pair = (tl.program_id(0).to(tl.int64) * SERIES + tl.arange(0, SERIES))[:, None]
    here = pair < pairs
    ix = pair if SYMMETRIC else pair // others
    iy = pair if SYMMETRIC else pair % others
    rows = tl.load(x_rows + ix, mask=here, other=0)
    columns = tl.load(y_rows + iy, mask=here, other=0)
    max_columns = tl.max(columns)
    last = tl.minimum(end, tl.max(rows))
    own = tl.arange(0, ROWS)[None, :]
    bottom_at = pair * ((M + LOG) * y_steps)
    corner_at = pair * ((1 + LOG) * (x_steps + 1))
    zero = tl.zeros([SERIES, ROWS], bottom.dtype.element_ty)
    for band in range(begin, last, ROWS):
        i = band + own
        first = band if SYMMETRIC else 0
        store_at = (pair * (end - begin) + (i - begin)) * (FIELDS * y_steps)
        a = zero_edge(zero, M)
        c = zero + 1.0
        e = zero
        for turn in range(max_columns - first + ROWS - 1):
            j = first + turn - own
            active = (i < rows) & (j < columns) & (j >= (i if SYMMETRIC else 0)) & (i < end)
            x_at = ix * channels * x_steps + i
            y_at = iy * channels * y_steps + j
            rho = inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active)
            b = load_edge(bottom, bottom_at + j, y_steps, active, M)
            if SYMMETRIC:
                starts = active & (i == j)
                a = chosen(starts, b, a, M)
                c = tl.where(starts, tl.load(corner + corner_at + i, mask=starts, other=0.0), c)
            if LOG:
                below = tl.load(bottom + bottom_at + M * y_steps + j, mask=active, other=0.0)
                of_a = tl.where(starts, below, e)
                of_c = tl.where(starts, tl.load(corner + corner_at + x_steps + 1 + i, mask=starts, other=0.0), e)
                e = tl.maximum(tl.maximum(of_a, below), of_c)
                a = scaled(a, power_of_two(of_a - e), M)
                b = scaled(b, power_of_two(below - e), M)
                c = c * power_of_two(of_c - e)
                grown = tl.abs(c) + tl.abs(a[0]) + tl.abs(b[0]) > power_of_two(zero + GROWN)
                more = tl.where(grown, zero + GROWN, zero)
                factor = power_of_two(zero - more)
                a = scaled(a, factor, M)
                b = scaled(b, factor, M)
                c = c * factor
                e += more
            if STORE:
                store_edge(store, store_at + j, y_steps, active, a, M)
                store_edge(store, store_at + M * y_steps + j, y_steps, active, b, M)
                tl.store(store + store_at + 2 * M * y_steps + j, c, mask=active)
                if LOG:
                    tl.store(store + store_at + (2 * M + 1) * y_steps + j, e, mask=active)
            right, top = step(rho, c, a, b, SCHEME)
            c = tl.where(active, c + b[0], c)
            a = chosen(active, right, a, M)
            store_edge(bottom, bottom_at + j, y_steps, active, top, M)
            if LOG:
                tl.store(bottom + bottom_at + M * y_steps + j, e, mask=active)
            if SYMMETRIC:
                tl.store(corner + corner_at + i + 1, c + a[0], mask=starts)
                if LOG:
                    tl.store(corner + corner_at + x_steps + 2 + i, e, mask=starts)
            else:
                ends = active & (i == rows - 1) & (j == columns - 1)
                tl.store(value + pair + 0 * own, c + a[0], mask=ends)
            tl.debug_barrier()


@triton.jit(do_not_specialize=SIZES)
def reverse(
    x, y, x_rows, y_rows, store, bottom_bar, corner_bar, weight, rho_bar,
    pairs, others, x_steps, y_steps, channels, begin, end,
    SCHEME: tl.constexpr, SYMMETRIC: tl.constexpr, LOG: tl.constexpr, SERIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The reverse of rows [begin, end), from the inputs of their cells in `store`: sensitivities of the coefficients.

    Turns the sensitivities of their outputs (`bottom_bar`, as `bottom`, and `corner_bar`, as `corner`, or the
    `weight` [pair] of the value) into those of their inputs, and writes `rho_bar` [pair][row][column].
    """
    M: tl.constexpr = degree(SCHEME)
    FIELDS: tl.constexpr = 2 * M + 1 + LOG
    pair = (tl.program_id(0).to(tl.int64) * SERIES + tl.arange(0, SERIES))[:, None]
    here = pair < pairs
    ix = pair if SYMMETRIC else pair // others
    iy = pair if SYMMETRIC else pair % others
    rows = tl.load(x_rows + ix, mask=here, other=0)
    columns = tl.load(y_rows + iy, mask=here, other=0)
    max_columns = tl.max(columns)
    last = tl.minimum(end, tl.max(rows))
    own = tl.arange(0, ROWS)[None, :]
    bottom_at = pair * ((M + LOG) * y_steps)
    corner_at = pair * ((1 + LOG) * (x_steps + 1))
    zero = tl.zeros([SERIES, ROWS], bottom_bar.dtype.element_ty)
    if not SYMMETRIC:
        seed = tl.load(weight + pair, mask=here, other=0.0)
    bands = tl.cdiv(last - begin, ROWS)
    for back in range(bands):
        band = begin + (bands - 1 - back) * ROWS
        i = band + own
        first = band if SYMMETRIC else 0
        row_at = pair * (end - begin) + (i - begin)
        store_at = row_at * (FIELDS * y_steps)
        la = zero_edge(zero, M)
        lc = zero
        to_right = zero + FAR
        turns = max_columns - first + ROWS - 1
        for back_turn in range(turns):
            j = first + turns - 1 - back_turn - own
            active = (i < rows) & (j < columns) & (j >= (i if SYMMETRIC else 0)) & (i < end)
            x_at = ix * channels * x_steps + i
            y_at = iy * channels * y_steps + j
            rho = inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active)
            a = load_edge(store, store_at + j, y_steps, active, M)
            b = load_edge(store, store_at + M * y_steps + j, y_steps, active, M)
            c = tl.load(store + store_at + 2 * M * y_steps + j, mask=active, other=0.0)
            above = active & (j > i) if SYMMETRIC else active
            lb = load_edge(bottom_bar, bottom_at + j, y_steps, above, M)
            if LOG:
                e = tl.load(store + store_at + (2 * M + 1) * y_steps + j, mask=active, other=0.0)
                to_top = tl.load(bottom_bar + bottom_at + M * y_steps + j, mask=above, other=FAR)
                lb = scaled(lb, power_of_two(tl.minimum(e - to_top, 0.0)), M)
                factor = tl.where(active, power_of_two(tl.minimum(e - to_right, 0.0)), 1.0)
                la = scaled(la, factor, M)
                lc = lc * factor
                to_right = tl.where(active, e, to_right)
            if SYMMETRIC:
                starts = active & (i == j)
                end_bar = tl.load(corner_bar + corner_at + i + 1, mask=starts, other=0.0)
                if LOG:
                    to_corner = tl.load(corner_bar + corner_at + x_steps + 2 + i, mask=starts, other=FAR)
                    end_bar = end_bar * power_of_two(tl.minimum(e - to_corner, 0.0))
            else:
                end_bar = tl.where(active & (i == rows - 1) & (j == columns - 1), seed, 0.0)
            lc += end_bar
            changed = ()
            for k in tl.static_range(M):
                changed = changed + ((la[k] + end_bar if k == 0 else la[k]),)  # noqa: RUF005
            of_c, left, below, of_rho = adjoint(rho, c, a, b, changed, lb, SCHEME)
            out = ()
            for k in tl.static_range(M):
                of_bottom = below[k] + lc if k == 0 else below[k]
                if SYMMETRIC:
                    of_bottom = tl.where(starts, of_bottom + left[k], of_bottom)
                out = out + (of_bottom,)  # noqa: RUF005
            store_edge(bottom_bar, bottom_at + j, y_steps, active, out, M)
            lc = tl.where(active, lc + of_c, lc)
            la = chosen(active, left, changed, M)
            tl.store(rho_bar + row_at * y_steps + j, of_rho, mask=active)
            if LOG:
                tl.store(bottom_bar + bottom_at + M * y_steps + j, e, mask=active)
            if SYMMETRIC:
                tl.store(corner_bar + corner_at + i, lc, mask=starts)
                if LOG:
                    tl.store(corner_bar + corner_at + x_steps + 1 + i, e, mask=starts)
            tl.debug_barrier()
