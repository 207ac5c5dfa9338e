"""What every likelihood offers, what those of classes share, checks of targets, and expectations by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.quasirandom import SobolEngine


class Likelihood(nn.Module):
    """p(y | f) for L latent functions whose values at B inputs are independent Gaussians.

    `mean` and `variance` are (B, L), float32 or float64, with variance >= 0, and y is (B,). Trained parameters are
    torch parameters of the module. Only `expected_log_prob` carries a graph. The methods below check shapes; subclasses
    compute in those with an underscore.

    Attributes
    ----------
    latents : int
        L.
    name : str
        That of the likelihood in `settings`, beside its `arguments`.
    """

    name: ClassVar[str] = ""
    is_gaussian: ClassVar[bool] = False
    """p(y | f) is Gaussian in f, so that the posterior of a Gaussian process is."""
    log_concave: ClassVar[bool] = False
    """log p(y | f) is concave in f; then the `a` of `statistics` is never negative."""
    discrete: ClassVar[bool] = False
    """Targets are whole numbers, of which `cdf` and `quantile` know."""
    calibrated: ClassVar[tuple[str, ...]] = ()
    """Settings that a schedule may set, besides the trained parameters."""
    arguments: ClassVar[tuple[str, ...]] = ()
    """The names of the constructor's arguments, which are attributes too."""
    _named: ClassVar[dict[str, type[Likelihood]]] = {}

    latents: int = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Likelihood._named[cls.name] = cls

    def expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        """E[log p(y | f)], (B,), differentiable in mean, variance and the parameters, also where variance is 0."""
        self._check(mean, variance, y)
        return self._expected_log_prob(mean, variance, y)

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """E = E[log p(y | f)] (B,), g = dE/dmean (B, L) and a = -2 dE/dvariance (B, L), without a graph: by Bonnet and
        Price g = E[d log p / df] and a = -E[d^2 log p / df^2]."""
        self._check(mean, variance, y)
        return self._statistics(mean, variance, y)

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            mean, variance = mean.detach().requires_grad_(), variance.detach().requires_grad_()
            value = self.expected_log_prob(mean, variance, y)
            g, slope = torch.autograd.grad(value.sum(), [mean, variance])
        return value.detach(), g, -2 * slope

    @torch.no_grad()
    def predict(self, mean: Tensor, variance: Tensor) -> Any:
        """Class probabilities (B, C), rows summing to 1; for regression the mean and variance of y, two (B,)."""
        self._check(mean, variance)
        return self._predict(mean, variance)

    def _predict(self, mean: Tensor, variance: Tensor) -> Any:
        raise NotImplementedError

    @torch.no_grad()
    def log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        """log p(y) = log E[p(y | f)], (B,)."""
        self._check(mean, variance, y)
        return self._log_predictive(mean, variance, y)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def quantile(self, mean: Tensor, variance: Tensor, p: float | Tensor) -> Tensor:
        """The p-quantile of y, (B,), for p in (0, 1), a number or (B,). Regression only."""
        self._check(mean, variance)
        probability = torch.as_tensor(p, dtype=torch.float64, device=mean.device)
        if probability.ndim > 1 or (probability.ndim == 1 and len(probability) != len(mean)):
            raise ValueError(f"p must be a number or ({len(mean)},), got shape {tuple(probability.shape)}")
        if not bool(((probability > 0) & (probability < 1)).all()):
            raise ValueError(f"p must be between 0 and 1, got {p}")
        return self._quantile(mean, variance, probability.expand(len(mean)))

    def _quantile(self, mean: Tensor, variance: Tensor, p: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no quantiles; use `predict`")

    @torch.no_grad()
    def cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        """P(Y <= y), (B,) in float64, for y (B,), any numbers. Regression only."""
        self._check(mean, variance, y)
        return self._cdf(mean, variance, y)

    def _cdf(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no distribution function; use `predict`")

    def check_targets(self, y: Any) -> Tensor:
        """The targets as a tensor (B,) of the type this likelihood computes with, or a ValueError that says why not."""
        return as_numbers(y)

    def settings(self) -> dict[str, Any]:
        """The name and the constructor's arguments, with parameters at their present values, ready for JSON."""
        values = {key: getattr(self, key) for key in self.arguments}
        plain = {key: value.tolist() if isinstance(value, Tensor) else value for key, value in values.items()}
        return {"name": self.name, **plain}

    @staticmethod
    def from_settings(settings: Mapping[str, Any]) -> Likelihood:
        """The likelihood that `settings` came from."""
        arguments = dict(settings)
        name = arguments.pop("name", None)
        if name not in Likelihood._named:
            raise ValueError(f"no likelihood is named {name!r}; the names are {', '.join(sorted(Likelihood._named))}")
        return Likelihood._named[name](**arguments)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.settings().items() if key != "name")

    def _check(self, mean: Tensor, variance: Tensor, y: Tensor | None = None) -> None:
        if mean.ndim != 2 or mean.shape[1] != self.latents or variance.shape != mean.shape:
            shapes = f"{tuple(mean.shape)} and {tuple(variance.shape)}"
            raise ValueError(f"mean and variance must both be (B, {self.latents}) for {self!r}, got {shapes}")
        if y is not None and y.shape != mean.shape[:1]:
            raise ValueError(f"y must be ({len(mean)},), one target a row of mean, got {tuple(y.shape)}")


class Classification(Likelihood):
    """Labels 0..C-1, and class weights, which multiply what a point adds to training and leave predictions alone."""

    class_weight: Tensor | None

    def __init__(self, classes: int, class_weight: Sequence[float] | Tensor | None = None) -> None:
        super().__init__()
        if not isinstance(classes, int) or classes < 2:
            raise ValueError(f"classes must be an integer of at least 2, got {classes!r}")
        self.classes = classes
        weight = None
        if class_weight is not None:
            weight = torch.as_tensor(class_weight, dtype=torch.float64).detach().clone()
            if weight.shape != (classes,) or not bool(((weight > 0) & torch.isfinite(weight)).all()):
                raise ValueError(f"class_weight must be {classes} positive numbers, one a class, got {class_weight!r}")
        self.register_buffer("class_weight", weight, persistent=False)

    def check_targets(self, y: Any) -> Tensor:
        fix = f"labels must be whole numbers from 0 to {self.classes - 1}; number the classes from 0 in this order"
        return as_whole_numbers(y, self.classes - 1, fix)

    def _weighted(self, y: Tensor, value: Tensor) -> Tensor:
        if self.class_weight is None:
            return value
        weight = self.class_weight.to(value)[y.long()]
        return value * (weight if value.ndim == 1 else weight[:, None])


def as_numbers(y: Any) -> Tensor:
    """Finite numbers (B,) in their floating dtype; integers become the default dtype."""
    values = _vector(y)
    if not values.is_floating_point():
        return values.to(torch.get_default_dtype())
    refuse_target(values, ~torch.isfinite(values), "targets must be finite; drop or fill in the missing ones")
    return values


def as_whole_numbers(y: Any, largest: int, fix: str) -> Tensor:
    """Whole numbers from 0 to `largest`, (B,), int64; the error for any other value ends with `fix`."""
    values = _vector(y)
    refuse_target(values, ~((values >= 0) & (values <= largest) & (values == values.floor())), fix)
    return values.long()


def _vector(y: Any) -> Tensor:
    try:
        values = torch.as_tensor(y).detach()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"targets must be numbers, one a series, got {type(y).__name__}; encode names as numbers"
        ) from None
    if values.ndim != 1:
        raise ValueError(f"targets must be (B,), one number a series, got shape {tuple(values.shape)}")
    if values.is_complex():
        raise ValueError(f"targets must be real, got {values.dtype}")
    return values.long() if values.dtype == torch.bool else values


