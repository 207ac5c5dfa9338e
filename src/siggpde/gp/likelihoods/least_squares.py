"""Classification by regression on ±1: the posterior in closed form, probabilities by a softmax of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.quadrature import deviation, sobol_normal

_LOG_TWO_PI = math.log(2 * math.pi)
_MAX_LATENTS = 2**21  # values at a time: series times points times classes


class LeastSquares(Classification):
    """One latent function a class, seen with Gaussian noise as +1 for the series of the class and -1 for the others.

    Training is a regression, so q(u) is exact and every series' leave-one-out prediction is known in closed form.
    Probabilities are those of a softmax of the latents, averaged over their Gaussians,

        p(y = c) = (1 - lapse) E[softmax(temperature mixing f + offset)_c] + lapse / C.

    `temperature`, `mixing` (C, C), which lets classes speak for and against each other, and `offset` (C,) are set by
    leave-one-out (`siggpde.Exact`); `lapse` is the share of labels that nothing can foresee. Without them mixing is the
    identity and offset 0. Averages are over `predict_points` fixed quasi-random points. `log_noise`, the logarithm of
    the noise variance, is trained where a schedule learns hyperparameters.

    The targets of two classes are opposite, so that their latents are f and -f: with `opposite` they are averaged over
    one Gaussian, and the difference of the two has the variance 4 Var f. Without, they are taken for independent, with
    half of that, as in models saved before this setting existed. It does nothing for more classes.

    Examples:
        >>> likelihood = LeastSquares(classes=2, temperature=4.0)
        >>> likelihood.predict(torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2))
        tensor([[9.9966e-01, 3.3536e-04]])
        >>> likelihood.normal_points(2)
        tensor([[-1.,  1.],
                [ 1., -1.]], dtype=torch.float64)
    """

    name = "least_squares"
    is_gaussian = True
    log_concave = True
    calibrated = ("noise", "temperature", "lapse", "mixing", "offset")
    absent: ClassVar[dict[str, Any]] = {"opposite": False}
    calibration: Tensor
    mixing: Tensor
    offset: Tensor
    _points: Tensor

    def __init__(
        self,
        classes: int,
        noise: float = 0.1,
        temperature: float = 4.0,
        lapse: float = 0.0,
        mixing: Sequence[Sequence[float]] | Tensor | None = None,
        offset: Sequence[float] | Tensor | None = None,
        predict_points: int = 128,
        class_weight: Sequence[float] | Tensor | None = None,
        seed: int = 0,
        opposite: bool = True,
    ) -> None:
        super().__init__(classes, class_weight)
        if not 0 < noise < math.inf:
            raise ValueError(f"noise, a variance, must be positive and finite, got {noise!r}")
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature!r}")
        if not 0 <= lapse < 1:
            raise ValueError(f"lapse must be from 0 up to 1, got {lapse!r}")
        self.latents = classes
        self.register_buffer("calibration", torch.tensor([temperature, lapse], dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.tensor(math.log(noise), dtype=torch.float64))
        mixing = torch.eye(classes) if mixing is None else torch.as_tensor(mixing)
        offset = torch.zeros(classes) if offset is None else offset
        self.register_buffer("mixing", _finite(mixing, (classes, classes), "mixing"))
        self.register_buffer("offset", _finite(offset, (classes,), "offset"))
        self.predict_points, self.seed, self.opposite = predict_points, seed, bool(opposite)
        self.register_buffer("_points", self.normal_points(predict_points), persistent=False)
        self._chunk = max(1, _MAX_LATENTS // self._points.numel())

    @property
    def noise(self) -> Tensor:
        """The noise variance, a scalar."""
        return self.log_noise.exp()

    @property
    def temperature(self) -> float:
        return float(self.calibration[0])

    @property
    def lapse(self) -> float:
        return float(self.calibration[1])

    def normal_points(self, count: int) -> Tensor:
        """Standard normal points (count, C) of the latents, float64; opposite for two classes, if `opposite`."""
        if self.opposite and self.classes == 2:
            return sobol_normal(count, 1, self.seed) * torch.tensor([1.0, -1.0], dtype=torch.float64)
        return sobol_normal(count, self.classes, self.seed)

    def signs(self, y: Tensor, like: Tensor) -> Tensor:
        """The targets of the regression, (B, C): +1 for a series' own class, -1 for the others."""
        return 2 * nn.functional.one_hot(y.long(), self.classes).to(like) - 1

    def weights(self, y: Tensor, like: Tensor) -> Tensor:
        """What every series counts, (B,): the weight of its class."""
        if self.class_weight is None:
            return torch.ones(len(y), dtype=like.dtype, device=like.device)
        return self.class_weight.to(like)[y.long()]

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        log_noise = self.log_noise.to(mean)
        squares = ((self.signs(y, mean) - mean).square() + variance) * (-log_noise).exp()
        return self.weights(y, mean) * (-0.5 * (_LOG_TWO_PI + log_noise + squares).sum(dim=1))

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self.expected_log_prob(mean, variance, y)
        precision = self.weights(y, mean)[:, None] * (-self.log_noise.to(mean)).exp()
        return value, (self.signs(y, mean) - mean) * precision, precision.expand_as(mean).clone()

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        self._check(mean, variance)
        chunks = zip(mean.split(self._chunk), variance.split(self._chunk), strict=True)
        # The mean of probabilities, not of their logarithms: half the work, and what is lost to underflow is 0 anyway.
        parts = [torch.softmax(self._logits(m, v, self._points), dim=2).mean(dim=1) for m, v in chunks]
        chances = torch.cat(parts) if parts else torch.empty_like(mean)
        lapse = float(self.calibration[1])
        return chances * (1 - lapse) + lapse / self.classes

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        chunks = zip(mean.split(self._chunk), variance.split(self._chunk), strict=True)
        parts = [self.log_chances(m, v, self._points) for m, v in chunks]
        chances = torch.cat(parts) if parts else torch.empty_like(mean)
        return chances.gather(1, y.long()[:, None])[:, 0]

    def _logits(self, mean: Tensor, variance: Tensor, points: Tensor) -> Tensor:
        """(B, P, C), through the link."""
        link = float(self.calibration[0]) * self.mixing.to(mean)
        latents = mean[:, None, :] + deviation(variance)[:, None, :] * points.to(mean)
        return latents @ link.T + self.offset.to(mean)

    def log_chances(self, mean: Tensor, variance: Tensor, points: Tensor) -> Tensor:
        """log p(y = c), (B, C), by these normal points (P, C); differentiable in mixing and offset."""
        logits = self._logits(mean, variance, points)
        chances = torch.log_softmax(logits, dim=2).logsumexp(dim=1) - math.log(len(points))
        lapse = float(self.calibration[1])
        if lapse == 0:
            return chances
        floor = torch.full_like(chances, lapse / self.classes).log()
        return torch.logaddexp(chances + math.log1p(-lapse), floor)

    def extra_repr(self) -> str:
        long = ("name", "mixing", "offset")
        return ", ".join(f"{key}={value!r}" for key, value in self.settings().items() if key not in long)

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": self.classes,
            "noise": self.noise.item(),
            "temperature": self.temperature,
            "lapse": self.lapse,
            "mixing": self.mixing.tolist(),
            "offset": self.offset.tolist(),
            "predict_points": self.predict_points,
            "class_weight": self._weight_setting(),
            "seed": self.seed,
            "opposite": self.opposite,
        }


def _finite(values: Sequence[float] | Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    tensor = torch.as_tensor(values, dtype=torch.float64).detach().clone()
    if tensor.shape != shape or not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} must be finite numbers of shape {shape}, got shape {tuple(tensor.shape)}")
    return tensor
