"""When and where the evidence for a prediction is: Shapley values of the segments of a series, shared out to channels
within them (docs/design.md, Explanations)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from siggpde.explain.posterior import Functionals, LatentSums, mixture_std, over_members
from siggpde.explain.results import SegmentContributions, Stretch
from siggpde.explain.terms import Features, Group, Terms, evenly_spaced, stretched
from siggpde.explain.text import movement
from siggpde.series import SeriesBatch
from siggpde.series.statistics import OF_SERIES
from siggpde.views.window_features import FittedView, WindowScaler
from siggpde.views.windows import WindowsBlock

IN_VARIANCES = 16
"""Variances are taken over the first so many permutations: further ones would change them little."""

_PREDICTIONS = 500  # about as many for a series, unless the number of permutations is given
_FEWEST, _MOST = 4, 64  # permutations
_LARGEST_BATCH = 2**22  # numbers of cut series at a time
_LARGEST_CHUNK = 1024  # cut series at a time
_LARGEST_SUMS = 2**26  # numbers of summed features
_BACKGROUND = 500  # series
_STRETCHES = 5
_WORTH_TELLING = 0.25  # of the largest contribution: segments of less are in no stretch
_CUT_OFF_BITS = 40  # pieces of a group up to which a state is one number


@dataclass(frozen=True)
class PermutationSettings:
    """How contributions of segments are computed.

    Attributes
    ----------
    segments
        The most segments a series is cut into.
    permutations
        An even number, or None for about 500 predictions.
    seed
        Of the permutations.
    uncertainty
        Whether standard deviations under the posterior are computed too.

    Examples
    --------
    >>> PermutationSettings(permutations=6).pairs(pieces=20)
    3
    """

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
        """Returns the number of permutations that are taken forwards and backwards."""
        wanted = self.permutations
        if wanted is None:
            wanted = min(_MOST, max(_FEWEST, _PREDICTIONS // pieces))
        return (wanted + 1) // 2


@torch.no_grad()
def segment_contributions(
    terms: Terms,
    batch: SeriesBatch,
    names: Sequence[str],
    labels: list[Any] | None,
    pairs: Tensor | None,
    settings: PermutationSettings,
    background: SeriesBatch | None = None,
    truths: Tensor | None = None,
) -> list[SegmentContributions]:
    """Returns the contributions of the segments of every series to `pairs` (n, 2) of classes, and against `truths`."""
    channels, latents = terms.names(names), member_logits(terms, batch)
    if background is None:
        others = [terms.ordinary]
    else:
        some = evenly_spaced(background, _BACKGROUND)
        others = [values[:count] for values, count in zip(some.values, some.counts().tolist(), strict=True)]
    plans = plans_of(terms)
    known: dict[int, Tensor] = {}  # logits of references, by the length they are brought to
    contributions = []
    for row, length in enumerate(batch.counts().tolist()):
        times = None if batch.times is None else batch.times[row : row + 1, :length]
        facts = None if batch.facts is None else batch.facts[row : row + 1]
        one = SeriesBatch(batch.values[row : row + 1, :length], None, times, facts=facts)
        references = torch.stack([stretched(series, length) for series in others]).to(one.values)
        if times is not None or facts is not None or length not in known:
            known[length] = member_logits(terms, with_times_of(references, one))
        raw_length = length if batch.statistics is None else max(length, int(batch.statistics[row, -len(OF_SERIES)]))
        pair = None if pairs is None else pairs[row]
        order = contrast_of(over_members(terms, known[length]), pair).argsort(stable=True)
        ends = Ends(latents[:, row], references, known[length], order)
        sampled = sample_credits(terms, one, ends, settings, plans)
        one_way = sampled.contributions(channels, labels, pair, raw_length)
        if pair is not None and truths is not None and int(truths[row]) not in pair.tolist():
            pair = torch.stack([pair[0], truths[row].to(pair)])
            one_way = replace(one_way, against_truth=sampled.contributions(channels, labels, pair, raw_length))
        contributions.append(one_way)
    return contributions


def contrast_of(values: Tensor, pair: Tensor | None) -> Tensor:
    """Returns (..) from (.., classes): the first class of a pair minus the second; from (.., 1) the number."""
    return values[..., 0] if pair is None else values[..., int(pair[0])] - values[..., int(pair[1])]


def limits_of(of_point: Tensor, times: Tensor | None, raw_length: int) -> tuple[Tensor, Tensor]:
    """Returns start and end of every segment: time stamps, or points of the series before it was averaged."""
    counts, length = of_point.bincount(), len(of_point)
    after = counts.cumsum(0)
    before = after - counts
    if times is not None:
        return times[before], times[after - 1]
    return before * raw_length // length, (after * raw_length + length - 1) // length - 1


class Run(NamedTuple):
    """The segments first <= s <= last of a channel, by their numbers."""

    channel: int
    first: int
    last: int


def main_runs(contributions: Tensor, most: int) -> list[Run]:
    """Returns the `most` runs of neighbours of one sign with the largest sums of contributions (segments, channels)."""
    least = _WORTH_TELLING * float(contributions.abs().max())
    if least == 0:
        return []
    sides = torch.where(contributions.abs() >= least, contributions.sign(), 0.0).T.tolist()
    runs = []
    for channel, signs in enumerate(sides):
        for sign, neighbours in itertools.groupby(range(len(signs)), signs.__getitem__):
            first, *_, last = [*neighbours] * 2
            runs += [Run(channel, first, last)] * bool(sign)
    runs.sort(key=lambda run: -abs(float(contributions[run.first : run.last + 1, run.channel].sum())))
    return runs[:most]


class Ends(NamedTuple):
    """The logits of a series by member (K, outputs), the references, theirs (K, r, outputs), and their order (r,)."""

    latent: Tensor
    references: Tensor
    begins: Tensor
    order: Tensor


class Sampled(NamedTuple):
    """The permutations through a series: credits for every member (K, pairs, S, C, outputs), the logits that they begin
    with (K, pairs, outputs), the cut series, and sums over these for the pieces of the first `channels` channels, 0
    without uncertainty; `variances` (K, latents) of sums of pieces that were asked for before."""

    terms: Terms
    ends: Ends
    credits: Tensor
    begun: Tensor
    cuts: CutSeries
    sums: LatentSums
    channels: int
    plans: Plans
    variances: dict[tuple[int, ...], Tensor]

    def contributions(
        self, channels: tuple[str, ...], labels: list[Any] | None, pair: Tensor | None, raw_length: int
    ) -> SegmentContributions:
        """Returns what the segments contribute, with the contrast of a pair of classes or of the number."""
        terms, ends, cuts = self.terms, self.ends, self.cuts
        all_credits, begun, begins = (over_members(terms, part) for part in (self.credits, self.begun, ends.begins))
        count, segments = all_credits.shape[:2]
        error = all_credits.std(0) / count**0.5
        share = error.square()
        total = share.sum((0, 1))
        share = torch.where(total > 0, share / total, 1 / (segments * len(channels)))
        values = all_credits.mean(0) + (begun.mean(0) - begins.mean(0)) * share
        contrast, credits = contrast_of(values, pair), contrast_of(all_credits, pair)
        runs = main_runs(contrast, _STRETCHES)
        spread = posterior_spread(terms, self, pair, runs) if self.channels else None
        stds = [None] * len(runs) if spread is None else spread.runs.tolist()
        times = cuts.one.times
        starts, stops = limits_of(cuts.of_point, None if times is None else times[0], raw_length)
        main = []
        for (channel, first, last), std in zip(runs, stds, strict=True):
            run = slice(first, last + 1)
            inside = (cuts.of_point >= first) & (cuts.of_point <= last)
            there, ordinary = (part[inside, channel] for part in (cuts.one.values[0], ends.references.mean(0)))
            does = movement(there, ordinary, float(terms.spread[channel]))
            value, doubt = contrast[run, channel].sum(), credits[:, run, channel].sum(1).std() / count**0.5
            span = float(starts[first]), float(stops[last])
            main.append(Stretch(channels[channel], *span, does, float(value), float(doubt), std))
        return SegmentContributions(
            channels=channels,
            classes=labels,
            starts=starts.cpu().numpy(),
            ends=stops.cpu().numpy(),
            values=values.cpu().numpy(),
            sampling_error=error.cpu().numpy(),
            std=None if spread is None else spread.values.cpu().numpy(),
            contrast=contrast.cpu().numpy(),
            contrast_error=(credits.std(0) / count**0.5).cpu().numpy(),
            contrast_std=None if spread is None else spread.contrast.cpu().numpy(),
            latents=over_members(terms, ends.latent).cpu().numpy(),
            baseline=begins.mean(0).cpu().numpy(),
            permutations=2 * count,
            timed=times is not None,
            main=main,
        )


def member_logits(terms: Terms, batch: SeriesBatch) -> Tensor:
    """Returns the logits of all classes, or the number, of the mean latents of every member, (K, n, classes or 1)."""
    return terms.latents(batch) @ terms.logits.mixing.T + terms.logits.offset


def sample_credits(terms: Terms, one: SeriesBatch, ends: Ends, settings: PermutationSettings, plans: Plans) -> Sampled:
    """Returns the credits, and with uncertainty what their variances are made of."""
    length, channels = one.values.shape[1:]
    of_point = segments_of(length, settings.segments, one.values.device)
    segments = int(of_point[-1]) + 1
    count = settings.pairs(segments * channels)
    random = torch.Generator().manual_seed(settings.seed)
    forwards = torch.stack([
        torch.cat([
            segment * channels + torch.randperm(channels, generator=random)  # the pieces, segment by segment
            for segment in torch.randperm(segments, generator=random).tolist()
        ])
        for _ in range(count)
    ])  # fmt: skip
    # References (pairs, 2) of the permutations: evenly, one each from both halves of their order.
    places = (torch.arange(2 * count, device=ends.order.device) * 2 + 1) * len(ends.order) // (4 * count)
    used = torch.stack([ends.order[places[:count]], ends.order[places[count:]].flip(0)], dim=1)
    orders = torch.stack([forwards, forwards.flip(1)], dim=1).flatten(0, 1).to(one.values.device)  # (orders, pieces)
    ranks = orders.argsort(dim=1)
    cuts = CutSeries(one, ends.references, used.flatten(), ranks, of_point)
    together = max(1, min(channels, _LARGEST_SUMS // (segments * max(1, sum(terms.widths)))))
    some = range(together) if settings.uncertainty else ()
    sums, means = add_up(terms, cuts, pieces_of(segments, channels, some), plans)
    inner = (means[:, : cuts.inner] @ terms.logits.mixing.T + terms.logits.offset).unflatten(1, (len(ranks), -1))
    begun = ends.begins[:, used]
    whole = ends.latent[:, None, None].expand(-1, len(ranks), 1, -1)
    levels = torch.cat([begun.flatten(1, 2)[:, :, None], inner, whole], dim=2)
    steps = levels.diff(dim=2).gather(2, ranks[None, :, :, None].expand(*levels.shape[:1], -1, -1, levels.shape[3]))
    credits = steps.unflatten(2, (segments, channels)).unflatten(1, (count, 2)).mean(2)
    channels = together if settings.uncertainty else 0
    return Sampled(terms, ends, credits, begun.mean(2), cuts, sums, channels, plans, {})


def segments_of(length: int, segments: int, device: torch.device) -> Tensor:
    """Returns the number of the segment of every point (length,): up to `segments` of nearly equal length."""
    return torch.arange(length, device=device) * min(segments, length) // length


def pieces_of(segments: int, channels: int, some: Iterable[int]) -> list[int]:
    """Returns the numbers of the pieces of some channels."""
    return [segment * channels + channel for channel in some for segment in range(segments)]


def add_up(terms: Terms, cuts: CutSeries, pieces: list[int], plans: Plans) -> tuple[LatentSums, Tensor]:
    """Returns sums over the cut series for some pieces, and the mean latents (K, cut series, outputs) of members."""
    sums, numbers = LatentSums(terms), cuts.numbers()
    weights = cuts.weights(torch.tensor(pieces, dtype=torch.int64, device=numbers.device))
    length, channels = cuts.one.values.shape[1:]
    chunks = numbers.split(max(1, min(_LARGEST_CHUNK, _LARGEST_BATCH // (length * channels))))
    around = None
    if len(chunks) == 1 and pieces:  # the cut series after and then those before every piece, as places in `numbers`
        both = torch.cat([part[:, pieces] for part in cuts.around()])
        around = torch.searchsorted(numbers, both.T.contiguous())
    means = []
    for some in chunks:
        seen, states = terms.prepare(cuts.series(some)), States(*cuts.kept(some))
        groups = {index: [plan.of_states(seen, states) for plan in of_block] for index, of_block in plans.items()}
        means.append(sums.add(seen, weights[:, some], around, groups))
    return sums, torch.cat(means, dim=1)


class PosteriorSpread(NamedTuple):
    """Of contributions (S, C, classes), of their contrast (S, C), and of the contrast summed over runs (runs,)."""

    values: Tensor
    contrast: Tensor
    runs: Tensor


def posterior_spread(terms: Terms, sampled: Sampled, pair: Tensor | None, runs: Sequence[Run]) -> PosteriorSpread:
    """Returns standard deviations under the posterior; `pair` (2,) are the classes of the contrast."""
    cuts, mixing = sampled.cuts, terms.logits.mixing
    means = sampled.credits.mean(1)  # (K, S, C, classes)
    segments, channels = means.shape[1:3]
    single = [(piece,) for piece in pieces_of(segments, channels, range(channels))]
    of_runs = [tuple(pieces_of(segments, channels, [run.channel])[run.first : run.last + 1]) for run in runs]
    chosen = [of_sum for of_sum in single + of_runs if of_sum not in sampled.variances]
    for first in range(0, channels, sampled.channels):
        some = range(first, min(channels, first + sampled.channels))
        pieces = pieces_of(segments, channels, some)
        places = {piece: place for place, piece in enumerate(pieces)}
        inside = [of_sum for of_sum in chosen if of_sum[0] in places]
        if not inside:
            continue
        sums = sampled.sums if first == 0 else add_up(terms, cuts, pieces, sampled.plans)[0]
        over = [cuts.sum_of(of_sum) for of_sum in inside]
        rows = [[places[piece] for piece in of_sum] for of_sum in inside]
        moments = sums.moments(rows, over, lambda numbers: terms.prepare(cuts.series(numbers)))
        for place, of_sum in enumerate(inside):
            sampled.variances[of_sum] = torch.stack([member.variance[place] for member in moments])
    variances = torch.stack([sampled.variances[of_sum] for of_sum in single + of_runs], dim=1)
    latents = variances[:, : len(single)].unflatten(1, (channels, segments)).transpose(1, 2)  # (K, S, C, latents)
    direction, contrast = contrast_of(mixing.T, pair), contrast_of(means, pair)
    totals = [contrast[:, run.first : run.last + 1, run.channel].sum(1) for run in runs]
    return PosteriorSpread(
        mixture_std(terms, means, terms.along(latents[..., None, :], mixing)),
        mixture_std(terms, contrast, terms.along(latents, direction)),
        mixture_std(terms, torch.stack(totals, dim=1), terms.along(variances[:, len(single) :], direction))
        if runs
        else means.new_zeros(0),
    )


class CutSeries(NamedTuple):
    """All series that permutations through a series pass, permutation by permutation, then the series itself and the
    references (r, length, channels): `used` (orders,) are those of the permutations, `ranks` (orders, pieces) the
    places of the pieces s * channels + c in them, `of_point` (length,) the segments."""

    one: SeriesBatch
    references: Tensor
    used: Tensor
    ranks: Tensor
    of_point: Tensor

    @property
    def inner(self) -> int:
        """The number of cut series inside the permutations, without their ends."""
        count, pieces = self.ranks.shape
        return count * (pieces - 1)

    def numbers(self) -> Tensor:
        """Returns the numbers of all cut series that some permutation passes, those inside the permutations first."""
        device = self.ranks.device
        ends = torch.cat([torch.zeros(1, dtype=torch.int64, device=device), 1 + self.used.unique()])
        return torch.cat([torch.arange(self.inner, device=device), self.inner + ends])

    def series(self, numbers: Tensor) -> SeriesBatch:
        """Returns the cut series with these numbers (n,)."""
        mask, reference = self.kept(numbers)
        values = torch.where(mask[:, self.of_point], self.one.values, self.references[reference])
        return with_times_of(values, self.one)

    def kept(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns which pieces cut series (n,) have kept, (n, segments, channels), and their references (n,)."""
        pieces, steps = self.ranks.shape[1], max(1, self.ranks.shape[1] - 1)
        inner = numbers < self.inner
        permutation = torch.where(inner, numbers // steps, 0)
        kept = torch.where(inner, numbers % steps + 1, torch.where(numbers == self.inner, pieces, 0))
        reference = torch.where(inner, self.used[permutation], (numbers - self.inner - 1).clamp_min(0))
        mask = self.ranks[permutation] < kept[:, None]
        return mask.view(len(numbers), int(self.of_point[-1]) + 1, -1), reference

    def around(self) -> tuple[Tensor, Tensor]:
        """Returns the cut series after and before every piece in the first permutations, two (orders, pieces)."""
        ranks, pieces = self.ranks[:IN_VARIANCES], self.ranks.shape[1]
        first = torch.arange(len(ranks), device=ranks.device)[:, None] * (pieces - 1) - 1
        after = torch.where(ranks == pieces - 1, self.inner, first + ranks + 1)
        before = torch.where(ranks == 0, self.inner + 1 + self.used[:IN_VARIANCES, None], first + ranks)
        return after, before

    def weights(self, pieces: Tensor) -> Tensor:
        """Returns coefficients (pieces, cut series), float64, of the credits of pieces, means over 16 permutations."""
        after, before = (part[:, pieces].T for part in self.around())
        count = self.inner + 1 + len(self.references)
        total = torch.zeros(len(pieces), count, dtype=torch.float64, device=self.ranks.device)
        share = torch.full_like(after, 1 / after.shape[1], dtype=torch.float64)
        return total.scatter_add_(1, after, share).scatter_add_(1, before, -share)

    def sum_of(self, pieces: Sequence[int]) -> Functionals:
        """Returns the sum of the credits of some pieces."""
        coefficients = self.weights(torch.tensor(pieces, device=self.ranks.device)).sum(0)
        series = (coefficients.abs() > 0.5 / IN_VARIANCES).nonzero()[:, 0]  # less is rounding
        return Functionals(series, coefficients[None, series])


def cut_facts(batch: SeriesBatch) -> tuple[SeriesBatch, Tensor]:
    """Returns the 2 F series of two permutations of the F facts of n series, and their coefficients (F, 2 F)."""
    assert batch.facts is not None
    pieces = torch.arange(batch.facts.shape[1], device=batch.values.device)
    used = torch.zeros(2, dtype=torch.int64, device=pieces.device)
    ranks, one = torch.stack([pieces, pieces.flip(0)]), batch[:1]
    cuts = CutSeries(one, one.values, used, ranks, used[:1])
    mask = cuts.kept(cuts.numbers())[0][:, 0]
    rows = torch.arange(len(batch), device=pieces.device).repeat_interleave(len(mask))
    facts = torch.where(mask.repeat(len(batch), 1), batch.facts[rows], torch.nan)
    return replace(batch[rows], facts=facts), cuts.weights(pieces)


def with_times_of(values: Tensor, one: SeriesBatch) -> SeriesBatch:
    """Returns series (n, length, channels) with the time stamps and the facts of another one."""
    times, facts = (None if part is None else part.expand(len(values), -1) for part in (one.times, one.facts))
    return SeriesBatch(values, None, times, facts=facts)


class States(NamedTuple):
    """What n cut series have kept, `mask` (n, segments, channels), and references: equal states have equal features."""

    mask: Tensor
    reference: Tensor

    def of(self, channels: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Returns one cut series (u,) for every state of some channels, and the state (n,) of every cut series."""
        bits = self.mask[:, :, list(channels)].flatten(1)
        if bits.shape[1] > _CUT_OFF_BITS:
            every = torch.arange(len(bits), device=bits.device)
            return every, every
        powers = 2 ** torch.arange(bits.shape[1], device=bits.device)
        whole = bits.all(1)  # nothing of the reference is left
        code = (bits * powers).sum(1) + torch.where(whole, 0, self.reference) * 2 ** bits.shape[1]
        codes, state = code.unique(return_inverse=True)
        first = torch.empty_like(codes).scatter_(0, state, torch.arange(len(code), device=code.device))
        return first, state


class GroupPlan(NamedTuple):
    """A group of channels, the `block` of its views alone, and the number, columns and factor of its parts."""

    channels: tuple[int, ...]
    block: WindowsBlock
    parts: Sequence[tuple[int, Tensor, float]]

    def of_states(self, seen: SeriesBatch, states: States) -> Group:
        """Returns the features of n standardised series, of every state once."""
        first, state = states.of(self.channels)
        parts = self.block.parts(SeriesBatch(seen.values[first][:, :, list(self.channels)]))
        features = (
            Features(number, part.times(factor), columns, state)
            for part, (number, columns, factor) in zip(parts, self.parts, strict=True)
        )
        return Group(self.block, features, state)


Plans = Mapping[int, Sequence[GroupPlan]]
"""Plans by the number of their block, for windows with several groups of channels: elsewhere nothing is saved."""


def plans_of(terms: Terms) -> Plans:
    """Returns how the features of cut series are computed."""
    return {
        index: group_plans(block)
        for index, block in enumerate(terms.blocks)
        if isinstance(block, WindowsBlock) and any(len(fitted.view.groups) > 1 for fitted in block.features.views)
    }


def group_plans(block: WindowsBlock) -> list[GroupPlan]:
    """Returns a plan for every group of channels of a block of windows."""
    views: dict[tuple[int, ...], list[FittedView]] = {}
    scalers: dict[tuple[int, ...], list[dict[str, Tensor]]] = {}
    parts: dict[tuple[int, ...], list[tuple[int, Tensor, float]]] = {}
    for number, fitted in enumerate(block.features.views):
        view, offset = fitted.view, 0
        for index, (group, count) in enumerate(zip(view.groups, view.column_counts, strict=True)):
            alone = replace(view, channels=len(group), groups=(tuple(range(len(group))),))
            thresholds = fitted.thresholds[:, offset : offset + count].contiguous()
            views.setdefault(group, []).append(FittedView(alone, fitted.path_scales[index : index + 1], thresholds))
            for part in (2 * number, 2 * number + 1):  # over the whole series and over its thirds
                learned = block.scaler.columns[part]
                word = learned.kept % view.columns - offset
                columns = ((word >= 0) & (word < count)).nonzero()[:, 0]
                statistic = learned.kept[columns].div(view.columns, rounding_mode="floor")
                scaler = {"mean": learned.mean[columns], "spread": learned.spread[columns]}
                scalers.setdefault(group, []).append({"kept": statistic * count + word[columns], **scaler})
                factor = (max(1, len(columns)) / max(1, len(learned.kept))) ** 0.5  # parts are means over columns
                parts.setdefault(group, []).append((part, columns, factor))
            offset += count
    plans = []
    for group, fitted_views in views.items():
        features = replace(
            block.features,
            mean=block.features.mean[list(group)],
            spread=block.features.spread[list(group)],
            lift_scales={lift: scale[list(group)] for lift, scale in block.features.lift_scales.items()},
            views=tuple(fitted_views),
        )
        landmarks = [
            block.landmarks[part]._replace(numbers=block.landmarks[part].numbers[:, columns])
            for part, columns, _ in parts[group]
        ]
        of_group = WindowsBlock(block.view, features, WindowScaler.from_state(scalers[group]), landmarks)
        of_group.count = block.count
        plans.append(GroupPlan(group, of_group, parts[group]))
    return plans


class Curve(NamedTuple):
    """The `values` (pieces + 1,) of f after 0, 1, .. pieces, and the `area` below them, their width being 1."""

    values: np.ndarray
    area: float


def deletion_curve(f: Callable[[np.ndarray], ArrayLike], contributions: ArrayLike, *, insertion: bool = False) -> Curve:
    """Returns the curve by which an explanation is judged: whether it points to what a prediction rests on.

    Pieces are cut out, those with the largest contributions first, and f is computed after each: the better the
    explanation, the smaller the area below the curve. An insertion curve starts with nothing and puts the same pieces
    back: the area is large. All explanations of one series have curves with the same ends.

    Parameters
    ----------
    f
        Gives numbers (n,) for masks (n, pieces) of True for pieces that are there and False for those that are cut out.
    contributions
        Those of the explanation, (pieces,).
    insertion
        Whether pieces are put back.

    Returns
    -------
    The values of f, and the area below them.

    Examples
    --------
    >>> weights = np.array([3.0, 1.0, 0.0, 0.0])
    >>> deletion_curve(lambda masks: masks @ weights, weights).values.tolist()
    [4.0, 1.0, 0.0, 0.0, 0.0]
    """
    given = np.asarray(contributions, dtype=float)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise ValueError(f"contributions must be finite numbers (pieces,), got an array of shape {given.shape}")
    order = np.argsort(-given, kind="stable")
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    steps = np.arange(len(order) + 1)[:, None]
    values = np.asarray(f(rank < steps if insertion else rank >= steps), dtype=float)
    return Curve(values, float(((values[1:] + values[:-1]) / 2).mean()))
