"""Natural gradients for q(u).

In natural parameters L = Sigma^-1 and L m, with g = dE/dmean and a = -2 dE/dvariance of every series, a step rho is

    L   <- (1 - rho) L   + rho (I + (N/B) sum a_n s_n s_n^T)
    L m <- (1 - rho) L m + rho (N/B) sum s_n (g_n + a_n mean_n).

For a Gaussian likelihood one step rho = 1 on all the data is the optimum. Where log p is not concave a_n may be
negative and L lose positive definiteness; then the step is halved, which moves no fixed point.

The sums over series are also sums over ranks, each of which has its part of the batch: a step sends one message with
the upper triangles of sum a_n s_n s_n^T and the vectors L m, besides single numbers. Every rank then takes the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.inducing import Projection
from siggpde.gp.model import AnyGP
from siggpde.gp.triangular import gram_upper, pack_upper, unpack_upper

_CHUNK = 8192


@dataclass
class Statistics:
    """At the present q(u): the expected log likelihood, summed over the batch's `series`, on whichever rank they are,
    and g, a, means (n, latents) of those that are here."""

    value: float
    series: int
    g: Tensor
    a: Tensor
    mean: Tensor


@dataclass
class Target:
    """The natural parameters to which a step with rho = 1 goes. `precision` holds its upper triangle only."""

    precision: Tensor
    shift: Tensor


class NaturalGradient:
    """Steps of q(u) of a model; keeps L (its upper triangle) and L m in float64 whatever the model's dtype."""

    def __init__(self, model: AnyGP, natural: tuple[Tensor, Tensor] | None = None, ranks: Ranks = ALONE) -> None:
        """`natural` is L and L m where they are known already."""
        self.model, self.ranks = model, ranks
        precision, shift = model.variational.natural() if natural is None else natural
        self.precision, self.shift = precision.double(), shift.double()

    @torch.no_grad()
    def statistics(self, seen: Projection, y: Tensor) -> Statistics:
        """Everything that a step needs of the likelihood, `_CHUNK` series at a time."""
        empty = seen.features.new_empty(0, self.model.variational.latents)
        parts = [(empty[:, 0], empty, empty, empty)]
        for start in range(0, len(y), _CHUNK):
            rows = slice(start, start + _CHUNK)
            mean, variance = self.model.latent_marginals(seen.take(rows))
            parts.append((*self.model.likelihood.statistics(mean, variance, y[rows]), mean))
        value, g, a, mean = (torch.cat(columns) for columns in zip(*parts, strict=True))
        total, series = self.ranks.all_reduce_sum(value.double().sum(), value.new_tensor(len(y), dtype=torch.float64))
        return Statistics(float(total), int(series), g, a, mean)

    @torch.no_grad()
    def target(self, seen: Projection, at: Statistics, total: int, curvature: float | None = None) -> Target:
        """The target of a step from a batch out of `total` series.

        `curvature` puts one number in the place of every a_n: steps that are shorter, and safe far from the optimum.
        """
        q, n = self.model.variational, len(at.g)
        a = at.a if curvature is None else torch.full_like(at.a, curvature)
        if q.shared:  # the best covariance for all is that of their average curvature
            a = a.mean(dim=1, keepdim=True)
        pull = at.g + a * at.mean
        precision = torch.zeros_like(self.precision)
        if q.full:
            for start in range(0, n, _CHUNK):
                rows = slice(start, start + _CHUNK)
                for place in range(len(precision)):
                    precision[place] += gram_upper(seen.features[rows], a[rows, place])
            shift = pull.T @ seen.features
        else:
            precision = (a.T @ seen.features.square()).double()
            shift = at.g.T @ seen.features + precision * q.mean
        precision, shift = self._summed(precision, shift.double())
        precision *= total / at.series
        (precision.diagonal(dim1=1, dim2=2) if q.full else precision).add_(1.0)
        return Target(precision, shift * (total / at.series))

    def _summed(self, precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Both, over all ranks."""
        if self.ranks.alone:
            return precision, shift
        full = self.model.variational.full
        sums = self.ranks.all_reduce_sum(pack_upper(precision) if full else precision, shift)
        return unpack_upper(sums[0], precision.shape[1]) if full else sums[0], sums[1]

    @torch.no_grad()
    def move(self, target: Target, rho: float) -> bool:
        """A step towards the target; False, and nothing moved, where L would not be positive definite."""
        precision = torch.lerp(self.precision, target.precision, rho)
        shift = torch.lerp(self.shift, target.shift, rho)
        if not self.ranks.broadcast_value(self.model.variational.set_natural(precision, shift)):
            return False
        self.precision, self.shift = precision, shift
        return True

    def step(self, seen: Projection, y: Tensor, total: int, rho: float, curvature: float | None = None) -> float:
        """One step from a batch, halved until L is positive definite; returns the expected log likelihood before it.

        A step with a given `curvature` is taken back where it lowers the ELBO of the batch; then the true one is used.
        """
        at = self.statistics(seen, y)
        if curvature is not None:
            kept, before = (self.precision, self.shift), self.elbo(at, total)
            if self.move(self.target(seen, at, total, curvature), rho):
                if self.elbo(self.statistics(seen, y), total) >= before:
                    return at.value
                self.model.variational.set_natural(*kept)
                self.precision, self.shift = kept
        target = self.target(seen, at, total)
        while rho > 1e-6 and not self.move(target, rho):
            rho /= 2
        return at.value

    def elbo(self, at: Statistics, total: int) -> float:
        """The ELBO at q(u), from the statistics of a batch out of `total` series."""
        return self.ranks.broadcast_value(at.value * (total / at.series) - float(self.model.variational.kl().detach()))


class Climb:
    """Steps on all the data, none of which lowers the ELBO: a step that would is halved until it does not."""

    def __init__(self, natural: NaturalGradient, seen: Projection, y: Tensor, rho: float = 0.5) -> None:
        self.natural, self.seen, self.y, self.rho = natural, seen, y, rho
        self.at = natural.statistics(seen, y)
        self.total = self.at.series
        self.elbo = natural.elbo(self.at, self.total)

    def step(self) -> float:
        """One step; returns by how much the ELBO rose, 0 when no step raises it any more."""
        natural, q = self.natural, self.natural.model.variational
        kept = natural.precision, natural.shift, q.root.detach().clone(), q.mean.detach().clone()
        target = natural.target(self.seen, self.at, self.total)
        rho = self.rho
        rounding = torch.finfo(natural.model.dtype).eps * (abs(self.elbo) + self.total)
        slack = 0.01 * rounding
        while rho > 1e-4:
            if natural.move(target, rho):
                at = natural.statistics(self.seen, self.y)
                elbo = natural.elbo(at, self.total)
                if elbo >= self.elbo - slack:
                    gain, self.at, self.elbo = elbo - self.elbo, at, elbo
                    self.rho = min(1.0, 1.5 * rho)
                    return gain if gain > 4 * rounding else 0.0
            with torch.no_grad():
                natural.precision, natural.shift = kept[:2]
                q.root.copy_(kept[2])
                q.mean.copy_(kept[3])
            rho /= 2
        self.rho = 1e-3
        return 0.0
