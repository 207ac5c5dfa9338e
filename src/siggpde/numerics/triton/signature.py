"""The signature by Triton: Chen's identity, S <- S ⊗ exp(v), for many series and words, and its exact reverse.

A lane takes one word that is no prefix of another and carries the coefficients r_0 .. r_D of its prefixes; of lanes
that share a prefix the first writes it. With the increments v_1 .. v_D of its letters a step is
    r_k <- r_k + v_k (r_(k-1) + v_(k-1)/2 (r_(k-2) + .. + v_1/k r_0)).
A tile has WORDS lanes by SERIES series. States are [word][series], checkpointed every sqrt(steps) steps for the
reverse; increments are [step][channel][series].
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import isqrt

import torch
import triton
import triton.language as tl
from torch import Tensor

from siggpde.numerics import reference
from siggpde.numerics.autograd import with_gradients
from siggpde.numerics.inputs import RequestedWords
from siggpde.numerics.triton import LANES, at_once, cdiv, run
from siggpde.numerics.words import Word


class Chains:
    """Tables of a prefix-closed list of words, the empty word first, on a device.

    prefix (depth + 1, lanes) int64: the position of a lane's prefix of k letters, or -1 after its last letter; owned,
    the same with -1 where another lane writes it; letter (depth, lanes): its letters, 0 after the last. For each word:
    level, its length, and the range first..last of the lanes that carry it.
    """

    def __init__(self, words: Sequence[Word], device: torch.device):
        position = {word: index for index, word in enumerate(words)}
        inner = {word[:-1] for word in words if word}
        leaves = sorted(word for word in words if word not in inner)  # depth first: lanes of a prefix are neighbours
        self.words, self.lanes = len(words), len(leaves)
        self.depth = max(map(len, leaves))
        prefix = [[position[leaf[:k]] if k <= len(leaf) else -1 for leaf in leaves] for k in range(self.depth + 1)]
        letter = [[leaf[k] if k < len(leaf) else 0 for leaf in leaves] for k in range(self.depth)]
        first, last = [-1] * self.words, [-1] * self.words
        owned = []
        for row in prefix:
            owned.append([-1] * self.lanes)
            for lane, word in enumerate(row):
                if word >= 0 and first[word] < 0:
                    first[word] = lane
                    owned[-1][lane] = word
                if word >= 0:
                    last[word] = lane + 1

        def table(rows: Sequence[Sequence[int]] | Sequence[int]) -> Tensor:
            return torch.tensor(rows, dtype=torch.int64, device=device)

        self.prefix, self.owned = table(prefix), table(owned)
        self.letter = table(letter).reshape(self.depth, self.lanes)
        self.first, self.last, self.level = table(first), table(last), table([len(word) for word in words])


@lru_cache(maxsize=16)
def chains(words: tuple[Word, ...], device: torch.device) -> Chains:
    """The tables, made once for each list of words and device."""
    return Chains(words, device)


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
    """The reverse of `advance` for steps [begin, end): carries `bar` [k][lane][series], sensitivities of the chains,
    and fills `of_increments` [group][step][channel][series] from the lanes of each group."""
    blocks = tl.cdiv(n, SERIES)
    program = tl.program_id(0).to(tl.int64)
    series = ((program % blocks) * SERIES + tl.arange(0, SERIES))[None, :]
    group = program // blocks
    size = words * n.to(tl.int64)
    column = (program % blocks) * SERIES + tl.arange(0, SERIES)
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
            address = of_increments + ((group * (end - begin) + (t - begin)) * channels) * n + column
            for channel in range(channels):
                total = tl.zeros([WORDS, SERIES], bar.dtype.element_ty)
                for k in tl.static_range(DEPTH):
                    mine = tl.load(letter + k * lanes + lane, mask=lane < lanes, other=-1) == channel
                    total += tl.where(mine, vbar[k], 0.0)
                at = address + channel * n
                before_this = tl.load(at, mask=column < n, other=0.0)
                tl.store(at, before_this + tl.sum(total, 0), mask=column < n)
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


# The longest word that a lane can carry; sets with longer words are computed by the reference.
MAX_LETTERS = 12
_MAX_SERIES = 32
# Gradients are sums over lanes. Groups and tiles of a sum do not depend on the batch, so its bits do not either.
_GROUPS = 16
_TILE = (LANES // 16, 16)


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    return reference.signature_by(apply_chen, x, lengths, words)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    return reference.extend_by(apply_chen, start, increments, words)


def apply_chen(start: Tensor, increments: Tensor, words: Sequence[Word]) -> Tensor:
    """Applies Chen's identity for each increment: start (n, M) over prefix-closed words, () first -> (n, M)."""
    if max(map(len, words)) > MAX_LETTERS:
        return reference.apply_chen(start, increments, words)
    table = chains(tuple(words), increments.device)
    return with_gradients(partial(_forward, table), partial(_backward, table), start, increments)


