"""Words: the indices of signature coefficients.

A word over d channels is a tuple of letters 0..d-1; the word (a1, .., aj) names the iterated integral over
s1 < .. < sj of dX^(a1) .. dX^(aj), and the empty word () names the constant 1. Words are ordered by length, then
lexicographically. A list of words is prefix-closed if it contains, with every word, the word without its last letter.

- `words`, `words_up_to`, `count_up_to`: the first words in this order, and all words up to a length;
- `letter_counts`: how often each channel occurs in each word, which is how channel scales act on a signature;
- `word_names`: words in the names of their channels;
- `prefix_closure`, `parents`: the words with all their prefixes, and the position of each word's longest one;
- `check_words`: words as tuples of integers, or an error that names the first one that is wrong.

Lists have thousands of words, and loops here run inside `itertools`, `set`, `sorted` and numpy.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np
import torch

Word = tuple[int, ...]


def words(channels: int, count: int) -> list[Word]:
    """The first `count` words over `channels` letters; the empty word is the first.

    This is the order in which the paper (Lemercier et al., 2021) takes its inducing variables.

    Examples:
        >>> words(2, 5)
        [(), (0,), (1,), (0, 0), (0, 1)]
    """
    channels = _at_least(1, "channels", channels)
    count = _at_least(1, "count", count)
    levels = (itertools.product(range(channels), repeat=length) for length in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(levels), count))


def words_up_to(channels: int, depth: int) -> list[Word]:
    """All the words of at most `depth` letters, the empty word included.

    Examples:
        >>> words_up_to(2, 1)
        [(), (0,), (1,)]
    """
    return words(channels, count_up_to(channels, depth))


def count_up_to(channels: int, depth: int) -> int:
    """The number of words of at most `depth` letters: 1 + d + d^2 + .. + d^depth."""
    channels = _at_least(1, "channels", channels)
    depth = _at_least(0, "depth", depth)
    return sum(channels**length for length in range(depth + 1))


def letter_counts(words: Iterable[Sequence[int]], channels: int) -> torch.Tensor:
    """How often each letter occurs in each word, (M, channels), int64.

    With channel scales theta, S_theta = S * exp(counts @ log theta).
    """
    checked = check_words(words, channels)
    lengths = np.fromiter(map(len, checked), np.int64, len(checked))
    letters = np.fromiter(itertools.chain.from_iterable(checked), np.int64, int(lengths.sum()))
    rows = np.repeat(np.arange(len(checked)), lengths)
    counts = np.bincount(rows * channels + letters, minlength=len(checked) * channels)
    return torch.from_numpy(counts.astype(np.int64, copy=False).reshape(len(checked), channels))


def word_names(words: Iterable[Sequence[int]], channel_names: Sequence[str]) -> list[str]:
    """Words in the names of their channels, joined by an en dash; the empty word, the constant, is "1".

    Examples:
        >>> word_names([(), (0, 1)], ["moisture", "humidity"])
        ['1', 'moisture–humidity']
    """
    checked = check_words(words, len(channel_names))
    return ["–".join(channel_names[letter] for letter in word) or "1" for word in checked]


def prefix_closure(words: Iterable[Sequence[int]]) -> list[Word]:
    """The words and all their prefixes, the empty word included, in order.

    Examples:
        >>> prefix_closure([(1, 0)])
        [(), (1,), (1, 0)]
    """
    closure: set[Word] = {()}
    new = set(_as_words(words)) - closure
    while new:
        closure |= new
        new = {word[:-1] for word in new} - closure
    return sorted(sorted(closure), key=len)


def parents(words: Iterable[Sequence[int]]) -> torch.Tensor:
    """For each word, the position of the word without its last letter, (M,), int64; -1 for the empty word."""
    listed = _as_words(words)
    position = {word: index for index, word in enumerate(listed)}
    if len(position) != len(listed):
        _raise_duplicate(listed, position)
    missing = -2
    positions = [position.get(word[:-1], missing) if word else -1 for word in listed]
    if () not in position or missing in positions:
        child = listed[positions.index(missing)] if () in position else ()
        raise ValueError(
            f"the words are not prefix-closed: {child[:-1]} is missing"
            + (f", the prefix of {child}" if child else "")
            + "; pass prefix_closure(words)"
        )
    return torch.tensor(positions, dtype=torch.int64)


def check_words(words: Iterable[Sequence[int]], channels: int) -> list[Word]:
    """The words as a list of tuples, after checking that letters are in range and that no word comes twice."""
    channels = _at_least(1, "channels", channels)
    listed = _as_words(words)
    letters = set(itertools.chain.from_iterable(listed))
    if letters and not 0 <= min(letters) <= max(letters) < channels:
        index, word = next(
            (i, word) for i, word in enumerate(listed) if word and not 0 <= min(word) <= max(word) < channels
        )
        raise ValueError(f"word {index} is {word}, but with {channels} channels letters go from 0 to {channels - 1}")
    if len(set(listed)) != len(listed):
        _raise_duplicate(listed, {word: index for index, word in enumerate(listed)})
    return listed


def _as_words(words: Iterable[Sequence[int]]) -> list[Word]:
    """The words as tuples of int; anything else that counts as an integer, such as numpy's, is converted."""
    given = list(words)
    try:
        listed = list(map(tuple, given))
    except TypeError:
        listed = [_as_word(word) for word in given]
    if set(map(type, itertools.chain.from_iterable(listed))) <= {int}:
        return listed
    return [_as_word(word) for word in given]


def _as_word(word: Sequence[int]) -> Word:
    try:
        return tuple(operator.index(letter) for letter in word)
    except TypeError:
        raise ValueError(f"a word is a tuple of integers such as (0, 1), got {word!r}") from None


def _raise_duplicate(listed: list[Word], position: dict[Word, int]) -> NoReturn:
    first = next(word for index, word in enumerate(listed) if position[word] != index)
    raise ValueError(f"word {first} comes more than once; pass each word once")


def _at_least(minimum: int, name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, got {value!r}") from None
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    return number
