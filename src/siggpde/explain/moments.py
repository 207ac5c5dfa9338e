"""When in a series the prediction was made: what every step of its path moved.

The latent function of a path depends on its steps v_i (increments) alone. To the first order, stretching step i in
channel c by a small share e moves it by e a_ic with

    a_ic = v_ic df/dv_ic,    df/dv_i = sum over points j > i of df/dX_j,

by the reverse pass of the signature. This says where the prediction is sensitive, not what would happen without the
step: a word of three letters counts each of its three steps, so the a_ic do not add up to f (for words of one letter
and a kernel that is not normalised they do). The channels of a path are moved one by one, also where one is computed
from another, such as the running variation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.explain.linear import check, classifies, directions, likeliest_two, path_names, word_features
from siggpde.numerics.inputs import row_mask
from siggpde.paths import PathOptions, SeriesBatch

_CHUNK = 128


@dataclass(frozen=True)
class TimeAttribution:
    """How much the step into every point of a series moved its prediction, channel by channel.

    `values` (n, length, channels), with `channels` the names of the channels of the paths. values[:, j] is the step
    from point j - 1 to point j; values[:, 0] is the step from the base point to the first point, zero for paths
    without one. Positive: more of this step speaks more for the predicted class against the runner-up, or raises the
    number. Zero after the end of a series. `pairs` (n, 2) are the places of the two classes; None for a regression.
    """

    channels: tuple[str, ...]
    values: np.ndarray
    pairs: np.ndarray | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        pairs = None if self.pairs is None else self.pairs.tolist()
        return {"channels": list(self.channels), "values": self.values.tolist(), "pairs": pairs}


def time_attribution(committee: Committee, batch: SeriesBatch, names: Sequence[str]) -> TimeAttribution:
    """Gradient times increment of the latent that decides, for every step of every series; see the module.

    The latent is that of the predicted class minus the runner-up's, or that of the number. Members make paths in ways
    of their own: their steps are laid on the points of the series and averaged with the members' weights; a channel
    that only some of them have counts zero in the others. With differences, a step belongs to the last of its points.
    """
    check(committee, batch, names)
    spelled = path_names(committee, names)
    channels = tuple(dict.fromkeys(name for own in spelled for name in own))
    place = committee.device
    found = torch.zeros(len(batch), batch.values.shape[1], len(channels), dtype=torch.float64, device=place)
    pairs = likeliest_two(committee.probabilities(batch)) if classifies(committee) else None
    for k, (weight, member) in enumerate(zip(committee.weights.tolist(), committee.members, strict=True)):
        columns = torch.tensor([channels.index(name) for name in spelled[k]], device=place)
        start = 0
        for piece in batch.split(_CHUNK):
            rows = slice(start, start + len(piece))
            steps = _steps(member, piece, directions(committee, pairs, k, rows))
            laid = steps.new_zeros(len(piece), found.shape[1], steps.shape[2])
            laid.index_add_(1, _points(member.transform.options, steps.shape[1]).to(place), steps)
            found[rows].index_add_(2, columns, weight * laid)
            start += len(piece)
    return TimeAttribution(channels, found.cpu().numpy(), None if pairs is None else pairs.cpu().numpy())


def _steps(member: Member, batch: SeriesBatch, towards: Tensor) -> Tensor:
    """Gradient times increment for every step of the paths of a member, (n, length' - 1, channels')."""
    paths, lengths = member.paths(batch)
    with torch.enable_grad():
        points = paths.detach().requires_grad_()
        latent = (word_features(member.model, points, lengths) * towards).sum()
        (slope,) = torch.autograd.grad(latent, points)
    if lengths is not None:
        slope = torch.where(row_mask(paths, lengths)[:, :, None], slope, 0.0)
    after = slope.flip(1).cumsum(dim=1).flip(1)[:, 1:]
    return after * paths.diff(dim=1)


def _points(options: PathOptions, steps: int) -> Tensor:
    """The point of the series into which every step of the path goes, (steps,)."""
    place = torch.arange(steps)
    if options.lead_lag:  # two steps for one
        place = place // 2
    return place + (0 if options.base_point else 1) + options.difference
