"""Plain English: what words look at, when something happens, and what the channels of a series do there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

CLOCKS = ("time", "frequency")
"""The channels that paths and spectra have beside those of the series."""

_MOVES = 0.5  # spreads of a channel by which it has to move to rise or fall, or to differ from what is ordinary


def read_word(letters: Sequence[str]) -> str:
    """Returns what a word looks at: which channels move, one after the other, and whether early or late.

    The word w_1–w_2 is the integral of the increments of w_1 before those of w_2. With time in front, late increments
    of a channel weigh more (the integral of t dx), and with time behind, early ones do.

    Examples
    --------
    >>> read_word(("x", "y")), read_word(("time", "x", "x")), read_word(("x", "time"))
    ('x moves, then y', 'x moves late', 'x moves early')
    >>> read_word(("time", "time"))
    'time passes'
    """
    first, last = letters[0] in CLOCKS, letters[-1] in CLOCKS
    moving = [name for name, _ in groupby(letter for letter in letters if letter not in CLOCKS)]
    if not moving:
        return f"{letters[0]} passes"
    moment = "" if first == last else " late" if first else " early"
    return f"{', then '.join([f'{moving[0]} moves', *moving[1:]])}{moment}"


def when(start: float, end: float) -> str:
    """Returns a time, or a stretch of time, in words."""
    return f"{_time(start)} to {_time(end)}" if end > start else f"at {_time(start)}"


def _time(value: float) -> str:
    """Returns six digits, but more of late points and of time stamps such as seconds since 1970, which differ in the
    last."""
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.12g}"


def moving_together(channels: Sequence[str], does: str) -> str:
    """Returns what one or several channels do.

    Examples
    --------
    >>> moving_together(["x"], "is high"), moving_together(["x", "y"], "rises")
    ('x is high', 'x and y rise')
    """
    if len(channels) == 1:
        return f"{channels[0]} {does}"
    verb, *rest = does.split()
    plural = {"is": "are", "goes": "go"}.get(verb, verb.removesuffix("s"))
    return " ".join([", ".join(channels[:-1]), "and", channels[-1], plural, *rest])


def movement(values: Tensor, ordinary: Tensor, spread: float) -> str:
    """Returns what the values (points,) do, beside ordinary ones, in units of the spread of their channel.

    A straight line is fitted. If it rises or falls by half a spread, and by more than the values depart from it, that
    is told; else whether the mean is half a spread above or below what is ordinary; else whether there is movement.

    Examples
    --------
    >>> line = torch.linspace(0.0, 2.0, 9)
    >>> movement(line, 0 * line, 1.0), movement(1 + 0 * line, 0 * line, 1.0), movement(-line, 0 * line, 10.0)
    ('rises', 'is high', 'is steady')
    """
    places = torch.linspace(-0.5, 0.5, len(values), dtype=values.dtype, device=values.device)
    scale = spread if spread > 0 else 1.0
    centred = (values - values.mean()) / scale
    total = float(places.square().sum())
    rise = float(places @ centred) / total if total > 0 else 0.0
    apart = 2 * float((centred - rise * places).square().mean().sqrt())
    level = float((values - ordinary).mean()) / scale
    if abs(rise) >= max(_MOVES, apart):
        return "rises" if rise > 0 else "falls"
    if abs(level) >= _MOVES:
        return "is high" if level > 0 else "is low"
    return "goes up and down" if apart >= _MOVES else "is steady"


def group_name(name: str, others: int) -> str:
    """Returns the name of a group: its largest term, and how many others there are.

    Examples
    --------
    >>> group_name("x–y", 0), group_name("x–y", 12)
    ('x–y', 'x–y and 12 like it')
    """
    return f"{name} and {others} like it" if others else name


def interval(low: float, high: float) -> str:
    """Returns an interval in words; one of its ends may be infinite.

    Examples
    --------
    >>> interval(1.0, 2.0), interval(float("-inf"), 2.0)
    ('1 to 2', 'at most 2')
    """
    if low == float("-inf"):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if high == float("inf") else f"{low:.4g} to {high:.4g}"
