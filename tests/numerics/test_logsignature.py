"""The log-signature: bases of the free Lie algebra, and values against slow algebra on words and other libraries."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.random_paths import few, modest, paths
from helpers.refusals import assert_refused
from helpers.word_polynomials import add, bracket, exponential, lie_series, logarithm
from siggpde import logsignature, logsignature_basis, signature
from siggpde.numerics import reference
from siggpde.numerics.backend import backend_for
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


@pytest.mark.parametrize(("channels", "depth"), SIZES)
def test_lyndon_and_hall_bases(channels: int, depth: int):
    """As many elements as Witt says; a Lyndon bracket is its word plus larger ones; brackets keep Hall's condition."""
    lyndon, hall = lyndon_words(channels, depth), hall_brackets(channels, depth)
    expected = [witt(channels, m) for m in range(1, depth + 1)]
    for lengths in (list(map(len, lyndon)), [len(next(iter(expand(element)))) for element in hall]):
        assert [lengths.count(m) for m in range(1, depth + 1)] == expected
        assert lengths == sorted(lengths)
    for word in lyndon:
        terms = expand(lyndon_bracket(word))
        assert terms[word] == 1 and min(terms) == word
    position = {element: i for i, element in enumerate(hall)}
    assert len(position) == len(hall)
    for element in hall:
        if isinstance(element, tuple):
            left, right = element
            assert position[left] < position[right]
            assert isinstance(right, int) or position[right[0]] <= position[left]


@pytest.mark.parametrize(("channels", "depth"), [(2, 8), (3, 5)])
def test_lyndon_words_are_smaller_than_their_rotations_and_every_word_is_a_falling_product(channels: int, depth: int):
    """The theorem of Chen, Fox and Lyndon, and that this is the only such product."""
    listed, lyndon = words_up_to(channels, depth), lyndon_words(channels, depth)
    rotations = {word: [word[i:] + word[:i] for i in range(1, len(word))] for word in listed[1:]}
    assert lyndon == [word for word, others in rotations.items() if all(word < other for other in others)]
    seen = set()
    for word in listed:
        rest, factors = word, []
        while rest:  # longest Lyndon prefixes, one after the other
            factors.append(next(rest[:i] for i in range(len(rest), 0, -1) if rest[:i] in set(lyndon)))
            rest = rest[len(factors[-1]) :]
        assert sum(factors, ()) == word and all(a >= b for a, b in itertools.pairwise(factors))
        seen.add(tuple(factors))
    falling = {
        factors
        for count in range(depth + 1)
        for factors in itertools.combinations_with_replacement(sorted(lyndon, reverse=True), count)
        if sum(map(len, factors)) <= depth
    } if channels == 3 else seen  # fmt: skip
    assert seen == falling


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


BASES: Any = ("lyndon", "hall")
sizes = st.sampled_from([(1, 4), (2, 1), (2, 5), (3, 3), (4, 3), (2, 6)])


@modest
@given(sizes, st.sampled_from(BASES), st.integers(2, 9), st.integers(0, 99))
def test_its_exponential_is_the_signature(size, basis, length: int, seed: int):
    channels, depth = size
    x = paths(1, length, channels, seed=seed, size=3.0)
    series = lie_series(logsignature(x, depth, basis=basis)[0].tolist(), logsignature_basis(channels, depth, basis))
    words = words_up_to(channels, depth)
    again = exponential(series, depth)
    expected = signature(x, depth)[0]
    torch.testing.assert_close(torch.tensor([again.get(word, 0.0) for word in words]).double(), expected)


@few
@given(sizes, st.integers(2, 6), st.integers(0, 99))
def test_words_are_coefficients_of_the_tensor_logarithm(size, length: int, seed: int):
    channels, depth = size
    x = paths(1, length, channels, seed=seed, size=3.0)
    words = words_up_to(channels, depth)
    log = logarithm(dict(zip(words, signature(x, depth)[0].tolist(), strict=True)), depth)
    expected = [log[word] for word in logsignature_basis(channels, depth, "words")]  # pyright: ignore
    torch.testing.assert_close(logsignature(x, depth, basis="words")[0], torch.tensor(expected).double())


@pytest.mark.parametrize("basis", BASES)
def test_two_segments_by_baker_campbell_hausdorff(basis):
    """log(exp(a) exp(b)) = a + b + [a, b]/2 + ([a, [a, b]] + [b, [b, a]])/12 + .."""
    a, b = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, words = torch.stack([torch.zeros_like(a), a, a + b])[None], words_up_to(3, 3)
    got = lie_series(logsignature(x, 3, basis=basis)[0].tolist(), logsignature_basis(3, 3, basis))
    p, q = ({words[i + 1]: float(v[i]) for i in range(3)} for v in (a, b))
    pq = bracket(p, q, 3)
    for word in words[1:]:
        twice = (bracket(p, pq, 3).get(word, 0.0) - bracket(q, pq, 3).get(word, 0.0)) / 12
        expected = p.get(word, 0.0) + q.get(word, 0.0) + pq.get(word, 0.0) / 2 + twice
        assert got.get(word, 0.0) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("basis", [*BASES, "words"])
