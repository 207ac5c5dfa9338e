"""Time attribution: how the prediction depends on each step of a series.

The latent function f of a path depends on its steps (increments) v_i alone. To first order, stretching step i in
channel c by a small factor 1 + e changes f by e a_ic with

    a_ic = v_ic df/dv_ic,    df/dv_i = sum over points j > i of df/dX_j,

computed by the reverse pass of the signature. This is a sensitivity, not the effect of leaving the step out: a word of
three letters counts in each of its three steps, so the a_ic do not add up to f (for words of one letter and a kernel
that is not normalised they do). The channels of a path are varied one by one, also where one is computed from another,
such as the running variation.

A committee of views has no such gradient: see `siggpde.explain.occlusion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Member
from siggpde.explain.occlusion import occlusion
from siggpde.explain.predictions import AnyCommittee, check_inputs, classes_of, top_two_classes
from siggpde.explain.results import TimeAttribution
from siggpde.explain.vocabulary import path_names
from siggpde.explain.word_terms import explained_weights, word_features
from siggpde.series import PathOptions, SeriesBatch

_CHUNK = 128


def time_attribution(committee: AnyCommittee, batch: SeriesBatch, names: Sequence[str]) -> TimeAttribution:
    """Gradient times increment of the latent function, for every step of every series (formula: top of the module).

    The latent is that of the predicted class minus the runner-up's, or that of the number. Members make paths of
    different options: steps are assigned to the points of the series they end in and averaged with the weights of the
    members; a channel that a member does not have is zero for it. A difference belongs to the last of its points.

    For a committee of views it is the effect of replacing segments of a series by the average of the landmarks, divided
    over their points (`siggpde.explain.occlusion`): up to 256 predictions for every series. Without landmarks it is the
    mean of the channel that takes their place.
    """
    check_inputs(committee, batch, names)
    if not isinstance(committee, Committee):
        return occlusion(committee, batch, tuple(names))
    names_of_member = path_names(committee, names)
    channels = tuple(dict.fromkeys(name for own in names_of_member for name in own))
    device = committee.device
    values = torch.zeros(len(batch), batch.values.shape[1], len(channels), dtype=torch.float64, device=device)
    pairs = top_two_classes(committee.probabilities(batch)) if classes_of(committee) is not None else None
    for weight, member, own in zip(committee.weights.tolist(), committee.members, names_of_member, strict=True):
        columns = torch.tensor([channels.index(name) for name in own], device=device)
        for chunk in batch.split(_CHUNK):
            rows = slice(chunk.first - batch.first, chunk.first - batch.first + len(chunk))
            weights = explained_weights(member.model, None if pairs is None else pairs[rows])
            steps = _step_sensitivities(member, chunk, weights)
            at_points = steps.new_zeros(len(chunk), values.shape[1], steps.shape[2])
            at_points.index_add_(1, _end_points(member.transform.options, steps.shape[1]).to(device), steps)
            values[rows].index_add_(2, columns, weight * at_points)
    return TimeAttribution(channels, values.cpu().numpy(), None if pairs is None else pairs.cpu().numpy())


def _step_sensitivities(member: Member, batch: SeriesBatch, weights: Tensor) -> Tensor:
    """Gradient times increment for every step of the paths of a member, (n, length' - 1, channels')."""
    paths = member.paths(batch)
    with torch.enable_grad():
        points = paths.values.detach().requires_grad_()
        latent = (word_features(member.model, replace(paths, values=points)) * weights).sum()
        (slope,) = torch.autograd.grad(latent, points)
    if paths.lengths is not None:
        slope = torch.where(paths.inside()[:, :, None], slope, 0.0)
    after = slope.flip(1).cumsum(dim=1).flip(1)[:, 1:]
    return after * paths.values.diff(dim=1)


def _end_points(options: PathOptions, steps: int) -> Tensor:
    """The index of the point of the series in which every step of the path ends, (steps,)."""
    index = torch.arange(steps)
    if options.lead_lag:  # two steps for one
        index = index // 2
    return index + (0 if options.base_point else 1) + options.difference
