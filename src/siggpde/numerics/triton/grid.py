"""Compiled kernels of the Goursat problem for many pairs of paths: the sweep over the grid, its reverse, gradients.

A program advances SERIES pairs, ROWS rows at a time: a band. Row r is at column t - r in turn t, as in the parallel
solver of the paper, and reads the top edges that row r - 1 stored in global memory a turn before. The state between
bands is the bottom edge of each column and the corner values U(i, i) of k(X, X), where only cells on and above the
diagonal are solved. With LOG each cell has a power of two E, stored with the edges: its true numbers are those stored
times 2^E. With LIFTED a static kernel lifts the paths.

Layouts, the last index being contiguous: pieces x and y [series][field][step], see `siggpde.numerics.triton.cell`;
`bottom` [pair][M (+ E)][column]; `corner` [pair][U (and E)][row]; `value` [U (and E)][pair]; of some rows: `store`, the
inputs of all cells, [pair][row][2 M + 1 (+ E)][column], and `coefficients` [pair][row][column].

With m(u, v) = exp(-|u - v|^2/2) - 1, lifted pieces from u to u' and v to v' with factors f and g have
rho = f g (m(u', v') - m(u, v') - m(u', v) + m(u, v)), where dm/du = -(u - v)(1 + m).
Sums have a fixed order, without atomics.
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from siggpde.numerics.triton.cell import (
    adjoint,
    chosen,
    degree,
    inner_product,
    kappa_less_one,
    load_edge,
    power_of_two,
    scaled,
    step,
    store_edge,
    zero_edge,
)

# Sizes change from batch to batch: code is not compiled anew for each.
SIZES = ("pairs", "others", "x_steps", "y_steps", "begin", "end", "channels")
PULL_BACK_SIZES = (
    "channels", "own_steps", "other_steps", "others", "out_steps", "partner_steps", "own_stride", "other_stride",
    "row_stride", "column_stride", "partner_own_stride", "partner_other_stride",
)  # fmt: skip
PIECES = ("size", "segments", "channels", "steps", "max_count")
# Numbers of a cell above 2^GROWN are divided by it.
GROWN = tl.constexpr(300.0)
# The exponent of a sensitivity that nothing has contributed to: any factor from there is zero.
FAR = tl.constexpr(1e6)


@triton.jit(do_not_specialize=SIZES)
def sweep(
    x, y, x_rows, y_rows, bottom, corner, value, store, coefficients,
    pairs, others, x_steps, y_steps, begin, end, channels,
    SCHEME: tl.constexpr, SYMMETRIC: tl.constexpr, LOG: tl.constexpr, STORE: tl.constexpr, LIFTED: tl.constexpr,
    SERIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Rows [begin, end) of every grid: advances `bottom`, fills `corner` (SYMMETRIC) or `value`, and with STORE also
    `store` and `coefficients`. Pair p is (p // others, p % others), or (p, p) if SYMMETRIC."""
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
    offset = tl.arange(0, ROWS)[None, :]
    bottom_at = pair * ((M + LOG) * y_steps)
    corner_at = pair * ((1 + LOG) * (x_steps + 1))
    zero = tl.zeros([SERIES, ROWS], bottom.dtype.element_ty)
    x_first = ix * (2 * channels + 2 if LIFTED else channels) * x_steps
    y_first = iy * (2 * channels + 2 if LIFTED else channels) * y_steps
    for band in range(begin, last, ROWS):
        i = band + offset
        first = band if SYMMETRIC else 0
        row_at = pair * (end - begin) + (i - begin)
        store_at = row_at * (FIELDS * y_steps)
        x_at = x_first + i
        if LIFTED:  # the kernels of both ends of the row's piece and the first column's start
            start = i if SYMMETRIC else 0 * i
            there = (i < rows) & (start < columns)
            x_end = x_at + channels * x_steps
            x_factor = tl.load(x + x_end + channels * x_steps, mask=there, other=0.0)
            from_start = kappa_less_one(x, y, x_at, y_first + start, x_steps, y_steps, channels, there)
            from_end = kappa_less_one(x, y, x_end, y_first + start, x_steps, y_steps, channels, there)
        a = zero_edge(zero, M)
        c = zero + 1.0
        e = zero
        for turn in range(max_columns - first + ROWS - 1):
            j = first + turn - offset
            active = (i < rows) & (j < columns) & (j >= (i if SYMMETRIC else 0)) & (i < end)
            y_at = y_first + j
            if LIFTED:
                y_end = y_at + channels * y_steps
                to_start = kappa_less_one(x, y, x_at, y_end, x_steps, y_steps, channels, active)
                to_end = kappa_less_one(x, y, x_end, y_end, x_steps, y_steps, channels, active)
                y_factor = tl.load(y + y_end + channels * y_steps, mask=active, other=0.0)
                rho = ((to_end - from_end) - (to_start - from_start)) * (x_factor * y_factor)
                # The next column starts where this one ends, unless both are pieces of the same segment.
                leaves = tl.load(y + y_end + (channels + 1) * y_steps, mask=active, other=0.0) > 0
                from_start = tl.where(leaves, to_start, from_start)
                from_end = tl.where(leaves, to_end, from_end)
            else:
                rho = inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active)
            b = load_edge(bottom, bottom_at + j, y_steps, active, M)
            if SYMMETRIC:
                starts = active & (i == j)
                a = chosen(starts, b, a, M)
                c = tl.where(starts, tl.load(corner + corner_at + i, mask=starts, other=0.0), c)
            if LOG:
                below = tl.load(bottom + bottom_at + M * y_steps + j, mask=active, other=0.0)
                of_a = e
                of_c = e
                if SYMMETRIC:
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
                tl.store(coefficients + row_at * y_steps + j, rho, mask=active)
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
                tl.store(value + pair + 0 * offset, c + a[0], mask=ends)
                if LOG:
                    tl.store(value + pairs + pair + 0 * offset, e, mask=ends)
            tl.debug_barrier()


