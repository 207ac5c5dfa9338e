"""Errors that name a series by its id, as its file calls it, instead of by its number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_NUMBERED = re.compile(r"\bseries (\d+)(?: of X)?\b")
_RENAMED = (ValueError, OverflowError, FloatingPointError, ArithmeticError)


def named(message: str, ids: Sequence[Any]) -> str:
    """The message with the ids of the series that it numbers.

    Examples:
        >>> named("series 1 of X is NaN everywhere; drop it", ["ann", "bob"])
        'series bob is NaN everywhere; drop it'
    """

    def name(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"series {ids[number]}" if number < len(ids) else match[0]

    return _NUMBERED.sub(name, message)


@contextmanager
def errors_by_id(ids: Sequence[Any] | None) -> Iterator[None]:
    """Raises errors of the block with ids instead of numbers of series; `ids` None leaves them as they are."""
    try:
        yield
    except _RENAMED as error:
        message = str(error)
        if ids is None or type(error) not in _RENAMED or named(message, ids) == message:
            raise
        raise type(error)(named(message, ids)) from error
