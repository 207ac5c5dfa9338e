"""Classification by softmax, with expectations over fixed quasi-random points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.quadrature import deviation, sobol_normal

_CHUNK_BYTES = 2**23
_FEWEST_POINTS, _MOST_POINTS = 64, 256


def default_points(classes: int) -> int:
    """The points of training: four a class, a power of two from 64 to 256.

    Four a class are what it takes to leave no two coordinates correlated (`sobol_normal`), so that averages of cubic
    polynomials are exact. With 24 classes E[log p] is then wrong by at most 0.003 nats where the latent functions have
    standard deviations up to 1, and by 0.024 up to 2; with 64 points it is wrong by 0.014 and 0.043.

    Examples:
        >>> [default_points(classes) for classes in (3, 16, 17, 24, 60, 1000)]
        [64, 64, 128, 128, 256, 256]
    """
    return min(_MOST_POINTS, max(_FEWEST_POINTS, 2 ** (4 * classes - 1).bit_length()))


class Softmax(Classification):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j), with one latent function a class.

    Expectations are averages over `points` antithetic Sobol points (by default `default_points`; `predict_points` for
    predictions), the same ones at every call: values and gradients are deterministic, and the gradient of
    `expected_log_prob` is that of the average itself. The statistics g = 1[y = c] - E[p_c] and a = E[p_c (1 - p_c)]
    use the same points.

    Examples:
        >>> likelihood = Softmax(classes=3)
        >>> likelihood.predict(torch.tensor([[0.0, 0.0, 20.0]]), torch.zeros(1, 3))
        tensor([[2.0612e-09, 2.0612e-09, 1.0000e+00]])
    """

    name = "softmax"
    log_concave = True
    _train_points: Tensor
    _predict_points: Tensor

    def __init__(
        self,
        classes: int,
        points: int | None = None,
        predict_points: int = 512,
        class_weight: Sequence[float] | Tensor | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(classes, class_weight)
        self.latents = classes
        self.points = default_points(classes) if points is None else points
        self.predict_points, self.seed = predict_points, seed
        self.register_buffer("_train_points", _columns(self.points, classes, seed), persistent=False)
        self.register_buffer("_predict_points", _columns(predict_points, classes, seed), persistent=False)

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        entropy: Any = _ExpectedLogSumExp.apply(mean, deviation(variance), self._train_points.to(mean))
        return self._weighted(y, _chosen(mean, y) - entropy)[0]

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self._check(mean, variance, y)
        z = self._train_points.to(mean)
        average = z.new_full((len(z), 1, z.shape[1]), 1 / z.shape[1])
        value, g, a = mean.new_empty(len(mean)), torch.empty_like(mean), torch.empty_like(mean)
        for rows, f in _logits(mean, deviation(variance), z):
            value[rows] = _softmax_(f).mean(0)
            p = torch.bmm(average, f)[:, 0]
            g[rows] = p.T
            a[rows] = (p - torch.bmm(average, f.square_())[:, 0]).T
        value = _chosen(mean, y) - value
        g.neg_().scatter_add_(1, y.long()[:, None], torch.ones_like(g[:, :1]))
        value, g, a = self._weighted(y, value, g, a.clamp_(min=0))
        return value, g, a

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        self._check(mean, variance)
        result = torch.empty_like(mean)
        for rows, f in _logits(mean, deviation(variance), self._predict_points.to(mean)):
            _softmax_(f)
            result[rows] = f.mean(1).T
        return result / result.sum(1, keepdim=True)

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        z, s = self._predict_points.to(mean), deviation(variance)
        result = mean.new_empty(len(mean))
        for rows, f in _logits(mean, s, z):
            label = y[rows].long()
            own = _chosen(mean[rows], label) + _chosen(s[rows], label) * z[label].T
            result[rows] = own.sub_(_exponentials_(f)[1]).logsumexp(0)
        return result - math.log(z.shape[1])

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": self.classes,
            "points": self.points,
            "predict_points": self.predict_points,
            "class_weight": self._weight_setting(),
            "seed": self.seed,
        }


class _ExpectedLogSumExp(torch.autograd.Function):
    """mean_k log sum_c exp(mean_c + s_c z_ck), (B,); both gradients are found on the way forward, in little memory."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, s: Tensor, z: Tensor) -> Tensor:
        value = mean.new_empty(len(mean))
        slopes = mean.new_empty(2, *mean.shape) if any(ctx.needs_input_grad) else None
        averages = torch.stack([torch.ones_like(z), z], 1) / z.shape[1]
        for rows, f in _logits(mean, s, z):
            if slopes is None:
                value[rows] = _exponentials_(f)[1].mean(0)
                continue
            value[rows] = _softmax_(f).mean(0)
            slopes[:, rows] = torch.bmm(averages, f).permute(1, 2, 0)
        if slopes is not None:
            ctx.save_for_backward(slopes)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        by_mean, by_s = ctx.saved_tensors[0] * grad[:, None]
        return by_mean, by_s, None


def _columns(points: int, classes: int, seed: int) -> Tensor:
    return sobol_normal(points, classes, seed).T.contiguous()


def _chosen(values: Tensor, y: Tensor) -> Tensor:
    return values.gather(1, y.long()[:, None])[:, 0]


def _logits(mean: Tensor, s: Tensor, z: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Slices of rows, with mean + s z for them, (C, points, rows), in one piece of memory used again and again.

    Rows come last, so that sums over classes and over points run along contiguous memory.
    """
    rows = max(1, min(len(mean), _CHUNK_BYTES // (z.numel() * z.element_size())))
    memory = z.new_empty(z.numel() * rows)
    for start in range(0, len(mean), rows):
        part = slice(start, min(start + rows, len(mean)))
        m, d = mean[part].T.contiguous()[:, None], s[part].T.contiguous()[:, None]
        f = memory[: z.numel() * m.shape[2]].view(*z.shape, m.shape[2])
        torch.mul(z[:, :, None], d, out=f)
        yield part, f.add_(m)


def _softmax_(f: Tensor) -> Tensor:
    """Replaces the logits by their softmax over the first axis and returns the log-sum-exp over it."""
    total, logarithm = _exponentials_(f)
    f.div_(total)
    return logarithm


def _exponentials_(f: Tensor) -> tuple[Tensor, Tensor]:
    """Replaces f by exp(f - max f); returns its sum over the first axis and the log-sum-exp of f."""
    top = f.amax(0)
    total = f.sub_(top).exp_().sum(0)
    return total, top.add_(total.log())
