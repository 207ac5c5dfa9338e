r"""Static kernels kappa(x, y) of points, which lift a path to their Hilbert space before its signature is taken.

kappa(x, y) = amplitude² c(|x - y| / bandwidth), with c(r)

- `"rbf"`: exp(-r²/2),
- `"matern12"`: exp(-r),
- `"matern32"`: (1 + √3 r) exp(-√3 r),
- `"matern52"`: (1 + √5 r + 5 r²/3) exp(-√5 r),
- `"rational_quadratic"`: (1 + r²/(2 alpha))^(-alpha),

and `"linear"`: kappa(x, y) = amplitude² <x, y>, the signature kernel of the path itself.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Static = Literal["linear", "rbf", "matern12", "matern32", "matern52", "rational_quadratic"]
Parameter = float | Tensor

# In the order of the native core's enumeration, csrc/static_kernel.hpp.
KINDS: tuple[Static, ...] = get_args(Static)


class StaticKernel(NamedTuple):
    """A static kernel other than the linear one: bandwidth and amplitude are float64 scalars, maybe with a graph."""

    name: Static
    bandwidth: Tensor
    amplitude: Tensor
    alpha: float

    @property
    def code(self) -> int:
        """The kernel's number in the native core."""
        return KINDS.index(self.name)

    @property
    def differentiable(self) -> bool:
        """Whether bandwidth or amplitude wants a gradient."""
        return self.bandwidth.requires_grad or self.amplitude.requires_grad


def check_static(
    static: str, bandwidth: Parameter | None, amplitude: Parameter, alpha: float | None
) -> tuple[StaticKernel | None, Tensor | None]:
    """Checks the arguments: (static kernel, None), or for the linear one (None, its amplitude or None for 1)."""
    if not isinstance(static, str) or static not in KINDS:
        raise ValueError(f"static must be one of {', '.join(map(repr, KINDS))}, got {static!r}")
    if alpha is not None and static != "rational_quadratic":
        raise ValueError(f"alpha={alpha} is for static='rational_quadratic'; static={static!r} has none")
    if static == "linear":
        if bandwidth is not None:
            raise ValueError("the linear static kernel has no bandwidth; leave it out, or choose another `static`")
        return None, None if isinstance(amplitude, Real) and amplitude == 1 else _positive(amplitude, "amplitude")
    power = 1.0 if alpha is None else alpha
    if not isinstance(power, Real) or not (math.isfinite(power) and power > 0):
        raise ValueError(f"alpha must be a positive number, got {alpha!r}")
    width = _positive(1.0 if bandwidth is None else bandwidth, "bandwidth")
    return StaticKernel(static, width, _positive(amplitude, "amplitude"), float(power)), None  # pyright: ignore[reportArgumentType]


def _positive(value: Parameter, name: str) -> Tensor:
    if not isinstance(value, Tensor | Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number or a scalar tensor, got {type(value).__name__}")
    number = value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    if number.numel() != 1 or not bool(torch.isfinite(number.detach()) & (number.detach() > 0)):
        raise ValueError(f"{name} must be one positive, finite number, got {value!r}")
    return number.reshape(()).to(torch.float64)


def cross_differences(static: StaticKernel, x: Tensor, y: Tensor) -> Tensor:
    """p_ij = kappa(x_(i+1), y_(j+1)) - kappa(x_i, y_(j+1)) - kappa(x_(i+1), y_j) + kappa(x_i, y_j), (n, I, J).

    x (n, I + 1, channels), y (n, J + 1, channels): paired paths.
    """
    return less_one(static, x, y).diff(dim=1).diff(dim=2) * static.amplitude.to(x).square()


def squared_segments(static: StaticKernel, x: Tensor) -> Tensor:
    """Squared lengths (n, I) of the lifted segments of x (n, I + 1, channels): 2 amplitude² (1 - c)."""
    z = (x.diff(dim=1) / static.bandwidth.to(x)).square().sum(dim=-1)
    return -2 * static.amplitude.to(x).square() * _less_one(static, z)


def less_one(static: StaticKernel, x: Tensor, y: Tensor) -> Tensor:
    """c - 1 for all points of paired paths x (n, I, channels) and y (n, J, channels): (n, I, J).

    Constants cancel in the differences above; without the 1 near points keep their digits.
    """
    scaled_x, scaled_y = x / static.bandwidth.to(x), y / static.bandwidth.to(y)
    return _less_one(static, (scaled_x[:, :, None, :] - scaled_y[:, None, :, :]).square().sum(dim=-1))


def _less_one(static: StaticKernel, z: Tensor) -> Tensor:
    """c - 1 as a function of z = |x - y|² / bandwidth²."""
    if static.name == "rbf":
        return torch.expm1(-z / 2)
    if static.name == "rational_quadratic":
        return torch.expm1(-static.alpha * torch.log1p(z / (2 * static.alpha)))
    # The root has no derivative at zero, where the smoother kernels have none to pass on: zero instead of NaN.
    apart = z > 0
    r = torch.where(apart, torch.where(apart, z, 1.0).sqrt(), 0.0)
    if static.name == "matern12":
        return torch.expm1(-r)
    s = r * math.sqrt(3 if static.name == "matern32" else 5)
    growth = s if static.name == "matern32" else s + s.square() / 3
    return torch.expm1(-s) + growth * torch.exp(-s)
