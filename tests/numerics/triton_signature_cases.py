"""The kernels of the signature against the reference, in Triton's interpreter: run by test_triton_interpreted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import make
from helpers.triton_cases import dtypes, launches_without_memory, leaf, with_gradients
from siggpde import extend, signature
from siggpde.numerics import reference
from siggpde.numerics.triton import signature as fast
from siggpde.numerics.words import words_up_to

EPS = {torch.float64: 1e-14, torch.float32: 2e-6}
few = settings(max_examples=3, deadline=None, derandomize=True)


def close(got: Tensor, wanted: Tensor) -> bool:
    return bool((got.double() - wanted).abs().max() <= EPS[got.dtype] * wanted.abs().max().clamp(min=1))


def by_reference(x: Tensor, lengths: Tensor, listed: list[tuple[int, ...]]) -> Tensor:
    return reference.signature(x, lengths, tuple(listed), 1)


@dtypes
@pytest.mark.parametrize(
    ("channels", "listed"),
    [
        pytest.param(1, words_up_to(1, 4), id="one channel", marks=pytest.mark.slow),
        pytest.param(2, words_up_to(2, 3), id="all words", marks=pytest.mark.slow),
        pytest.param(3, [(2, 0), (), (1, 1, 2), (0,)], id="some words"),
        pytest.param(2, [(1,)], id="one word", marks=pytest.mark.slow),
    ],
)
def test_the_signature_and_its_gradient(dtype: torch.dtype, channels: int, listed: list[tuple[int, ...]]):
    x = make("brownian", 0, 3, 5, channels, 2.0).to(dtype).requires_grad_()
    lengths = torch.tensor([5, 1, 3])
    a = leaf(x)
    got, wanted = signature(x, words=listed, lengths=lengths), by_reference(a, lengths, listed)
    assert got.dtype == dtype
    for mine, other in zip(with_gradients(got, x), with_gradients(wanted, a), strict=True):
        assert close(mine, other)


@dtypes
def test_extensions_and_their_gradients(dtype: torch.dtype):
    listed = [(1,), (), (1, 0), (0,), (0, 0)]
    random = torch.Generator().manual_seed(1)
    start = torch.randn(2, 5, generator=random).to(dtype).requires_grad_()
    steps = torch.randn(2, 4, 2, generator=random).to(dtype).requires_grad_()
    a, b = leaf(start), leaf(steps)
    got, wanted = extend(start, steps, listed), reference.apply_chen(a, b, listed)
    for mine, other in zip(with_gradients(got, start, steps), with_gradients(wanted, a, b), strict=True):
        assert close(mine, other)


@few
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.integers(0, 3), st.integers(0, 99))
def test_any_shape(n: int, length: int, channels: int, depth: int, seed: int):
    x = make("smooth", seed, n, length, channels, 2.0)
    lengths = torch.randint(1, length + 1, (n,), generator=torch.Generator().manual_seed(seed))
    wanted = by_reference(x, lengths, words_up_to(channels, depth))
    assert close(signature(x, depth, lengths=lengths), wanted)


def test_chunks_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    x = make("brownian", 2, 3, 3, 2).requires_grad_()
    whole = with_gradients(signature(x, 2), x)
    launches = launches_without_memory(monkeypatch, fast)
    chunked = signature(x, 2)
    assert launches.count("advance") == 3  # one series at a time
    for a, b in zip(whole, with_gradients(chunked, x), strict=True):
        assert torch.equal(a, b)


def test_words_too_long_for_a_lane_are_left_to_the_reference(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fast, "run", None)  # nothing is launched
    x = make("smooth", 3, 2, 3, 1)
    depth = fast.MAX_LETTERS + 1
    assert close(signature(x, depth), by_reference(x, torch.tensor([3, 3]), words_up_to(1, depth)))


def test_nothing_is_made_on_the_default_device():
    x = make("smooth", 4, 2, 3, 2)
    wanted = signature(x, 2)
    with torch.device("meta"):
        got = signature(x, 2)
    assert torch.equal(got, wanted)


def test_a_second_derivative_is_refused():
    x = make("smooth", 5, 1, 3, 2).requires_grad_()
    (slope,) = torch.autograd.grad(signature(x, 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(slope.sum(), x)
