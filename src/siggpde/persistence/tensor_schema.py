"""Checkers of tensors, and of nested values with tensors in them (`persistence.schema` has the others)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.persistence.schema import LARGEST, RAW, ListOf, MapOf, Number, Place, SchemaError

SINGLE, DOUBLE = (torch.float32,), (torch.float64,)
EITHER = SINGLE + DOUBLE

_DEPTH = 20


class Array:
    """A tensor with axes of these sizes: names, numbers, or None for any. Values are finite, as a `Number` is."""

    def __init__(
        self,
        *axes: str | int | None,
        low: float = -LARGEST,
        high: float = LARGEST,
        above: float = -math.inf,
        dtypes: tuple[torch.dtype, ...] = DOUBLE,
    ) -> None:
        self.axes, self.low, self.high, self.above, self.dtypes = axes, low, high, above, dtypes

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, Tensor) or value.ndim != len(self.axes) or value.dtype not in self.dtypes:
            names = "/".join(str(dtype).removeprefix("torch.") for dtype in self.dtypes)
            at.refuse(value, f"a tensor of {names} with {len(self.axes)} axes")
        for axis, size in zip(self.axes, value.shape, strict=True):
            if isinstance(axis, str):
                at.fit(axis, size)
            elif axis is not None and axis != size:
                at.refuse(value, f"a tensor with shape {self.axes}")
        if value.numel() == 0:
            return
        least, most = (float(each) for each in value.aminmax())
        if not (self.low <= least and most <= self.high and least > self.above):  # of NaN nothing is true
            bound = f"above {self.above:g}" if self.above > -math.inf else f"from {self.low:g}"
            raise SchemaError(f"{at.name} must have finite numbers {bound} to {self.high:g}, got {least:g} to {most:g}")


def integers(*axes: str | int | None, low: int = 0, high: int = 2**53) -> Array:
    """A tensor of whole numbers from `low` to `high`."""
    return Array(*axes, low=low, high=high, dtypes=(torch.int64,))


@dataclass(frozen=True)
class Plain:
    """Any nested dictionaries and lists of numbers, strings, true, false and null."""

    tensors: bool = False
    depth: int = _DEPTH

    def check(self, value: Any, at: Place) -> None:
        if self.depth == 0:
            at.refuse(value, f"nested at most {_DEPTH} deep")
        inner = Plain(self.tensors, self.depth - 1)
        if isinstance(value, Mapping):
            MapOf(inner).check(value, at)
        elif isinstance(value, list):
            ListOf(inner).check(value, at)
        elif self.tensors and isinstance(value, Tensor) and value.dtype in (torch.int64, torch.bool, torch.uint8):
            return
        elif self.tensors and isinstance(value, Tensor):
            Array(*[None] * value.ndim, low=-RAW, high=RAW, dtypes=EITHER).check(value, at)
        elif type(value) in (int, float):
            Number(-RAW, RAW).check(value, at)
        elif value is not None and not isinstance(value, str | bool):
            at.refuse(value, "a plain value")


def nested() -> Plain:
    """Any nested dictionaries and lists of finite tensors and plain values."""
    return Plain(tensors=True)
