"""Counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.likelihoods import targets
from siggpde.gp.likelihoods.base import Likelihood
from siggpde.gp.quadrature import as_probabilities, deviation, gauss_hermite, normal_trapezoid

_POINTS = 32
_CDF_POINTS = 257
_MAX_LOG_RATE = 50.0  # of one rate: its exponential stays far below the largest float
_MAX_LOG_MEAN = 700.0  # of the mean rate: exp(709) is the largest float64
_SMALLEST = 1e-300


class Poisson(Likelihood):
    """y ~ Poisson(exp(f + offset)), with a constant `offset` that sets the rate at f = 0.

    Expectations are exact: E[log p] = y (m + offset) - rate - log y!, rate = exp(m + offset + v/2); above e^50 the
    exponential goes on as its tangent, so that bad starts stay finite. Predictive probabilities use 32 Gauss-Hermite
    points about the mode of the integrand.

    Examples:
        >>> Poisson(offset=1.0).predict(torch.tensor([[0.0]]), torch.tensor([[0.0]]))
        (tensor([2.7183]), tensor([2.7183]))
    """

    name = "poisson"
    log_concave = True
    discrete = True

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        if not math.isfinite(offset):
            raise ValueError(f"offset must be finite, got {offset!r}")
        self.offset = float(offset)

    def check_targets(self, y: Any) -> Tensor:
        return targets.counts(y)

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        count, log_rate = y.double(), self._log_rate(mean, variance)
        rate = log_rate.clamp(max=_MAX_LOG_RATE).exp() + math.exp(_MAX_LOG_RATE) * (log_rate - _MAX_LOG_RATE).clamp(
            min=0
        )
        value = count * (mean[:, 0].double() + self.offset) - rate - torch.lgamma(count + 1)
        return value.to(mean.dtype)

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self.expected_log_prob(mean, variance, y)
        rate = self._log_rate(mean, variance).clamp(max=_MAX_LOG_RATE).exp()[:, None]
        return value, (y.double()[:, None] - rate).to(mean.dtype), rate.to(mean.dtype)

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The mean, rate, and the variance, rate + rate^2 (e^v - 1), of y; at most the largest finite number."""
        self._check(mean, variance)
        log_rate = self._log_rate(mean, variance).clamp(max=_MAX_LOG_MEAN)
        rate = log_rate.exp()
        spread = rate + (2 * log_rate + torch.expm1(variance[:, 0].double()).log()).exp()
        largest = torch.finfo(mean.dtype).max
        return rate.clamp(max=largest).to(mean.dtype), spread.clamp(max=largest).to(mean.dtype)

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        nodes, weights = (part.to(mean.device) for part in gauss_hermite(_POINTS))
        s = deviation(variance.double())
        v, m, count = s.square(), mean.double() + self.offset, y.double()[:, None]
        # The integrand N(f; m, v) Poisson(y; e^f) has its mode where f = m + v y - W, W e^W = v e^(m + v y).
        w = _lambert(v.log() + m + v * count)
        width = (v / (1 + w)).sqrt()
        f = m + v * count - w + width * nodes
        exponent = -0.5 * ((f - m) / s).square() + count * f - f.exp() + 0.5 * nodes.square()
        log_sum = (exponent + weights.log()).logsumexp(1) + (width / s).log()[:, 0]
        return (log_sum - torch.lgamma(count[:, 0] + 1)).to(mean.dtype)

    @torch.no_grad()
    def cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        chances, weights = self._below(mean, variance)
        count = y.double().floor()
        return torch.where(count < 0, 0.0, chances(count.clamp_min(0.0)) @ weights)

    @torch.no_grad()
    def quantile(self, mean: Tensor, variance: Tensor, p: float | Tensor) -> Tensor:
        """The smallest count with P(Y <= count) >= p, by bisection between bounds from the tails of f and of Y."""
        self._check(mean, variance)
        probability = as_probabilities(p, mean)
        chances, weights = self._below(mean, variance)
        m, s = mean.double() + self.offset, variance.double().clamp(min=0).sqrt()

        def below(count: Tensor) -> Tensor:
            return chances(count) @ weights >= probability

        low, high = _bounds(m[:, 0], s[:, 0], probability)
        high = torch.where(below(high), high, 2 * high + 10)
        low = torch.where(below(low), torch.full_like(low, -1.0), low)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            if bool(((middle == low) | (middle == high))[high - low > 1].any()):
                break
            enough = below(middle)
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        return high.to(mean.dtype)

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "offset": self.offset}

    def _below(self, mean: Tensor, variance: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """P(Y <= count | f) (B, points) as a function of counts (B,), at points of f, and their weights (points,)."""
        nodes, weights = (part.to(mean.device) for part in normal_trapezoid(_CDF_POINTS))
        m, s = mean.double() + self.offset, variance.double().clamp(min=0).sqrt()
        rates = (m + s * nodes).clamp(max=_MAX_LOG_RATE).exp()
        return lambda count: torch.special.gammaincc(count[:, None] + 1, rates).nan_to_num(0.0), weights

    def _log_rate(self, mean: Tensor, variance: Tensor) -> Tensor:
        return mean[:, 0].double() + self.offset + variance[:, 0].double() / 2


def _lambert(exponent: Tensor) -> Tensor:
    """W > 0 with W e^W = exp(exponent), by Newton's method on W + log W."""
    w = torch.where(exponent > 1, exponent - exponent.clamp(min=1).log(), exponent.clamp(max=1).exp())
    w = w.clamp(min=_SMALLEST)
    for _ in range(8):
        w = (w * (1 + exponent - w.log()) / (1 + w)).clamp(min=_SMALLEST)
    return w


def _bounds(m: Tensor, s: Tensor, probability: Tensor) -> tuple[Tensor, Tensor]:
    """Counts around the quantile: half of either tail is spent on f, half on the Poisson variable (Bernstein)."""
    down = (m + s * torch.special.ndtri(probability / 2)).clamp(max=_MAX_LOG_RATE).exp()
    up = (m + s * torch.special.ndtri((1 + probability) / 2)).clamp(max=_MAX_LOG_RATE).exp()
    below, above = -(probability / 2).log(), -((1 - probability) / 2).log()
    low = (down - (2 * down * below).sqrt()).floor() - 1
    high = (up + above / 3 + (above.square() / 9 + 2 * up * above).sqrt()).ceil()
    return low.clamp(min=-1), high
