"""Levels of pairs of series by the native core, against the recursion in torch."""

from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.random_paths import numbers_from
from helpers.refusals import assert_refused
from helpers.small_models import series
from siggpde.numerics.core import core
from siggpde_paper.gpsig import InducingSequences, TruncatedKernel, series_levels
from siggpde_paper.gpsig.kernel import Method
from siggpde_paper.gpsig.series_levels import (
    compiled_paired_levels,
    core_has_pairs,
    linear_pair_levels,
    rbf_pair_levels,
)

pytestmark = pytest.mark.skipif(core is None, reason="the native core is not there")

Static = Literal["linear", "rbf"]
STATICS, CHANNELS, LEVELS = st.sampled_from(["linear", "rbf"]), st.integers(1, 3), st.integers(2, 5)


def random_series(n: int, points: int, channels: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(n + 10 * points + 100 * channels)
    return torch.randn(n, points, channels, dtype=torch.float64, generator=random).requires_grad_()


def assert_alike(ours: torch.Tensor, theirs: torch.Tensor, *arguments: torch.Tensor) -> None:
    """The same values, and the same gradients of a sum with unlike weights."""
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    weights = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view(ours.shape)
    gradients = [torch.autograd.grad((levels * weights).sum(), arguments) for levels in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 19), st.integers(2, 7), st.integers(2, 7), CHANNELS, LEVELS)
def test_rbf_pairs_are_those_of_torch(n, m, points, others, channels, level):
    x, y = random_series(n, points, channels), random_series(m, others, channels)
    theirs = series_levels.sequence_levels(series_levels.increment_kernel("rbf", x, y), level, level)
    assert_alike(rbf_pair_levels(x, y, level), theirs, x, y)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 35), st.integers(1, 19), st.integers(1, 6), st.integers(1, 6), CHANNELS, LEVELS, st.booleans())
def test_linear_pairs_are_those_of_torch(n, m, rows, columns, channels, level, same):
    x, y = random_series(n, rows, channels), None if same else random_series(m, columns, channels)
    products = torch.einsum("nsc,mtc->nmst", x, x if y is None else y)
    theirs = series_levels.sequence_levels(products.contiguous(), level, level)
    assert_alike(linear_pair_levels(x, y, level), theirs, *([x] if y is None else [x, y]))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 19), st.integers(2, 9), CHANNELS, LEVELS, STATICS)
def test_series_with_themselves_are_those_of_torch(n, points, channels, level, static):
    x = random_series(n, points, channels)
    increments = series_levels.paired_increment_kernel(static, x, x)
    assert_alike(compiled_paired_levels(static, x, level), series_levels.sequence_levels(increments, level, level), x)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    x, y = random_series(20, 12, 2), random_series(40, 15, 2)
    actual = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("siggpde_paper.gpsig.series_levels.usual_threads", lambda count=threads: count)
        of_pairs = [rbf_pair_levels(x, y, 4), linear_pair_levels(x, y, 4), linear_pair_levels(x, None, 4)]
        total = torch.stack([levels.square().sum() for levels in of_pairs]).sum()
        actual.append([*(levels.detach() for levels in of_pairs), *torch.autograd.grad(total, (x, y))])
    for other in actual[1:]:
        assert all(torch.equal(a, b) for a, b in zip(actual[0], other, strict=True))


def test_gradient_by_finite_differences():
    x, y = random_series(2, 4, 2), random_series(3, 5, 2)
    assert torch.autograd.gradcheck(lambda a, b: rbf_pair_levels(a, b, 3), (x, y))
    assert torch.autograd.gradcheck(lambda a, b: linear_pair_levels(a, b, 3), (x, y))
    assert torch.autograd.gradcheck(lambda a: linear_pair_levels(a, None, 4), (x,))
    assert torch.autograd.gradcheck(lambda a: compiled_paired_levels("rbf", a, 4), (x,))
    (slope,) = torch.autograd.grad(compiled_paired_levels("linear", x, 3).sum(), x, create_graph=True)
    assert_refused("cannot be differentiated again", slope.sum().backward, error=RuntimeError)


# What must not be called.
ABSENT: dict[Method, tuple[str, ...]] = {
    "core": ("sequence_levels",),
    "recursion": ("linear_pair_levels", "rbf_pair_levels", "compiled_paired_levels"),
}


@pytest.mark.parametrize("static", ["linear", "rbf"])
def test_features_of_a_model_are_the_same_either_way(static: Static, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("siggpde_paper.gpsig.series_levels._TILE_CELLS", 200)  # a few pairs
    x, actual = series(6, length=7), []
    for method, absent in ABSENT.items():
        with monkeypatch.context() as patch:
            for name in absent:
                patch.setattr(f"siggpde_paper.gpsig.kernel.{name}", None)
            kernel = TruncatedKernel(x.shape[2], 4, theta=0.7, static=static, method=method)
            features = InducingSequences(x.shape[2], 11)
            projection = features(kernel, x)
            projection.features.square().sum().backward()
        actual.append([projection.features, features.values.grad, kernel.log_theta.grad, kernel.log_weights.grad])
    for ours, theirs in zip(*actual, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


def test_what_the_core_does_not_serve_goes_to_torch():
    x, y = random_series(2, 5, 2), random_series(3, 6, 2)
    assert core_has_pairs(x, y, 4, 4)
    long, above = x[:, :1].expand(2, 3000, 2), core.largest_pair_level + 1
    for others in ((x, y, 4, 3), (x, y, 1, 1), (x, y, above, above), (x.float(), y.float(), 4, 4), (long, long, 4, 4)):
        assert not core_has_pairs(*others)
    kernels = [TruncatedKernel(2, 6, order=2, method=method) for method in ("core", "recursion")]
    torch.testing.assert_close(kernels[0](x, y), kernels[1](x, y))
    assert_refused("x has 2 channels and y 3", linear_pair_levels, random_series(2, 4, 2), random_series(2, 4, 3), 4)


@pytest.mark.parametrize("static", ["linear", "rbf"])
def test_no_series_have_no_levels(static: Static):
    x, none = random_series(3, 5, 2), random_series(0, 4, 2)
    kernel = TruncatedKernel(2, 4, static=static, method="core")
    for pair in ((x, none), (none, x), (none, none)):
        values = kernel(*pair)
        assert values.shape == tuple(map(len, pair))
        values.sum().backward()
    assert kernel(none, diag=True).shape == (0,)


CODE = """
import json, torch
from siggpde_paper.gpsig.series_levels import compiled_paired_levels
from siggpde_paper.gpsig.series_levels import linear_pair_levels
x = torch.sin(torch.arange(11 * 6 * 2.0).double() ** 1.5).reshape(11, 6, 2).requires_grad_()
out = []
for level in (2, 3, 4, 5):
    for levels in (linear_pair_levels(x, None, level), linear_pair_levels(x, x[:9, :3], level),
                   compiled_paired_levels("rbf", x, level)):
        (slope,) = torch.autograd.grad(levels.sin().sum(), x)
        out += levels.flatten().tolist() + slope.flatten().tolist()
print(json.dumps(out))
"""


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_instruction_sets_agree(isa: str):
    here, there = (torch.tensor(numbers_from(CODE, SIGGPDE_ISA=name), dtype=torch.float64) for name in ("", isa))
    torch.testing.assert_close(here, there, rtol=1e-11, atol=1e-11)
