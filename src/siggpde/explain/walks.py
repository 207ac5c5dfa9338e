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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.credit_sums import AnySums, Plans, sums_of, widths_of
from siggpde.explain.credit_variance import WALKS
from siggpde.explain.cuts import segments_of
from siggpde.explain.logits import logits_of, logits_of_likelihood
from siggpde.explain.nodes import Nodes
from siggpde.explain.predictions import AnyCommittee
from siggpde.series import SeriesBatch

_PREDICTIONS = 500  # about as many for a series, unless the number of permutations is given
_FEWEST, _MOST = 4, 64  # permutations
_LARGEST_BATCH = 2**22  # numbers of cut series at a time
_LARGEST_CHUNK = 1024  # cut series at a time
_LARGEST_SUMS = 2**26  # numbers of summed features


@dataclass(frozen=True)
class WalkSettings:
    """At most so many `segments`; `permutations`, an even number, or None for about 500 predictions; their `seed`; and
    whether the `uncertainty` of the posterior is computed too."""

    segments: int = 10
    permutations: int | None = None
    seed: int = 0
    uncertainty: bool = True

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
    """Of one series: its logits of every member (K, outputs), the references (r, length, channels) that walks can begin
    with, their logits (K, r, outputs), and their order (r,) by what is explained."""

    latent: Tensor
    references: Tensor
    begins: Tensor
    order: Tensor


class Walked(NamedTuple):
    """Of one series: credits of every member (K, pairs, S, C, outputs), what the walks began with, (K, pairs, outputs),
    the nodes of the walks, and sums over them for the pieces of the first `channels`, which are told apart by them."""

    credits: Tensor
    begun: Tensor
    nodes: Nodes
    sums: AnySums
    channels: int
    plans: Plans


def member_logits(committee: AnyCommittee, batch: SeriesBatch) -> Tensor:
    """The logits of all classes, or the number, of the mean latents of every member, (K, n, classes or 1), float64."""
    means, _ = committee.member_latents(batch)
    return as_logits(committee, means)


def as_logits(committee: AnyCommittee, means: Tensor) -> Tensor:
    """Logits (K, n, classes or 1) from mean latents (K, n, outputs) of the members."""
    if not isinstance(committee, Committee):
        mixing, offset = logits_of(committee)
        return means.double() @ mixing.T + offset
    links = [logits_of_likelihood(member.model.likelihood, committee.device) for member in committee.members]
    return torch.stack([mean @ link.mixing.T + link.offset for mean, link in zip(means, links, strict=True)])


def averaged(committee: AnyCommittee, values: Tensor) -> Tensor:
    """The mean over the members, (..) from (K, ..)."""
    return torch.tensordot(committee.weights.to(values), values, dims=1)


def logit_means(committee: AnyCommittee, batch: SeriesBatch) -> Tensor:
    """The logits of all classes, or the number: of the mean latents, averaged over the members, (n, classes or 1)."""
    return averaged(committee, member_logits(committee, batch))


def walk(
    committee: AnyCommittee,
    one: SeriesBatch,
    ends: Ends,
    settings: WalkSettings,
    plans: Plans,
) -> Walked:
    """The credits, and with uncertainty what their variances are made of."""
    length, channels = one.values.shape[1:]
    of_point = segments_of(length, settings.segments, one.values.device)
    segments = int(of_point[-1]) + 1
    count = settings.pairs(segments * channels)
    random = torch.Generator().manual_seed(settings.seed)
    forwards = torch.stack([_order(segments, channels, random) for _ in range(count)])
    used = _spread_out(ends.order, count)
    orders = torch.stack([forwards, forwards.flip(1)], dim=1).flatten(0, 1).to(one.values.device)  # (walks, pieces)
    ranks = orders.argsort(dim=1)
    nodes = Nodes(one, ends.references, used.flatten(), ranks, of_point)
    together = max(1, min(channels, _LARGEST_SUMS // (segments * max(1, widths_of(committee)))))
    some = range(together) if settings.uncertainty else ()
    sums, means = add_up(committee, nodes, pieces_of(segments, channels, some), plans)
    inner = as_logits(committee, means[:, : nodes.between]).unflatten(1, (len(ranks), -1))
    begun = ends.begins[:, used]
    whole = ends.latent[:, None, None].expand(-1, len(ranks), 1, -1)
    levels = torch.cat([begun.flatten(1, 2)[:, :, None], inner, whole], dim=2)
    steps = levels.diff(dim=2).gather(2, ranks[None, :, :, None].expand(*levels.shape[:1], -1, -1, levels.shape[3]))
    credits = steps.unflatten(2, (segments, channels)).unflatten(1, (count, 2)).mean(2)
    return Walked(credits, begun.mean(2), nodes, sums, together, plans)


def pieces_of(segments: int, channels: int, some: Iterable[int]) -> list[int]:
    """The numbers of the pieces of some channels."""
    return [segment * channels + channel for channel in some for segment in range(segments)]


def add_up(committee: AnyCommittee, nodes: Nodes, pieces: list[int], plans: Plans) -> tuple[AnySums, Tensor]:
    """Sums over the nodes for some pieces, and the means of the members' latents at all nodes, (K, nodes, outputs)."""
    sums, numbers = sums_of(committee, plans), nodes.numbers()
    weights = nodes.weights(torch.tensor(pieces, dtype=torch.int64, device=numbers.device), WALKS)
    length, channels = nodes.one.values.shape[1:]
    chunks = numbers.split(max(1, min(_LARGEST_CHUNK, _LARGEST_BATCH // (length * channels))))
    around = nodes.next_to(pieces, WALKS, numbers) if len(chunks) == 1 and pieces else None
    means = [sums.add(nodes, some, weights[:, some], around) for some in chunks]
    return sums, torch.cat(means, dim=1)


def _spread_out(order: Tensor, pairs: int) -> Tensor:
    """The references of the walks, (pairs, 2): evenly spread over them in this order, so that few stand for all, one
    from below and one from above for each pair."""
    places = (torch.arange(2 * pairs, device=order.device) * 2 + 1) * len(order) // (4 * pairs)
    chosen = order[places]
    return torch.stack([chosen[:pairs], chosen[pairs:].flip(0)], dim=1)


def _order(segments: int, channels: int, random: torch.Generator) -> Tensor:
    """The pieces s * channels + c in the order of a walk, (pieces,)."""
    own = [
        segment * channels + torch.randperm(channels, generator=random)
        for segment in torch.randperm(segments, generator=random).tolist()
    ]
    return torch.cat(own)
