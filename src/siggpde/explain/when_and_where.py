"""When and where the evidence for a prediction is, series by series (`explain.walks` has the formulas).

With a background walks begin with its series, evenly spread over what is explained. The baseline is the mean over all
of them; what the mean over those that were used differs is shared out to the pieces in proportion to the squares of
their sampling errors, which it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.credit_sums import plans_of
from siggpde.explain.cuts import average_series, channel_spreads, segments_of, stretched
from siggpde.explain.nodes import beside
from siggpde.explain.posterior_spread import posterior_spread
from siggpde.explain.predictions import AnyCommittee, evenly_spaced
from siggpde.explain.results import SegmentContributions, Stretch
from siggpde.explain.runs import main_runs
from siggpde.explain.text import movement
from siggpde.explain.view_vocabulary import unique_names
from siggpde.explain.walks import Ends, Walked, WalkSettings, averaged, member_logits, walk
from siggpde.series import SeriesBatch
from siggpde.series.statistics import OF_SERIES

_BACKGROUND = 500
_TOLD = 5  # stretches


@torch.no_grad()
def segment_contributions(
    committee: AnyCommittee,
    batch: SeriesBatch,
    names: Sequence[str],
    labels: list[Any] | None,
    pairs: Tensor | None,
    settings: WalkSettings,
    background: SeriesBatch | None = None,
) -> list[SegmentContributions]:
    """Those of every series; `pairs` (n, 2) are the classes that are compared. Of more than 500 series of the
    background that many are used, evenly spaced."""
    own = tuple(names) if isinstance(committee, Committee) else unique_names(committee, names)
    latents, spreads = member_logits(committee, batch), channel_spreads(committee)
    others = None if background is None else evenly_spaced(background, _BACKGROUND)
    ordinary = average_series(committee) if others is None else None
    plans = plans_of(committee)
    known: dict[int, Tensor] = {}  # logits of references, by the length they are brought to
    found = []
    for row, length in enumerate(batch.counts().tolist()):
        times = None if batch.times is None else batch.times[row : row + 1, :length]
        one = SeriesBatch(batch.values[row : row + 1, :length], None, times)
        references = _references(others, ordinary, length).to(one.values)
        if times is not None or length not in known:
            known[length] = member_logits(committee, beside(references, one))
        raw_length = length if batch.facts is None else max(length, int(batch.facts[row, -len(OF_SERIES)]))
        pair = None if pairs is None else pairs[row]
        order = _contrast(averaged(committee, known[length]), pair).argsort(stable=True)
        ends = Ends(latents[:, row], references, known[length], order)
        walked = walk(committee, one, ends, settings, plans)
        found.append(
            _contributions(committee, spreads, one, own, labels, pair, walked, ends, raw_length, settings.uncertainty)
        )
    return found


def _references(others: SeriesBatch | None, ordinary: Tensor | None, length: int) -> Tensor:
    """What cut pieces are replaced by, (references, length, channels)."""
    if others is None:
        assert ordinary is not None
        return stretched(ordinary, length)[None]
    counts = zip(others.values, others.counts().tolist(), strict=True)
    return torch.stack([stretched(series[:count], length) for series, count in counts])


def _contributions(
    committee: AnyCommittee,
    spreads: Tensor,
    one: SeriesBatch,
    channels: tuple[str, ...],
    labels: list[Any] | None,
    pair: Tensor | None,
    walked: Walked,
    ends: Ends,
    raw_length: int,
    uncertainty: bool,
) -> SegmentContributions:
    all_credits, begun, begins = (averaged(committee, each) for each in (walked.credits, walked.begun, ends.begins))
    count, segments = all_credits.shape[:2]
    error = all_credits.std(0) / count**0.5
    share = error.square()
    total = share.sum((0, 1))
    share = torch.where(total > 0, share / total, 1 / (segments * len(channels)))
    values = all_credits.mean(0) + (begun.mean(0) - begins.mean(0)) * share
    contrast = _contrast(values, pair)
    credits = _contrast(all_credits, pair)
    of_point = segments_of(one.values.shape[1], segments, one.values.device)
    starts, stops = _limits(one, of_point, raw_length)
    runs = main_runs(contrast, _TOLD)
    spread = posterior_spread(committee, walked, pair, runs) if uncertainty else None
    stds = [None] * len(runs) if spread is None else spread.runs.tolist()
    main = []
    for (channel, first, last), std in zip(runs, stds, strict=True):
        run = slice(first, last + 1)
        inside = (of_point >= first) & (of_point <= last)
        values_there, ordinary = (each[inside, channel] for each in (one.values[0], ends.references.mean(0)))
        main.append(
            Stretch(
                channels[channel],
                float(starts[first]),
                float(stops[last]),
                movement(values_there, ordinary, float(spreads[channel])),
                float(contrast[run, channel].sum()),
                float(credits[:, run, channel].sum(1).std() / count**0.5),
                std,
            )
        )
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
        latents=averaged(committee, ends.latent).cpu().numpy(),
        baseline=begins.mean(0).cpu().numpy(),
        permutations=2 * count,
        timed=one.times is not None,
        main=main,
    )


def _contrast(values: Tensor, pair: Tensor | None) -> Tensor:
    """(..) from (.., classes): the first class of a pair minus the second; from (.., 1) the number."""
    return values[..., 0] if pair is None else values[..., int(pair[0])] - values[..., int(pair[1])]


def _limits(one: SeriesBatch, of_point: Tensor, raw_length: int) -> tuple[Tensor, Tensor]:
    """Start and end of every segment: time stamps, or points of the series as it was before it was averaged."""
    counts = of_point.bincount()
    after = counts.cumsum(0)
    before = after - counts
    if one.times is not None:
        return one.times[0, before], one.times[0, after - 1]
    length = one.values.shape[1]
    return before * raw_length // length, (after * raw_length + length - 1) // length - 1
