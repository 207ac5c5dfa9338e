"""The update of q(u) in natural parameters, for natural gradients, new series and closed forms.

With the prior N(m_0, S_0), L = Sigma^-1 and the derivatives g_n = dE_n/dmu_n and a_n = -2 dE_n/dnu_n of expected log
likelihoods E_n, a step rho from a batch of B out of N series is

    L   <- (1 - rho) L   + rho (S_0^-1     + (N/B) sum a_n s_n s_n^T)
    L m <- (1 - rho) L m + rho (S_0^-1 m_0 + (N/B) sum s_n (g_n + a_n mu_n))

It is halved where L loses positive definiteness, which moves no fixed point. For a Gaussian likelihood rho = 1 on all
data is the optimum. The sums are taken over ranks too, in one message a step.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.features import Projection
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.model import AnyGP
from siggpde.gp.variational import (
    EarlierPosterior,
    NaturalParameters,
    StandardNormal,
    VariationalGaussian,
    gram_upper,
    pack_upper,
    unpack_upper,
)
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths

_CHUNK = 8192
_SMALLEST_RHO = 1e-4

STANDARD_NORMAL = StandardNormal()
Batch = tuple[Projection, Tensor]
"""The projection of some series and their targets (n,)."""


class Sites(NamedTuple):
    """The sites of a batch of series: features (n, M), and g, a and the marginal means mu, each (n, latents)."""

    features: Tensor
    g: Tensor
    a: Tensor
    mean: Tensor


def sum_sites(
    q: VariationalGaussian, sites: Iterable[Sites], *, dtype: torch.dtype = torch.float64, ranks: Ranks = ALONE
) -> NaturalParameters:
    """sum a_n s_n s_n^T (upper triangle, shaped as the root of q) and sum s_n (g_n + a_n mu_n) over all ranks."""
    precision, shift = torch.zeros_like(q.root, dtype=torch.float64), torch.zeros_like(q.mean, dtype=torch.float64)
    for batch in sites:
        features, g, a, mean = (part.to(dtype) for part in batch)
        if q.shared:  # the best covariance for all is that of their average curvature
            a = a.mean(dim=1, keepdim=True)
        if q.full:
            for latent, curvature in enumerate(a.T):
                precision[latent] += gram_upper(features, curvature)
            shift += (g + a * mean).T @ features
        else:
            diagonal = (a.T @ features.square()).double()
            precision += diagonal
            shift += g.T @ features + diagonal * q.mean
    if ranks.alone:
        return NaturalParameters(precision, shift)
    packed, shift = ranks.all_reduce_sum(pack_upper(precision) if q.full else precision, shift)
    return NaturalParameters(unpack_upper(packed, q.size) if q.full else packed, shift)


@torch.no_grad()
def solve_gaussian(
    q: VariationalGaussian,
    likelihood: Likelihood,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    prior: StandardNormal = STANDARD_NORMAL,
    ranks: Ranks = ALONE,
) -> bool:
    """Sets q(u), not diagonal, to the exact posterior; returns False, changing nothing, where there is none."""
    assert likelihood.is_gaussian and q.full

    def sites() -> Iterator[Sites]:
        for features, y in batches:
            zeros = features.new_zeros(len(features), q.latents, dtype=torch.float64)
            _, g, a = likelihood.statistics(zeros, zeros, y)
            yield Sites(features, g, a, zeros)

    natural = sum_sites(q, sites(), ranks=ranks)
    prior.add_natural_parameters(*natural)
    return q.set_natural_parameters(natural)


def in_batches(projection: Projection, y: Tensor) -> list[Batch]:
    parts = [slice(start, start + _CHUNK) for start in range(0, len(y), _CHUNK)]
    return [(projection[rows], y[rows]) for rows in parts]


class Statistics(NamedTuple):
    """The expected log likelihood at q(u) of a batch of `series` on all ranks, and the sites of those on this rank."""

    value: float
    series: int
    sites: list[Sites]


class NaturalGradient:
    """Steps of q(u); keeps L (its upper triangle) and L m in float64, `natural` if given; products have `dtype`."""

    def __init__(
        self,
        model: AnyGP,
        natural: NaturalParameters | None = None,
        *,
        prior: StandardNormal = STANDARD_NORMAL,
        dtype: torch.dtype | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.model, self.prior, self.ranks, self.dtype = model, prior, ranks, dtype or model.dtype
        self.natural = model.variational.natural_parameters() if natural is None else natural

    @torch.no_grad()
    def statistics(self, batches: Iterable[Batch]) -> Statistics:
        """Everything that a step needs of the likelihood, batch by batch."""
        model, sites = self.model, []
        values = [torch.empty(0, dtype=model.dtype, device=model.device)]
        for projection, y in batches:
            mean, variance = model.latent_marginals(projection)
            value, g, a = model.likelihood.statistics(mean, variance, y)
            values.append(value)
            sites.append(Sites(projection.features, g, a, mean))
        value = torch.cat(values).double()
        total, series = self.ranks.all_reduce_sum(value.sum(), value.new_tensor(len(value)))
        return Statistics(float(total), int(series), sites)

    @torch.no_grad()
    def target(self, at: Statistics, total: int, curvature: float | None = None) -> NaturalParameters:
        """The natural parameters to which a step rho = 1 goes, by the sites' curvatures a_n or a given `curvature`."""
        sites = at.sites
        if curvature is not None:
            sites = [batch._replace(a=torch.full_like(batch.a, curvature)) for batch in sites]
        precision, shift = sum_sites(self.model.variational, sites, dtype=self.dtype, ranks=self.ranks)
        precision *= total / at.series
        shift *= total / at.series
        self.prior.add_natural_parameters(precision, shift)
        return NaturalParameters(precision, shift)

    @torch.no_grad()
    def move(self, target: NaturalParameters, rho: float) -> bool:
        """A step towards the target; False, and nothing moved, where L would not be positive definite."""
        new = NaturalParameters(*(torch.lerp(a, b, rho) for a, b in zip(self.natural, target, strict=True)))
        if not self.ranks.broadcast_value(self.model.variational.set_natural_parameters(new)):
            return False
        self.natural = new
        return True

    def step(self, batches: list[Batch], total: int, rho: float, curvature: float | None = None) -> float:
        """One step from batches out of `total` series, halved until L is positive definite; returns the expected log
        likelihood before it. Where a given `curvature` would lower the ELBO of the batches, the true one is used."""
        at = self.statistics(batches)
        if curvature is not None:
            before, elbo = self.natural, self.elbo(at, total)
            if self.move(self.target(at, total, curvature), rho):
                if self.elbo(self.statistics(batches), total) >= elbo:
                    return at.value
                self.model.variational.set_natural_parameters(before)
                self.natural = before
        target = self.target(at, total)
        while rho > 1e-6 and not self.move(target, rho):
            rho /= 2
        return at.value

    def elbo(self, at: Statistics, total: int) -> float:
        kl = self.prior.kl(self.model.variational)
        return self.ranks.broadcast_value(at.value * (total / at.series) - kl)


