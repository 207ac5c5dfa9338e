"""The log-signature: its mathematics, against slow algebra on words, and against other libraries."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import few, modest, paths
from helpers.word_polynomials import bracket, exponential, lie_series, logarithm
from siggpde import logsignature, logsignature_basis, signature
from siggpde.numerics.logsignature import bracket_name, log_basis
from siggpde.numerics.words import words_up_to

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


def test_scales_of_channels_and_the_area():
    x = paths(4, 9, 3, size=3.0)
    theta = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64)
    factors = torch.tensor([theta[list(word)].prod() for word in log_basis(3, 4, "words").words]).double()
    torch.testing.assert_close(logsignature(x * theta, 4), logsignature(x, 4) * factors)
    square = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]])
    assert logsignature(square, 2).tolist() == [[0.0, 0.0, 1.0]]


def test_depth_by_depth_the_coordinates_go_on():
    x = paths(5, 8, 3)
    deep = logsignature(x, 5)
    for depth in range(1, 5):
        shallow = logsignature(x, depth)
        torch.testing.assert_close(deep[:, : shallow.shape[1]], shallow)


def test_lyndon_and_words_agree_up_to_two_letters():
    x = paths(5, 8, 4)
    torch.testing.assert_close(logsignature(x, 2), logsignature(x, 2, basis="words"))
    torch.testing.assert_close(logsignature(x, 2), logsignature(x, 2, basis="hall"))


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