def _in_chunks(start: Tensor, increments: Tensor, numbers: int):
    """(range of series, state [word][series], increments [step][channel][series]), as many as fit the memory."""
    size = at_once(numbers * start.element_size())
    for begin in range(0, len(start), size):
        part = slice(begin, begin + size)
        yield part, start[part].T.contiguous(), increments[part].permute(1, 2, 0).contiguous()


def _tile(n: int) -> tuple[int, int]:
    series = 1
    while series < min(n, _MAX_SERIES):
        series *= 2
    return LANES // series, series


def _advance(state: Tensor, increments: Tensor, table: Chains, begin: int, end: int, store: Tensor | None) -> Tensor:
    _, channels, n = increments.shape
    words, series = _tile(n)
    both = torch.stack([state, torch.empty_like(state)])
    run(
        advance, cdiv(n, series) * cdiv(table.lanes, words), state, increments, both, store, table.prefix, table.owned,
        table.letter, n, table.words, table.lanes, channels, begin, end, DEPTH=table.depth, STORE=store is not None,
        WORDS=words, SERIES=series,
    )  # fmt: skip
    return both[1]


def _forward(table: Chains, start: Tensor, increments: Tensor) -> Tensor:
    out = torch.empty_like(start)
    for part, state, steps in _in_chunks(start, increments, 4 * table.words):
        out[part] = _advance(state, steps, table, 0, len(steps), None).T
    return out


def _backward(table: Chains, grad: Tensor, start: Tensor, increments: Tensor) -> tuple[Tensor, Tensor]:
    of_start, of_increments = torch.empty_like(start), torch.empty_like(increments)
    _, count, channels = increments.shape
    size = max(1, isqrt(count))
    copies = size + cdiv(count, size) + 4 + table.depth + 1
    for part, state, steps in _in_chunks(start, increments, table.words * copies + _GROUPS * size * channels):
        n = state.shape[1]
        begins = list(range(0, count, size))
        states = [state]
        for begin in begins[:-1]:
            states.append(_advance(states[-1], steps, table, begin, begin + size, None))
        outside = (table.owned < 0)[:, :, None]
        bar = torch.where(outside, 0.0, grad[part].T[table.owned.clamp(min=0)]).contiguous()
        store = state.new_empty(size, table.words, n)
        of_steps = torch.empty_like(steps)
        for begin in reversed(begins):
            end = min(begin + size, count)
            _advance(states.pop(), steps, table, begin, end, store)
            of_steps[begin:end] = _retreat(steps, store, bar, table, begin, end)
        of_increments[part] = of_steps.permute(2, 0, 1)
        of_words, series = torch.empty_like(state), _tile(n)[1]
        run(
            collect_words, cdiv(n, series) * table.words, state, bar, table.first, table.last, table.level, of_words, n,
            table.lanes, SERIES=series,
        )  # fmt: skip
        of_start[part] = of_words.T
    return of_start, of_increments


def _retreat(steps: Tensor, store: Tensor, bar: Tensor, table: Chains, begin: int, end: int) -> Tensor:
    """Advances `bar` from the end to the begin of some steps; returns the gradients of their increments."""
    _, channels, n = steps.shape
    words, series = _TILE
    groups = min(_GROUPS, cdiv(table.lanes, words))
    out = steps.new_zeros(groups, end - begin, channels, n)
    run(
        retreat, cdiv(n, series) * groups, steps, steps, store, bar, out, table.prefix, table.letter, n, table.words,
        table.lanes, channels, groups, begin, end, DEPTH=table.depth, WORDS=words, SERIES=series,
    )  # fmt: skip
    return out.sum(0)