def test_a_straight_line_is_its_increment(basis):
    steps = torch.rand(5, 6, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    x = steps.cumsum(1) * direction
    log = logsignature(x, 5, basis=basis)
    torch.testing.assert_close(log[:, :3], x[:, -1] - x[:, 0])
    assert log[:, 3:].abs().max() < 1e-13 * log.abs().max() ** 5 + 1e-13


@modest
@given(sizes, st.sampled_from([*BASES, "words"]), st.integers(1, 8), st.integers(0, 99))
def test_the_way_back_undoes_the_way(size, basis, length: int, seed: int):
    """log S of the reversed path is - log S; there and back is nothing."""
    channels, depth = size
    x = paths(3, length, channels, seed=seed, size=3.0)
    log = logsignature(x, depth, basis=basis)
    torch.testing.assert_close(logsignature(x.flip(1), depth, basis=basis), -log)
    there_and_back = logsignature(torch.cat([x, x.flip(1)], 1), depth, basis=basis)
    assert there_and_back.abs().max() < 1e-12


def test_coordinates_of_scaled_paths_of_any_depth_and_in_any_basis():
    x = paths(5, 9, 3, size=3.0)
    theta = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64)
    factors = torch.tensor([theta[list(word)].prod() for word in log_basis(3, 5, "words").words]).double()
    deep = logsignature(x, 5)
    torch.testing.assert_close(logsignature(x * theta, 5), deep * factors)
    for depth in range(1, 5):
        shallow = logsignature(x, depth)
        torch.testing.assert_close(deep[:, : shallow.shape[1]], shallow)
    for basis in ("words", "hall"):
        torch.testing.assert_close(logsignature(x, 2), logsignature(x, 2, basis=basis))
    square = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]])
    assert logsignature(square, 2).tolist() == [[0.0, 0.0, 1.0]]
    assert bracket_name((0, (1, 2)), ["time", "level", "flow"]) == "[time, [level, flow]]"


@pytest.mark.parametrize(("channels", "depth"), [(3, 4), (5, 4), (2, 6), (8, 3)])
def test_pysiglib_has_the_same_coordinates(channels: int, depth: int):
    pysiglib: Any = pytest.importorskip("pysiglib", reason="pysiglib is not installed")
    x = paths(11, 20, channels, size=4.0)
    for basis, method in (("words", 1), ("lyndon", 2)):
        pysiglib.prepare_log_sig(channels, depth, method)
        theirs = pysiglib.log_sig(x, depth, method=method)
        torch.testing.assert_close(logsignature(x, depth, basis=basis), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("basis", "methods"), [("lyndon", "S"), ("hall", "SH")])
@pytest.mark.parametrize(("channels", "depth"), [(3, 4), (2, 6)])
def test_iisignature_has_the_same_coordinates(channels: int, depth: int, basis, methods: str):
    iisignature: Any = pytest.importorskip("iisignature", reason="iisignature is not installed")
    x = paths(3, 20, channels, size=4.0)
    prepared = iisignature.prepare(channels, depth, methods)
    letters = [str(i + 1) for i in range(channels)]
    names = [bracket_name(element, letters) for element in logsignature_basis(channels, depth, basis)]  # pyright: ignore
    assert [name.replace(" ", "") for name in names] == list(iisignature.basis(prepared))
    theirs = torch.tensor(iisignature.logsig(x.numpy(), prepared, "S")).double()
    # Its Hall coordinates agree to single precision only.
    tolerance = 1e-12 if basis == "lyndon" else 1e-6
    torch.testing.assert_close(logsignature(x, depth, basis=basis), theirs, rtol=tolerance, atol=tolerance)


def test_esig_has_the_same_hall_coordinates():
    esig: Any = pytest.importorskip("esig", reason="esig is not installed", exc_type=ImportError)
    x = paths(1, 20, 3, size=4.0)
    names = [bracket_name(element, "123") for element in logsignature_basis(3, 4, "hall")]  # pyright: ignore
    assert [name.replace(" ", "") for name in names] == esig.logsigkeys(3, 4).split()
    theirs = torch.from_numpy(esig.stream2logsig(x[0].numpy(), 4))
    torch.testing.assert_close(logsignature(x, 4, basis="hall")[0], theirs, rtol=1e-10, atol=1e-12)


