"""Polynomials in words that do not commute, as dictionaries from word to coefficient: the slow and obvious algebra."""

from collections.abc import Mapping
from math import factorial
from typing import Any

from siggpde.numerics.logsignature import expand

Polynomial = dict[tuple[int, ...], Any]


def add(*terms: tuple[Any, Mapping[tuple[int, ...], Any]]) -> Polynomial:
    """The sum of scalar times polynomial."""
    total: Polynomial = {}
    for scale, polynomial in terms:
        for word, value in polynomial.items():
            total[word] = total.get(word, 0) + scale * value
    return total


def multiply(p: Mapping[tuple[int, ...], Any], q: Mapping[tuple[int, ...], Any], depth: int) -> Polynomial:
    """The product, cut at words of `depth` letters."""
    total: Polynomial = {}
    for u, a in p.items():
        for v, b in q.items():
            if len(u) + len(v) <= depth:
                total[u + v] = total.get(u + v, 0) + a * b
    return total


def bracket(p: Polynomial, q: Polynomial, depth: int) -> Polynomial:
    return add((1, multiply(p, q, depth)), (-1, multiply(q, p, depth)))


def exponential(p: Polynomial, depth: int) -> Polynomial:
    """1 + p + p^2 / 2 + .., for p without a constant."""
    total, power = {(): 1.0}, {(): 1.0}
    for k in range(1, depth + 1):
        power = multiply(power, p, depth)
        total = add((1, total), (1 / factorial(k), power))
    return total


def logarithm(p: Polynomial, depth: int) -> Polynomial:
    """x - x^2 / 2 + x^3 / 3 - .. with x = p - 1."""
    x = {word: value for word, value in p.items() if word}
    total, power = {}, {(): 1.0}
    for k in range(1, depth + 1):
        power = multiply(power, x, depth)
        total = add((1, total), ((-1) ** (k + 1) / k, power))
    return total


def lie_series(coordinates: list[float], brackets: list[Any]) -> Polynomial:
    """The sum of coordinates times brackets, written out."""
    return add(*((c, expand(b)) for c, b in zip(coordinates, brackets, strict=True)))
