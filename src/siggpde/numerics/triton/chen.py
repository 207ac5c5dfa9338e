"""Compiled kernels of Chen's identity, S <- S ⊗ exp(v), for many series and words, and of its exact reverse.

A tile has WORDS lanes (chains of prefixes, see `tree`) by SERIES series. With the coefficients r_0 .. r_D of a chain
and the increments v_1 .. v_D of its letters a step is
    r_k <- r_k + v_k (r_(k-1) + v_(k-1)/2 (r_(k-2) + .. + v_1/k r_0)).
States are [word][series], increments [step][channel][series].
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

# Sizes change from batch to batch: code is not compiled anew for each.
SIZES = ("n", "words", "lanes", "channels", "begin", "end")


@triton.jit
def load_rows(memory, rows, series, n, active, FIRST: tl.constexpr, LAST: tl.constexpr, lanes, lane):
    """memory[row][series] for the rows of a table (FIRST .. LAST - 1, lanes); zero where the row is -1."""
    out = ()
    for k in tl.static_range(FIRST, LAST):
        row = tl.load(rows + k * lanes + lane, mask=lane < lanes, other=-1)
        out = out + (tl.load(memory + row * n + series, mask=active & (row >= 0), other=0.0),)  # noqa: RUF005
    return out


@triton.jit
def store_owned(memory, owned, series, n, active, values, DEPTH: tl.constexpr, lanes, lane):
    for k in tl.static_range(DEPTH + 1):
        row = tl.load(owned + k * lanes + lane, mask=lane < lanes, other=-1)
        tl.store(memory + row * n + series, values[k], mask=active & (row >= 0))


@triton.jit
def partial_sums(r, v, K: tl.constexpr):
    """acc_0 .. acc_(K-1) of the step of r_K: acc_q = r_q + acc_(q-1) v_q / (K - q + 1), acc_0 = r_0."""
    partial = (r[0],)
    for q in tl.static_range(1, K):
        partial = partial + (r[q] + partial[q - 1] * (v[q - 1] * (1.0 / (K - q + 1))),)  # noqa: RUF005
    return partial


@triton.jit(do_not_specialize=SIZES)
def advance(
    increments, state, store, prefix, owned, letter, n, words, lanes, channels, begin, end,
    DEPTH: tl.constexpr, STORE: tl.constexpr, WORDS: tl.constexpr, SERIES: tl.constexpr,
):  # fmt: skip
    """Steps [begin, end): reads `state`[0], writes `state`[1]; `store`[step] has the state before each (STORE)."""
    blocks = tl.cdiv(n, SERIES)
    program = tl.program_id(0).to(tl.int64)
    series = ((program % blocks) * SERIES + tl.arange(0, SERIES))[None, :]
    lane = ((program // blocks) * WORDS + tl.arange(0, WORDS))[:, None]
    active = (series < n) & (lane < lanes)
    size = words * n.to(tl.int64)
    r = load_rows(state, prefix, series, n, active, 0, DEPTH + 1, lanes, lane)
    for t in range(begin, end):
        if STORE:
            store_owned(store + (t - begin) * size, owned, series, n, active, r, DEPTH, lanes, lane)
        v = load_rows(increments + t * channels * n.to(tl.int64), letter, series, n, active, 0, DEPTH, lanes, lane)
        new = (r[0],)
        for k in tl.static_range(1, DEPTH + 1):
            new = new + (r[k] + partial_sums(r, v, k)[k - 1] * v[k - 1],)  # noqa: RUF005
        r = new
    store_owned(state + size, owned, series, n, active, r, DEPTH, lanes, lane)


@triton.jit(do_not_specialize=(*SIZES, "groups"))
def retreat(
    increments, store, bar, of_increments, prefix, letter, n, words, lanes, channels, groups, begin, end,
    DEPTH: tl.constexpr, WORDS: tl.constexpr, SERIES: tl.constexpr,
):  # fmt: skip
    """The reverse of `advance` for steps [begin, end): carries `bar` [k][lane][series], sensitivities of the chains.

    `of_increments` [group][step][channel][series] gets those of the increments, from the lanes of each group.
    """
    blocks = tl.cdiv(n, SERIES)
    program = tl.program_id(0).to(tl.int64)
    series = ((program % blocks) * SERIES + tl.arange(0, SERIES))[None, :]
    group = program // blocks
    size = words * n.to(tl.int64)
    own = (program % blocks) * SERIES + tl.arange(0, SERIES)
    for block in range(group, tl.cdiv(lanes, WORDS), groups):
        lane = (block * WORDS + tl.arange(0, WORDS))[:, None]
        active = (series < n) & (lane < lanes)
        bar_at = lane * n.to(tl.int64) + series
        rbar = ()
        for k in tl.static_range(DEPTH + 1):
            rbar = rbar + (tl.load(bar + k * lanes * n.to(tl.int64) + bar_at, mask=active, other=0.0),)  # noqa: RUF005
        for back in range(end - begin):
            t = end - 1 - back
            r = load_rows(store + (t - begin) * size, prefix, series, n, active, 0, DEPTH + 1, lanes, lane)
            v = load_rows(increments + t * channels * n.to(tl.int64), letter, series, n, active, 0, DEPTH, lanes, lane)
            before = rbar
            vbar = ()
            for _ in tl.static_range(DEPTH):
                vbar = vbar + (tl.zeros([WORDS, SERIES], bar.dtype.element_ty),)  # noqa: RUF005
            for k in tl.static_range(1, DEPTH + 1):
                partial = partial_sums(r, v, k)
                of_r = ()
                of_v = (rbar[k] * partial[k - 1],)
                down = rbar[k] * v[k - 1]
                for p in tl.static_range(1, k):  # q = k - p from k - 1 to 1
                    of_r = (down,) + of_r  # noqa: RUF005
                    share = down * (1.0 / (p + 1))
                    of_v = (share * partial[k - p - 1],) + of_v  # noqa: RUF005
                    down = share * v[k - p - 1]
                of_r = (down,) + of_r  # noqa: RUF005
                more_r = ()
                more_v = ()
                for q in tl.static_range(DEPTH + 1):
                    more_r = more_r + ((before[q] + of_r[q]) if q < k else before[q],)  # noqa: RUF005
                for q in tl.static_range(DEPTH):
                    more_v = more_v + ((vbar[q] + of_v[q]) if q < k else vbar[q],)  # noqa: RUF005
                before = more_r
                vbar = more_v
            rbar = before
            address = of_increments + ((group * (end - begin) + (t - begin)) * channels) * n + own
            for channel in range(channels):
                total = tl.zeros([WORDS, SERIES], bar.dtype.element_ty)
                for k in tl.static_range(DEPTH):
                    mine = tl.load(letter + k * lanes + lane, mask=lane < lanes, other=-1) == channel
                    total += tl.where(mine, vbar[k], 0.0)
                at = address + channel * n
                before_this = tl.load(at, mask=own < n, other=0.0)
                tl.store(at, before_this + tl.sum(total, 0), mask=own < n)
        for k in tl.static_range(DEPTH + 1):
            tl.store(bar + k * lanes * n.to(tl.int64) + bar_at, rbar[k], mask=active)
        tl.debug_barrier()  # the next lanes add to the same increments


@triton.jit(do_not_specialize=("n", "lanes"))
def collect_words(bar, first, last, level, out, n, lanes, SERIES: tl.constexpr):
    """out [word][series]: the sum of the sensitivities of a word over the lanes that carry it."""
    blocks = tl.cdiv(n, SERIES)
    program = tl.program_id(0).to(tl.int64)
    word = program // blocks
    series = (program % blocks) * SERIES + tl.arange(0, SERIES)
    total = tl.zeros([SERIES], out.dtype.element_ty)
    row = tl.load(level + word) * lanes
    for lane in range(tl.load(first + word), tl.load(last + word)):
        total += tl.load(bar + (row + lane) * n + series, mask=series < n, other=0.0)
    tl.store(out + word * n + series, total, mask=series < n)