def refuse_target(values: Tensor, wrong: Tensor, fix: str) -> None:
    where = wrong.nonzero()
    if len(where):
        index = int(where[0])
        raise ValueError(f"target {index} is {values[index].item()}: {fix}")


_FLOOR = {torch.float32: 1e-6, torch.float64: 1e-10}


@lru_cache(maxsize=64)
def gauss_hermite(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights (count,), float64, with sum_k w_k h(z_k) = E[h(Z)], Z ~ N(0, 1), for degrees below 2 count."""
    locations, weights = np.polynomial.hermite_e.hermegauss(count)
    # Exact symmetry makes odd moments cancel to the last bit, which derivatives at small variances rely on.
    locations, weights = (locations - locations[::-1]) / 2, (weights + weights[::-1]) / 2
    return torch.from_numpy(locations), torch.from_numpy(weights / weights.sum())


@lru_cache(maxsize=64)
def normal_trapezoid(count: int, reach: float = 8.5) -> tuple[Tensor, Tensor]:
    """Equally spaced nodes in [-reach, reach] and normal weights (count,), float64, for integrands with steep steps."""
    locations = torch.linspace(-reach, reach, count, dtype=torch.float64)
    weights = (-0.5 * locations.square()).exp()
    return locations, weights / weights.sum()


def sobol_normal(count: int, dimensions: int, seed: int = 0) -> Tensor:
    """Quasi-random standard normal points (count, dimensions), float64: scrambled Sobol points and their negatives."""
    if count < 2 or count % 2:
        raise ValueError(f"points come in pairs z, -z: their number must be even and at least 2, got {count}")
    if not 1 <= dimensions <= SobolEngine.MAXDIM:
        raise ValueError(f"Sobol points have from 1 to {SobolEngine.MAXDIM} dimensions, got {dimensions}")
    uniform = SobolEngine(dimensions, scramble=True, seed=seed).draw(count // 2, dtype=torch.float64)
    half = torch.special.ndtri(uniform.clamp(1e-9, 1 - 1e-9))
    if len(half) >= 2 * dimensions:
        moments, axes = torch.linalg.eigh(half.T @ half / len(half))
        half = half @ (axes / moments.sqrt()) @ axes.T
    half = half / half.square().mean(0).sqrt()
    return torch.cat([half, -half])


def deviation(variance: Tensor) -> Tensor:
    """sqrt(variance), with variances below 1e-10 (1e-6 in float32) raised to that and the gradient kept."""
    floor = _FLOOR.get(variance.dtype, 1e-6)
    return (variance + (floor - variance.detach()).clamp(min=0)).sqrt()


def invert_increasing(function: Callable[[Tensor], Tensor], value: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """x (B,) with function(x) = value, by bisection; [low, high] is widened until it holds the answer."""
    while bool((short := function(high) < value).any()):
        high = torch.where(short, 2 * high - low, high)
    while bool((short := function(low) > value).any()):
        low = torch.where(short, 2 * low - high, low)
    for _ in range(60):
        middle = (low + high) / 2
        enough = function(middle) >= value
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return (low + high) / 2
