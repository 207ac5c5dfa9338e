"""Errors and warnings of the signature kernel, from the failures that the backends return.

A failure is (code, series, index, channel, side): `index` is the time index of a number that is not finite, or the
second series of a pair whose kernel overflows; `side` is 0 for series of x, 1 for those of y. The codes are those of
`csrc/arguments.hpp`.
"""

from __future__ import annotations

import warnings
from typing import NoReturn

import torch
from torch import Tensor

from siggpde.numerics.inputs import raise_not_finite

NOT_FINITE, OVERFLOW, MEMORY, INACCURATE, LOST = 1, 2, 3, 4, 5


def raise_or_warn(
    failure: tuple[int, ...],
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    log: bool,
) -> None:
    """Raises the error that a failure stands for, or warns of a result that is inaccurate."""
    code, series, other, _, side = failure
    name = "y" if side else "x"
    if code in (INACCURATE, LOST):
        digits = "most" if code == INACCURATE else "all"
        message = (
            f"the signature kernel of series {series} of {name} has lost {digits} of its digits to rounding: the path "
            "comes back on itself, so that k(X, X) is far smaller than on the way; rescale the series, or add a time "
            "channel"
        )
        if code == LOST:
            raise ArithmeticError(message)
        warnings.warn(message, UserWarning, stacklevel=5)
        return
    if code == NOT_FINITE:
        raise_not_finite(*((y, y_lengths) if side and y is not None else (x, x_lengths)), name)
    if code == MEMORY:
        raise MemoryError(f"not enough memory for the signature kernel of {tuple(x.shape)} series; use fewer at a time")
    if other >= 0:
        raise_overflow(
            x.dtype,
            f"of series {series} of x and series {other} of {'x' if y is None else 'y'}",
            False,
            log,
        )
    raise_overflow(x.dtype, f"of series {series} of {name}", True, log)


def raise_overflow(dtype: torch.dtype, which: str, diagonal: bool, log: bool) -> NoReturn:
    """Raises OverflowError for a kernel value, described by `which`, that is out of the range of its type."""
    if log:
        raise OverflowError(f"the signature kernel {which} is beyond even its logarithm; rescale the series")
    fixes = ["rescale the series"] + ["use float64"] * (dtype != torch.float64)
    if diagonal:
        fixes.append("take signature_kernel_diag(..., log=True)")
    fixes.append("normalise the kernel")
    raise OverflowError(f"the signature kernel {which} is too large for {dtype}; {' or '.join(fixes)}")
