"""The signature: the identities that define it."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.random_paths import paths
from siggpde.numerics.signature import extend, signature
from siggpde.numerics.words import letter_counts, words_up_to

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
dtypes = st.sampled_from([torch.float64, torch.float32])
shapes = st.sampled_from([(1, 7), (2, 5), (3, 4), (4, 3), (5, 3), (6, 3), (11, 2), (30, 2)])  # channels, depth


def close(a, b):
    """Equality up to rounding, relative to the largest coefficient."""
    assert a.shape == b.shape and a.dtype == b.dtype
    torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE[a.dtype] * max(1.0, float(b.abs().max())))


def tensor_product(a, b, words):
    """(a ⊗ b)_w = sum over w = uv of a_u b_v."""
    position = {word: index for index, word in enumerate(words)}
    columns = [sum(a[:, position[word[:k]]] * b[:, position[word[k:]]] for k in range(len(word) + 1)) for word in words]
    return torch.stack(columns, 1)


@settings(max_examples=25, deadline=None)
@given(shapes, st.integers(1, 40), st.integers(1, 40), dtypes, st.integers(0, 99))
def test_chen_concatenation_is_the_tensor_product(shape, first, second, dtype, seed):
    channels, depth = shape
    x = paths(3, first + second, channels, dtype, seed)
    left, right = signature(x[:, :first], depth), signature(x[:, first - 1 :], depth)
    close(signature(x, depth), tensor_product(left, right, words_up_to(channels, depth)))


def shuffles(u, v):
    """Every word made of the letters of u and of v, both in order, with repetition."""
    for positions in itertools.combinations(range(len(u) + len(v)), len(u)):
        left, right = iter(u), iter(v)
        yield tuple(next(left) if position in positions else next(right) for position in range(len(u) + len(v)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=3), st.lists(st.integers(0, 2), max_size=3), dtypes, st.integers(2, 60))
def test_shuffle_the_product_of_two_coefficients_is_a_sum_of_coefficients(u, v, dtype, length):
    x = paths(9, length, 3, dtype, seed=length)
    listed = words_up_to(3, len(u) + len(v))
    s = dict(zip(listed, signature(x, len(u) + len(v)).unbind(1), strict=True))
    total = torch.zeros(9, dtype=dtype)
    for word in shuffles(u, v):
        total = total + s[word]
    close(s[tuple(u)] * s[tuple(v)], total)


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(2, 30), dtypes)
def test_a_straight_line_gives_the_exponential(shape, length, dtype):
    channels, depth = shape
    v = paths(2, 1, channels, torch.float64, seed=length)[:, 0]
    times = torch.linspace(0, 1, length, dtype=torch.float64) ** 2
    listed = words_up_to(channels, depth)
    expected = torch.stack([v[:, list(word)].prod(1) / math.factorial(len(word)) for word in listed], 1)
    close(signature((times[:, None] * v[:, None]).to(dtype), depth), expected.to(dtype))


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(1, 300), dtypes)
def test_going_back_undoes(shape, length, dtype):
    channels, depth = shape
    x = paths(2, length, channels, dtype, seed=length)
    back = torch.cat([x, x.flip(1)], 1)
    unit = torch.zeros(2, len(words_up_to(channels, depth)), dtype=dtype)
    unit[:, 0] = 1
    close(signature(back, depth), unit)


def test_iterated_sums_by_brute_force():
    """Over cells k1 <= .. <= kj, increments multiply; r equal cells share a simplex of volume 1/r!."""
    x = paths(2, 5, 2, size=4.0)
    v = x.diff(dim=1)
    listed = words_up_to(2, 4)
    expected = torch.zeros(2, len(listed), dtype=torch.float64)
    for column, word in enumerate(listed):
        for cells in itertools.combinations_with_replacement(range(4), len(word)):
            volume = math.prod(1 / math.factorial(cells.count(cell)) for cell in set(cells))
            product = torch.ones(2, dtype=torch.float64)
            for cell, letter in zip(cells, word, strict=True):
                product = product * v[:, cell, letter]
            expected[:, column] += volume * product
    close(signature(x, 4), expected)


def test_area_of_a_right_angle():
    x = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]])
    assert signature(x, 2).tolist() == [[1, 1, 2, 0.5, 2, 0, 2]]


@settings(max_examples=20, deadline=None)
@given(shapes, dtypes, st.integers(1, 20), st.integers(1, 9))
def test_repeating_points_changes_nothing(shape, dtype, length, extra):
    channels, depth = shape
    x = paths(3, length, channels, dtype, seed=extra)
    padded = torch.cat([x, x[:, -1:].expand(-1, extra, -1)], 1)
    assert torch.equal(signature(padded, depth), signature(x, depth))
    assert torch.equal(signature(x.repeat_interleave(2, 1), depth), signature(x, depth))


@pytest.mark.parametrize("channels", [1, 3, 30])
def test_one_point_has_the_signature_of_no_path(channels):
    out = signature(paths(4, 1, channels), 2)
    assert torch.equal(out[:, 0], torch.ones(4, dtype=torch.float64))
    assert not out[:, 1:].any()


@settings(max_examples=20, deadline=None)
@given(shapes, dtypes)
def test_scaling_channels_scales_coefficients(shape, dtype):
    channels, depth = shape
    x = paths(3, 12, channels, dtype)
    theta = torch.linspace(0.5, 1.5, channels, dtype=dtype)
    counts = letter_counts(words_up_to(channels, depth), channels).to(dtype)
    close(signature(x * theta, depth), signature(x, depth) * torch.exp(counts @ theta.log()))


@settings(max_examples=25, deadline=None)
@given(shapes, dtypes, st.integers(1, 30), st.integers(1, 30), st.randoms())
def test_extending_is_computing_again(shape, dtype, first, more, random):
    channels, depth = shape
    x = paths(11, first + more, channels, dtype, seed=first)
    listed = words_up_to(channels, depth)
    random.shuffle(listed)
    start = signature(x[:, :first], words=listed)
    kept = start.clone()
    close(extend(start, x[:, first - 1 :].diff(dim=1), listed), signature(x, words=listed))
    assert torch.equal(start, kept)


def test_extending_by_one_increment_or_none():
    x = paths(3, 6, 2)
    listed = words_up_to(2, 3)
    start = signature(x[:, :5], 3)
    close(extend(start, x[:, 5] - x[:, 4], listed), signature(x, 3))
    assert torch.equal(extend(start, x.new_zeros(3, 0, 2), listed), start)
