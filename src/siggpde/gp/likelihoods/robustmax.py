"""Classification by the largest latent value, robust to wrong labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.quadrature import deviation, gauss_hermite

_POINTS = 20
_PREDICT_POINTS = 64
_CHUNK = 2**20
_LOST = -35.0  # Phi is 1e-268 here


class RobustMax(Classification):
    """p(y | f) = 1 - eps if f_y is the largest of the C latent values, else eps / (C - 1).

    The paper's likelihood of several classes.

    With P = P(argmax f = y) = E_{f_y} prod_{c != y} Phi((f_y - m_c) / s_c), by Gauss-Hermite quadrature with 20 points,
    E[log p] = P log(1 - eps) + (1 - P) log(eps / (C - 1)). log p is not concave: the a of `statistics`, which is exact
    for this quadrature, may be negative. Predictions use 64 points and scale P to sum to 1 over the classes, at C times
    the work of training.

    Examples:
        >>> RobustMax(classes=3).predict(torch.tensor([[0.0, 0.0, 5.0]]), torch.full((1, 3), 0.1))
        tensor([[5.0000e-04, 5.0000e-04, 9.9900e-01]])
    """

    name = "robustmax"

    def __init__(self, classes: int, eps: float = 1e-3, class_weight: Sequence[float] | Tensor | None = None) -> None:
        super().__init__(classes, class_weight)
        if not 0 < eps < 1:
            raise ValueError(f"eps must be between 0 and 1, got {eps!r}")
        self.latents, self.eps = classes, eps

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        p = _win(mean, deviation(variance), y.long(), _POINTS)
        other = math.log(self.eps / (self.classes - 1))
        return self._weighted(y, other + p * (math.log1p(-self.eps) - other))[0]

    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self._check(mean, variance, y)
        parts = [
            super(RobustMax, self).statistics(*part)
            for part in zip(*(whole.split(_rows(self.classes, _POINTS)) for whole in (mean, variance, y)), strict=True)
        ]
        value, g, a = (torch.cat(list(pieces)) for pieces in zip(*parts, strict=True))
        return value, g, a

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        self._check(mean, variance)
        s, p = deviation(variance), torch.empty_like(mean)
        rows = _rows(self.classes, _PREDICT_POINTS)
        for m, d, out in zip(mean.split(rows), s.split(rows), p.split(rows), strict=True):
            for label in range(self.classes):
                out[:, label] = _win(m, d, torch.full_like(m[:, 0], label, dtype=torch.int64), _PREDICT_POINTS)
        p /= p.sum(1, keepdim=True)
        return self.eps / (self.classes - 1) * (1 - p) + (1 - self.eps) * p

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        return self.predict(mean, variance).gather(1, y.long()[:, None])[:, 0].log()

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": self.classes,
            "eps": self.eps,
            "class_weight": self._weight_setting(),
        }


def _rows(classes: int, points: int) -> int:
    return max(1, _CHUNK // (classes * points))


def _win(mean: Tensor, s: Tensor, y: Tensor, points: int) -> Tensor:
    """P(argmax f = y), (B,)."""
    nodes, weights = (part.to(mean) for part in gauss_hermite(points))
    own = y[:, None]
    f = mean.gather(1, own) + s.gather(1, own) * nodes
    # (B, C, points), with a certain win against itself.
    ahead = (f[:, None] - mean[:, :, None]) / s[:, :, None]
    log_phi = torch.special.log_ndtr(ahead.clamp(min=_LOST))
    mask = torch.nn.functional.one_hot(y, mean.shape[1]).bool()[:, :, None]
    return log_phi.masked_fill(mask, 0.0).sum(1).exp() @ weights
