r"""Contributions of segments and channels: Shapley values of the segments, shared out to channels within them.

A series has S segments and C channels, S C pieces. Pieces that are cut out are replaced: by what is ordinary there
(`explain.cuts`) or, with a background, by the same pieces of a series of the background, brought to the same length;
time stamps stay. In a *walk* pieces are put back one by one, from none to all of them, and each is credited with what
it changes,

.. math:: \phi_i = \mathrm{mean}_w \big( f(\text{pieces up to } i) - f(\text{pieces before } i) \big),

so that whatever the walks are, the sum over the pieces is f(series) less the mean of what the walks began with. A walk
takes the segments in random order, and within each of them the channels in random order (the value of Owen for
segments as coalitions): sums over the channels of a segment are Shapley values of the segments. Every walk is also
taken backwards, which cancels what is linear in the order; the sampling error comes from the spread over such pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee
from siggpde.ensemble.of_views import mean_latents
from siggpde.explain.cuts import segments_of
from siggpde.explain.logits import logits_of, logits_of_likelihood
from siggpde.explain.predictions import AnyCommittee
from siggpde.paths import SeriesBatch

_PREDICTIONS = 500  # about as many for a series, unless the number of permutations is given
_FEWEST, _MOST = 4, 64  # permutations
_LARGEST_BATCH = 2**22  # numbers of cut series at a time


@dataclass(frozen=True)
class WalkSettings:
    """At most so many `segments`; `permutations`, an even number, or None for about 500 predictions; their `seed`."""

    segments: int = 10
    permutations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise ValueError(f"segments must be at least 1, got {self.segments}")
        if self.permutations is not None and self.permutations < _FEWEST:
            raise ValueError(
                f"permutations must be at least {_FEWEST}, or None for as many as fit {_PREDICTIONS} predictions, "
                f"got {self.permutations}"
            )

    def pairs(self, pieces: int) -> int:
        """The number of walks that are taken forwards and backwards."""
        wanted = self.permutations
        if wanted is None:
            wanted = min(_MOST, max(_FEWEST, _PREDICTIONS // pieces))
        return (wanted + 1) // 2


class Ends(NamedTuple):
    """Of one series: its logits (outputs,), the references (r, length, channels) that walks can begin with, their
    logits (r, outputs), and their order (r,) by what is explained."""

    latent: Tensor
    references: Tensor
    begins: Tensor
    order: Tensor


class Walked(NamedTuple):
    """Of one series: credits (pairs, S, C, outputs) and what the walks began with, (pairs, outputs)."""

    credits: Tensor
    begun: Tensor


def logit_means(committee: AnyCommittee, batch: SeriesBatch) -> Tensor:
    """The logits of all classes, or the number: of the mean latents, averaged over the members, (n, classes or 1)."""
    if not isinstance(committee, Committee):
        mixing, offset = logits_of(committee)
        return mean_latents(committee, batch).double() @ mixing.T + offset
    total: Any = 0.0
    means, _ = committee.member_latents(batch)
    for weight, member, mean in zip(committee.weights.double(), committee.members, means, strict=True):
        mixing, offset = logits_of_likelihood(member.model.likelihood, committee.device)
        total = total + weight * (mean @ mixing.T + offset)
    return total


def beside(values: Tensor, one: SeriesBatch) -> SeriesBatch:
    """Series (n, length, channels) with the time stamps of another one."""
    return SeriesBatch(values, None, None if one.times is None else one.times.expand(len(values), -1))


def walk(committee: AnyCommittee, one: SeriesBatch, ends: Ends, settings: WalkSettings) -> Walked:
    latent, references, begins = ends.latent, ends.references, ends.begins
    length, channels = one.values.shape[1:]
    of_point = segments_of(length, settings.segments, one.values.device)
    segments = int(of_point[-1]) + 1
    pieces = segments * channels
    count = settings.pairs(pieces)
    random = torch.Generator().manual_seed(settings.seed)
    forwards = torch.stack([_order(segments, channels, random) for _ in range(count)])
    used = _spread_out(begins, ends.order, count)
    orders = torch.stack([forwards, forwards.flip(1)], dim=1).flatten(0, 1).to(one.values.device)  # (walks, pieces)
    ranks = orders.argsort(dim=1)
    inner = _inner_logits(committee, one, references, used.flatten(), ranks, of_point, len(latent))
    begun = begins[used]
    levels = torch.cat([begun.flatten(0, 1)[:, None], inner, latent.expand(len(ranks), 1, -1)], dim=1)
    steps = levels.diff(dim=1).gather(1, ranks[:, :, None].expand(-1, -1, len(latent)))
    credits = steps.view(count, 2, segments, channels, -1).mean(1)
    return Walked(credits, begun.mean(1))


def _spread_out(begins: Tensor, order: Tensor, pairs: int) -> Tensor:
    """The references of the walks, (pairs, 2): evenly spread over them in this order, so that few stand for all, one
    from below and one from above for each pair."""
    places = (torch.arange(2 * pairs, device=begins.device) * 2 + 1) * len(begins) // (4 * pairs)
    chosen = order[places]
    return torch.stack([chosen[:pairs], chosen[pairs:].flip(0)], dim=1)


def _order(segments: int, channels: int, random: torch.Generator) -> Tensor:
    """The pieces s * channels + c in the order of a walk, (pieces,)."""
    own = [
        segment * channels + torch.randperm(channels, generator=random)
        for segment in torch.randperm(segments, generator=random).tolist()
    ]
    return torch.cat(own)


def _inner_logits(
    committee: AnyCommittee,
    one: SeriesBatch,
    references: Tensor,
    used: Tensor,
    ranks: Tensor,
    of_point: Tensor,
    outputs: int,
) -> Tensor:
    """The logits between the ends of the walks, (walks, pieces - 1, outputs); `used` (walks,) numbers references,
    `ranks` (walks, pieces) are the places of the pieces in the walks."""
    walks, pieces = ranks.shape
    length, channels = one.values.shape[1:]
    inner, found = pieces - 1, []
    for numbers in torch.arange(walks * inner, device=ranks.device).split(
        max(1, _LARGEST_BATCH // (length * channels))
    ):
        if not len(numbers):
            break
        walk, kept = numbers // inner, numbers % inner + 1
        mask = (ranks[walk] < kept[:, None]).view(len(numbers), -1, channels)[:, of_point]
        found.append(logit_means(committee, beside(torch.where(mask, one.values, references[used[walk]]), one)))
    whole = torch.cat(found) if found else one.values.new_zeros(0, outputs)
    return whole.view(walks, inner, outputs)
