"""Attribution over time for a committee of views: what changes where a piece of a series is made ordinary.

Windows, kernels and spectra do not pass on a gradient to single steps, so pieces are left out instead. A series has up
to 32 segments of equal length. In each segment and channel in turn the points are replaced by what is ordinary there
(`siggpde.explain.cuts`), and

    effect = f(series) - f(series with the segment replaced)

is divided equally over the points of the segment. So where all series are alike nothing is attributed, and the sum over
the points of a segment is the effect of that segment being as it is. Effects of segments do not add up to f: what two
segments have in common counts in both, or in neither; those of `siggpde.explain.walks` do.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews, mean_latents
from siggpde.explain.cuts import average_series, segments_of, stretched
from siggpde.explain.logits import logits_of
from siggpde.explain.predictions import classes_of, top_two_classes
from siggpde.explain.results import TimeAttribution
from siggpde.explain.view_vocabulary import unique_names
from siggpde.series import SeriesBatch

_SEGMENTS = 32
_PIECES = 256  # of a series, segments times channels: with many channels there are fewer segments
_FEWEST_SEGMENTS = 8
_LARGEST_BATCH = 2**22  # numbers of changed series at a time


def occlusion(committee: OfViews, batch: SeriesBatch, names: tuple[str, ...]) -> TimeAttribution:
    """The attribution to every point and channel of the series; arguments as those of `time_attribution`, checked."""
    values = torch.zeros(batch.values.shape, dtype=torch.float64, device=batch.values.device)
    pairs = None if classes_of(committee) is None else top_two_classes(committee.probabilities(batch))
    direction, _ = logits_of(committee).directions(pairs, len(batch))
    plain = (mean_latents(committee, batch) * direction).sum(1)
    average = average_series(committee)
    for index, length in enumerate(batch.counts().tolist()):
        segments = _segments(length, batch.channels)
        of_point = segments_of(length, segments, values.device)
        latents = [
            mean_latents(committee, changed) @ direction[index]
            for changed in _changed(batch[index : index + 1], stretched(average, length), of_point, segments)
        ]
        points = torch.bincount(of_point, minlength=segments)[:, None]
        effects = (plain[index] - torch.cat(latents).view(segments, batch.channels)) / points
        values[index, :length] = effects[of_point]
    own = unique_names(committee, names)
    return TimeAttribution(own, values.cpu().numpy(), None if pairs is None else pairs.cpu().numpy())


def _changed(one: SeriesBatch, ordinary: Tensor, of_point: Tensor, segments: int) -> Iterator[SeriesBatch]:
    """Copies of one series, in batches: number s * channels + c has segment s of channel c replaced.

    `ordinary` (length, channels) takes its place; `of_point` (length,) is the segment of every point.
    """
    count, (_, points, channels) = segments * one.channels, one.values.shape
    for numbers in torch.arange(count, device=of_point.device).split(max(1, _LARGEST_BATCH // (points * channels))):
        copies = one.values.repeat(len(numbers), 1, 1)
        for copy, number in zip(copies, numbers.tolist(), strict=True):
            where, channel = of_point == number // channels, number % channels
            copy[: len(of_point), channel][where] = ordinary[where, channel].to(copy)
        lengths = None if one.lengths is None else one.lengths.expand(len(copies))
        yield SeriesBatch(copies, lengths, None if one.times is None else one.times.expand(len(copies), -1))


def _segments(length: int, channels: int) -> int:
    return min(length, max(_FEWEST_SEGMENTS, min(_SEGMENTS, _PIECES // channels)))
