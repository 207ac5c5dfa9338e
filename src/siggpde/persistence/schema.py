"""What saved values have to be: checkers of plain values and tensors, of which the schemas of models are made.

A hash says that a file is as it was written, not that it was written by siggpde. So what is read is compared with a
schema before anything is made of it: types, ranges, shapes that fit together, and no field that is not known.

A schema is data. `Fields({"noise": Number(above=0), "alpha": Array("landmarks", "outputs")})` is a dictionary of these
entries and no others; one that older models lack is one line, `"novelty": Absent(Maybe(nested()))`. Names in `Array`,
`ListOf(size=)` and `Size` are those of sizes: wherever a name occurs, the size has to be the same. A size in `own` of
`Fields` is one for every such dictionary, as the rank of a member is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor

LARGEST = 1e15
"""The largest number that can come of standardised series."""
RAW = 1e300
"""The largest number in units of the user's."""
_SHOWN = 40


class SchemaError(ValueError):
    """A saved value is not what it has to be: the message names the value and what it has to be."""


@dataclass
class Place:
    """Where a value is, for messages, and the sizes that are known so far: those of the innermost `Fields` first."""

    name: str
    sizes: tuple[dict[str, int | None], ...] = field(default_factory=lambda: ({},))

    def at(self, key: str | int) -> Place:
        return Place(f"{self.name}[{key}]" if isinstance(key, int) else f"{self.name}.{key}", self.sizes)

    def refuse(self, value: Any, wanted: str) -> NoReturn:
        shown = describe(value)
        raise SchemaError(f"{self.name} must be {wanted}, got {shown}")

    def known(self, name: str) -> int | None:
        """The size of this name, if a value with it was checked before."""
        return next((each[name] for each in self.sizes if name in each), None)

    def fit(self, name: str, size: int) -> None:
        """Takes note of a size, or compares it with the one of the same name."""
        scope = next((each for each in self.sizes if name in each), self.sizes[-1])
        known = scope.setdefault(name, None)
        if known is None:
            scope[name] = size
        elif known != size:
            raise SchemaError(f"{self.name} has {size} for {known} {name}")


def describe(value: Any) -> str:
    """A value for a message, however large it is."""
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')} with shape {tuple(value.shape)}"
    if isinstance(value, dict | list):
        return f"a {'dictionary' if isinstance(value, dict) else 'list'} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}.. ({len(shown)} characters)"


class Schema(Protocol):
    """Something that raises a `SchemaError` for a value that it is not the schema of."""

    def check(self, value: Any, at: Place) -> None: ...


@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = 2**53

    def check(self, value: Any, at: Place) -> None:
        if type(value) is not int or not self.low <= value <= self.high:
            at.refuse(value, f"an integer from {self.low} to {self.high}")


@dataclass(frozen=True)
class Size:
    """A whole number that is a size by this name, at least 1."""

    name: str

    def check(self, value: Any, at: Place) -> None:
        Integer(1).check(value, at)
        at.fit(self.name, value)


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`, and larger than `above`."""

    low: float = -LARGEST
    high: float = LARGEST
    above: float = -math.inf

    def check(self, value: Any, at: Place) -> None:
        if type(value) not in (int, float) or not (self.low <= value <= self.high and value > self.above):
            bound = f"above {self.above:g}, " if self.above > -math.inf else f"from {self.low:g} "
            at.refuse(value, f"a number {bound}to {self.high:g}")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, at: Place) -> None:
        if type(value) is not bool:
            at.refuse(value, "true or false")


@dataclass(frozen=True)
class Text:
    """A string."""

    longest: int = 10_000

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, str) or len(value) > self.longest:
            at.refuse(value, f"a text of at most {self.longest} characters")


@dataclass(frozen=True)
class OneOf:
    """One of a few strings."""

    values: tuple[str, ...]

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, str) or value not in self.values:
            at.refuse(value, f"one of {', '.join(self.values)}")


@dataclass(frozen=True)
class Maybe:
    """Null, or what the other schema wants."""

    other: Schema

    def check(self, value: Any, at: Place) -> None:
        if value is not None:
            self.other.check(value, at)


@dataclass(frozen=True)
class Absent:
    """An entry of `Fields` that need not be there: one that models of earlier versions lack."""

    other: Schema

    def check(self, value: Any, at: Place) -> None:
        self.other.check(value, at)


@dataclass(frozen=True)
class ListOf:
    """A list of at least `least` and at most `most` values, or of as many as the size of a name."""

    other: Schema
    size: str | int | None = None
    least: int = 0
    most: int = 10**6

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            at.refuse(value, f"a list of {self.least} to {self.most} values")
        if isinstance(self.size, str):
            at.fit(self.size, len(value))
        elif self.size is not None and len(value) != self.size:
            at.refuse(value, f"a list of {self.size}")
        for index, each in enumerate(value):
            self.other.check(each, at.at(index))


@dataclass(frozen=True)
class Items:
    """A list with one value for each of these schemas."""

    others: tuple[Schema, ...]

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, list) or len(value) != len(self.others):
            at.refuse(value, f"a list of {len(self.others)}")
        for index, (each, schema) in enumerate(zip(value, self.others, strict=True)):
            schema.check(each, at.at(index))


@dataclass(frozen=True)
class MapOf:
    """A dictionary with any names, and values of one schema."""

    other: Schema
    most: int = 10**6

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, Mapping) or len(value) > self.most:
            at.refuse(value, f"a dictionary of at most {self.most} values")
        for key, each in value.items():
            self.other.check(each, at.at(key))


@dataclass(frozen=True)
class Fields:
    """A dictionary with these entries and no others; with `others`, any more of that schema.

    `also` is a further check of the whole, once every entry has been checked: it returns what is wrong, or None.
    """

    entries: Mapping[str, Schema]
    own: tuple[str, ...] = ()
    also: Callable[[Any, Place], str | None] | None = None
    others: Schema | None = None

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, Mapping):
            at.refuse(value, "a dictionary")
        inside = Place(at.name, (dict.fromkeys(self.own), *at.sizes)) if self.own else at
        for key, schema in self.entries.items():
            if key in value:
                schema.check(value[key], inside.at(key))
            elif not isinstance(schema, Absent):
                raise SchemaError(f"{at.name} lacks {key!r}")
        for key in value.keys() - self.entries.keys():
            if self.others is None:
                raise SchemaError(f"{at.name} has the field {key!r}, which is not known here")
            self.others.check(value[key], inside.at(key))
        wrong = None if self.also is None else self.also(value, inside)
        if wrong is not None:
            raise SchemaError(f"{at.name} {wrong}")


@dataclass(frozen=True)
class ByKind:
    """A dictionary whose entry `key` says of which schema it is."""

    key: str
    kinds: Mapping[str, Schema]

    def check(self, value: Any, at: Place) -> None:
        kind = value.get(self.key) if isinstance(value, Mapping) else None
        if not isinstance(kind, str) or kind not in self.kinds:
            at.at(self.key).refuse(kind, f"one of {', '.join(self.kinds)}, or of a newer siggpde")
        self.kinds[kind].check(value, at)


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
