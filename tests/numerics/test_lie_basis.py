"""Bases of the free Lie algebra: Lyndon words, brackets and the change from one basis to another."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from helpers.word_polynomials import add, bracket
from siggpde.numerics.logsignature import bracket_name, expand, hall_brackets, log_basis, lyndon_bracket, lyndon_words
from siggpde.numerics.words import words_up_to

SIZES = [(1, 5), (2, 9), (3, 6), (4, 5), (5, 4), (9, 3)]


def witt(channels: int, length: int) -> int:
    """The number of Lyndon words, by Witt's formula."""

    def moebius(n: int) -> int:
        primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
        return 0 if any(n % (p * p) == 0 for p in primes) else (-1) ** len(primes)

    divisors = [j for j in range(1, length + 1) if length % j == 0]
    return sum(moebius(j) * channels ** (length // j) for j in divisors) // length


def factorisation(word: tuple[int, ...], lyndon: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Longest Lyndon prefixes, one after the other."""
    factors = []
    while word:
        end = max(i for i in range(1, len(word) + 1) if word[:i] in lyndon)
        factors.append(word[:end])
        word = word[end:]
    return factors


@pytest.mark.parametrize(("channels", "depth"), SIZES)
def test_as_many_as_witt_says(channels: int, depth: int):
    expected = [witt(channels, m) for m in range(1, depth + 1)]
    for elements in (lyndon_words(channels, depth), list(map(sorted_letters, hall_brackets(channels, depth)))):
        lengths = [len(element) for element in elements]
        assert [lengths.count(m) for m in range(1, depth + 1)] == expected
        assert lengths == sorted(lengths)


def sorted_letters(element) -> tuple[int, ...]:
    return tuple(sorted(next(iter(expand(element)))))


@pytest.mark.parametrize(("channels", "depth"), [(2, 7), (3, 5)])
def test_lyndon_words_are_smaller_than_their_rotations(channels: int, depth: int):
    smallest = [
        word
        for word in words_up_to(channels, depth)[1:]
        if all(word < word[i:] + word[:i] for i in range(1, len(word)))
    ]
    assert lyndon_words(channels, depth) == smallest


@pytest.mark.parametrize(("channels", "depth"), [(2, 8), (3, 5)])
def test_every_word_is_a_falling_product_of_lyndon_words(channels: int, depth: int):
    """The theorem of Chen, Fox and Lyndon, and that this is the only such product."""
    lyndon = set(lyndon_words(channels, depth))
    seen = set()
    for word in words_up_to(channels, depth):
        factors = factorisation(word, lyndon)
        assert sum(factors, ()) == word and all(a >= b for a, b in itertools.pairwise(factors))
        seen.add(tuple(factors))
    falling = {
        factors
        for count in range(depth + 1)
        for factors in itertools.combinations_with_replacement(sorted(lyndon, reverse=True), count)
        if sum(map(len, factors)) <= depth
    } if channels == 3 else seen  # fmt: skip
    assert seen == falling


@pytest.mark.parametrize(("channels", "depth"), SIZES)
def test_a_lyndon_bracket_is_its_word_plus_larger_ones(channels: int, depth: int):
    for word in lyndon_words(channels, depth):
        terms = expand(lyndon_bracket(word))
        assert terms[word] == 1 and min(terms) == word


@pytest.mark.parametrize(("channels", "depth"), SIZES)
def test_hall_brackets_keep_halls_condition(channels: int, depth: int):
    elements = hall_brackets(channels, depth)
    position = {element: i for i, element in enumerate(elements)}
    assert len(position) == len(elements)
    for element in elements:
        if isinstance(element, tuple):
            left, right = element
            assert position[left] < position[right]
            assert isinstance(right, int) or position[right[0]] <= position[left]


letters = st.integers(0, 2)
brackets = st.recursive(letters, lambda inner: st.tuples(inner, inner), max_leaves=3)


@modest
@given(brackets, brackets, brackets)
def test_brackets_expand_to_a_lie_algebra(a, b, c):
    cleaned = {word: value for word, value in add((1, expand((a, b))), (1, expand((b, a)))).items() if value}
    assert cleaned == {}
    jacobi = add((1, expand((a, (b, c)))), (1, expand((b, (c, a)))), (1, expand((c, (a, b)))))
    assert not any(jacobi.values())
    product = bracket(expand(a), expand(b), 99)
    assert expand((a, b)) == {word: value for word, value in product.items() if value}


@pytest.mark.parametrize("basis", ["lyndon", "hall"])
@pytest.mark.parametrize(("channels", "depth"), [(2, 8), (3, 5), (5, 4), (8, 3)])
def test_the_change_of_basis_undoes_the_expansion(channels: int, depth: int, basis):
    prepared = log_basis(channels, depth, basis)
    coefficients = np.array([[expand(e).get(word, 0) for e in prepared.elements] for word in prepared.words])
    change = np.zeros_like(coefficients)
    for i, (start, stop) in enumerate(itertools.pairwise(prepared.rows)):
        change[i, prepared.columns[start:stop]] = prepared.values[start:stop]
    np.testing.assert_array_equal(change @ coefficients, np.eye(len(change)))
    if basis == "lyndon":
        np.testing.assert_array_equal(change, np.tril(change))
        np.testing.assert_array_equal(np.diag(change), 1)


def test_names():
    names = ["time", "level", "flow"]
    assert bracket_name((0, (1, 2)), names) == "[time, [level, flow]]"
    assert bracket_name(2, names) == "flow"
