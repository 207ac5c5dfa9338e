"""Classification by regression on ±1: the posterior in closed form, probabilities by a softmax of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.likelihoods.base import Classification
from siggpde.likelihoods.softmax import Softmax

_LOG_TWO_PI = math.log(2 * math.pi)


class LeastSquares(Classification):
    """One latent function a class, seen with Gaussian noise as +1 for the series of the class and -1 for the others.

    Training is a regression, so q(u) is exact and every series' leave-one-out prediction is known in closed form.
    Probabilities are those of a softmax of the latents times `temperature`, averaged over their Gaussians,

        p(y = c) = (1 - lapse) E[softmax(temperature f)_c] + lapse / C,

    with `temperature` set by leave-one-out (`siggpde.Exact`) and `lapse` the share of labels that nothing can foresee.
    `log_noise`, the logarithm of the noise variance, is trained where a schedule learns hyperparameters.

    Examples:
        >>> likelihood = LeastSquares(classes=2, temperature=4.0)
        >>> likelihood.predict(torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2))
        tensor([[9.9966e-01, 3.3535e-04]])
    """

    name = "least_squares"
    is_gaussian = True
    log_concave = True
    calibrated = ("noise", "temperature", "lapse")
    calibration: Tensor

    def __init__(
        self,
        classes: int,
        noise: float = 0.1,
        temperature: float = 4.0,
        lapse: float = 0.0,
        predict_points: int = 512,
        class_weight: Sequence[float] | Tensor | None = None,
        seed: int = 0,
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
        self._link = Softmax(classes, predict_points=predict_points, seed=seed)

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

    def signs(self, y: Tensor, like: Tensor) -> Tensor:
        """The targets of the regression, (B, C): +1 for a series' own class, -1 for the others."""
        return 2 * nn.functional.one_hot(y.long(), self.classes).to(like) - 1

    def weights(self, y: Tensor, like: Tensor) -> Tensor:
        """What every series counts, (B,): the weight of its class."""
        return (
            torch.ones(len(y), dtype=like.dtype) if self.class_weight is None else self.class_weight.to(like)[y.long()]
        )

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        log_noise = self.log_noise.to(mean)
        squares = ((self.signs(y, mean) - mean).square() + variance) * (-log_noise).exp()
        return self._weighted(y, -0.5 * (_LOG_TWO_PI + log_noise + squares).sum(dim=1))[0]

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value = self.expected_log_prob(mean, variance, y)
        precision = self.weights(y, mean)[:, None] * (-self.log_noise.to(mean)).exp()
        return value, (self.signs(y, mean) - mean) * precision, precision.expand_as(mean).clone()

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Tensor:
        self._check(mean, variance)
        chances = self._link.predict(self.temperature * mean, self.temperature**2 * variance)
        return (1 - self.lapse) * chances + self.lapse / self.classes

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        self._check(mean, variance, y)
        value = self._link.log_predictive(self.temperature * mean, self.temperature**2 * variance, y)
        if self.lapse == 0:
            return value
        return torch.logaddexp(value + math.log1p(-self.lapse), torch.full_like(value, self.lapse / self.classes).log())

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": self.classes,
            "noise": self.noise.item(),
            "temperature": self.temperature,
            "lapse": self.lapse,
            "predict_points": self._link.predict_points,
            "class_weight": self._weight_setting(),
            "seed": self._link.seed,
        }
