"""Features of windows of cut series without computing any of them twice.

A view of windows looks at groups of channels one by one (`WindowView.groups`). When a piece is put back, only groups
with its channel change: nodes that have the same pieces of a group's channels, and the same reference there, have the
same features of that group. They are computed once for every such state. In a walk through C channels in G groups that
is about one G-th of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.windows import pool_windows
from siggpde.series import SeriesBatch
from siggpde.views.spectrum import log_spectrum
from siggpde.views.windows import WindowsBlock
from siggpde.windows.fitting import FittedView

_CUT_OFF_BITS = 40  # pieces of a group up to which a state is one number
_LARGEST = 8.0  # where features are cut off, as `windows.scaling` does


@dataclass(frozen=True)
class Columns:
    """Of one group of a view, in the features over the whole series or over its thirds: the number of the part, the
    columns in it (p,), the same among the features of the group alone (p,), mean and spread (p,), and the landmarks'
    features (m, p) less their mean, float32."""

    part: int
    columns: Tensor
    own: Tensor
    mean: Tensor
    spread: Tensor
    landmarks: Tensor
    centre: Tensor
    size: float


class GroupPlan(NamedTuple):
    """A group of channels, the view of it alone, and its columns over the whole series and over its thirds."""

    channels: tuple[int, ...]
    fitted: FittedView
    lift_scale: Tensor
    halves: tuple[Columns, Columns]


class Compact(NamedTuple):
    """Features (u, p) of the states of a group, the state of every node (n,), and where they belong."""

    name: str
    channels: tuple[int, ...]
    columns: Columns
    values: Tensor
    state: Tensor


class States:
    """What is kept of n nodes: `mask` (n, segments, channels), and their references (n,)."""

    def __init__(self, mask: Tensor, reference: Tensor) -> None:
        self.mask, self.reference = mask, reference

    def of(self, channels: Sequence[int]) -> tuple[Tensor, Tensor]:
        """A node (u,) for every state of some channels, and the state (n,) of every node."""
        bits = self.mask[:, :, list(channels)].flatten(1)
        if bits.shape[1] > _CUT_OFF_BITS:
            every = torch.arange(len(bits), device=bits.device)
            return every, every
        powers = 2 ** torch.arange(bits.shape[1], device=bits.device)
        whole = bits.all(1)  # nothing of the reference is left
        code = (bits * powers).sum(1) + torch.where(whole, 0, self.reference) * 2 ** bits.shape[1]
        found, state = code.unique(return_inverse=True)
        first = torch.empty_like(found).scatter_(0, state, torch.arange(len(code), device=code.device))
        return first, state


def plan_of(block: WindowsBlock) -> list[GroupPlan] | None:
    """The groups of all views of a block; None where every view has a single one, so that there is nothing to save."""
    if all(len(fitted.view.groups) == 1 for fitted in block.features.views):
        return None
    plans = []
    for number, fitted in enumerate(block.features.views):
        view, total, offset = fitted.view, fitted.view.columns, 0
        for index, (group, count) in enumerate(zip(view.groups, view.column_counts, strict=True)):
            alone = replace(view, channels=len(group), groups=(tuple(range(len(group))),))
            some = slice(offset, offset + count)
            scales, thresholds = fitted.path_scales[index : index + 1], fitted.thresholds[:, some].contiguous()
            lift_scale = block.features.lift_scales[view.lift][list(group)]
            halves = (
                _columns(block, 2 * number, total, offset, count),
                _columns(block, 2 * number + 1, total, offset, count),
            )
            plans.append(GroupPlan(group, FittedView(alone, scales, thresholds), lift_scale, halves))
            offset += count
    return plans


def _columns(block: WindowsBlock, part: int, total: int, offset: int, count: int) -> Columns:
    learned = block.scaler.columns[part]
    word = learned.kept % total - offset
    columns = ((word >= 0) & (word < count)).nonzero()[:, 0]
    kept = learned.kept[columns]
    own = torch.div(kept, total, rounding_mode="floor") * count + word[columns]
    landmarks = block.landmarks[part].values[:, columns]
    centre = landmarks.double().mean(0)
    size = max(1, len(learned.kept)) ** 0.5
    return Columns(part, columns, own, learned.mean[columns], learned.spread[columns], landmarks, centre, size)


def compact_parts(block: WindowsBlock, plans: list[GroupPlan], seen: SeriesBatch, states: States) -> Iterator[Compact]:
    """The features of n standardised series, group by group, of every state once."""
    names = block.kernels
    known: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
    for plan in plans:
        if plan.channels not in known:
            known[plan.channels] = _prepared(block, seen, plan.channels, states)
        x, state = known[plan.channels]
        pooled = pool_windows(
            x,
            plan.fitted.view,
            path_scales=plan.fitted.path_scales,
            thresholds=plan.fitted.thresholds,
            lift_scale=plan.lift_scale,
        )
        halves = (part.flatten(1).float() for part in pooled)
        for columns, values in zip(plan.halves, halves, strict=True):
            mean, spread = columns.mean.to(values), columns.spread.to(values)
            scaled = ((values[:, columns.own] - mean) / spread).clamp_(-_LARGEST, _LARGEST) / columns.size
            yield Compact(names[columns.part], plan.channels, columns, scaled, state)


def _prepared(
    block: WindowsBlock, seen: SeriesBatch, channels: tuple[int, ...], states: States
) -> tuple[Tensor, Tensor]:
    """The channels of every state as the windows see them, float64, and the state of every node."""
    first, state = states.of(channels)
    some = SeriesBatch(seen.values[first][:, :, list(channels)])
    if block.view.bins is not None:
        some = log_spectrum(some, block.view.bins)
    mean, spread = (part[list(channels)].to(some.values) for part in (block.features.mean, block.features.spread))
    return ((some.values - mean) / spread).contiguous(), state
