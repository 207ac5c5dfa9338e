"""Words, the indices of signature coefficients: tuples of letters 0..d-1, ordered by length, then alphabet. A list is
prefix-closed if it has every word without its last letter too; `MAX_LETTERS` bounds sets before they are made."""

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

Word = tuple[int, ...]

# A coefficient of so many letters is below |X|^1000 / 1000!, which only paths longer than 175 lift above the smallest
# float64. The core recurses over the letters of a word, and its stack has to hold them.
MAX_LETTERS = 1000
_MAX_LETTERS_OF_DEGREE = 10
MAX_LETTERS_IN_ALL = 2**28  # two gigabytes in lists of tuples


def words(channels: int, count: int) -> list[Word]:
    """The first `count` words over `channels` letters; the empty word is the first.

    This is the order in which the paper (Lemercier et al., 2021) takes its inducing variables.

    Parameters
    ----------
    channels : int
        The number of letters.
    count : int
        The number of words.

    Returns
    -------
    list of tuple of int
        The words, shorter ones first and then alphabetically.

    Examples
    --------
    >>> words(2, 5)
    [(), (0,), (1,), (0, 0), (0, 1)]
    """
    channels = _at_least(1, "channels", channels)
    count = _at_least(1, "count", count)
    left, length, letters = count, 0, 0
    while left > 0 and length <= MAX_LETTERS:
        letters += length * min(left, channels**length)
        left -= channels**length
        length += 1
    if left > 0:
        raise ValueError(
            f"the first {_spoken(count)} words over {channels} channels go beyond the {MAX_LETTERS} letters that a "
            f"word may have; ask for at most {MAX_LETTERS + 1}"
        )
    if letters > MAX_LETTERS_IN_ALL:
        _raise_letters(f"the first {_spoken(count)} words over {channels} channels have", letters)
    listed: list[Word] = []
    for repeat in range(length):
        listed += itertools.islice(itertools.product(range(min(channels, count)), repeat=repeat), count - len(listed))
    return listed


def words_up_to(channels: int, depth: int) -> list[Word]:
    """All the words of at most `depth` letters, the empty word included.

    Parameters
    ----------
    channels : int
        Channels of the paths.
    depth : int
        The most letters of a word.

    Returns
    -------
    list of tuple
        Words by length, then alphabet.

    Examples
    --------
    >>> words_up_to(2, 1)
    [(), (0,), (1,)]
    """
    check_depth(channels, depth)
    listed: list[Word] = []
    for length in range(depth + 1):
        listed += itertools.product(range(channels), repeat=length)
    return listed


def count_up_to(channels: int, depth: int) -> int:
    """The number of words of at most `depth` letters: 1 + d + d^2 + .. + d^depth.

    Parameters
    ----------
    channels : int
        Channels of the paths.
    depth : int
        The most letters of a word.

    Returns
    -------
    int
        The number, the empty word included.

    Examples
    --------
    >>> count_up_to(2, 3)
    15
    """
    channels = _at_least(1, "channels", channels)
    depth = _at_least(0, "depth", depth)
    if depth > MAX_LETTERS:
        raise ValueError(f"depth {_spoken(depth)} is beyond the {MAX_LETTERS} letters that a word may have; lower it")
    return depth + 1 if channels == 1 else (channels ** (depth + 1) - 1) // (channels - 1)


def check_depth(channels: int, depth: int) -> int:
    """The number of words of at most `depth` letters; raises ValueError if they are too many to make."""
    count = count_up_to(channels, depth)
    letters = sum(length * channels**length for length in range(1, depth + 1))
    if letters > MAX_LETTERS_IN_ALL:
        _raise_letters(f"depth {depth} with {channels} channels has {_spoken(count)} words of", letters)
    return count


def letter_counts(words: Iterable[Sequence[int]], channels: int) -> torch.Tensor:
    """Counts how often each letter occurs in each word, (M, channels), int64.

    With channel scales theta, S_theta = S * exp(counts @ log theta).

    Parameters
    ----------
    words : iterable of sequence of int
        M words, none of them twice.
    channels : int
        Channels of the paths.

    Returns
    -------
    torch.Tensor (M, channels)

    Examples
    --------
    >>> letter_counts([(), (0,), (0, 1, 0)], channels=2).tolist()
    [[0, 0], [1, 0], [2, 1]]
    """
    checked = check_words(words, channels)
    lengths = np.fromiter(map(len, checked), np.int64, len(checked))
    letters = np.fromiter(itertools.chain.from_iterable(checked), np.int64, int(lengths.sum()))
    rows = np.repeat(np.arange(len(checked)), lengths)
    counts = np.bincount(rows * channels + letters, minlength=len(checked) * channels)
    return torch.from_numpy(counts.astype(np.int64, copy=False).reshape(len(checked), channels))


def words_of_degree(channels: int, degree: int, count: int) -> list[Word]:
    """The words with at most `degree` letters other than 0: as many whole levels as have `count` words in all."""
    words: list[Word] = [()]
    level: list[tuple[Word, int]] = [((), 0)]
    for _ in range(_MAX_LETTERS_OF_DEGREE):
        level = [
            ((*word, letter), others + (letter > 0))
            for word, others in level
            for letter in range(channels)
            if others + (letter > 0) <= degree
        ]
        if len(words) + len(level) > count:
            break
        words += [word for word, _ in level]
    return words


