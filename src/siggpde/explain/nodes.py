r"""The nodes of the walks of a series: cut series, and the credits of pieces as sums over them.

A walk through P pieces has P + 1 nodes, from the reference that it begins with to the series itself. With W walks the
credit of the piece i is linear in the latent function,

.. math:: \phi_i = \frac1W \sum_w \big( f(\text{node after } i) - f(\text{node before } i) \big),

and so is the sum of several credits: everything that the posterior says of f at the nodes, it says of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.series import SeriesBatch


class Weighted(NamedTuple):
    """Nodes (k,), each once, and their coefficients (k,)."""

    nodes: Tensor
    coefficients: Tensor


class Nodes(NamedTuple):
    """Of one series and references (r, length, channels): `used` (walks,) numbers the references of the walks, `ranks`
    (walks, pieces) are the places of the pieces s * channels + c in the walks, `of_point` (length,) the segments.

    Nodes between the ends of walks are numbered walk by walk, then comes the series itself, then the references.
    """

    one: SeriesBatch
    references: Tensor
    used: Tensor
    ranks: Tensor
    of_point: Tensor

    @property
    def between(self) -> int:
        """How many there are between the ends."""
        walks, pieces = self.ranks.shape
        return walks * (pieces - 1)

    def numbers(self) -> Tensor:
        """All nodes that some walk comes to, those between the ends first."""
        device = self.ranks.device
        ends = torch.cat([torch.zeros(1, dtype=torch.int64, device=device), 1 + self.used.unique()])
        return torch.cat([torch.arange(self.between, device=device), self.between + ends])

    def series(self, numbers: Tensor) -> SeriesBatch:
        """The cut series of nodes (n,)."""
        mask, reference = self.kept(numbers)
        return beside(torch.where(mask[:, self.of_point], self.one.values, self.references[reference]), self.one)

    def kept(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Which pieces nodes (n,) have of the series, (n, segments, channels), and their references (n,)."""
        pieces, steps = self.ranks.shape[1], max(1, self.ranks.shape[1] - 1)
        inner = numbers < self.between
        walk = torch.where(inner, numbers // steps, 0)
        kept = torch.where(inner, numbers % steps + 1, torch.where(numbers == self.between, pieces, 0))
        reference = torch.where(inner, self.used[walk], (numbers - self.between - 1).clamp_min(0))
        mask = self.ranks[walk] < kept[:, None]
        return mask.view(len(numbers), -1, self.one.channels), reference

    def around(self, walks: int) -> tuple[Tensor, Tensor]:
        """The nodes after and before every piece in the first walks, two (walks, pieces)."""
        ranks, pieces = self.ranks[:walks], self.ranks.shape[1]
        first = torch.arange(len(ranks), device=ranks.device)[:, None] * (pieces - 1) - 1
        after = torch.where(ranks == pieces - 1, self.between, first + ranks + 1)
        before = torch.where(ranks == 0, self.between + 1 + self.used[:walks, None], first + ranks)
        return after, before

    def next_to(self, pieces: Sequence[int], walks: int, numbers: Tensor) -> Tensor:
        """The nodes after and then those before some pieces, (pieces, 2 walks), as places in ascending `numbers`."""
        both = torch.cat([part[:, list(pieces)] for part in self.around(walks)])
        return torch.searchsorted(numbers, both.T.contiguous())

    def weights(self, pieces: Tensor, walks: int) -> Tensor:
        """The coefficients (pieces, nodes) of the credits of some pieces, over the first walks, float64."""
        after, before = (part[:, pieces].T for part in self.around(walks))
        count = self.between + 1 + len(self.references)
        total = torch.zeros(len(pieces), count, dtype=torch.float64, device=self.ranks.device)
        share = torch.full_like(after, 1 / after.shape[1], dtype=torch.float64)
        return total.scatter_add_(1, after, share).scatter_add_(1, before, -share)

    def sum_of(self, pieces: Sequence[int], walks: int) -> Weighted:
        """The sum of the credits of some pieces."""
        after, before = (part[:, list(pieces)].flatten() for part in self.around(walks))
        both = torch.cat([after, before])
        share = torch.full_like(both, 1 / min(walks, len(self.ranks)), dtype=torch.float64)
        share[len(after) :] *= -1
        nodes, place = both.unique(return_inverse=True)
        coefficients = share.new_zeros(len(nodes)).index_add_(0, place, share)
        kept = coefficients.abs() > 0.5 / len(both)
        return Weighted(nodes[kept], coefficients[kept])


def beside(values: Tensor, one: SeriesBatch) -> SeriesBatch:
    """Series (n, length, channels) with the time stamps of another one."""
    return SeriesBatch(values, None, None if one.times is None else one.times.expand(len(values), -1))
