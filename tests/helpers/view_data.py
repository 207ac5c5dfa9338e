"""Series of every kind for views, and the regressions of members done slowly: as dense Gaussian processes."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.random_paths import generator
from siggpde.committee.regression import Targets
from siggpde.series import PathOptions, SeriesBatch
from siggpde.views import KernelView, PathView, View, WindowsView
from siggpde.views.base import Rows, Standard
from siggpde.views.window_features import WindowSettings


def random_walks(n: int, length: int, channels: int, seed: int = 0) -> Tensor:
    """Random walks (n, length, channels) in float64."""
    return torch.randn(n, length, channels, generator=generator(seed), dtype=torch.float64).cumsum(1)


def standardised(batch: SeriesBatch) -> SeriesBatch:
    return Standard.fit(batch)(batch)


def ragged(n: int = 9, length: int = 20, channels: int = 2) -> SeriesBatch:
    """Among them series of one, two and three points; NaN where they have ended."""
    values = random_walks(n, length, channels, 1)
    lengths = torch.tensor([length, 1, 2, 3, length, 11, 5, 17, 9])[:n]
    values[torch.arange(length) >= lengths[:, None]] = torch.nan
    return SeriesBatch(values, lengths)


def _one_large() -> Tensor:
    values = random_walks(9, 20, 1, 2)
    values[0] *= 1e6
    values[1] *= 100.0
    return values


def _constants() -> Tensor:
    values = random_walks(9, 20, 2, 3)
    values[:, :, 1] = 3.0
    values[0] = 0.0
    return values


def batches() -> dict[str, SeriesBatch]:
    """Standardised, as views see them."""
    times = torch.rand(9, 20, generator=generator(4), dtype=torch.float64).cumsum(1)
    series = {
        "plain": SeriesBatch(random_walks(9, 20, 2)),
        "ragged": ragged(),
        "one large": SeriesBatch(_one_large()),
        "constants": SeriesBatch(_constants()),
        "times": SeriesBatch(random_walks(9, 20, 2, 5), None, times),
        "one point": SeriesBatch(random_walks(9, 1, 2, 6)),
        "two points": SeriesBatch(random_walks(9, 2, 1, 7)),
        "long": SeriesBatch(random_walks(9, 300, 1, 8)),
        "many channels": SeriesBatch(random_walks(9, 30, 12, 9)),
        "alone": SeriesBatch(random_walks(1, 20, 2, 10)),
        "identical": SeriesBatch(random_walks(1, 20, 2, 11).repeat(9, 1, 1)),
    }
    return {name: standardised(batch) for name, batch in series.items()}


def views() -> dict[str, View]:
    small = WindowSettings(lifts=("x", "zn"), max_dilations=2)
    return {
        "kernel": KernelView("P"),
        "kernel with base point": KernelView("P", base_point=True),
        "lifted": KernelView("R", bandwidth=0.5, time_weight=3.0),
        "kernel with pivots": KernelView("P", max_pivots=6),
        "lifted with pivots": KernelView("R", bandwidth=1.0, time_weight=3.0, max_pivots=6),
        "linear": PathView("L", degree=1),
        "free path": PathView("G", PathOptions(base_point=False)),
        "path with variation": PathView("G", PathOptions(append="variation")),
        "path without time": PathView("G", PathOptions(time=False), degree=2),
        "windows": WindowsView(small),
        "spectrum": WindowsView(replace(small, lifts=("x", "dx")), 8),
    }


class Posterior(NamedTuple):
    """Mean (n, outputs) and variance (n,) of latents."""

    mean: Tensor
    variance: Tensor


def dense(
    gram: Tensor, across: Tensor, variance: Tensor, y: Tensor, noise: float, amplitude: float, weights: Tensor
) -> Posterior:
    """A Gaussian process with k(Z, Z) (n, n), k(X, Z) (m, n) and k(X, X) (m,); noise / weight for each of the n."""
    factor = gram + noise * torch.diag(1 / weights)
    mean = across @ torch.linalg.solve(factor, y)
    explained = (across * torch.linalg.solve(factor, across.T).T).sum(1)
    return Posterior(mean, amplitude * (variance - explained))


def left_out_one_by_one(rows: Rows, targets: Targets, noise: float, amplitude: float) -> Posterior:
    """Every series predicted by a regression on all those of other groups."""
    n = len(targets)
    groups = list(range(n)) if targets.groups is None else targets.groups.tolist()
    weights, means, variances = targets.counts, [], []
    for i in range(n):
        rest = torch.tensor([j for j in range(n) if groups[j] != groups[i]])
        kernels = rows.gram[rest][:, rest], rows.gram[i : i + 1, rest], rows.variance[i : i + 1]
        posterior = dense(*kernels, targets.signs()[rest], noise, amplitude, weights[rest])
        means.append(posterior.mean)
        variances.append(posterior.variance)
    return Posterior(torch.cat(means), torch.cat(variances))


def random_rows(n: int, features: int, seed: int, tail: float = 0.0, constant: float = 10.0) -> tuple[Rows, Tensor]:
    """Rows of n series among themselves, and their features (n, p); `tail` is beside what features explain."""
    phi = torch.randn(n, features, generator=generator(seed), dtype=torch.float64) / features**0.5
    gram = phi @ phi.T + constant
    return Rows(gram, gram.diagonal() + tail), phi
