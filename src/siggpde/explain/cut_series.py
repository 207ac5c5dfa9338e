r"""Series of which pieces are cut out: two walks for each, from its beginning and from its end.

A series has P pieces: its time regions, or its channels. What is cut out is replaced by what is ordinary there
(`explain.cuts`). With :math:`F_s` the series of which the first s pieces are kept and :math:`B_s` that of which the
last s are, :math:`F_0 = B_0` the ordinary series and :math:`F_P = B_P` the series itself, the piece s = 0..P-1 has the
credit

.. math:: \phi_s = \tfrac12 \big(f(F_{s+1}) - f(F_s)\big) + \tfrac12 \big(f(B_{P-s}) - f(B_{P-s-1})\big).

Credits sum to f(series) - f(ordinary series) exactly. They are the Shapley values where no more than two pieces at a
time interact, and they are linear in f: their posterior is that of a weighted sum of latents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.explain.cuts import average_series, segments_of, stretched
from siggpde.explain.predictions import AnyCommittee
from siggpde.series import SeriesBatch


class Cut(NamedTuple):
    """The series of all walks, 2 P for each of n series, and the credits (P, n, 2 P) of the pieces as sums over the
    walks of each series."""

    batch: SeriesBatch
    credits: Tensor

    def weights(self, contrasts: Tensor) -> Tensor:
        """The weights (sides * P, cut series) of the credits of every piece under contrasts (sides, n)."""
        credits = self.credits.to(contrasts)
        return torch.einsum("sn,pnw->spnw", contrasts, credits).flatten(2).flatten(0, 1)


def cut_regions(committee: AnyCommittee, batch: SeriesBatch, regions: int) -> Cut:
    """Pieces are time regions: equal shares of the length of each series, the same number for all of them."""
    count = min(regions, int(batch.counts().min()))
    return _cut(committee, batch, count, lambda length, device: segments_of(length, count, device)[:, None])


def cut_channels(committee: AnyCommittee, batch: SeriesBatch) -> Cut:
    """Pieces are channels."""
    return _cut(committee, batch, batch.channels, lambda _, device: torch.arange(batch.channels, device=device))


def _cut(
    committee: AnyCommittee, batch: SeriesBatch, count: int, piece_of: Callable[[int, torch.device], Tensor]
) -> Cut:
    """`piece_of(length, device)` has the number of the piece of every point and channel, or what broadcasts to it."""
    ordinary = average_series(committee)
    kept = torch.arange(count, device=batch.values.device)
    found = torch.empty(len(batch), 2 * count, *batch.values.shape[1:], dtype=batch.values.dtype)
    found = found.to(batch.values.device)
    for row, length in enumerate(batch.counts().tolist()):
        one = batch.values[row, :length]
        other = stretched(ordinary, length).to(one)
        pieces = piece_of(length, one.device).expand(length, batch.channels)
        forwards = pieces < kept[:, None, None]  # F_0 .. F_{P-1}
        backwards = pieces >= kept[:, None, None]  # B_P .. B_1
        own = torch.where(torch.cat([forwards, backwards]), one, other)
        found[row, :, :length] = own
        found[row, :, length:] = own[:, -1:]
    times = None if batch.times is None else batch.times.repeat_interleave(2 * count, 0)
    lengths = None if batch.lengths is None else batch.lengths.repeat_interleave(2 * count, 0)
    credits = _credits(count).to(batch.values.device)[:, None].expand(-1, len(batch), -1)
    return Cut(SeriesBatch(found.flatten(0, 1), lengths, times), credits)


def _credits(count: int) -> Tensor:
    """(P, 2 P), for F_0 .. F_{P-1}, B_P .. B_1."""
    credits = torch.zeros(count, 2 * count, dtype=torch.float64)
    for piece in range(count):
        after = piece + 1 if piece + 1 < count else count  # F_P is B_P
        credits[piece, after] += 0.5
        credits[piece, piece] -= 0.5
        credits[piece, count + piece] += 0.5  # B_{P-s}
        credits[piece, count + piece + 1 if piece + 1 < count else 0] -= 0.5  # B_0 is F_0
    return credits
