"""Plain values as Markdown: escaped text, tables of two columns and blocks of code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any


def section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    """The lines of a heading and a table of these rows (label, value); none where there are no rows."""
    if not rows:
        return []
    return [f"## {title}", "", "| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


def in_words(value: Any) -> str:
    """A value for people, escaped: numbers to 4 digits, lists with commas, dictionaries as "name (key value, ..)".

    Examples:
        >>> in_words([True, 0.123456, {"name": "x", "size": 2}])
        'yes, 0.1235, x (size 2)'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        plain = math.isfinite(value) and abs(value) < 1e9 and (abs(value) >= 1e3 or value == round(value))
        return f"{value:.0f}" if plain else f"{value:.4g}"
    if isinstance(value, Mapping):
        known = without_none(value).items()
        rest = ", ".join(f"{escaped(key)} {in_words(item)}" for key, item in known if key != "name")
        name = escaped(value["name"]) if value.get("name") else ""
        return f"{name} ({rest})" if name and rest else name or rest
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    return escaped(value)


def escaped(value: Any) -> str:
    """The text on one line, with the characters escaped that are markup in Markdown or HTML."""
    line = " ".join(str(value).split()) or "(empty)"
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", line)


def code_block(language: str, code: str) -> list[str]:
    """The lines of a fenced block; the fence is longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", code, fence]


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The items that are known."""
    return {key: value for key, value in values.items() if value is not None}
