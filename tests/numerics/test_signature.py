"""The signature: the identities that define it, the native core against the reference, and batches.

Batches are ragged, sliced, threaded and forked: a result never depends on what else is computed, or where.
"""

import itertools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.random_paths import paths
from siggpde.numerics import reference
from siggpde.numerics.core import core
from siggpde.numerics.signature import extend, signature
from siggpde.numerics.words import letter_counts, words, words_up_to

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
dtypes = st.sampled_from([torch.float64, torch.float32])
large_shapes = st.sampled_from([(1, 14), (2, 9), (3, 5), (4, 4), (5, 4), (6, 4), (7, 3), (8, 3), (13, 2), (30, 2)])
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


@settings(max_examples=25, deadline=None)
@given(shapes, st.integers(1, 100), st.integers(1, 9), dtypes)
def test_ways_back_repeated_points_and_scaled_channels(shape, length, extra, dtype):
    channels, depth = shape
    x = paths(3, length, channels, dtype, seed=length)
    once = signature(x, depth)
    unit = torch.zeros_like(once)
    unit[:, 0] = 1
    close(signature(torch.cat([x, x.flip(1)], 1), depth), unit)
    assert torch.equal(signature(torch.cat([x, x[:, -1:].expand(-1, extra, -1)], 1), depth), once)
    assert torch.equal(signature(x.repeat_interleave(2, 1), depth), once)
    theta = torch.linspace(0.5, 1.5, channels, dtype=dtype)
    counts = letter_counts(words_up_to(channels, depth), channels).to(dtype)
    close(signature(x * theta, depth), once * torch.exp(counts @ theta.log()))


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
    right_angle = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]])
    assert signature(right_angle, 2).tolist() == [[1, 1, 2, 0.5, 2, 0, 2]]


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
    one = x[:, first] - x[:, first - 1]
    close(extend(start, one, listed), signature(x[:, : first + 1], words=listed))
    assert torch.equal(extend(start, x.new_zeros(11, 0, channels), listed), start)
    assert torch.equal(start, kept)


needs_core = pytest.mark.skipif(core is None, reason="the native core is not there")
ORACLE_TOLERANCE = {torch.float64: 2e-12, torch.float32: 2e-4}


def compare(x, listed, lengths=None):
    """Same values and same gradients as the reference in float64, relative to the largest."""
    x = x.requires_grad_()
    counts = None if lengths is None else torch.as_tensor(lengths)
    ours = signature(x, words=listed, lengths=lengths)
    theirs = reference.signature(x.double(), counts, tuple(listed), 1)
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours_grad = torch.autograd.grad(ours, x, weights.to(x.dtype))[0]
    theirs_grad = torch.autograd.grad(theirs, x, weights)[0]
    for a, b in [(ours, theirs), (ours_grad, theirs_grad)]:
        error = float((a.double() - b.double()).detach().abs().max())
        assert error <= ORACLE_TOLERANCE[x.dtype] * max(1.0, float(b.detach().abs().max()))


@needs_core
@settings(max_examples=25, deadline=None)
@given(large_shapes, st.integers(1, 20), st.integers(1, 20), dtypes, st.randoms())
@example((2, 9), 9, 20, torch.float64, None)  # several tiles
@example((7, 4), 3, 6, torch.float32, None)
def test_all_words_and_arbitrary_words(shape, n, length, dtype, random):
    channels, depth = shape
    x = paths(n, length, channels, dtype, seed=n)
    everything = words_up_to(channels, depth)
    compare(x, everything)
    if random is not None:
        compare(x, random.sample(everything, random.randint(1, len(everything))))
        compare(x, words(channels, random.randint(1, len(everything))))


@needs_core
@pytest.mark.parametrize("depth", range(12))
def test_every_depth(depth):
    compare(paths(9, 7, 2, size=4.0), words_up_to(2, depth))


@needs_core
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 25), st.integers(1, 12), dtypes, st.data())
def test_lengths(n, length, dtype, data):
    lengths = data.draw(st.lists(st.integers(1, length), min_size=n, max_size=n))
    x = paths(n, length, 3, dtype, seed=n)
    for row, end in enumerate(lengths):
        x[row, end:] = float("nan")
    compare(x, words_up_to(3, 3), lengths)


@needs_core
@pytest.mark.parametrize("length", [49, 50, 51, 64, 65, 300])
def test_long_paths_are_walked_back_in_segments(length):
    generator = torch.Generator().manual_seed(0)
    everything = words_up_to(2, 6)
    some = [everything[i] for i in torch.randperm(len(everything), generator=generator)[:60].tolist()]
    compare(paths(9, length, 2, size=4.0), some)


