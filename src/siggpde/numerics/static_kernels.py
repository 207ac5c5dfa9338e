r"""Static kernels kappa(x, y) of points, which lift a path to their Hilbert space before its signature is taken.

kappa(x, y) = amplitude² c(|x - y| / bandwidth), with c(r)

- `"rbf"`: exp(-r²/2),
- `"matern12"`: exp(-r),
- `"matern32"`: (1 + √3 r) exp(-√3 r),
- `"matern52"`: (1 + √5 r + 5 r²/3) exp(-√5 r),
- `"rational_quadratic"`: (1 + r²/(2 alpha))^(-alpha),

and `"linear"`: kappa(x, y) = amplitude² <x, y>, the signature kernel of the path itself.
"""

import math
from numbers import Real
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Static = Literal["linear", "rbf", "matern12", "matern32", "matern52", "rational_quadratic"]
Parameter = float | Tensor

# In the order of the native core's enumeration, csrc/signature_kernel.hpp.
KINDS: tuple[Static, ...] = get_args(Static)

# sqrt(2 nu) r of the Matérn kernels: below the first their closed form cancels, beyond the other they are zero.
_NEAR, _FAR = 0.25, 700.0
_SMALLEST, _LARGEST = 1e-30, 1e30  # of bandwidth and amplitude: within the range of float32, with their inverses


class StaticKernel(NamedTuple):
    """A static kernel, not the linear one; bandwidth and amplitude are numbers, or float64 scalars with a graph."""

    name: Static
    bandwidth: Parameter
    amplitude: Parameter
    alpha: float

    @property
    def differentiable(self) -> bool:
        return isinstance(self.bandwidth, Tensor) or isinstance(self.amplitude, Tensor)

    @property
    def tensors(self) -> tuple[Tensor | None, Tensor | None]:
        """Bandwidth and amplitude where they want a gradient."""
        width, height = self.bandwidth, self.amplitude
        return width if isinstance(width, Tensor) else None, height if isinstance(height, Tensor) else None

    @property
    def numbers(self) -> tuple[int, float, float, float]:
        """What the native core takes: its number for the kernel, bandwidth, amplitude, alpha."""
        return KINDS.index(self.name), _number(self.bandwidth), _number(self.amplitude), self.alpha

    def parameters(self, x: Tensor) -> tuple[Parameter, Parameter]:
        """Bandwidth and amplitude for computing with x: its dtype and device."""
        width, height = (v.to(x) if isinstance(v, Tensor) else v for v in (self.bandwidth, self.amplitude))
        return width, height


class KernelSettings(NamedTuple):
    """How a backend computes a kernel: `static` None is the linear one; `refine` counts dyadic refinements of finite
    differences, -1 being polynomial edges accurate to `tol`. Results do not depend on `threads`."""

    static: StaticKernel | None = None
    refine: int = -1
    tol: float = 1e-8
    threads: int = 1


def check_static(
    static: str, bandwidth: Parameter | None, amplitude: Parameter, alpha: float | None
) -> tuple[StaticKernel | None, Parameter | None]:
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
    if not isinstance(power, Real) or not 1e-9 <= power <= 1e9:
        raise ValueError(f"alpha must be a positive number, from 1e-9 to 1e9, got {alpha!r}")
    width = _positive(1.0 if bandwidth is None else bandwidth, "bandwidth")
    return StaticKernel(static, width, _positive(amplitude, "amplitude"), float(power)), None  # pyright: ignore[reportArgumentType]


def _number(value: Parameter) -> float:
    return float(value.detach() if isinstance(value, Tensor) else value)


def _positive(value: Parameter, name: str) -> Parameter:
    """The value as a float, or as a float64 scalar if it wants a gradient."""
    if not isinstance(value, Tensor | Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number or a scalar tensor, got {type(value).__name__}")
    if isinstance(value, Tensor) and (value.numel() != 1 or value.is_complex()):
        raise ValueError(f"{name} must be one positive, finite number, got {value!r}")
    number = _number(value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{name} must be one positive, finite number, from 1e-30 to 1e30, got {value!r}")
    if isinstance(value, Tensor) and value.requires_grad:
        return value.reshape(()).to(torch.float64)
    return number


def per_parameter(of_logarithms: Tensor, *parameters: Parameter | None) -> tuple[Tensor | None, ...]:
    """Gradients in the parameters from those in their logarithms; None for plain numbers."""
    return tuple(
        of_logarithm.to(parameter) / parameter if isinstance(parameter, Tensor) else None
        for of_logarithm, parameter in zip(of_logarithms, parameters, strict=True)
    )


def squared_segments(static: StaticKernel, x: Tensor) -> Tensor:
    """Squared lengths (n, I) of the lifted segments of x (n, I + 1, channels): 2 amplitude² (1 - c)."""
    bandwidth, amplitude = static.parameters(x)
    z = (x.diff(dim=1) / bandwidth).square().sum(dim=-1)
    return -2 * amplitude**2 * _less_one(static, z)


def less_one(static: StaticKernel, x: Tensor, y: Tensor) -> Tensor:
    """Returns c - 1 (n, I, J) of points x (n, I, channels), y (n, J, channels): near points keep their digits."""
    bandwidth, _ = static.parameters(x)
    differences = (x[:, :, None, :] - y[:, None, :, :]) / bandwidth
    return _less_one(static, differences.square().sum(dim=-1))


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
    s = (r * math.sqrt(3 if static.name == "matern32" else 5)).clamp(max=_FAR)
    growth = s if static.name == "matern32" else s + s.square() / 3
    far = torch.expm1(-s) + growth * torch.exp(-s)
    near = s.clamp(max=_NEAR)
    series = torch.zeros_like(near)
    for power in range(13, 1, -1):  # where the closed form cancels
        # The coefficient of s^k in c: of (1 + s) e^-s, or of (1 + s + s²/3) e^-s.
        factor = 1 - power if static.name == "matern32" else 1 - power + power * (power - 1) / 3
        series = series * near + (-1) ** power * factor / math.factorial(power)
    return torch.where(s < _NEAR, series * near.square(), far)
