"""What saved values have to be: checks of plain values and tensors, of which the schemas of models are made.

A hash says that a file is as it was written, not that it was written by siggpde. So what is read is compared with a
schema before anything is made of it: types, ranges, shapes that fit together, and no field that is not known.

A schema is a function that raises a `SchemaError` for a value at a place. `fields({"noise": number(above=0), "alpha":
array("landmarks", "outputs")})` takes a dictionary of these entries and no others; one that older models lack is
`"novelty": Absent(maybe(plain()))`. Names in `array`, `list_of(size=)` and `size` are those of sizes: wherever a name
occurs, the size has to be the same. A size in `own` of `fields` is one for every such dictionary, as the rank of a
member is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    """Where a value is, for messages, and the sizes that are known so far: those of the innermost `fields` first."""

    name: str
    sizes: tuple[dict[str, int | None], ...] = field(default_factory=lambda: ({},))

    def at(self, key: str | int) -> Place:
        return Place(f"{self.name}[{key}]" if isinstance(key, int) else f"{self.name}.{key}", self.sizes)

    def require(self, right: bool, value: Any, wanted: str) -> None:
        if not right:
            raise SchemaError(f"{self.name} must be {wanted}, got {describe(value)}")

    def known(self, name: str) -> int | None:
        """The size of this name, if a value with it was checked before."""
        return next((scope[name] for scope in self.sizes if name in scope), None)

    def fit(self, name: str, size: int) -> None:
        """Takes note of a size, or compares it with the one of the same name."""
        scope = next((scope for scope in self.sizes if name in scope), self.sizes[-1])
        known = scope.setdefault(name, None)
        if known is None:
            scope[name] = size
        elif known != size:
            raise SchemaError(f"{self.name} has {size} for {known} {name}")


Schema = Callable[[Any, Place], None]


class Absent(NamedTuple):
    """An entry of `fields` that need not be there: one that models of earlier versions lack."""

    schema: Schema


Entries = Mapping[str, Schema | Absent]


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


def integer(low: int = 0, high: int = 2**53) -> Schema:
    """A whole number from `low` to `high`."""
    wanted = f"an integer from {low} to {high}"
    return lambda value, at: at.require(type(value) is int and low <= value <= high, value, wanted)


def size(name: str) -> Schema:
    """A whole number that is a size by this name, at least 1."""

    def check(value: Any, at: Place) -> None:
        integer(1)(value, at)
        at.fit(name, value)

    return check


def _bounds(low: float, high: float, above: float) -> str:
    return f"{f'above {above:g}' if above > -math.inf else f'from {low:g}'} to {high:g}"


def number(low: float = -LARGEST, high: float = LARGEST, above: float = -math.inf) -> Schema:
    """A finite number from `low` to `high`, and larger than `above`."""
    wanted = f"a number {_bounds(low, high, above)}"
    return lambda value, at: at.require(
        type(value) in (int, float) and low <= value <= high and value > above, value, wanted
    )


def flag(value: Any, at: Place) -> None:
    """True or false."""
    at.require(type(value) is bool, value, "true or false")


def text(value: Any, at: Place, longest: int = 10_000) -> None:
    """A string."""
    at.require(isinstance(value, str) and len(value) <= longest, value, f"a text of at most {longest} characters")


def one_of(*values: str) -> Schema:
    """One of a few strings."""
    wanted = f"one of {', '.join(values)}"
    return lambda value, at: at.require(isinstance(value, str) and value in values, value, wanted)


def maybe(other: Schema) -> Schema:
    """Null, or what the other schema wants."""
    return lambda value, at: None if value is None else other(value, at)


def list_of(other: Schema, size: str | int | None = None, least: int = 0, most: int = 10**6) -> Schema:
    """A list of at least `least` and at most `most` values, or of as many as the size of a name."""

    def check(value: Any, at: Place) -> None:
        at.require(
            isinstance(value, list) and least <= len(value) <= most, value, f"a list of {least} to {most} values"
        )
        if isinstance(size, str):
            at.fit(size, len(value))
        at.require(not isinstance(size, int) or len(value) == size, value, f"a list of {size}")
        for index, item in enumerate(value):
            other(item, at.at(index))

    return check


def items(*others: Schema) -> Schema:
    """A list with one value for each of these schemas."""

    def check(value: Any, at: Place) -> None:
        at.require(isinstance(value, list) and len(value) == len(others), value, f"a list of {len(others)}")
        for index, (item, schema) in enumerate(zip(value, others, strict=True)):
            schema(item, at.at(index))

    return check


def map_of(other: Schema, most: int = 10**6) -> Schema:
    """A dictionary with any names, and values of one schema."""

    def check(value: Any, at: Place) -> None:
        right = isinstance(value, Mapping) and len(value) <= most
        at.require(right, value, f"a dictionary of at most {most} values")
        for key, item in value.items():
            other(item, at.at(key))

    return check


def fields(
    entries: Entries,
    own: tuple[str, ...] = (),
    also: Callable[[Any, Place], str | None] | None = None,
    others: Schema | None = None,
) -> Schema:
    """A dictionary with these entries and no others; with `others`, any more of that schema.

    `also` is a further check of the whole, once every entry has been checked: it returns what is wrong, or None.
    """

    def check(value: Any, at: Place) -> None:
        at.require(isinstance(value, Mapping), value, "a dictionary")
        inside = Place(at.name, (dict.fromkeys(own), *at.sizes)) if own else at
        for key, schema in entries.items():
            if key in value:
                (schema.schema if isinstance(schema, Absent) else schema)(value[key], inside.at(key))
            elif not isinstance(schema, Absent):
                raise SchemaError(f"{at.name} lacks {key!r}")
        for key in value.keys() - entries.keys():
            if others is None:
                raise SchemaError(f"{at.name} has the field {key!r}, which is not known here")
            others(value[key], inside.at(key))
        if also is not None and (wrong := also(value, inside)) is not None:
            raise SchemaError(f"{at.name} {wrong}")

    return check


def by_kind(key: str, kinds: Mapping[str, Schema]) -> Schema:
    """A dictionary whose entry `key` says of which schema it is."""

    def check(value: Any, at: Place) -> None:
        kind = value.get(key) if isinstance(value, Mapping) else None
        known = isinstance(kind, str) and kind in kinds
        at.at(key).require(known, kind, f"one of {', '.join(kinds)}, or of a newer siggpde")
        kinds[str(kind)](value, at)

    return check


SINGLE, DOUBLE = (torch.float32,), (torch.float64,)
EITHER = SINGLE + DOUBLE

_DEPTH = 20


def array(
    *axes: str | int | None,
    low: float = -LARGEST,
    high: float = LARGEST,
    above: float = -math.inf,
    dtypes: tuple[torch.dtype, ...] = DOUBLE,
) -> Schema:
    """A tensor with axes of these sizes: names, numbers, or None for any. Values are finite, as a `number` is."""
    names = "/".join(str(dtype).removeprefix("torch.") for dtype in dtypes)

    def check(value: Any, at: Place) -> None:
        right = isinstance(value, Tensor) and value.ndim == len(axes) and value.dtype in dtypes
        at.require(right, value, f"a tensor of {names} with {len(axes)} axes")
        for axis, size in zip(axes, value.shape, strict=True):
            if isinstance(axis, str):
                at.fit(axis, size)
            at.require(not isinstance(axis, int) or axis == size, value, f"a tensor with shape {axes}")
        if value.numel():
            least, most = (float(extreme) for extreme in value.aminmax())
            if not (low <= least and most <= high and least > above):  # of NaN nothing is true
                bounds = _bounds(low, high, above)
                raise SchemaError(f"{at.name} must have finite numbers {bounds}, got {least:g} to {most:g}")

    return check


def integers(*axes: str | int | None, low: int = 0, high: int = 2**53) -> Schema:
    """A tensor of whole numbers from `low` to `high`."""
    return array(*axes, low=low, high=high, dtypes=(torch.int64,))


def plain(tensors: bool = False, depth: int = _DEPTH) -> Schema:
    """Any nested dictionaries and lists of numbers, strings, true, false and null; with `tensors` finite ones too."""

    def check(value: Any, at: Place) -> None:
        at.require(depth > 0, value, f"nested at most {_DEPTH} deep")
        if isinstance(value, Mapping | list):
            (map_of if isinstance(value, Mapping) else list_of)(plain(tensors, depth - 1))(value, at)
        elif tensors and isinstance(value, Tensor):
            if value.dtype not in (torch.int64, torch.bool, torch.uint8):
                array(*[None] * value.ndim, low=-RAW, high=RAW, dtypes=EITHER)(value, at)
        elif type(value) in (int, float):
            number(-RAW, RAW)(value, at)
        else:
            at.require(value is None or isinstance(value, str | bool), value, "a plain value")

    return check
