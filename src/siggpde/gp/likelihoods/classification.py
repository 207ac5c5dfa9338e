"""Likelihoods of classes: Bernoulli for two, softmax and RobustMax, the paper's, for several."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

from siggpde.gp.likelihoods.base import Classification, deviation, gauss_hermite, sobol_normal

_BERNOULLI_POINTS = 20
_BERNOULLI_PREDICT_POINTS = 64
_FAR = -100.0


class Bernoulli(Classification):
    """p(y = 1 | f) = Phi(f) for `link="probit"`, as in the paper, 1 / (1 + exp(-f)) for `link="logit"`; y is 0 or 1.

    Expectations of log p use 20 Gauss-Hermite points. The probit predictive is exact, Phi(m / sqrt(1 + v)); the logit
    predictive uses 64 points. Computed in float64 whatever the inputs are.

    Parameters
    ----------
    link : {"probit", "logit"}
        From latents to probabilities.
    class_weight : array of float, optional
        What a series of each class counts in training.

    Examples
    --------
    >>> Bernoulli().predict(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
    tensor([[0.5000, 0.5000],
            [0.1587, 0.8413]])
    """

    name = "bernoulli"
    arguments = ("link", "class_weight")
    log_concave = True

    def __init__(
        self, link: Literal["probit", "logit"] = "probit", class_weight: Sequence[float] | Tensor | None = None
    ) -> None:
        super().__init__(2, class_weight)
        if link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit', got {link!r}")
        self.link = link

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        x, weights, _ = _signed(mean, variance, y, _BERNOULLI_POINTS)
        return self._weighted(y, (self._log_prob(x) @ weights).to(mean.dtype))

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weights, sign = _signed(mean, variance, y, _BERNOULLI_POINTS)
        if self.link == "logit":  # the slope 1 - s of log s, the logistic function, and s (1 - s)
            slope = torch.sigmoid(-x)
            curvature = slope * torch.sigmoid(x)
        else:  # the slope r = phi / Phi of log Phi, and r (x + r), between 0 and 1
            slope = math.sqrt(2 / math.pi) / torch.special.erfcx(-x / math.sqrt(2))
            inverse = x.clamp(max=_FAR).pow(-2)
            # Far to the left x + r is lost to rounding; r (x + r) = 1 - 1/x^2 + 6/x^4 - ..
            curvature = torch.where(x < _FAR, 1 - inverse + 6 * inverse.square(), slope * (x + slope)).clamp_(0, 1)
        parts = self._log_prob(x) @ weights, sign * (slope @ weights)[:, None], (curvature @ weights)[:, None]
        value, g, a = (self._weighted(y, part.to(mean.dtype)) for part in parts)
        return value, g, a

    def _predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        labels = torch.arange(2, device=mean.device)[:, None].expand(-1, len(mean))
        both = torch.stack([self._log_predictive(mean, variance, label).exp() for label in labels], 1)
        return both / both.sum(1, keepdim=True)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        if self.link == "probit":
            x = _sign(y) * mean.double() / (1 + variance.double()).sqrt()
            return torch.special.log_ndtr(x[:, 0]).to(mean.dtype)
        x, weights, _ = _signed(mean, variance, y, _BERNOULLI_PREDICT_POINTS)
        return (logsigmoid(x) + weights.log()).logsumexp(1).to(mean.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        return torch.special.log_ndtr(x) if self.link == "probit" else logsigmoid(x)


def _sign(y: Tensor) -> Tensor:
    return (2.0 * y.double() - 1)[:, None]


def _signed(mean: Tensor, variance: Tensor, y: Tensor, points: int) -> tuple[Tensor, Tensor, Tensor]:
    """f at the nodes, times the sign of the label (-1 or 1), (B, points); the weights; and the signs (B, 1)."""
    locations, weights = (part.to(mean.device) for part in gauss_hermite(points))
    sign = _sign(y)
    return sign * (mean.double() + deviation(variance.double()) * locations), weights, sign


_CHUNK_BYTES = 2**23
_FEWEST_POINTS, _MOST_POINTS = 64, 256


def default_points(classes: int) -> int:
    """The points of training: a power of 2 from 64 to 256, four a class, so that no two coordinates correlate."""
    return min(_MOST_POINTS, max(_FEWEST_POINTS, 2 ** (4 * classes - 1).bit_length()))


class Softmax(Classification):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j), with one latent function a class.

    Expectations are averages over antithetic Sobol points, the same ones at every call, and the gradient of
    `expected_log_prob` is that of the average itself. The statistics g = 1[y = c] - E[p_c] and a = E[p_c (1 - p_c)] use
    the same points.

    Parameters
    ----------
    classes : int
        The number of classes.
    points : int, optional
        Points for training, by default `default_points`.
    predict_points : int
        Points for predictions.
    class_weight : array of float, optional
        What a series of each class counts in training.
    seed : int
        Decides the points.

    Examples
    --------
    >>> likelihood = Softmax(classes=3)
    >>> likelihood.predict(torch.tensor([[0.0, 0.0, 20.0]]), torch.zeros(1, 3))
    tensor([[2.0612e-09, 2.0612e-09, 1.0000e+00]])
    """

    name = "softmax"
    arguments = ("classes", "points", "predict_points", "class_weight", "seed")
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
        for name, count in (("_train_points", self.points), ("_predict_points", predict_points)):
            self.register_buffer(name, sobol_normal(count, classes, seed).T.contiguous(), persistent=False)

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        entropy: Any = _ExpectedLogSumExp.apply(mean, deviation(variance), self._train_points.to(mean))
        return self._weighted(y, _chosen(mean, y) - entropy)

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
        return self._weighted(y, value), self._weighted(y, g), self._weighted(y, a.clamp_(min=0))

    def _predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        result = torch.empty_like(mean)
        for rows, f in _logits(mean, deviation(variance), self._predict_points.to(mean)):
            _softmax_(f)
            result[rows] = f.mean(1).T
        return result / result.sum(1, keepdim=True)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        z, s = self._predict_points.to(mean), deviation(variance)
        result = mean.new_empty(len(mean))
        for rows, f in _logits(mean, s, z):
            label = y[rows].long()
            logits = _chosen(mean[rows], label) + _chosen(s[rows], label) * z[label].T
            result[rows] = logits.sub_(_exponentials_(f)[1]).logsumexp(0)
        return result - math.log(z.shape[1])


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


def _chosen(values: Tensor, y: Tensor) -> Tensor:
    return values.gather(1, y.long()[:, None])[:, 0]


def _logits(mean: Tensor, s: Tensor, z: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Slices of rows with mean + s z for them, (C, points, rows), in memory that the next slice overwrites."""
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


_ROBUSTMAX_POINTS = 20
_ROBUSTMAX_PREDICT_POINTS = 64
_ROBUSTMAX_CHUNK = 2**20
_LOST = -35.0  # Phi is 1e-268 here


class RobustMax(Classification):
    """The paper's p(y | f) of several classes: 1 - eps if f_y is the largest of C latent values, else eps / (C - 1).

    With P = P(argmax f = y) = E_{f_y} prod_{c != y} Phi((f_y - m_c) / s_c), by Gauss-Hermite quadrature with 20 points,
    E[log p] = P log(1 - eps) + (1 - P) log(eps / (C - 1)). log p is not concave: the a of `statistics`, exact for this
    quadrature, may be negative. Predictions use 64 points and scale P to sum to 1, at C times the work of training.

    Parameters
    ----------
    classes : int
        The number of classes C.
    eps : float
        The probability of all other classes together.
    class_weight : array of float, optional
        What a series of each class counts in training.

    Examples
    --------
    >>> RobustMax(classes=3).predict(torch.tensor([[0.0, 0.0, 5.0]]), torch.full((1, 3), 0.1))
    tensor([[5.0000e-04, 5.0000e-04, 9.9900e-01]])
    """

    name = "robustmax"
    arguments = ("classes", "eps", "class_weight")

    def __init__(self, classes: int, eps: float = 1e-3, class_weight: Sequence[float] | Tensor | None = None) -> None:
        super().__init__(classes, class_weight)
        if not 0 < eps < 1:
            raise ValueError(f"eps must be between 0 and 1, got {eps!r}")
        self.latents, self.eps = classes, eps

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        p = _win(mean, deviation(variance), y.long(), _ROBUSTMAX_POINTS)
        other = math.log(self.eps / (self.classes - 1))
        return self._weighted(y, other + p * (math.log1p(-self.eps) - other))

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = _rows(self.classes, _ROBUSTMAX_POINTS)
        split = zip(*(whole.split(rows) for whole in (mean, variance, y)), strict=True)
        parts = [super(RobustMax, self)._statistics(*part) for part in split]
        value, g, a = (torch.cat(pieces) for pieces in zip(*parts, strict=True))
        return value, g, a

    def _predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        s, p = deviation(variance), torch.empty_like(mean)
        rows = _rows(self.classes, _ROBUSTMAX_PREDICT_POINTS)
        for m, d, out in zip(mean.split(rows), s.split(rows), p.split(rows), strict=True):
            for label in range(self.classes):
                y = torch.full_like(m[:, 0], label, dtype=torch.int64)
                out[:, label] = _win(m, d, y, _ROBUSTMAX_PREDICT_POINTS)
        p /= p.sum(1, keepdim=True)
        return self.eps / (self.classes - 1) * (1 - p) + (1 - self.eps) * p

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        return self._predict(mean, variance).gather(1, y.long()[:, None])[:, 0].log()


def _rows(classes: int, points: int) -> int:
    return max(1, _ROBUSTMAX_CHUNK // (classes * points))


def _win(mean: Tensor, s: Tensor, y: Tensor, points: int) -> Tensor:
    """P(argmax f = y), (B,)."""
    locations, weights = (part.to(mean) for part in gauss_hermite(points))
    label = y[:, None]
    f = mean.gather(1, label) + s.gather(1, label) * locations
    # (B, C, points), with a certain win against itself.
    ahead = (f[:, None] - mean[:, :, None]) / s[:, :, None]
    log_phi = torch.special.log_ndtr(ahead.clamp(min=_LOST))
    mask = torch.nn.functional.one_hot(y, mean.shape[1]).bool()[:, :, None]
    return log_phi.masked_fill(mask, 0.0).sum(1).exp() @ weights