class Climb:
    """Takes steps on all the data that never lower the ELBO: a step that would is halved until it does not."""

    def __init__(self, natural: NaturalGradient, batches: list[Batch], rho: float = 0.5) -> None:
        self.natural, self.batches, self.rho = natural, batches, rho
        self.at = natural.statistics(batches)
        self.total = self.at.series
        self.elbo = natural.elbo(self.at, self.total)

    def step(self) -> float:
        """One step; returns by how much the ELBO rose, 0 when no step raises it any more."""
        natural, q = self.natural, self.natural.model.variational
        before, root, mean = natural.natural, q.root.detach().clone(), q.mean.detach().clone()
        target = natural.target(self.at, self.total)
        rho = self.rho
        rounding = torch.finfo(natural.model.dtype).eps * (abs(self.elbo) + self.total)
        while rho > _SMALLEST_RHO:
            if natural.move(target, rho):
                at = natural.statistics(self.batches)
                elbo = natural.elbo(at, self.total)
                if elbo >= self.elbo - 0.01 * rounding:  # never where it is NaN
                    gain, self.at, self.elbo = elbo - self.elbo, at, elbo
                    self.rho = min(1.0, 1.5 * rho)
                    return gain if gain > 4 * rounding else 0.0
            with torch.no_grad():
                natural.natural = before
                q.root.copy_(root)
                q.mean.copy_(mean)
            rho /= 2
        self.rho = 1e-3
        return 0.0


_PROJECTED = 4096
_MAX_STEPS = 300
_SETTLED = 1e-10


@torch.no_grad()
def update_posterior(model: AnyGP, x: inputs.Series, y: Any, *, lengths: Lengths = None) -> None:
    """Updates q(u) of `model` in place with the series x (n, length, channels) and their targets y (n,), with the old q
    as prior: for `Gaussian` in closed form, else, and for diagonal covariances, by steps that never lower the bound.
    Where it fails, it raises and nothing has changed."""
    targets = model.targets(y)
    batch = model.kernel.checked_paths(x, lengths)
    if len(targets) != len(batch):
        raise ValueError(f"there are {len(batch)} series but {len(targets)} targets")
    inputs.check_finite(batch.values, batch.lengths)  # errors name series by their number in x, not in a chunk
    if len(batch) == 0:
        return
    batches = (
        (model.project(piece.values.detach(), lengths=piece.lengths), targets[piece.first : piece.first + len(piece)])
        for piece in batch.split(_PROJECTED)
    )
    q = model.variational
    root, mean = q.root.detach().clone(), q.mean.detach().clone()
    try:
        if model.likelihood.is_gaussian and q.full:
            features = ((projection.features, target) for projection, target in batches)
            _require(solve_gaussian(q, model.likelihood, features, prior=EarlierPosterior(q)))
        else:
            gradient = NaturalGradient(model, prior=EarlierPosterior(q), dtype=torch.float64)
            climb = Climb(gradient, list(batches))
            _require(math.isfinite(climb.elbo))
            for _ in range(_MAX_STEPS):
                if climb.step() <= _SETTLED * (abs(climb.elbo) + climb.total):
                    break
        _require(bool(torch.isfinite(q.mean).all()))
    except BaseException:
        q.root.copy_(root)
        q.mean.copy_(mean)
        raise


def _require(done: bool) -> None:
    if not done:
        raise ArithmeticError(
            "q(u) could not be updated with the new series: they are too unlike those before for a step to be found; "
            "fit a model to all the series"
        )
