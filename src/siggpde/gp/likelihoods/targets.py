"""Checks of targets: what is wrong with the first wrong one, and what to do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def finite(y: Any) -> Tensor:
    """Finite numbers (B,) in their floating dtype; integers become the default dtype.

    Examples:
        >>> finite([1, 2])
        tensor([1., 2.])
    """
    values = _vector(y)
    if not values.is_floating_point():
        return values.to(torch.get_default_dtype())
    refuse(values, ~torch.isfinite(values), "targets must be finite; drop or fill in the missing ones")
    return values


def labels(y: Any, classes: int) -> Tensor:
    """Class labels 0..classes-1, (B,), int64.

    Examples:
        >>> labels([0.0, 2.0], classes=3)
        tensor([0, 2])
    """
    values = _vector(y)
    wrong = ~((values >= 0) & (values < classes) & (values == values.floor()))
    if bool(wrong.any()):
        fix = f"labels must be whole numbers from 0 to {classes - 1}; number the classes from 0 in this order"
        refuse(values, wrong, fix)
    return values.long()


def counts(y: Any) -> Tensor:
    """Counts 0, 1, 2, .., (B,), int64.

    Examples:
        >>> counts([3.0, 0.0])
        tensor([3, 0])
    """
    values = _vector(y)
    wrong = ~((values >= 0) & (values <= 2**53) & (values == values.floor()))
    refuse(values, wrong, "counts must be whole numbers from 0; round them, or use a likelihood for real numbers")
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


def refuse(values: Tensor, wrong: Tensor, fix: str) -> None:
    """Raises for the first target that is wrong."""
    where = wrong.nonzero()
    if len(where):
        index = int(where[0])
        raise ValueError(f"target {index} is {values[index].item()}: {fix}")