@triton.jit(do_not_specialize=SIZES[:-1])
def reverse(
    x_rows, y_rows, store, bottom_bar, corner_bar, weight, coefficients,
    pairs, others, x_steps, y_steps, begin, end,
    SCHEME: tl.constexpr, SYMMETRIC: tl.constexpr, LOG: tl.constexpr, SERIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The reverse of rows [begin, end), from `store`: turns sensitivities of outputs (`bottom_bar`, and `corner_bar` or
    the `weight` [pair] of the value) into those of inputs, and each rho of `coefficients` into its sensitivity."""
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
    offset = tl.arange(0, ROWS)[None, :]
    bottom_at = pair * ((M + LOG) * y_steps)
    corner_at = pair * ((1 + LOG) * (x_steps + 1))
    zero = tl.zeros([SERIES, ROWS], bottom_bar.dtype.element_ty)
    if not SYMMETRIC:
        seed = tl.load(weight + pair, mask=here, other=0.0)
    bands = tl.cdiv(last - begin, ROWS)
    for back in range(bands):
        band = begin + (bands - 1 - back) * ROWS
        i = band + offset
        first = band if SYMMETRIC else 0
        row_at = pair * (end - begin) + (i - begin)
        store_at = row_at * (FIELDS * y_steps)
        la = zero_edge(zero, M)
        lc = zero
        to_right = zero + FAR
        turns = max_columns - first + ROWS - 1
        for back_turn in range(turns):
            j = first + turns - 1 - back_turn - offset
            active = (i < rows) & (j < columns) & (j >= (i if SYMMETRIC else 0)) & (i < end)
            rho = tl.load(coefficients + row_at * y_steps + j, mask=active, other=0.0)
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
            tl.store(coefficients + row_at * y_steps + j, of_rho, mask=active)
            if LOG:
                tl.store(bottom_bar + bottom_at + M * y_steps + j, e, mask=active)
            if SYMMETRIC:
                tl.store(corner_bar + corner_at + i, lc, mask=starts)
                if LOG:
                    tl.store(corner_bar + corner_at + x_steps + 1 + i, e, mask=starts)
            tl.debug_barrier()


@triton.jit(do_not_specialize=PULL_BACK_SIZES)
def pull_back(
    rho_bar, partner, out,
    channels, own_steps, other_steps, others, out_steps, partner_steps,
    own_stride, other_stride, row_stride, column_stride, partner_own_stride, partner_other_stride,
    ADD: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """out[s][c][i] (+)= sum over series o and steps j of rho_bar[s, o, i, j] partner[s, o][c][j], by strides for rows
    (pieces of x, partner y) or columns."""
    blocks = tl.cdiv(own_steps, OWN)
    program = tl.program_id(0).to(tl.int64)
    series = program // (blocks * channels)
    channel = (program // blocks) % channels
    i = (program % blocks) * OWN + tl.arange(0, OWN)[:, None]
    total = tl.zeros([OWN, OTHER], out.dtype.element_ty)
    for other in range(others):
        bar_at = series * own_stride + other * other_stride + i * row_stride
        partner_at = series * partner_own_stride + other * partner_other_stride + channel * partner_steps
        for start in range(0, other_steps, OTHER):
            j = start + tl.arange(0, OTHER)[None, :]
            inside = (i < own_steps) & (j < other_steps)
            bar = tl.load(rho_bar + bar_at + j * column_stride, mask=inside, other=0.0)
            total += bar * tl.load(partner + partner_at + j, mask=j < other_steps, other=0.0)
    row_total = tl.sum(total, 1)
    step = (program % blocks) * OWN + tl.arange(0, OWN)
    address = out + (series * channels + channel) * out_steps + step
    if ADD:
        row_total += tl.load(address, mask=step < own_steps, other=0.0)
    tl.store(address, row_total, mask=step < own_steps)


@triton.jit(do_not_specialize=PIECES)
def collect(
    pieces, starts, counts, out, size, segments, channels, steps, max_count, MEAN: tl.constexpr, BLOCK: tl.constexpr
):
    """out[s][i][c]: the sum of pieces[s][c] over the pieces of segment i, divided by their number if MEAN."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < size
    channel = at % channels
    segment = at // channels
    series = segment // segments
    start = tl.load(starts + segment, mask=here, other=0)
    count = tl.load(counts + segment, mask=here, other=1)
    first = (series * channels + channel) * steps + start
    total = tl.zeros([BLOCK], out.dtype.element_ty)
    for piece in range(max_count):
        total += tl.load(pieces + first + piece, mask=here & (piece < count), other=0.0)
    if MEAN:
        total = total / count.to(out.dtype.element_ty)
    tl.store(out + at, total, mask=here)


@triton.jit
def load_two(memory, at, steps, channels, inside):
    """A channel of the start and of the end of pieces."""
    start = tl.load(memory + at, mask=inside, other=0.0)
    return start, tl.load(memory + at + channels * steps, mask=inside, other=0.0)


@triton.jit
def add_rows(out, at, tile, inside):
    total = tl.load(out + at, mask=inside, other=0.0) + tl.sum(tile, 1)
    tl.store(out + at, total, mask=inside)


@triton.jit(do_not_specialize=PULL_BACK_SIZES)
def pull_back_lifted(
    rho_bar, pieces, partner, out,
    channels, own_steps, other_steps, others, out_steps, partner_steps,
    own_stride, other_stride, row_stride, column_stride, partner_own_stride, partner_other_stride,
    OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """out[s][field][i] += sum over series o and steps j of rho_bar[s, o, i, j] drho/down[s][field][i], strides as in
    `pull_back`. The last field has no gradient; one program has all fields, because they share the kernels of a tile.
    """
    blocks = tl.cdiv(own_steps, OWN)
    program = tl.program_id(0).to(tl.int64)
    series = program // blocks
    step = (program % blocks) * OWN + tl.arange(0, OWN)
    i = step[:, None]
    here = i < own_steps
    own_first = series * (2 * channels + 2) * out_steps
    factor = tl.load(pieces + own_first + 2 * channels * out_steps + i, mask=here, other=0.0)
    for other in range(others):
        bar_at = series * own_stride + other * other_stride + i * row_stride
        partner_first = series * partner_own_stride + other * partner_other_stride
        for begin in range(0, other_steps, OTHER):
            j = begin + tl.arange(0, OTHER)[None, :]
            there = j < other_steps
            inside = here & there
            bar = tl.load(rho_bar + bar_at + j * column_stride, mask=inside, other=0.0)
            bar = bar * tl.load(partner + partner_first + 2 * channels * partner_steps + j, mask=there, other=0.0)
            u = own_first + i
            v = partner_first + j
            u_end = u + channels * out_steps
            v_end = v + channels * partner_steps
            from_from = kappa_less_one(pieces, partner, u, v, out_steps, partner_steps, channels, inside)
            from_to = kappa_less_one(pieces, partner, u, v_end, out_steps, partner_steps, channels, inside)
            to_from = kappa_less_one(pieces, partner, u_end, v, out_steps, partner_steps, channels, inside)
            to_to = kappa_less_one(pieces, partner, u_end, v_end, out_steps, partner_steps, channels, inside)
            difference = (to_to - to_from) - (from_to - from_from)
            out_at = own_first + step
            add_rows(out, out_at + 2 * channels * out_steps, bar * difference, step < own_steps)
            pull = bar * factor
            from_from = pull * (1.0 + from_from)
            from_to = pull * (1.0 + from_to)
            to_from = pull * (1.0 + to_from)
            to_to = pull * (1.0 + to_to)
            for channel in range(channels):
                u0, u1 = load_two(pieces, u + channel * out_steps, out_steps, channels, here)
                v0, v1 = load_two(partner, v + channel * partner_steps, partner_steps, channels, there)
                at = out_at + channel * out_steps
                add_rows(out, at, from_to * (u0 - v1) - from_from * (u0 - v0), step < own_steps)
                add_rows(out, at + channels * out_steps, to_from * (u1 - v0) - to_to * (u1 - v1), step < own_steps)
            tl.debug_barrier()  # what a thread has added, another one may load
