"""Words of signatures and views of series in plain English."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siggpde.explain.results import Contribution

CLOCKS = ("time", "frequency")
"""The channels that paths and spectra have beside those of the series."""

_COUNTS = 0.25  # of the largest term: words of less are not told
_MOST_WORDS = 2


def read_word(letters: Sequence[str]) -> str:
    """What a word looks at: which channels move, one after the other, and whether early or late.

    The word w_1–w_2 is the integral of the increments of w_1 before those of w_2. With time in front, late increments
    of a channel weigh more (the integral of t dx), and with time behind, early ones do.

    Examples:
        >>> read_word(("x", "y")), read_word(("time", "x", "x")), read_word(("x", "time"))
        ('x moves, then y', 'x moves late', 'x moves early')
        >>> read_word(("time", "time"))
        'time passes'
    """
    first, last = letters[0] in CLOCKS, letters[-1] in CLOCKS
    moving = [name for name, _ in groupby(letter for letter in letters if letter not in CLOCKS)]
    if not moving:
        return f"{letters[0]} passes"
    when = "" if first == last else " late" if first else " early"
    return f"{', then '.join([f'{moving[0]} moves', *moving[1:]])}{when}"


def spelled(term: Contribution) -> bool:
    """Whether a term is named by a word, or by the largest word of a group."""
    return bool(term.letters) and term.name.startswith("–".join(term.letters))


def read_terms(contributions: Sequence[Contribution], views: Sequence[Contribution]) -> list[str]:
    """The words that speak most for a prediction, and the view that does: what a sentence says of them."""
    words = [each for each in contributions if each.value > 0 and spelled(each)]
    largest = max((each.value for each in words), default=0.0)
    told = list(dict.fromkeys(read_word(each.letters) for each in words if each.value >= _COUNTS * largest))
    first = told[:_MOST_WORDS]
    said = (
        [f"by its words, {' and '.join(f'“{each}”' for each in first) if len(first) > 1 else first[0]}"]
        if first
        else []
    )
    best = max(views, key=lambda each: each.value, default=None)
    return said if best is None or best.value <= 0 else [*said, f"above all from the {best.name}"]
