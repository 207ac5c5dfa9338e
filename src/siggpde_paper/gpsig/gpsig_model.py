"""`gpsig`: the GPSig baselines of the paper, GPSig-IT (inducing tensors) and GPSig-IS (inducing sequences)."""

from __future__ import annotations

from typing import Any, Literal

import torch

from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import SparseGP
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde_paper.gpsig.inducing_sequences import InducingSequences
from siggpde_paper.gpsig.inducing_tensors import InducingTensors
from siggpde_paper.gpsig.starting_values import chosen_series, lengthscales, starting_sequences, starting_tensors
from siggpde_paper.gpsig.static_kernels import Static, checked_series
from siggpde_paper.gpsig.truncated_kernel import Method, TruncatedKernel

Kind = Literal["tensors", "sequences"]


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

    `kind="tensors"` is GPSig-IT and `kind="sequences"` GPSig-IS, with `count` inducing variables. These start from
    series of the training set: count // classes of every class, where it has as many, and the rest from all classes;
    `classes=0` draws from all, as for regression. Everything random comes from `seed`.
    """
    if kind not in ("tensors", "sequences"):
        raise ValueError(f"kind must be 'tensors' or 'sequences', got {kind!r}")
    batch, counts = inputs.as_batch(x, lengths)
    device = batch.device
    batch, counts = inputs.to_device(batch, counts, torch.device("cpu"))  # the device of the random generator
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
