"""The log-signature of piecewise-linear paths, in a basis of the free Lie algebra: a bracket [a, b] = ab - ba is a
nested pair of letters, so that (0, (0, 1)) is [0, [0, 1]] = 001 - 2 010 + 100."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch

from siggpde.numerics import inputs
from siggpde.numerics.backend import backend_for
from siggpde.numerics.words import Word, check_depth

MAX_ELEMENTS = 10_000  # of a basis of brackets; preparing so many takes a few seconds, once
Basis = Literal["lyndon", "hall", "words"]
Bracket = int | tuple["Bracket", "Bracket"]


def logsignature(
    x: inputs.Series,
    depth: int,
    *,
    basis: Basis = "lyndon",
    lengths: torch.Tensor | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> torch.Tensor:
    """Returns the logarithm of the signature of paths, one column for each coordinate.

    log S = sum over elements e of the basis of c_e e, where log(1 + x) = x - x^2/2 + x^3/3 - .. in the algebra of
    tensors. `basis` says what the coordinates c are:

    - "lyndon": e are the standard brackets of Lyndon words, P_w = [P_u, P_v] for w = uv with v the longest proper
      suffix that is a Lyndon word.
    - "hall": e are the brackets of Hall's basis (`siggpde.numerics.logsignature.hall_brackets`).
    - "words": c are the coefficients of the Lyndon words in log S written out as a tensor, the cheapest. They follow
      from those of "lyndon" by a triangular matrix of integers with ones on its diagonal.

    Columns are in the order of `logsignature_basis(channels, depth, basis)`; their number is the sum over m <= depth of
    Witt's (1/m) sum over j dividing m of mu(j) channels^(m/j).

    Parameters
    ----------
    x, lengths, n_jobs
        Those of `signature`. Gradients flow to x.
    depth : int
        The largest number of letters of a word.
    basis : {"lyndon", "hall", "words"}
        The coordinates, as above.

    Returns
    -------
    Tensor (n, L)
        The coordinates, of x's dtype.

    Examples
    --------
    >>> x = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]])
    >>> logsignature(x, 3)
    tensor([[1.0000, 2.0000, 1.0000, 0.1667, 0.3333]])
    >>> logsignature_basis(2, 3)
    [0, 1, (0, 1), (0, (0, 1)), ((0, 1), 1)]
    """
    threads = inputs.thread_count(n_jobs)
    batch, counts = inputs.as_batch(x, lengths)
    channels = batch.shape[2]
    check_basis(channels, depth, basis)
    backend = backend_for(batch)
    coordinates = log_basis(channels, int(depth), basis)
    return backend.logsignature(backend.signature(batch, counts, int(depth), threads), coordinates, threads)


def logsignature_basis(channels: int, depth: int, basis: Basis = "lyndon") -> list[Word] | list[Bracket]:
    """Returns what the columns of `logsignature` stand for.

    Parameters
    ----------
    channels : int
        The number of letters.
    depth : int
        The largest number of letters of a word.
    basis : {"lyndon", "hall", "words"}
        The coordinates.

    Returns
    -------
    list
        Lyndon words for "words", otherwise brackets as nested pairs of letters.

    Examples
    --------
    >>> logsignature_basis(2, 3, "hall")
    [0, 1, (0, 1), (0, (0, 1)), (1, (0, 1))]
    >>> logsignature_basis(2, 3, "words")
    [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    """
    check_basis(channels, depth, basis)
    return list(log_basis(channels, int(depth), basis).elements)  # pyright: ignore[reportReturnType]


def lyndon_words(channels: int, depth: int) -> list[Word]:
    """The words of 1 to `depth` letters that are smaller than all their proper suffixes, by length, then alphabet, by
    Duval's algorithm: the last one repeated to full length, without its trailing highest letters, and its last letter
    raised."""
    words: list[Word] = []
    word = [-1]
    while word:
        word[-1] += 1
        words.append(tuple(word))
        word = [word[i % len(word)] for i in range(depth)]
        while word and word[-1] == channels - 1:
            word.pop()
    return sorted(words, key=len)


def lyndon_bracket(word: Word) -> Bracket:
    """The standard bracket of a Lyndon word w = uv: [u, v] with v its longest proper suffix that is a Lyndon word."""
    if len(word) == 1:
        return word[0]
    suffixes = (word[i:] for i in range(1, len(word)))
    cut = len(word) - len(next(v for v in suffixes if all(v < v[i:] for i in range(1, len(v)))))
    return lyndon_bracket(word[:cut]), lyndon_bracket(word[cut:])


def hall_brackets(channels: int, depth: int) -> list[Bracket]:
    """Hall's basis, in its order: by length, and [a, b] before [a', b'] if |a| < |a'|, or a < a', or a = a' and b < b'.

    [a, b] belongs to it if a < b, and b is a letter or a bracket [c, e] with c <= a.
    """
    elements: list[Bracket] = list(range(channels))
    first = [-1] * channels  # of each element the position of its left half; less than any position for a letter
    ends = [0, channels]  # elements of m letters are those from ends[m - 1] to ends[m]
    for length in range(2, depth + 1):
        for left in range(1, length // 2 + 1):
            for a in range(ends[left - 1], ends[left]):
                for b in range(max(a + 1, ends[length - left - 1]), ends[length - left]):
                    if first[b] <= a:
                        elements.append((elements[a], elements[b]))
                        first.append(a)
        ends.append(len(elements))
    return elements


def expand(bracket: Bracket) -> dict[Word, int]:
    """A bracket as a combination of words, by [a, b] = ab - ba."""
    if isinstance(bracket, int):
        return {(bracket,): 1}
    left, right = expand(bracket[0]), expand(bracket[1])
    total: dict[Word, int] = {}
    for u, p in left.items():
        for v, q in right.items():
            total[u + v] = total.get(u + v, 0) + p * q
            total[v + u] = total.get(v + u, 0) - p * q
    return {word: count for word, count in total.items() if count}


def bracket_name(bracket: Bracket, channel_names: Sequence[str]) -> str:
    """A bracket in the names of its channels, as in "[time, [time, level]]"."""
    if isinstance(bracket, int):
        return channel_names[bracket]
    return f"[{bracket_name(bracket[0], channel_names)}, {bracket_name(bracket[1], channel_names)}]"


@dataclass(frozen=True, eq=False)
class LogBasis:
    """The coordinates of a Lie series L from its coefficients L^w of Lyndon words: coordinate i is the sum over k from
    rows[i] to rows[i + 1] of values[k] L^(words[columns[k]])."""

    channels: int
    depth: int
    words: tuple[Word, ...]
    elements: tuple[Word, ...] | tuple[Bracket, ...]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@lru_cache(maxsize=64)
def log_basis(channels: int, depth: int, basis: Basis) -> LogBasis:
    """The inverse of L^w = sum over e of B_we c_e, B_we being the coefficient of w in the element e, in integers."""
    words = tuple(lyndon_words(channels, depth))
    if basis == "words":
        index = np.arange(len(words) + 1)
        return LogBasis(channels, depth, words, words, index, index[:-1], np.ones(len(words)))
    brackets = tuple(map(lyndon_bracket, words) if basis == "lyndon" else hall_brackets(channels, depth))
    expanded = [expand(bracket) for bracket in brackets]
    blocks: dict[Word, tuple[list[int], list[int]]] = {}
    for i, word in enumerate(words):
        blocks.setdefault(tuple(sorted(word)), ([], []))[0].append(i)
    for i, terms in enumerate(expanded):
        blocks[tuple(sorted(next(iter(terms))))][1].append(i)
    entries: list[list[tuple[int, int]]] = [[] for _ in brackets]
    for rows, columns in blocks.values():
        block = np.array([[expanded[e].get(words[w], 0) for e in columns] for w in rows])
        inverse = np.rint(np.linalg.inv(block.astype(np.float64))).astype(np.int64)  # exact: the determinant is 1 or -1
        assert np.array_equal(block @ inverse, np.eye(len(block), dtype=np.int64)), "not a basis of the Lie algebra"
        for e, row in zip(columns, inverse, strict=True):
            entries[e] = [(w, int(value)) for w, value in zip(rows, row, strict=True) if value]
    starts = np.cumsum([0, *map(len, entries)])
    flat = [entry for row in entries for entry in row]
    values = np.array([value for _, value in flat], dtype=np.float64)
    return LogBasis(channels, depth, words, brackets, starts, np.array([w for w, _ in flat]), values)


def check_basis(channels: int, depth: int, basis: Any) -> None:
    """Raises ValueError for an unknown basis, a depth below 1, or one with more words than the core counts."""
    if not isinstance(basis, str) or basis not in get_args(Basis):
        raise ValueError(f"basis must be 'lyndon', 'hall' or 'words', got {basis!r}")
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or depth < 1:
        raise ValueError(f"depth must be an integer of at least 1, got {depth!r}")
    check_depth(channels, int(depth))
    size = witt_dimension(channels, int(depth))
    if basis != "words" and size > MAX_ELEMENTS:
        raise ValueError(
            f"depth {depth} with {channels} channels has {size} elements of the basis {basis!r}, of which "
            f"{MAX_ELEMENTS} are allowed, for preparing them takes long; lower it, or take basis='words'"
        )


def witt_dimension(channels: int, depth: int) -> int:
    """The dimension of the free Lie algebra up to a depth, by Witt's formula."""
    # Lyndon words of length m, from channels^m = sum over divisors k of m of k times those of length k.
    counts: list[int] = []
    for m in range(1, depth + 1):
        shorter = sum(k * counts[k - 1] for k in range(1, m) if m % k == 0)
        counts.append((channels**m - shorter) // m)
    return sum(counts)
