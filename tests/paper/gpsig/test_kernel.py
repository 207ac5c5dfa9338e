"""The truncated kernel against signatures and against sums over all tuples of times."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_models import series
from helpers.time_tuples import tuples
from siggpde import signature
from siggpde_paper.gpsig import TruncatedKernel, series_levels
from siggpde_paper.gpsig.series_levels import increment_kernel, sequence_levels
from siggpde_paper.gpsig.tensor_levels import product_levels, slot_count, slot_index, tensor_levels

ORDERS = [(level, order) for level in (1, 2, 3, 4) for order in range(1, level + 1)]
every_order = pytest.mark.parametrize(("level", "order"), ORDERS)


def by_tuples(d: Tensor, level: int, order: int) -> float:
    rows, columns = d.tolist(), d.shape[1]
    return sum(
        a * b * math.prod(rows[i][j] for i, j in zip(left, right, strict=True))
        for left, a in tuples(len(rows), level, order)
        for right, b in tuples(columns, level, order)
    )


def static_by_loops(static: str, x: Tensor, y: Tensor) -> Tensor:
    def kap(a: Tensor, b: Tensor) -> Tensor:
        return a @ b if static == "linear" else torch.exp(-((a - b) @ (a - b)) / 2)

    def rise(i: int, j: int) -> Tensor:
        return kap(x[i + 1], y[j + 1]) + kap(x[i], y[j]) - kap(x[i], y[j + 1]) - kap(x[i + 1], y[j])

    return torch.tensor([[rise(i, j) for j in range(len(y) - 1)] for i in range(len(x) - 1)], dtype=torch.float64)


@pytest.mark.parametrize("static", ["linear", "rbf"])
def test_increments_are_second_differences(static):
    x, y = series(3, length=4), series(2, length=5, seed=1)
    actual = increment_kernel(static, x, y)
    assert actual.shape == (3, 2, 3, 4)
    for i, j in itertools.product(range(3), range(2)):
        assert torch.allclose(actual[i, j], static_by_loops(static, x[i], y[j]), atol=1e-13)
    paired = series_levels.paired_increment_kernel(static, x[:2], y)
    assert torch.allclose(paired, torch.stack([actual[0, 0], actual[1, 1]]), atol=1e-13)


@every_order
def test_levels_and_tensor_levels_are_sums_over_tuples_of_times_with_gradients(level, order):
    d = increment_kernel("linear", series(2, length=5), series(2, length=4, seed=1))
    actual = sequence_levels(d, level, order)
    for m in range(1, level + 1):
        for i, j in itertools.product(range(2), range(2)):
            assert actual[m - 1, i, j].item() == pytest.approx(by_tuples(d[i, j], m, order), rel=1e-10, abs=1e-12)
    slots = torch.randn(slot_count(level), 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    actual = tensor_levels(slots, level, order)
    products = product_levels(slots, level)
    for m in range(1, level + 1):
        places = [slot_index(k, m, level) for k in range(1, m + 1)]
        assert torch.allclose(products[m - 1], slots[places].prod(dim=0))
        for i in range(2):
            wanted = sum(
                weight * math.prod(slots[p, i, t].item() for p, t in zip(places, times, strict=True))
                for times, weight in tuples(4, m, order)
            )
            assert actual[m - 1, i].item() == pytest.approx(wanted, rel=1e-10, abs=1e-12)
    random = torch.Generator().manual_seed(5)
    d = torch.randn(2, 1, 3, 4, dtype=torch.float64, generator=random).requires_grad_()
    assert torch.autograd.gradcheck(lambda d: sequence_levels(d, level, order), (d,))
    slots = torch.randn(slot_count(level), 2, 4, dtype=torch.float64, generator=random).requires_grad_()
    assert torch.autograd.gradcheck(lambda g: tensor_levels(g, level, order), (slots,))


def test_long_and_short_axes_are_summed_alike(monkeypatch):
    values = torch.randn(3, 5, 2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    actual = []
    for short in (64, 1):
        monkeypatch.setattr("siggpde_paper.gpsig.series_levels._SHORT", short)
        both = (series_levels.earlier, series_levels.later)
        actual.append([f(values, axis) for axis in (-1, -3) for f in both])
    assert all(torch.allclose(a, b, atol=1e-13) for a, b in zip(*actual, strict=True))
    assert torch.allclose(actual[0][1][..., 2], values[..., 3:].sum(dim=-1), atol=1e-13)
    assert torch.allclose(actual[0][2][:, 3], values[:, :3].sum(dim=1), atol=1e-13)


@given(st.integers(2, 7), st.integers(2, 7), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000), st.data())
@settings(max_examples=30, deadline=None)
def test_full_order_gives_signatures(length, other, channels, level, seed, data):
    n = data.draw(st.integers(1, 3))
    x, y = series(n, length, channels, seed=seed), series(2, other, channels, seed=seed + 1)
    theta = torch.linspace(0.5, 1.5, channels).double()
    kernel = TruncatedKernel(channels, level, theta=theta, method="recursion")
    left, right = (signature(part * theta, depth=level) for part in (x, y))
    start = 1
    for m, actual in enumerate(kernel.levels(x, y), 1):
        part = slice(start, start + channels**m)
        start = part.stop
        assert torch.allclose(actual, left[:, part] @ right[:, part].T, rtol=1e-10, atol=1e-11)
    assert torch.allclose(kernel(x, diag=True), kernel(x).diagonal(), rtol=1e-10)


def test_explicit_and_recursion_agree_with_gradients():
    x, y = series(3, length=5), series(2, length=4, seed=1)
    actual = []
    for method in ("explicit", "recursion"):
        kernel = TruncatedKernel(2, 3, theta=[0.7, 1.3], amplitude=2.0, method=method)
        assert kernel.explicit == (method == "explicit")
        with torch.no_grad():
            kernel.log_weights.copy_(torch.tensor([0.3, -0.2, 0.1, 0.5]))
        values = [kernel(x, y), kernel(x), kernel(x, diag=True)]
        total = sum((value.sin().sum() for value in values), torch.zeros(()))
        parameters = [kernel.log_theta, kernel.log_weights, kernel.log_amplitude]
        grads = torch.autograd.grad(total, parameters, allow_unused=True)
        actual.append([*values, *grads])
    for one, other in zip(*actual, strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("static", ["linear", "rbf"])
def test_gradients_by_recursion(static):
    x, y = series(2, length=4).requires_grad_(), series(2, length=3, seed=1).requires_grad_()
    kernel = TruncatedKernel(2, 3, order=2, static=static, theta=[0.7, 1.3])
    parameters = (kernel.log_theta, kernel.log_weights, kernel.log_amplitude)

    def values(x: Tensor, y: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        return kernel(x, y), kernel(x), kernel(x, diag=True)

    assert torch.autograd.gradcheck(values, (x, y, *parameters))


def test_tiles_change_nothing(monkeypatch):
    x, y = series(5, length=4).requires_grad_(), series(4, length=6, seed=1).requires_grad_()
    kernel = TruncatedKernel(2, 3, order=2)
    actual = []
    for cells in (1, 40, 2**17):
        monkeypatch.setattr("siggpde_paper.gpsig.kernel._CELLS", cells)
        values = [kernel(x, y), kernel(x), kernel(x, diag=True)]
        total = sum((value.sin().sum() for value in values), torch.zeros(()))
        actual.append([*values, *torch.autograd.grad(total, [x, y, kernel.log_theta])])
    for other in actual[1:]:
        assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(actual[0], other, strict=True))


def test_rbf_kernel_by_loops():
    x, y = series(2, length=4), series(2, length=5, seed=1)
    theta = torch.tensor([0.7, 1.3]).double()
    kernel = TruncatedKernel(2, 3, order=2, static="rbf", theta=theta, amplitude=1.5)
    for i, j in itertools.product(range(2), range(2)):
        d = static_by_loops("rbf", x[i] * theta, y[j] * theta)
        wanted = 1.5 * (1 + sum(by_tuples(d, m, 2) for m in (1, 2, 3)))
        assert kernel(x, y)[i, j].item() == pytest.approx(wanted, rel=1e-10)
    assert torch.allclose(series_levels.point_kernel("rbf", x[0], x[0]).diagonal(), torch.ones(4).double(), atol=1e-14)


@pytest.mark.parametrize("static", ["linear", "rbf"])
@pytest.mark.parametrize("method", ["auto", "recursion"])
def test_ragged_series_stand_still_after_their_end(static, method):
    kernel = TruncatedKernel(2, 3, static=static, method=method)
    parts = [series(1, length=length, seed=length)[0] for length in (5, 1, 3)]
    alone = torch.cat([kernel(parts[0][None], part[None]) for part in parts], dim=1)
    padded = torch.full((3, 6, 2), math.nan, dtype=torch.float64)
    for row, part in enumerate(parts):
        padded[row, : len(part)] = part
    lengths = torch.tensor([5, 1, 3])
    assert torch.allclose(kernel(parts[0][None], padded, y_lengths=lengths), alone, atol=1e-12)
    assert torch.allclose(kernel(parts[0][None], parts), alone, atol=1e-12)
    norms = torch.cat([kernel(part[None], diag=True) for part in parts])
    assert torch.allclose(kernel(padded, lengths=lengths, diag=True), norms, atol=1e-12)


def test_bad_settings_and_series():
    assert_refused("level must be an integer, at least 1, got 0", TruncatedKernel, 2, level=0)
    assert_refused("order must be an integer from 1 to the level, 4, got 5", TruncatedKernel, 2, order=5)
    assert_refused("static must be 'linear' or 'rbf', got 'cosine'", TruncatedKernel, 2, static="cosine")
    assert_refused("method must be", TruncatedKernel, 2, method="fast")
    assert_refused("needs the linear static kernel and full order", TruncatedKernel, 2, method="explicit", static="rbf")
    assert_refused("theta must be a positive number", TruncatedKernel, 2, theta=-1.0)
    kernel = TruncatedKernel(2, static="rbf")
    x = series(2)
    assert_refused("leave y out", kernel, x, x, diag=True)
    assert_refused("y_lengths is given", kernel, x, y_lengths=[6, 6])
    assert_refused("3 channels, but the kernel was made for 2", kernel, series(2, channels=3))
    x[1, 2, 0] = math.nan
    assert_refused(r"not finite .* in series 1, at time index 2, channel 0", kernel, x)
    d = torch.randn(1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (slope,) = torch.autograd.grad(sequence_levels(d, 2, 2).sum(), d, create_graph=True)
    assert_refused("cannot be differentiated again", slope.sum().backward, error=RuntimeError)
