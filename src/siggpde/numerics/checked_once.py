"""A cache for functions that check their arguments and raise an error where these are wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

Result = TypeVar("Result")


def checked_once(size: int) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Keeps the last results, as `functools.lru_cache` does, and lets every wrong argument reach the function.

    Arguments are told apart by type, for 2.0 equals 2 and True equals 1, and one that cannot be hashed is passed on.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        cached = lru_cache(maxsize=size, typed=True)(function)

        @wraps(function)
        def call(*args: Any) -> Result:
            try:
                return cached(*args)
            except TypeError:
                return function(*args)

        return call

    return decorate
