"""Real targets with Gaussian noise: everything in closed form."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.gp.likelihoods.base import Likelihood
from siggpde.gp.quadrature import as_probabilities

_LOG_TWO_PI = math.log(2 * math.pi)


class Gaussian(Likelihood):
    """y = f + e with e ~ N(0, noise); `log_noise`, the logarithm of the noise variance, is trained.

    Examples:
        >>> mean, variance = torch.tensor([[1.0]]), torch.tensor([[0.2]])
        >>> Gaussian(noise=0.3).predict(mean, variance)
        (tensor([1.]), tensor([0.5000]))
    """

    name = "gaussian"
    is_gaussian = True
    log_concave = True
    calibrated = ("noise",)

    def __init__(self, noise: float = 0.1) -> None:
        super().__init__()
        if not 0 < noise < math.inf:
            raise ValueError(f"noise, a variance, must be positive and finite, got {noise!r}")
        self.log_noise = nn.Parameter(torch.tensor(math.log(noise), dtype=torch.float64))

    @property
    def noise(self) -> Tensor:
        """The noise variance, a scalar."""
        return self.log_noise.exp()

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        log_noise = self.log_noise.to(mean)
        square = (y.to(mean) - mean[:, 0]).square() + variance[:, 0]
        return -0.5 * (_LOG_TWO_PI + log_noise + square * (-log_noise).exp())

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self.expected_log_prob(mean, variance, y)
        precision = (-self.log_noise.to(mean)).exp()
        return value, (y.to(mean)[:, None] - mean) * precision, precision.expand_as(mean).clone()

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        self._check(mean, variance)
        return mean[:, 0], variance[:, 0] + self.noise.to(mean)

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        centre, spread = self.predict(mean, variance)
        return -0.5 * (_LOG_TWO_PI + spread.log() + (y.to(mean) - centre).square() / spread)

    @torch.no_grad()
    def cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        centre, spread = (part.double() for part in self.predict(mean, variance))
        return torch.special.ndtr((y.double() - centre) / spread.sqrt())

    @torch.no_grad()
    def quantile(self, mean: Tensor, variance: Tensor, p: float | Tensor) -> Tensor:
        centre, spread = self.predict(mean, variance)
        return centre + spread.sqrt() * torch.special.ndtri(as_probabilities(p, mean)).to(mean.dtype)

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "noise": self.noise.item()}
