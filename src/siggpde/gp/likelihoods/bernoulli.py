"""Two classes and one latent function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.quadrature import deviation, gauss_hermite

_POINTS = 20
_PREDICT_POINTS = 64
_FAR = -100.0


class Bernoulli(Classification):
    """p(y = 1 | f) = Phi(f) for `link="probit"`, 1 / (1 + exp(-f)) for `link="logit"`; y is 0 or 1.

    The probit link is the paper's likelihood of two classes.

    Expectations of log p use 20 Gauss-Hermite points. The probit predictive is exact, Phi(m / sqrt(1 + v)); the logit
    predictive uses 64 points. Computed in float64 whatever the inputs are.

    Examples:
        >>> Bernoulli().predict(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
        tensor([[0.5000, 0.5000],
                [0.1587, 0.8413]])
    """

    name = "bernoulli"
    log_concave = True

    def __init__(
        self, link: Literal["probit", "logit"] = "probit", class_weight: Sequence[float] | Tensor | None = None
    ) -> None:
        super().__init__(2, class_weight)
        if link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit', got {link!r}")
        self.link = link

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        x, weights, _ = _signed(mean, variance, y, _POINTS)
        return self._weighted(y, (self._log_prob(x) @ weights).to(mean.dtype))[0]

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self._check(mean, variance, y)
        x, weights, sign = _signed(mean, variance, y, _POINTS)
        slope, curvature = _probit_derivatives(x) if self.link == "probit" else _logit_derivatives(x)
        parts = self._log_prob(x) @ weights, sign * (slope @ weights)[:, None], (curvature @ weights)[:, None]
        value, g, a = self._weighted(y, *(part.to(mean.dtype) for part in parts))
        return value, g, a

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        ones = torch.ones(len(mean), dtype=torch.int64, device=mean.device)
        both = torch.stack([self.log_predictive(mean, variance, label).exp() for label in (0 * ones, ones)], 1)
        return both / both.sum(1, keepdim=True)

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        if self.link == "probit":
            x = _sign(y) * mean.double() / (1 + variance.double()).sqrt()
            return torch.special.log_ndtr(x[:, 0]).to(mean.dtype)
        x, weights, _ = _signed(mean, variance, y, _PREDICT_POINTS)
        return (logsigmoid(x) + weights.log()).logsumexp(1).to(mean.dtype)

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "link": self.link, "class_weight": self._weight_setting()}

    def _log_prob(self, x: Tensor) -> Tensor:
        return torch.special.log_ndtr(x) if self.link == "probit" else logsigmoid(x)


def _sign(y: Tensor) -> Tensor:
    return (2.0 * y.double() - 1)[:, None]


def _signed(mean: Tensor, variance: Tensor, y: Tensor, points: int) -> tuple[Tensor, Tensor, Tensor]:
    """f at the nodes, times the sign of the label (-1 or 1), (B, points); the weights; and the signs (B, 1)."""
    nodes, weights = (part.to(mean.device) for part in gauss_hermite(points))
    sign = _sign(y)
    return sign * (mean.double() + deviation(variance.double()) * nodes), weights, sign


def _probit_derivatives(x: Tensor) -> tuple[Tensor, Tensor]:
    """The slope r = phi / Phi of log Phi, and minus its second derivative, r (x + r), between 0 and 1."""
    ratio = math.sqrt(2 / math.pi) / torch.special.erfcx(-x / math.sqrt(2))
    inverse = x.clamp(max=_FAR).pow(-2)
    # Far to the left x + r is lost to rounding; r (x + r) = 1 - 1/x^2 + 6/x^4 - ..
    curvature = torch.where(x < _FAR, 1 - inverse + 6 * inverse.square(), ratio * (x + ratio))
    return ratio, curvature.clamp_(0, 1)


def _logit_derivatives(x: Tensor) -> tuple[Tensor, Tensor]:
    """The slope 1 - s of log s, the logistic function, and minus its second derivative, s (1 - s)."""
    other = torch.sigmoid(-x)
    return other, other * torch.sigmoid(x)