def word_names(words: Iterable[Sequence[int]], channel_names: Sequence[str]) -> list[str]:
    """Words in the names of their channels, joined by an en dash; the empty word, the constant, is "1".

    Parameters
    ----------
    words : iterable of sequence of int
        M words, none of them twice.
    channel_names : sequence of str
        A name for each channel.

    Returns
    -------
    list of str
        The names.

    Examples
    --------
    >>> word_names([(), (0, 1)], ["moisture", "humidity"])
    ['1', 'moisture–humidity']
    """
    checked = check_words(words, len(channel_names))
    return ["–".join(channel_names[letter] for letter in word) or "1" for word in checked]


def word_column(word: Word, channels: int) -> int:
    """The column of a word among all words, by length, then alphabet."""
    column = sum(channels**m for m in range(len(word)))
    return column + sum(letter * channels**place for place, letter in enumerate(reversed(word)))


def prefix_closure(words: Iterable[Sequence[int]]) -> list[Word]:
    """The words and all their prefixes, the empty word included, in order.

    Parameters
    ----------
    words : iterable of sequence of int
        Any words.

    Returns
    -------
    list of tuple
        Words by length, then alphabet.

    Examples
    --------
    >>> prefix_closure([(1, 0)])
    [(), (1,), (1, 0)]
    """
    given = _as_words(words)
    if sum(len(word) * (len(word) + 1) // 2 for word in given) > MAX_LETTERS_IN_ALL:  # unless they share prefixes
        letters = _letters_of_prefixes(given)
        if letters > MAX_LETTERS_IN_ALL:
            _raise_letters(f"the prefixes of these {len(given)} words have", letters)
    closure: set[Word] = {()}
    new = set(given) - closure
    while new:
        closure |= new
        new = {word[:-1] for word in new} - closure
    return sorted(sorted(closure), key=len)


def parents(words: Iterable[Sequence[int]]) -> torch.Tensor:
    """The position of every word without its last letter; -1 for the empty word.

    Parameters
    ----------
    words : iterable of sequence of int
        M words with all their prefixes (`prefix_closure`).

    Returns
    -------
    torch.Tensor (M,)
        The positions, int64.

    Examples
    --------
    >>> parents([(), (0,), (0, 1)])
    tensor([-1,  0,  1])
    """
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
    """The words as a list of tuples, after checking that letters are in range and that no word comes twice.

    Parameters
    ----------
    words : iterable of sequence of int
        Any words; letters are channels, from 0.
    channels : int
        Channels of the paths.

    Returns
    -------
    list of tuple
        The words in their order.

    Examples
    --------
    >>> check_words([[], [0], [1, 0]], channels=2)
    [(), (0,), (1, 0)]
    """
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
    """The words as tuples of int; anything else that equals an integer, such as numpy's, is converted."""
    try:
        given = list(words)
    except TypeError:
        raise ValueError(f"words is a list of words, and a word is a tuple of integers, got {words!r}") from None
    try:
        listed = list(map(tuple, given))
    except TypeError:
        listed = [_as_word(word) for word in given]
    longest = max(map(len, listed), default=0)
    if longest > MAX_LETTERS:
        index = next(index for index, word in enumerate(listed) if len(word) == longest)
        raise ValueError(f"word {index} has {longest} letters; a word may have {MAX_LETTERS}")
    if set(map(type, itertools.chain.from_iterable(listed))) <= {int}:
        return listed
    return [_as_word(word) for word in given]


def _as_word(word: Sequence[int]) -> Word:
    try:
        letters = tuple(word)
        numbers = tuple(int(letter.real if isinstance(letter, complex) else letter) for letter in letters)
    except (TypeError, ValueError, OverflowError):
        letters, numbers = (), None
    # Equal words are one word, also to caches, so that (0.0,) has to be as good as (0,).
    if numbers is None or any(bool(a != b) for a, b in zip(numbers, letters, strict=True)):
        raise ValueError(f"a word is a tuple of integers such as (0, 1), got {word!r}")
    return numbers


def as_integer(value: Any) -> int | None:
    """The int that an integer of any kind stands for; None for anything else, and for truth values and tensors."""
    if type(value) is int:
        return value
    if isinstance(value, bool | torch.Tensor):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _letters_of_prefixes(words: list[Word]) -> int:
    """The number of letters of the prefix closure: each word in order shares most with the one before."""
    total, last = 0, ()
    for word in sorted(words):
        shared = next(
            (i for i, (a, b) in enumerate(zip(word, last, strict=False)) if a != b), min(len(word), len(last))
        )
        total += (len(word) * (len(word) + 1) - shared * (shared + 1)) // 2
        last = word
    return total


def _raise_letters(what: str, letters: int) -> NoReturn:
    raise ValueError(
        f"{what} {_spoken(letters)} letters in all, of which {MAX_LETTERS_IN_ALL} are allowed; ask for fewer"
    )


def _spoken(number: int) -> str:
    """A number in digits, or by its size where these would fill pages."""
    return str(number) if number < 10**15 else f"more than 10^{int((number.bit_length() - 1) * 0.30103)}"


def _raise_duplicate(listed: list[Word], position: dict[Word, int]) -> NoReturn:
    first = next(word for index, word in enumerate(listed) if position[word] != index)
    raise ValueError(f"word {first} comes more than once; pass each word once")


def _at_least(minimum: int, name: str, value: int) -> int:
    number = as_integer(value)
    if number is None:
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    return number
