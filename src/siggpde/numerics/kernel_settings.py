"""Checks of the settings that the functions of the signature kernel share."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.checked_once import checked_once
from siggpde.numerics.gradients.kernel import Algorithm
from siggpde.numerics.static_kernel import Parameter, StaticKernel
from siggpde.numerics.words import as_integer

Solver = Literal["series", "fd"]
Gradient = Literal["adjoint", "variation", "augmented"]

_MAX_REFINE = 12


@checked_once(256)
def check_settings(
    solver: Any, refine: Any, tol: Any, gradient: Any, log: Any, dtype: torch.dtype
) -> tuple[int, float, bool]:
    """Checks the settings; returns the refinements as backends take them, -1 for "series", the tolerance and `log`."""
    if not isinstance(solver, str) or solver not in ("series", "fd"):
        raise ValueError(f"solver must be 'series' or 'fd', got {solver!r}")
    if not isinstance(gradient, str) or gradient not in ("adjoint", "variation", "augmented"):
        raise ValueError(f"gradient must be 'adjoint', 'variation' or 'augmented', got {gradient!r}")
    pieces = as_integer(refine)
    if pieces is None or not 0 <= pieces <= _MAX_REFINE:
        raise ValueError(f"refine must be an integer from 0 to {_MAX_REFINE}, got {refine!r}")
    if pieces != 0 and solver == "series":
        raise ValueError(f"refine={refine} is for solver='fd'; the series solver takes its accuracy from `tol`")
    if not isinstance(tol, Real) or not 0 < float(tol) < 1:
        raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
    flag = check_flag(log, "log")
    return (-1 if solver == "series" else pieces), max(float(tol), 16 * torch.finfo(dtype).eps), flag


def check_flag(value: Any, name: str) -> bool:
    """The value of a setting that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_scales(theta: Any, x: Tensor) -> Tensor:
    """Channel scales (channels,) as a tensor like x."""
    try:
        scales = torch.as_tensor(theta).detach()
    except (TypeError, ValueError, RuntimeError):  # not numbers
        scales = None
    if scales is not None and not scales.is_complex():
        scales = scales.to(dtype=x.dtype, device=x.device).contiguous()
        if scales.shape == x.shape[2:] and bool(torch.isfinite(scales).all()):
            return scales
    raise ValueError(f"theta must be {x.shape[2]} finite scales, one a channel of x, got {theta!r}")


def times_amplitude(x: Tensor, lengths: Tensor | None, factor: Parameter | None) -> Tensor:
    """x times the amplitude of the linear static kernel; padding, which may be NaN, has no part in its gradient."""
    if not isinstance(factor, Tensor):
        return x if factor is None else x * factor
    return torch.where(inputs.row_mask(x, lengths)[:, :, None], x, 0.0) * factor.to(x)


def check_algorithm(gradient: Gradient, lift: StaticKernel | None, normalize: bool = False) -> Algorithm | None:
    """The algorithm of the paper that the gradient comes from, if any: they are for the plain, linear kernel only."""
    if gradient == "adjoint":
        return None
    if normalize or lift is not None:
        what = "normalize=True" if normalize else f"static={lift.name!r}" if lift else ""
        raise ValueError(f"gradient={gradient!r} is for static='linear', not normalised; for {what} take 'adjoint'")
    return gradient


def check_pair(x: Tensor, x_counts: Tensor | None, y: Tensor, y_counts: Tensor | None) -> None:
    """Raises a ValueError for two batches of which no kernel can be taken."""
    if x.shape[2] != y.shape[2]:
        raise ValueError(f"x has {x.shape[2]} channels and y has {y.shape[2]}; they need the same")
    if x.dtype != y.dtype or x.device != y.device:
        raise ValueError(f"x is {x.dtype} on {x.device} and y is {y.dtype} on {y.device}; convert one to the other")
    if len(x) == 0 or len(y) == 0:  # no pair, so that the backends have nothing to do
        inputs.check_finite(x, x_counts, "x")
        inputs.check_finite(y, y_counts, "y")
