"""GPSig's start: inducing variables and lengthscales from the training series."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from siggpde.baselines.inducing_sequences import InducingSequences
from siggpde.baselines.inducing_tensors import InducingTensors
from siggpde.baselines.static_kernels import Static, checked_series
from siggpde.baselines.tensor_recursion import slot_count, slot_index
from siggpde.baselines.truncated_kernel import Method, TruncatedKernel
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import SparseGP
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths

Kind = Literal["tensors", "sequences"]

_NOISE = 0.4
_POINTS = 1000


def gpsig(
    x: inputs.Series,
    y: Any,
    likelihood: Likelihood,
    *,
    kind: Kind = "tensors",
    count: int,
    level: int = 4,
    static: Static = "linear",
    order: int | None = None,
    normalized: bool = False,
    classes: int | None = None,
    seed: int = 0,
    lengths: Lengths = None,
    method: Method = "auto",
) -> SparseGP[TruncatedKernel, InducingTensors | InducingSequences]:
    """A GPSig model of standardised series x (n, length, channels) with targets y (n,), ready to be trained.

    Every class gives count // classes of the series that inducing variables start from, as far as it has them, and all
    series the rest; `classes=0` takes all from all, as for regression. Everything random comes from `seed`.
    """
    if kind not in ("tensors", "sequences"):
        raise ValueError(f"kind must be 'tensors' or 'sequences', got {kind!r}")
    batch, counts = inputs.as_batch(x, lengths)
    device = batch.device
    batch, counts = inputs.to_device(batch, counts, torch.device("cpu"))  # where all that is random comes from
    series = checked_series(batch.to(torch.float64), counts)
    points = torch.full((len(series),), batch.shape[1]) if counts is None else counts
    targets = likelihood.check_targets(y).cpu()
    if len(targets) != len(series) or len(series) == 0:
        raise ValueError(f"there are {len(series)} series and {len(targets)} targets; give one each, at least one")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be an integer, at least 1, got {count!r}")
    random = torch.Generator().manual_seed(seed)
    if classes is None:
        classes = likelihood.classes if isinstance(likelihood, Classification) else 0
    channels = series.shape[2]
    theta = 1 / lengthscales(series, points, random)
    kernel = TruncatedKernel(
        channels, level, order=order, static=static, theta=theta, normalized=normalized, method=method
    )
    rows = chosen_series(targets, count, classes, random)
    features: InducingTensors | InducingSequences
    if kind == "tensors":
        values = starting_tensors(series[rows], points[rows], level, random)
        features = InducingTensors(channels, count, level, values=values)
    else:
        values = starting_sequences(series[rows], points[rows], level + 1, random)
        features = InducingSequences(channels, count, level + 1, values=values)
    return SparseGP(kernel, features, likelihood).to(device)


def lengthscales(x: Tensor, lengths: Tensor, random: torch.Generator) -> Tensor:
    """max(1, sqrt(d E|x_i - x'_i|²)) of every channel i of d, over pairs of 1000 points drawn from all series."""
    points = x[inputs.row_mask(x, lengths)]
    drawn = points[torch.randperm(len(points), generator=random)[:_POINTS]]
    spread = 2 * drawn.var(dim=0, correction=0)
    return (x.shape[2] * spread).sqrt().clamp_min(1.0)


def chosen_series(y: Tensor, count: int, classes: int, random: torch.Generator) -> Tensor:
    """Numbers (count,) of series: count // classes of every class as far as there are, the rest from all of them."""
    parts: list[Tensor] = []
    for label in range(classes):
        members = (y == label).nonzero()[:, 0]
        parts.append(members[torch.randperm(len(members), generator=random)[: count // classes]])
    missing = count - sum(len(part) for part in parts)
    while missing > 0:
        parts.append(torch.randperm(len(y), generator=random)[:missing])
        missing -= len(parts[-1])
    return torch.cat(parts)


def starting_tensors(x: Tensor, lengths: Tensor, level: int, random: torch.Generator) -> Tensor:
    """Pairs of points (n, slots, 2, channels): level m of a tensor has m steps of its series, at sorted times, noisy.

    A series with fewer than m steps stands still after its last one.
    """
    series = _at_least(x, level + 1)
    n, steps = len(series), series.shape[1] - 1
    values = series.new_empty(n, slot_count(level), 2, series.shape[2])
    each = torch.arange(n)[:, None]
    for m in range(1, level + 1):
        keys = torch.rand(n, steps, dtype=torch.float64, generator=random)
        keys[torch.arange(steps) >= (lengths[:, None] - 1).clamp_min(m)] = 2.0  # after its end
        times = keys.argsort(dim=1)[:, :m].sort(dim=1).values
        for place in range(1, m + 1):
            time = times[:, place - 1 : place]
            values[:, slot_index(place, m, level)] = torch.cat([series[each, time], series[each, time + 1]], dim=1)
    return _noisy(values, random)


def starting_sequences(x: Tensor, lengths: Tensor, points: int, random: torch.Generator) -> Tensor:
    """Windows (n, points, channels) of consecutive points, one of every series, noisy."""
    series = _at_least(x, points)
    room = (lengths - points).clamp_min(0) + 1
    start = (torch.rand(len(series), dtype=torch.float64, generator=random) * room).long()
    times = start[:, None] + torch.arange(points)
    return _noisy(series[torch.arange(len(series))[:, None], times], random)


def _at_least(x: Tensor, points: int) -> Tensor:
    missing = points - x.shape[1]
    return x if missing <= 0 else torch.cat([x, x[:, -1:].expand(-1, missing, -1)], dim=1)


def _noisy(values: Tensor, random: torch.Generator) -> Tensor:
    return values + _NOISE * torch.randn(values.shape, dtype=values.dtype, generator=random)
