"""Real targets with outliers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.gp.likelihoods.base import Likelihood
from siggpde.gp.quadrature import as_probabilities, deviation, gauss_hermite, invert_increasing

_POINTS = 20
_CHUNK = 2**20
_TAIL = 40.0
_FARTHEST = 1e16


class StudentT(Likelihood):
    """y = f + scale * e with e from Student's t distribution of `df` degrees of freedom.

    `log_scale` is trained, and `log_df` too with `learn_df=True`. Expectations of log p use 20 Gauss-Hermite points in
    float64. log p is not concave: the a of `statistics` is negative where y is an outlier. Predictive densities and
    quantiles come from the t distribution as a mixture of Gaussians, e | w ~ N(0, 1/w) with w ~ Gamma(df/2, df/2),
    integrated over log w by the trapezoidal rule.

    Examples:
        >>> StudentT(scale=1.0, df=4).predict(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
        (tensor([1.]), tensor([2.5000]))
    """

    name = "student_t"

    def __init__(self, scale: float = 0.3, df: float = 4.0, learn_df: bool = False) -> None:
        super().__init__()
        if not 0 < scale < math.inf or not 0 < df < math.inf:
            raise ValueError(f"scale and df must be positive and finite, got scale={scale!r}, df={df!r}")
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale), dtype=torch.float64))
        self.log_df = nn.Parameter(torch.tensor(math.log(df), dtype=torch.float64), requires_grad=learn_df)
        self.learn_df = learn_df

    @property
    def scale(self) -> Tensor:
        """The scale of the noise, a scalar; its variance is scale^2 df / (df - 2)."""
        return self.log_scale.double().exp()

    @property
    def df(self) -> Tensor:
        """The degrees of freedom, a scalar."""
        return self.log_df.double().exp()

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        residual, weights = self._residuals(mean, variance, y)
        return (self._log_prob(residual) @ weights).to(mean.dtype)

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance of y; the variance is infinite for df <= 2, and the mean does not exist for df <= 1."""
        self._check(mean, variance)
        df = self.df.item()
        noise = self.scale.square().to(mean) * (df / (df - 2) if df > 2 else math.inf)
        return mean[:, 0], variance[:, 0] + noise

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        u, log_weights = self._mixture()
        result = mean.new_empty(len(mean), dtype=torch.float64)
        for rows in torch.arange(len(mean), device=mean.device).split(max(1, _CHUNK // len(u))):
            spread = variance[rows].double() + self.scale.square() * (-u).exp()
            square = (y[rows].double()[:, None] - mean[rows].double()).square() / spread
            result[rows] = (log_weights - 0.5 * (spread.log() + square)).logsumexp(1)
        return (result - 0.5 * math.log(2 * math.pi)).to(mean.dtype)

    @torch.no_grad()
    def cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        u, log_weights = self._mixture()
        spread = (variance.double() + self.scale.square() * (-u).exp()).sqrt()
        return torch.special.ndtr((y.double()[:, None] - mean.double()) / spread) @ log_weights.exp()

    @torch.no_grad()
    def quantile(self, mean: Tensor, variance: Tensor, p: float | Tensor) -> Tensor:
        """By bisection on the distribution function of the mixture, in the lower tail, the upper one mirrored."""
        self._check(mean, variance)
        probability = as_probabilities(p, mean)
        u, log_weights = self._mixture()
        weights, s = log_weights.exp(), (variance.double() + self.scale.square() * (-u).exp()).sqrt()
        start = -(variance[:, 0].double() + self.scale.square()).sqrt()
        tail = torch.minimum(probability, 1 - probability)
        lower = invert_increasing(
            lambda x: torch.special.ndtr(x[:, None] / s) @ weights, tail, start, torch.zeros_like(start)
        )
        return (mean[:, 0] + torch.where(probability < 0.5, lower, -lower)).to(mean.dtype)

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "scale": self.scale.item(), "df": self.df.item(), "learn_df": self.learn_df}

    def _residuals(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(y - f) / scale at the nodes, (B, points), and the weights; the floor of `deviation` is that of units."""
        nodes, weights = (part.to(mean.device) for part in gauss_hermite(_POINTS))
        scale = self.scale
        s = deviation(variance.double() / scale.square())
        return (y.double()[:, None] - mean.double()) / scale - s * nodes, weights

    def _log_prob(self, residual: Tensor) -> Tensor:
        df = self.df
        constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * (df * math.pi).log() - self.log_scale
        return constant - (df + 1) / 2 * torch.log1p(residual.square() / df)

    def _mixture(self) -> tuple[Tensor, Tensor]:
        """Nodes u = log w and the logarithms of their weights, for targets up to 1e8 scales away."""
        df = self.df.item()
        low = -2 * _TAIL / df - math.log(_FARTHEST)
        high = math.log1p(2 * _TAIL / df) + math.sqrt(4 * _TAIL / df)
        step = 0.5 * min(math.sqrt(2 / df), 0.6)
        u = torch.arange(low, high, step, dtype=torch.float64, device=self.log_df.device)
        log_weights = df / 2 * (u - u.exp())
        return u, log_weights - log_weights.logsumexp(0)
