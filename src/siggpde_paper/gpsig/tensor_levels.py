"""Levels of tensors z_1 x .. x z_m, with slots ordered by position, then level, against series and each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from siggpde.numerics.core import core, usual_threads
from siggpde_paper.gpsig.series_levels import by_hand, earlier, later

Sums = tuple[list[Tensor], list[list[Tensor | None]]]
_CELLS = 2**19  # inner products of a tile: more leave the cache


def slot_count(level: int) -> int:
    """The number of slots, level (level + 1)/2."""
    return level * (level + 1) // 2


def slot_index(position: int, of_level: int, level: int) -> int:
    """The index of the slot at `position` (from 1) of one level among the slots of a tensor of `level` levels."""
    if not 1 <= position <= of_level <= level:
        raise ValueError(f"level {of_level} of {level} has positions 1 to {of_level}, got position {position}")
    return sum(level - k for k in range(position - 1)) + of_level - position


def product_levels(grams: Tensor, level: int) -> Tensor:
    """Products over the slots of each level, (level, ...), of numbers for every slot (slots, ...)."""
    values, products = [], None
    for factors in _by_position(grams, level):
        products = factors if products is None else products[1:] * factors
        values.append(products[0])
    return torch.stack(values)


def tensor_levels(slots: Tensor, level: int, order: int) -> Tensor:
    """Levels 1 .. level (level, ...) of tensors against series, from G = <z, dx_t> of all slots (slots, ..., t): sums
    over t of A_k = G_k (F_{k-1} + G_{k-1}/2 (F_{k-2} + ..)), with `order` terms, F_k the exclusive cumulative sum of
    A_k, F_0 = 1."""
    return by_hand(partial(_run_recursion, level=level, order=order), _pull_back_recursion, slots)


def _run_recursion(slots: Tensor, *, level: int, order: int) -> tuple[Tensor, Sums]:
    """The levels, F_1 .. F_{level-1}, and for every k >= 2 the nested sums H_1 .. H_q, A_k = G_k H_1,
    H_q = F_{k-q} + G_{k-q}/(q+1) H_{q+1}; the innermost is F alone, and None stands for F_0 = 1."""
    g = _by_position(slots, level)
    sums: list[Tensor] = []
    nests: list[list[Tensor | None]] = []
    values = slots.new_empty(level, *slots.shape[1:-1])
    ends = g[0]
    torch.sum(ends[0], dim=-1, out=values[0])
    for k in range(2, level + 1):
        sums.append(earlier(ends[1:]))
        depth = min(k, order)
        nest: list[Tensor | None] = [None if depth == k else sums[k - depth - 1][depth - 1 :]]
        for q in range(depth - 1, 0, -1):
            total, factor, inner = sums[k - q - 1][q - 1 :], g[k - q - 1][q:], nest[0]
            if inner is None:
                nest.insert(0, torch.add(total, factor, alpha=1 / (q + 1)))
            else:
                nest.insert(0, torch.addcmul(total, factor, inner, value=1 / (q + 1)))
        outer = nest[0]
        assert outer is not None
        ends = g[k - 1] * outer
        torch.sum(ends[0], dim=-1, out=values[k - 1])
        nests.append(nest)
    return values, (sums, nests)


def _pull_back_recursion(grad: Tensor, kept: Sums, slots: Tensor) -> tuple[Tensor]:
    (sums, nests), level, result = kept, len(grad), torch.zeros_like(slots)
    g, slopes = _by_position(slots, level), _by_position(result, level)
    of_sums = [torch.zeros_like(total) for total in sums]
    for k in range(level, 0, -1):
        ends = slots.new_empty(g[k - 1].shape)
        ends[0] = grad[k - 1][..., None]
        if k < level:
            ends[1:] = later(of_sums[k - 1])
        if k == 1:
            slopes[0].add_(ends)
            break
        nest = nests[k - 2]
        outer = nest[0]
        assert outer is not None
        slopes[k - 1].addcmul_(ends, outer)
        down = ends.mul_(g[k - 1])
        for q in range(1, len(nest)):
            of_sums[k - q - 1][q - 1 :] += down
            inner, factor = nest[q], g[k - q - 1][q:]
            if inner is None:
                slopes[k - q - 1][q:].add_(down, alpha=1 / (q + 1))
                break
            slopes[k - q - 1][q:].addcmul_(down, inner, value=1 / (q + 1))
            down = (down * factor).mul_(1 / (q + 1))
        else:
            of_sums[k - len(nest) - 1][len(nest) - 1 :] += down
    return (result,)


def _by_position(slots: Tensor, level: int) -> tuple[Tensor, ...]:
    """The slots of position 1 (level, ...), of position 2 (level - 1, ...), and so on."""
    return slots.split(list(range(level, 0, -1)))


def slot_gram_levels(slots: Tensor, level: int) -> Tensor:
    """Levels 1 .. level (level, M, M) of tensors with slots (M, slots, channels), in the order of `slot_index`.

    >>> slot_gram_levels(torch.tensor([[[1.0], [2.0], [3.0]]]), 2).flatten()
    tensor([ 1., 36.])
    """
    return by_hand(partial(_slot_grams, level=level), _pull_back_grams, slots)


def _slot_grams(slots: Tensor, *, level: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    by_slot = slots.transpose(0, 1).contiguous()
    grams = by_slot @ by_slot.mT
    return product_levels(grams, level), (by_slot, grams)


def _pull_back_grams(grad: Tensor, kept: tuple[Tensor, Tensor], _slots: Tensor) -> tuple[Tensor]:
    """G is symmetric, so the gradient in the slots is (D + D^T) z with D the gradient in G."""
    (by_slot, grams), level = kept, len(grad)
    result = torch.empty_like(by_slot)
    for m in range(1, level + 1):
        places = [slot_index(k, m, level) for k in range(1, m + 1)]
        after = grad[m - 1] + grad[m - 1].T  # times all later slots
        later = []
        for place in reversed(places):
            later.append(after)
            after = after * grams[place]
        before: Tensor | None = None
        for place, rest in zip(places, reversed(later), strict=True):
            torch.mm(rest if before is None else rest * before, by_slot[place], out=result[place])
            before = grams[place] if before is None else before * grams[place]
    return (result.transpose(0, 1),)


def core_has_tensors(slots: Tensor, increments: Tensor, level: int) -> bool:
    """Whether the core computes these levels: it has no gradient in the series, and needs float64 on the CPU."""
    if core is None or increments.requires_grad or level > core.tensor_largest_level:
        return False
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float64 for tensor in (slots, increments))


def compiled_levels(slots: Tensor, increments: Tensor, level: int, order: int) -> Tensor:
    """Levels (level, M, n) of slots (M, slots, channels) against increments (n, t, channels), by the core."""

    def compute(slots: Tensor, increments: Tensor) -> tuple[Tensor, None]:
        values = slots.new_empty(level, len(increments), len(slots))
        for rows, tile in _tiles(slots, increments, level, order):
            values[:, :, rows] = tile.values()[:, :, : rows.stop - rows.start]
        return values.mT, None

    def pull_back(grad: Tensor, _kept: None, slots: Tensor, increments: Tensor) -> tuple[Tensor, None]:
        result = torch.empty_like(slots)
        for rows, tile in _tiles(slots, increments, level, order):
            result[rows] = tile.pull_back(grad[:, rows].mT)[: rows.stop - rows.start]
        return result, None

    return by_hand(compute, pull_back, slots, increments)


def _tiles(slots: Tensor, increments: Tensor, level: int, order: int) -> Iterator[tuple[slice, _Tile]]:
    """Tiles of rows of slots, one after the other in the same memory."""
    step, per_row = core.lane_step, slots.shape[1] * increments.shape[0] * increments.shape[1]
    size = step * max(1, _CELLS // max(1, per_row * step))
    tile = _Tile(min(size, -(-len(slots) // step) * step), increments, slots.shape[1:], (level, order))
    for start in range(0, len(slots), size):
        rows = slice(start, min(start + size, len(slots)))
        tile.fill(slots[rows])
        yield rows, tile


class _Tile:
    """A few tensors and all series: `g` (n t, slots rows) are their inner products; rows that are too many are zero."""

    def __init__(self, rows: int, increments: Tensor, shape: torch.Size, settings: tuple[int, int]) -> None:
        self.n, self.times = increments.shape[:2]
        self.flat = increments.flatten(0, 1).contiguous()
        self.rows, self.settings = rows, settings
        self.left = increments.new_zeros(shape[1], shape[0], rows)  # (channels, slots, rows)
        self.g = increments.new_empty(len(self.flat), shape[0] * rows)

    def fill(self, slots: Tensor) -> None:
        """Takes the slots (rows, slots, channels)."""
        self.left[:, :, : len(slots)] = slots.permute(2, 1, 0)
        self.left[:, :, len(slots) :] = 0.0
        torch.mm(self.flat, self.left.flatten(1), out=self.g)

    def values(self) -> Tensor:
        """The levels, (level, n, rows)."""
        out = self.g.new_empty(self.settings[0], self.n, self.rows)
        core.tensor_levels(*self._arguments(), out.data_ptr(), usual_threads())
        return out

    def pull_back(self, grad: Tensor) -> Tensor:
        """The gradient in the slots (rows, slots, channels) from that in the levels (level, n, at most rows)."""
        padded = grad.new_zeros(*grad.shape[:2], self.rows)
        padded[:, :, : grad.shape[2]] = grad
        of_g = torch.empty_like(self.g)
        core.tensor_levels_reverse(*self._arguments(), padded.data_ptr(), of_g.data_ptr(), usual_threads())
        return (self.flat.T @ of_g).view(self.left.shape).permute(2, 1, 0)

    def _arguments(self) -> tuple[int, ...]:
        return (self.g.data_ptr(), self.n, self.times, self.rows, *self.settings)
