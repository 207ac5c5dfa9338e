"""What saved values have to be, and the check of it before anything is made of them.

A schema is

- a type, `str` or `bool`; None for null; a set of strings for one of them; a tuple for a list with a value for each;
- a dictionary for one with these fields and no others, such as `{"noise amplitude": number(0), "counts?": ...}`: a key
  is one name or several with the same schema, and a field whose name ends with "?" may be missing;
- a function that raises a `SchemaError` for a value at a place.

Names in `array`, `list_of` and `integer` are those of sizes: wherever a name occurs, the size has to be the same, or if
the name begins with a dot, wherever it occurs in the same dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

LARGEST = 1e15
"""The largest number that can come of standardised series."""
RAW = 1e300
"""The largest number in units of the user's."""
POSITIVE = math.ulp(0.0)
"""The smallest number above 0."""
SINGLE, DOUBLE = (torch.float32,), (torch.float64,)
EITHER = SINGLE + DOUBLE

_LONGEST_TEXT, _MOST, _SHOWN = 10_000, 10**6, 40


class SchemaError(ValueError):
    """A saved value is not what it has to be: the message names the value and what it has to be."""


@dataclass
class Place:
    """Where a value is, for messages, and the sizes that are known so far."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)

    def at(self, key: str | int) -> Place:
        return Place(f"{self.name}[{key}]" if isinstance(key, int) else f"{self.name}.{key}", self.sizes)

    def demand(self, right: bool, wrong: str) -> None:
        if not right:
            raise SchemaError(f"{self.name} {wrong}")

    def require(self, right: bool, value: Any, wanted: str) -> None:
        if not right:
            raise SchemaError(f"{self.name} must be {wanted}, got {describe(value)}")

    def fit(self, name: str, size: int) -> None:
        """Takes note of a size, or compares it with the one of the same name."""
        scope = self.name.rpartition(".")[0] if name.startswith(".") else ""
        known = self.sizes.setdefault(f"{scope}{name}", size)
        self.demand(known == size, f"has {size} for {known} {name.removeprefix('.')}")


Schema = Callable[[Any, Place], None] | Mapping[str, Any] | tuple[Any, ...] | set[str] | type | None


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


def check(schema: Schema, value: Any, at: Place) -> None:
    """Raises a `SchemaError` for a value that is not as the schema says."""
    if schema is None:
        at.require(value is None, value, "null")
    elif schema is bool:
        at.require(type(value) is bool, value, "true or false")
    elif schema is str:
        right = isinstance(value, str) and len(value) <= _LONGEST_TEXT
        at.require(right, value, f"a text of at most {_LONGEST_TEXT} characters")
    elif isinstance(schema, set):
        at.require(isinstance(value, str) and value in schema, value, f"one of {', '.join(sorted(schema))}")
    elif isinstance(schema, tuple):
        at.require(isinstance(value, list) and len(value) == len(schema), value, f"a list of {len(schema)}")
        for index, part in enumerate(schema):
            check(part, value[index], at.at(index))
    elif isinstance(schema, Mapping):
        _check_fields(schema, value, at)
    else:
        schema(value, at)


def _check_fields(schema: Mapping[str, Schema], value: Any, at: Place) -> None:
    at.require(isinstance(value, Mapping), value, "a dictionary")
    schemas = {name: part for names, part in schema.items() for name in names.split()}
    known = {name.removesuffix("?"): part for name, part in schemas.items()}
    for key in known:
        at.demand(key in value or f"{key}?" in schemas, f"lacks {key!r}")
    for key in value:
        at.demand(key in known, f"has the field {describe(key)}, which is not known here")
    for key in filter(value.__contains__, known):
        check(known[key], value[key], at.at(key))


def also(schema: Schema, *rules: Callable[[Any, Place], None]) -> Schema:
    """What the schema wants, and then the rules, which are of the whole."""

    def check_all(value: Any, at: Place) -> None:
        for rule in (schema, *rules):
            check(rule, value, at)

    return check_all


def integer(low: int = 0, high: int = 2**53, size: str | None = None) -> Schema:
    """A whole number from `low` to `high`, which may be the size of a name."""

    def check_integer(value: Any, at: Place) -> None:
        at.require(type(value) is int and low <= value <= high, value, f"an integer from {low} to {high}")
        if size is not None:
            at.fit(size, value)

    return check_integer


def _range(low: float, high: float) -> str:
    return f"{'above 0' if low == POSITIVE else f'from {low:g}'} to {high:g}"


def number(low: float = -LARGEST, high: float = LARGEST) -> Schema:
    """A finite number from `low` to `high`."""
    wanted = f"a number {_range(low, high)}"

    def check_number(value: Any, at: Place) -> None:
        written = type(value) is float or (type(value) is int and abs(value) <= 2**63)  # larger ones overflow numpy's
        at.require(written and low <= value <= high, value, wanted)

    return check_number


def maybe(schema: Schema) -> Schema:
    """Null, or what the schema wants."""
    return lambda value, at: None if value is None else check(schema, value, at)


def list_of(schema: Schema, least: int = 0, most: int = _MOST, size: str | None = None) -> Schema:
    """A list of at least `least` and at most `most` values, as many as the size of a name."""

    def check_list(value: Any, at: Place) -> None:
        right = isinstance(value, list) and least <= len(value) <= most
        at.require(right, value, f"a list of {least} to {most} values")
        if size is not None:
            at.fit(size, len(value))
        for index, item in enumerate(value):
            check(schema, item, at.at(index))

    return check_list


def map_of(schema: Schema) -> Schema:
    """A dictionary with any names, and values of one schema."""

    def check_map(value: Any, at: Place) -> None:
        at.require(isinstance(value, Mapping) and len(value) <= _MOST, value, f"a dictionary of at most {_MOST} values")
        for key, item in value.items():
            check(schema, item, at.at(key))

    return check_map


def by_kind(key: str, kinds: Mapping[str, Schema]) -> Schema:
    """A dictionary whose entry `key` says of which schema the others are."""

    def check_kind(value: Any, at: Place) -> None:
        kind = value.get(key) if isinstance(value, Mapping) else None
        at.at(key).require(
            isinstance(kind, str) and kind in kinds, kind, f"one of {', '.join(kinds)}, or of a newer siggpde"
        )
        check(kinds[str(kind)], {name: item for name, item in value.items() if name != key}, at)

    return check_kind


def array(*axes: Any, low: float = -LARGEST, high: float = LARGEST, dtypes: tuple[torch.dtype, ...] = DOUBLE) -> Schema:
    """A tensor of finite numbers from `low` to `high` with axes of these sizes: names, or None or `...` for any."""
    names = "/".join(str(dtype).removeprefix("torch.") for dtype in dtypes)

    def check_tensor(value: Any, at: Place) -> None:
        right = isinstance(value, Tensor) and value.dtype in dtypes and (axes == (...,) or value.ndim == len(axes))
        at.require(right, value, f"a tensor of {names} with {len(axes)} axes")
        for axis, size in zip(axes, value.shape, strict=False):
            if isinstance(axis, str):
                at.fit(axis, size)
        if value.numel():
            least, most = (float(extreme) for extreme in value.aminmax())
            right = low <= least and most <= high  # of NaN neither is true
            at.demand(right, f"must have finite numbers {_range(low, high)}, got {least:g} to {most:g}")

    return check_tensor


def integers(*axes: Any, low: int = 0, high: int = 2**53) -> Schema:
    """A tensor of whole numbers from `low` to `high`."""
    return array(*axes, low=low, high=high, dtypes=(torch.int64,))


def plain(value: Any, at: Place, depth: int = 20) -> None:
    """Nested dictionaries and lists, at most `depth` deep, of numbers, strings, true, false and null."""
    at.require(depth > 0, value, "nested less deep")
    if isinstance(value, Mapping | list):
        inside = partial(plain, depth=depth - 1)
        check(map_of(inside) if isinstance(value, Mapping) else list_of(inside), value, at)
    elif type(value) in (int, float):
        check(number(-RAW, RAW), value, at)
    else:
        at.require(value is None or isinstance(value, str | bool), value, "a plain value")
