"""Likelihoods of numbers and counts: Gaussian noise, Student-t noise for outliers, and Poisson counts."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.gp.likelihoods.base import (
    Likelihood,
    as_whole_numbers,
    deviation,
    gauss_hermite,
    invert_increasing,
    normal_trapezoid,
)

_LOG_TWO_PI = math.log(2 * math.pi)


class Gaussian(Likelihood):
    """y = f + e with e ~ N(0, noise).

    Parameters
    ----------
    noise : float
        The noise variance at the start; its logarithm, `log_noise`, is trained.

    Examples
    --------
    >>> mean, variance = torch.tensor([[1.0]]), torch.tensor([[0.2]])
    >>> Gaussian(noise=0.3).predict(mean, variance)
    (tensor([1.]), tensor([0.5000]))
    """

    name = "gaussian"
    arguments = ("noise",)
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

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        log_noise = self.log_noise.to(mean)
        square = (y.to(mean) - mean[:, 0]).square() + variance[:, 0]
        return -0.5 * (_LOG_TWO_PI + log_noise + square * (-log_noise).exp())

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self._expected_log_prob(mean, variance, y)
        precision = (-self.log_noise.to(mean)).exp()
        return value, (y.to(mean)[:, None] - mean) * precision, precision.expand_as(mean).clone()

    def _predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        return mean[:, 0], variance[:, 0] + self.noise.to(mean)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        centre, spread = self._predict(mean, variance)
        return -0.5 * (_LOG_TWO_PI + spread.log() + (y.to(mean) - centre).square() / spread)

    def _cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        centre, spread = (part.double() for part in self._predict(mean, variance))
        return torch.special.ndtr((y.double() - centre) / spread.sqrt())

    def _quantile(self, mean: Tensor, variance: Tensor, p: Tensor) -> Tensor:
        centre, spread = self._predict(mean, variance)
        return centre + spread.sqrt() * torch.special.ndtri(p).to(mean.dtype)


_T_POINTS = 20
_T_CHUNK = 2**20
_TAIL = 40.0
_FARTHEST = 1e16


class StudentT(Likelihood):
    """y = f + scale * e with e from Student's t distribution of `df` degrees of freedom.

    Expectations of log p use 20 Gauss-Hermite points in float64. The a of `statistics` is negative where y is an
    outlier. Predictive densities and quantiles integrate a mixture of Gaussians, e | w ~ N(0, 1/w) with
    w ~ Gamma(df/2, df/2), over log w by the trapezoidal rule.

    Parameters
    ----------
    scale : float
        The scale at the start; its logarithm, `log_scale`, is trained.
    df : float
        The degrees of freedom.
    learn_df : bool
        Whether `log_df` is trained too.

    Examples
    --------
    >>> StudentT(scale=1.0, df=4).predict(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
    (tensor([1.]), tensor([2.5000]))
    """

    name = "student_t"
    arguments = ("scale", "df", "learn_df")

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

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        locations, weights = (part.to(mean.device) for part in gauss_hermite(_T_POINTS))
        scale, df = self.scale, self.df
        s = deviation(variance.double() / scale.square())  # its floor is that of residuals in units of the scale
        residual = (y.double()[:, None] - mean.double()) / scale - s * locations
        constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * (df * math.pi).log() - self.log_scale
        log_prob = constant - (df + 1) / 2 * torch.log1p(residual.square() / df)
        return (log_prob @ weights).to(mean.dtype)

    def _predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance of y; the variance is infinite for df <= 2, and the mean does not exist for df <= 1."""
        df = self.df.item()
        noise = self.scale.square().to(mean) * (df / (df - 2) if df > 2 else math.inf)
        return mean[:, 0], variance[:, 0] + noise

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        noises, log_weights = self._mixture()
        result = mean.new_empty(len(mean), dtype=torch.float64)
        for rows in torch.arange(len(mean), device=mean.device).split(max(1, _T_CHUNK // len(noises))):
            spread = variance[rows].double() + noises
            square = (y[rows].double()[:, None] - mean[rows].double()).square() / spread
            result[rows] = (log_weights - 0.5 * (spread.log() + square)).logsumexp(1)
        return (result - 0.5 * _LOG_TWO_PI).to(mean.dtype)

    def _cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        noises, log_weights = self._mixture()
        s = (variance.double() + noises).sqrt()
        return torch.special.ndtr((y.double()[:, None] - mean.double()) / s) @ log_weights.exp()

    def _quantile(self, mean: Tensor, variance: Tensor, p: Tensor) -> Tensor:
        """By bisection on the distribution function of the mixture in the lower tail; the upper one is mirrored."""
        noises, log_weights = self._mixture()
        weights, s = log_weights.exp(), (variance.double() + noises).sqrt()
        start = -(variance[:, 0].double() + self.scale.square()).sqrt()

        def below(x: Tensor) -> Tensor:
            return torch.special.ndtr(x[:, None] / s) @ weights

        lower = invert_increasing(below, torch.minimum(p, 1 - p), start, torch.zeros_like(start))
        return (mean[:, 0] + torch.where(p < 0.5, lower, -lower)).to(mean.dtype)

    def _mixture(self) -> tuple[Tensor, Tensor]:
        """Noise variances scale² / w and the logarithms of their weights, for targets up to 1e8 scales away."""
        df = self.df.item()
        low = -2 * _TAIL / df - math.log(_FARTHEST)
        high = math.log1p(2 * _TAIL / df) + math.sqrt(4 * _TAIL / df)
        step = 0.5 * min(math.sqrt(2 / df), 0.6)
        u = torch.arange(low, high, step, dtype=torch.float64, device=self.log_df.device)
        log_weights = df / 2 * (u - u.exp())
        return self.scale.square() * (-u).exp(), log_weights - log_weights.logsumexp(0)


_POISSON_POINTS = 32
_POISSON_CDF_POINTS = 257
_MAX_LOG_RATE = 50.0  # of one rate: its exponential stays far below the largest float
_MOST_COUNTS = 2.0**80  # far more than a variable of that rate ever is
_MAX_LOG_MEAN = 700.0  # of the mean rate: exp(709) is the largest float64
_SMALLEST = 1e-300


class Poisson(Likelihood):
    """y ~ Poisson(exp(f + offset)).

    Expectations are exact: E[log p] = y (m + offset) - rate - log y!, rate = exp(m + offset + v/2); above e^50 the
    exponential goes on as its tangent, so that bad starts stay finite. Predictive probabilities use 32 Gauss-Hermite
    points about the mode of the integrand.

    Parameters
    ----------
    offset : float
        A constant, the logarithm of the rate at f = 0.

    Examples
    --------
    >>> Poisson(offset=1.0).predict(torch.tensor([[0.0]]), torch.tensor([[0.0]]))
    (tensor([2.7183]), tensor([2.7183]))
    """

    name = "poisson"
    arguments = ("offset",)
    log_concave = True
    discrete = True

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        if not math.isfinite(offset):
            raise ValueError(f"offset must be finite, got {offset!r}")
        self.offset = float(offset)

    def check_targets(self, y: Any) -> Tensor:
        fix = "counts must be whole numbers from 0; round them, or use a likelihood for real numbers"
        return as_whole_numbers(y, 2**53, fix)

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        count, log_rate = y.double(), self._log_rate(mean, variance)
        tangent = math.exp(_MAX_LOG_RATE) * (log_rate - _MAX_LOG_RATE).clamp(min=0)
        rate = log_rate.clamp(max=_MAX_LOG_RATE).exp() + tangent
        value = count * (mean[:, 0].double() + self.offset) - rate - torch.lgamma(count + 1)
        return value.to(mean.dtype)

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self._expected_log_prob(mean, variance, y)
        rate = self._log_rate(mean, variance).clamp(max=_MAX_LOG_RATE).exp()[:, None]
        return value, (y.double()[:, None] - rate).to(mean.dtype), rate.to(mean.dtype)

    def _predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The mean, rate, and the variance, rate + rate^2 (e^v - 1), of y; at most the largest finite number."""
        log_rate = self._log_rate(mean, variance).clamp(max=_MAX_LOG_MEAN)
        rate = log_rate.exp()
        spread = rate + (2 * log_rate + torch.expm1(variance[:, 0].double()).log()).exp()
        largest = torch.finfo(mean.dtype).max
        return rate.clamp(max=largest).to(mean.dtype), spread.clamp(max=largest).to(mean.dtype)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        locations, weights = (part.to(mean.device) for part in gauss_hermite(_POISSON_POINTS))
        s = deviation(variance.double())
        v, m, count = s.square(), mean.double() + self.offset, y.double()[:, None]
        # The integrand N(f; m, v) Poisson(y; e^f) has its mode where f = m + v y - W, W e^W = v e^(m + v y).
        w = _lambert(v.log() + m + v * count)
        width = (v / (1 + w)).sqrt()
        f = m + v * count - w + width * locations
        exponent = -0.5 * ((f - m) / s).square() + count * f - f.exp() + 0.5 * locations.square()
        log_sum = (exponent + weights.log()).logsumexp(1) + (width / s).log()[:, 0]
        return (log_sum - torch.lgamma(count[:, 0] + 1)).to(mean.dtype)

    def _cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        chances, weights = self._below(mean, variance)
        count = y.double().floor()
        return torch.where(count < 0, 0.0, chances(count.clamp_min(0.0)) @ weights)

    def _quantile(self, mean: Tensor, variance: Tensor, p: Tensor) -> Tensor:
        """The smallest count with P(Y <= count) >= p, by bisection below the first power of 2 that is enough."""
        chances, weights = self._below(mean, variance)

        def below(count: Tensor) -> Tensor:
            return chances(count) @ weights >= p

        low, high = torch.full_like(p, -1.0), torch.ones_like(p)
        while bool((short := ~below(high) & (high < _MOST_COUNTS)).any()):
            high = torch.where(short, 2 * high, high)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            if bool(((middle == low) | (middle == high))[high - low > 1].any()):
                break
            enough = below(middle)
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        return high.to(mean.dtype)

    def _below(self, mean: Tensor, variance: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """P(Y <= count | f) (B, points) as a function of counts (B,), at points of f, and their weights (points,)."""
        locations, weights = (part.to(mean.device) for part in normal_trapezoid(_POISSON_CDF_POINTS))
        m, s = mean.double() + self.offset, variance.double().clamp(min=0).sqrt()
        rates = (m + s * locations).clamp(max=_MAX_LOG_RATE).exp()
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