def test_signax_has_the_same_words():
    signax: Any = pytest.importorskip("signax", reason="signax is not installed")
    x = paths(3, 20, 3, torch.float32, size=4.0)
    theirs = torch.tensor(signax.logsignature(x.numpy(), 4).tolist())
    torch.testing.assert_close(logsignature(x, 4, basis="words"), theirs, rtol=1e-4, atol=1e-5)


TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-3}
ALL_BASES = ["lyndon", "hall", "words"]
types = st.sampled_from(list(TOLERANCE))
batch_sizes = st.sampled_from([(1, 1), (1, 7), (2, 1), (2, 7), (3, 5), (4, 4), (5, 3), (7, 3), (12, 2), (20, 2)])


@modest
@given(batch_sizes, st.integers(1, 20), st.integers(1, 9), types, st.sampled_from(ALL_BASES), st.data())
@example((2, 7), 17, 9, torch.float32, "hall", None)
def test_native_equals_reference(size, n: int, length: int, dtype, basis, data):
    channels, depth = size
    lengths = None
    if data is not None and data.draw(st.booleans()):
        lengths = data.draw(st.lists(st.integers(1, length), min_size=n, max_size=n))
    x = paths(n, length, channels, dtype, seed=n)
    for row, end in enumerate(lengths or []):
        x[row, end:] = float("nan")
    x.requires_grad_()
    ours = logsignature(x, depth, basis=basis, lengths=lengths)
    leaf = x.detach().double().requires_grad_()
    theirs = reference.logsignature(signature(leaf, depth, lengths=lengths), log_basis(channels, depth, basis), 1)
    assert ours.dtype == dtype and ours.shape == (n, len(logsignature_basis(channels, depth, basis)))
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours_grad = torch.autograd.grad(ours, x, weights.to(dtype))[0]
    theirs_grad = torch.autograd.grad(theirs, leaf, weights)[0]
    for a, b in [(ours, theirs), (ours_grad, theirs_grad)]:
        error = float((a.double() - b).detach().abs().max())
        assert error <= TOLERANCE[dtype] * max(1.0, float(b.detach().abs().max()))


@pytest.mark.parametrize("basis", ALL_BASES)
@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3), (1, 3)])
def test_gradcheck(channels: int, depth: int, basis):
    x = paths(3, 4, channels).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: logsignature(x, depth, basis=basis, lengths=[4, 1, 3]), [x])


def test_a_result_depends_on_its_series_alone():
    x = paths(37, 12, 3, size=5.0)
    lengths = (torch.arange(37) % 12) + 1
    together = logsignature(x, 4, lengths=lengths)
    assert torch.equal(logsignature(x, 4, lengths=lengths, n_jobs=2), together)
    ragged = [x[i, : lengths[i]] for i in range(len(x))]
    torch.testing.assert_close(logsignature(ragged, 4), together, rtol=1e-13, atol=1e-15)
    for i in (0, 5, 36):
        torch.testing.assert_close(logsignature(ragged[i][None], 4)[0], together[i], rtol=1e-13, atol=1e-15)
    assert logsignature(torch.zeros(0, 5, 2), 3).shape == (0, 5)
    assert not logsignature(torch.ones(2, 1, 2), 3).any()


good = paths(3, 4, 2)


@pytest.mark.parametrize(
    ("series", "settings", "message"),
    [
        (good, {"depth": 0}, "depth must be an integer of at least 1, got 0"),
        (good, {"depth": 2.0}, "depth must be an integer of at least 1, got 2.0"),
        (good, {"depth": 40}, "depth 40 with 2 channels has .* words of .* letters in all"),
        (good, {"basis": "shirshov"}, "basis must be 'lyndon', 'hall' or 'words', got 'shirshov'"),
        (good[0], {}, r"\(n, length, channels\), got \(4, 2\)"),
        (good, {"n_jobs": 0}, "n_jobs must be"),
        (good / 0, {}, "x is not finite"),
    ],
)
def test_errors(series, settings, message: str):
    assert_refused(message, logsignature, series, **({"depth": 2} | settings))
    assert_refused("basis must be 'lyndon', 'hall' or 'words', got 'tensor'", logsignature_basis, 2, 2, "tensor")


def test_overflow_names_the_series():
    x = paths(20, 9, 2, torch.float32)
    x[11] *= 1e12
    with pytest.raises(OverflowError, match=r"the signature of series 11 is too large for torch\.float32; .*float64"):
        logsignature(x, 6)
    large = signature(paths(20, 9, 2, torch.float32), 3)
    large[7] = 1e30  # no signature, but one whose products are out of range
    for backend in (backend_for(large), reference):
        with pytest.raises(OverflowError, match=r"the log-signature of series 7 is too large for torch\.float32"):
            backend.logsignature(large, log_basis(2, 3, "lyndon"), 1)
