"""What takes the place of a piece of a series that is cut out: what is ordinary there.

Of a model that keeps training series it is their average, at the same share of the length; of one that keeps none, the
mean of the channel over all points of the training series. A piece cut out can leave jumps at its ends, which the model
sees as well: small effects mean little.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.predictions import AnyCommittee


def average_series(committee: AnyCommittee) -> Tensor:
    """The mean over the landmarks (length, channels), in the units of the series; shorter ones are stretched. Without
    landmarks the mean of every channel, (1, channels)."""
    if isinstance(committee, Committee):
        mean = committee.members[0].transform.mean
        assert mean is not None
        return mean[None]
    standard = committee.standard
    if isinstance(committee, WeightCommittee):
        return standard.mean[None]
    landmarks = committee.landmarks
    longest = landmarks.values.shape[1]
    if landmarks.lengths is None:
        mean = landmarks.values.mean(0)
    else:
        each = [
            stretched(series[:count], longest)
            for series, count in zip(landmarks.values, landmarks.lengths.tolist(), strict=True)
        ]
        mean = torch.stack(each).mean(0)
    return mean * standard.spread.to(mean) + standard.mean.to(mean)


def channel_spreads(committee: AnyCommittee) -> Tensor:
    """The standard deviation of every channel over all points of the training series, (channels,)."""
    if not isinstance(committee, Committee):
        return committee.standard.spread
    spread = committee.members[0].transform.spread
    assert spread is not None
    return spread


def stretched(series: Tensor, length: int) -> Tensor:
    """The series (points, channels) at `length` evenly spaced times from its first point to its last."""
    if len(series) == length:
        return series
    scaled = torch.nn.functional.interpolate(series.T[None], size=length, mode="linear", align_corners=True)
    return scaled[0].T


def segments_of(length: int, segments: int, device: torch.device) -> Tensor:
    """The number of the segment of every point (length,): up to `segments` of nearly equal length."""
    return torch.arange(length, device=device) * min(segments, length) // length
