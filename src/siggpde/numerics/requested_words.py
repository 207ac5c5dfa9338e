"""The words that the columns of a signature stand for, as the caller gives them: a depth, or a list of words.

Both are kept in a hashable form, `RequestedWords`, so that what is derived from them is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siggpde.numerics.checked_once import checked_once
from siggpde.numerics.words import Word, as_integer, check_words, parents, words_up_to

RequestedWords = int | tuple[tuple[int, ...], ...]


def as_requested_words(depth: int | None, words: Iterable[Sequence[int]] | None) -> RequestedWords:
    """The depth, or the words as a tuple of tuples, letters not checked; exactly one of both must be given."""
    if depth is not None and words is None:
        number = as_integer(depth)
        if number is None:
            raise ValueError(f"depth must be an integer, got {depth!r}")
        return number
    if words is None or depth is not None:
        raise ValueError("give exactly one of depth and words, " + ("got both" if words is not None else "got none"))
    try:
        return tuple(map(tuple, words))
    except TypeError:
        raise ValueError(f"words is a list of words, and a word is a tuple of integers, got {words!r}") from None


def word_list(channels: int, words: RequestedWords) -> list[Word]:
    """All the words up to a depth, or the words given, checked."""
    if isinstance(words, tuple):
        return check_words(words, channels)
    return words_up_to(channels, words)


@checked_once(64)
def check_prefix_closed(words: tuple[tuple[int, ...], ...]) -> None:
    """Raises ValueError if a prefix of a word is missing; checked once for each list of words."""
    parents(words)