@needs_core
def test_float32_gradients_hold_at_length_2000():
    for channels in (2, 3):
        x = paths(4, 2000, channels, size=40.0).requires_grad_()
        weights = torch.randn(4, len(words_up_to(channels, 4)), dtype=torch.float64)
        exact = torch.autograd.grad(signature(x, 4), x, weights)[0]
        single = x.detach().float().requires_grad_()
        rounded = torch.autograd.grad(signature(single, 4), single, weights.float())[0]
        again = single.detach().double().requires_grad_()
        same_points = torch.autograd.grad(signature(again, 4), again, weights.float().double())[0]
        assert (rounded - same_points).abs().max() <= 1e-3 * same_points.abs().max()
        assert (rounded - exact).abs().max() <= 1e-3 * exact.abs().max()


@needs_core
@pytest.mark.parametrize(("channels", "depth", "length"), [(1, 4, 4), (2, 5, 5), (3, 3, 3), (5, 2, 3)])
def test_gradcheck(channels, depth, length):
    x = paths(3, length, channels).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: signature(x, depth, lengths=[length, 1, length - 1]), [x])


def random_leaves(*shapes):
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


@needs_core
def test_gradcheck_of_extend_in_both_arguments():
    listed = words_up_to(2, 4)
    inputs = random_leaves((2, len(listed)), (2, 3, 2))  # a start may be any tensor, its first column included
    assert torch.autograd.gradcheck(lambda s, v: extend(s, v, listed), inputs)
    big = words_up_to(3, 6)  # several tiles
    start, increments = inputs = random_leaves((2, len(big)), (2, 3, 3))
    ours, theirs = extend(start, increments, big), reference.apply_chen(start, increments, big)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    slopes = (torch.autograd.grad(value, inputs, torch.ones_like(ours).cumsum(1)) for value in (ours, theirs))
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * float(b.abs().max()))


both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@both_dtypes
@pytest.mark.parametrize("n", [1, 7, 8, 9, 37])
def test_a_row_and_its_gradient_do_not_depend_on_the_others(n, dtype):
    x = paths(n, 13, 3, dtype).requires_grad_()
    whole = signature(x, 5)
    (slopes,) = torch.autograd.grad(whole.sum(), x)
    for row in range(n):
        alone = x[row : row + 1].detach().requires_grad_()
        value = signature(alone, 5)
        assert torch.equal(whole[row], value[0])
        assert torch.equal(slopes[row], torch.autograd.grad(value.sum(), alone)[0][0])


@both_dtypes
@pytest.mark.parametrize("channels", [2, 5])
def test_a_list_is_lengths_is_one_by_one(channels, dtype):
    lengths = [(7 * row) % 20 + 1 for row in range(21)]
    x = paths(21, 20, channels, dtype)
    for row, length in enumerate(lengths):
        x[row, length:] = float("nan")
    pieces = [x[row, :length].clone().requires_grad_() for row, length in enumerate(lengths)]
    ragged = signature(pieces, 4)
    ragged.sum().backward()
    padded = x.clone().requires_grad_()
    with_lengths = signature(padded, 4, lengths=torch.tensor(lengths, dtype=torch.int32))
    with_lengths.sum().backward()
    assert torch.equal(ragged, with_lengths)
    for row, length in enumerate(lengths):
        alone = pieces[row].detach()[None].requires_grad_()
        single = signature(alone, 4)
        single.sum().backward()
        assert torch.equal(single[0], ragged[row])
        assert torch.equal(alone.grad[0], pieces[row].grad) and torch.equal(alone.grad[0], padded.grad[row, :length])
        assert not padded.grad[row, length:].any()


def test_words_pick_columns():
    x = paths(9, 10, 3)
    some = [(2, 1, 0), (), (0,), (2, 2)]
    everything = dict(zip(words_up_to(3, 3), signature(x, 3).unbind(1), strict=True))
    assert torch.equal(signature(x, words=some), torch.stack([everything[word] for word in some], 1))
    assert torch.equal(signature(x, words=[()]), torch.ones(9, 1, dtype=torch.float64))
    assert signature(x, words=[]).shape == (9, 0)
    assert torch.equal(signature(x, words=words(3, 13)), signature(x, 2))
    assert torch.equal(signature(x, 0), torch.ones(9, 1, dtype=torch.float64))


def test_empty_batches_and_single_points():
    x = torch.zeros(0, 5, 2, requires_grad=True)
    empty = signature(x, 3)
    empty.sum().backward()
    assert empty.shape == (0, 15) and x.grad.shape == (0, 5, 2)
    assert extend(torch.zeros(0, 3), torch.zeros(0, 1, 2), words_up_to(2, 1)).shape == (0, 3)
    for channels in (1, 3, 30):
        out = signature(paths(4, 1, channels), 2)
        assert torch.equal(out[:, 0], torch.ones(4, dtype=torch.float64)) and not out[:, 1:].any()
