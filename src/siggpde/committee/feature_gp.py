r"""A Gaussian process on whitened landmark features, with a variational posterior: for likelihoods without closed form.

With the landmarks' Gram matrix :math:`K \approx \sum_j s_j v_j v_j^T`, cut off at its leading directions, the features
of a series are :math:`\phi(X) = R^T k_X`, :math:`R = [v_j / \sqrt{s_j}]`, and a latent function is
:math:`f(X) = \sigma (\phi(X) \cdot u + e)` with :math:`u \sim N(0, I)` and :math:`e \sim N(0, k(X, X) - |\phi(X)|^2)`,
the part that no feature explains. Under :math:`q(u) = N(m, \Sigma)` its mean is :math:`\sigma \phi \cdot m` and its
variance :math:`\sigma^2 (k(X, X) - |\phi|^2 + \phi^T \Sigma \phi)`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from siggpde.committee.regression import whitening_of
from siggpde.gp.inducing import Projection
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.variational import VariationalGaussian
from siggpde.views.base import Rows

DIRECTIONS = 500
"""The most directions of the landmarks' Gram matrix that a member keeps."""

_MANY_LATENTS = 12  # above, all latents have one covariance in common


class Features(NamedTuple):
    """Of n series: phi (n, r) and the tail k(X, X) - |phi|² (n,)."""

    values: Tensor
    tail: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Features(self.values[rows], self.tail[rows])


def leading_whitening(gram: Tensor, most: int = DIRECTIONS) -> Tensor:
    """R (m, r) of the leading directions of a Gram matrix (m, m), at most `most` of them."""
    return whitening_of(gram)[:, -most:].contiguous()


def whitened(rows: Rows, whitening: Tensor) -> Features:
    """The features of n series from their rows against the landmarks."""
    values = rows.gram @ whitening
    return Features(values, (rows.variance - values.square().sum(1)).clamp_min(0.0))


class FeatureGP(nn.Module):
    """The likelihood, q(u) over `size` directions and the amplitude sigma², everything in float64.

    Examples:
        >>> from siggpde.gp.likelihoods import Bernoulli
        >>> gp = FeatureGP(Bernoulli(), size=2, amplitude=4.0)
        >>> features = Features(torch.tensor([[0.6, 0.0]]).double(), torch.tensor([0.64]).double())
        >>> gp.latents(features)[1].detach()
        tensor([[4.0000]], dtype=torch.float64)
    """

    def __init__(self, likelihood: Likelihood, size: int, amplitude: float = 1.0) -> None:
        super().__init__()
        self.likelihood = likelihood
        covariance = "full" if likelihood.latents <= _MANY_LATENTS else "shared"
        self.variational = VariationalGaussian(likelihood.latents, size, covariance)
        self.log_amplitude = nn.Parameter(torch.tensor(math.log(amplitude), dtype=torch.float64))
        self.dtype = torch.float64

    @property
    def device(self) -> torch.device:
        return self.log_amplitude.device

    @torch.no_grad()
    def project(self, features: Features) -> Projection:
        """What the steps of q(u) take: features and tail times the amplitude."""
        amplitude = self.log_amplitude.exp()
        values, tail = features.values * amplitude.sqrt(), features.tail * amplitude
        return Projection(values, values.square().sum(1) + tail, tail, 0)

    def latent_marginals(self, projection: Projection) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latents, two (n, latents)."""
        mean, spread = self.variational(projection.features)
        return mean, spread + projection.tail[:, None]

    @property
    def weights(self) -> Tensor:
        """sigma m (size, latents): the mean of the latents is phi times these."""
        return (0.5 * self.log_amplitude).exp().detach() * self.variational.mean.detach().T

    @torch.no_grad()
    def latents(self, features: Features) -> tuple[Tensor, Tensor]:
        """The same from features."""
        return self.latent_marginals(self.project(features))
