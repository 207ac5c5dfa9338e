"""What a series gives depends on that series alone: not on its batch, its padding, the threads or the processor.

The memory of value and gradient stays low: long paths keep checkpoints, not every cell.
"""

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import few, generator, make, numbers_from
from helpers.refusals import assert_refused
from siggpde import logsignature, signature, signature_kernel, signature_kernel_diag
from siggpde.numerics import native as native_calls
from siggpde.numerics.signature_kernel import (
    PreparedSeries,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
)
from siggpde.numerics.windows import WindowView, pool_windows

SETTINGS: list[dict[str, Any]] = [{}, {"solver": "fd", "refine": 1}, {"tol": 1e-12}]
each_setting = pytest.mark.parametrize("settings", SETTINGS, ids=["series", "fd", "precise"])
seeds = st.integers(0, 2**31)


def ragged(seed: int, n: int, longest: int = 30, channels: int = 3) -> list[Tensor]:
    """Series of all lengths and sizes, so that they need all degrees and splittings."""
    lengths = torch.randint(1, longest + 1, (n,), generator=generator(seed)).tolist()
    lengths[0], lengths[1] = 1, longest
    sizes = (10.0 ** torch.linspace(-3, 0.6, n)[torch.randperm(n, generator=generator(seed))]).tolist()
    families = ["smooth", "brownian", "heavy-tailed", "out-and-back", "drift"]
    parts = zip(lengths, sizes, strict=True)
    return [make(families[i % 5], seed + i, 1, long, channels, size)[0] for i, (long, size) in enumerate(parts)]


def padded(series: list[Tensor], filling: float) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(item) for item in series])
    return torch.nn.utils.rnn.pad_sequence(series, batch_first=True, padding_value=filling), lengths


@each_setting
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@few
@given(seeds)
def test_a_series_in_a_batch_is_as_it_is_alone(settings: dict[str, Any], dtype: torch.dtype, seed: int):
    series = [item.to(dtype) for item in ragged(seed, 21)]
    alone = torch.cat([signature_kernel_diag(item[None], **settings) for item in series])
    assert torch.equal(signature_kernel_diag(series, **settings), alone)
    for filling in (0.0, 1e30, float("nan"), float("-inf")):
        x, lengths = padded(series, filling)
        assert torch.equal(signature_kernel_diag(x, lengths=lengths, **settings), alone)
    logs = torch.cat([signature_kernel_diag(item[None], log=True, **settings) for item in series])
    assert torch.equal(signature_kernel_diag(series, log=True, **settings), logs)


def test_logarithms_of_large_kernels_are_as_alone():
    """Neighbours a little longer go on for a few rows, in which the shorter series may be rescaled once more."""
    lines = torch.arange(34).double()[:, None] * torch.linspace(3.64, 3.69, 200).double()[:, None, None]
    alone = torch.cat([signature_kernel_diag(line[None, :30], log=True) for line in lines])
    assert alone.min() < 208  # about 300 log 2, where a number is rescaled
    assert alone.max() > 209
    for line, wanted in zip(lines, alone, strict=True):
        assert signature_kernel_diag([line[:30], line], log=True)[0] == wanted


@each_setting
@few
@given(seeds)
def test_a_pair_in_a_gram_matrix_is_as_it_is_alone(settings: dict[str, Any], seed: int):
    xs, ys = ragged(seed, 11), ragged(seed + 1, 6, longest=18)
    alone = torch.cat([torch.cat([signature_kernel(x[None], y[None], **settings) for y in ys], 1) for x in xs])
    assert torch.equal(signature_kernel(xs, ys, **settings), alone)
    (x, x_lengths), (y, y_lengths) = padded(xs, float("nan")), padded(ys, 1e300)
    assert torch.equal(signature_kernel(x, y, lengths=x_lengths, y_lengths=y_lengths, **settings), alone)
    symmetric = signature_kernel(xs, **settings)
    assert torch.equal(signature_kernel(x, lengths=x_lengths, **settings), symmetric)
    pairs = torch.stack([signature_kernel([xs[i], xs[i + 1]], **settings) for i in range(0, 10, 2)])
    assert torch.allclose(torch.stack([symmetric[i : i + 2, i : i + 2] for i in range(0, 10, 2)]), pairs, rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("static", [{}, {"static": "rbf", "bandwidth": 1.5, "amplitude": 0.7}, {"amplitude": 0.5}])
def test_prepared_series_have_the_same_kernels_call_after_call(static: dict[str, Any], dtype: torch.dtype):
    xs, ys = ([item.to(dtype) for item in ragged(seed, n)] for seed, n in ((3, 21), (4, 5)))
    prepared = PreparedSeries(xs, tol=1e-5, **static)
    assert torch.equal(prepared(ys), signature_kernel(xs, ys, tol=1e-5, **static))
    copied = pickle.loads(pickle.dumps(prepared))
    for y in ys:
        expected = signature_kernel(xs, y[None], tol=1e-5, **static)
        assert torch.equal(prepared(y[None]), expected) and torch.equal(copied(y[None]), expected)
    with pytest.raises(ValueError, match="y is not finite"):
        prepared(torch.full((1, 4, 3), torch.nan, dtype=dtype))


def test_gradients_in_a_batch_are_as_alone():
    series = [item.requires_grad_() for item in ragged(5, 21)]
    theta = torch.tensor([0.5, 1.0, 2.0]).double()
    together = torch.autograd.grad(signature_kernel_diag(series).sum(), series)
    _, slopes = signature_kernel_diag_scales(series, theta)
    for item, got, slope in zip(series, together, slopes, strict=True):
        (alone,) = torch.autograd.grad(signature_kernel_diag(item[None]).sum(), item)
        assert torch.equal(got, alone)
        assert torch.equal(slope, signature_kernel_diag_scales(item[None], theta)[1][0])


def everything(n_jobs: int | None) -> list[Tensor]:
    """Values and gradients of every operation, on batches large enough to be shared out."""
    x = make("brownian", 0, 400, 60, 3, 2.0).requires_grad_()
    y = make("smooth", 1, 70, 40, 3, 2.0).requires_grad_()
    diag, gram = signature_kernel_diag(x, n_jobs=n_jobs), signature_kernel(x[:90], y, n_jobs=n_jobs)
    symmetric = signature_kernel(y, n_jobs=n_jobs)
    scales = signature_kernel_diag_scales(x, torch.ones(3).double(), n_jobs=n_jobs)
    lifted = [
        signature_kernel(y, x[:90], static="matern32", n_jobs=n_jobs),
        signature_kernel(y, x[:90], static="rbf", normalize=True, n_jobs=n_jobs),
    ]
    words = [f(z, 4, n_jobs=n_jobs) for f in (signature, logsignature) for z in (x, x.float())]
    view = WindowView(3, ((0, 1, 2),), 9, 3)
    thresholds = torch.zeros(5, view.columns)
    pooled = pool_windows(x, view, path_scales=torch.ones(1), thresholds=thresholds, n_jobs=n_jobs)
    values = (diag, gram, symmetric, *words)
    gradients = [torch.autograd.grad(value.square().sum(), (x, y), allow_unused=True) for value in values]
    slopes = [part for pair in gradients for part in pair if part is not None]
    return [*values, *scales, *lifted, *pooled, *slopes]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_threads_change_no_bit_and_python_threads_do_not_disturb_each_other():
    one = everything(1)
    for n_jobs in (2, 3, 5, -1, None):
        assert same(everything(n_jobs), one)
    with ThreadPoolExecutor(4) as pool:
        assert all(same(result, one) for result in pool.map(everything, [1, 2, None, 2]))


def test_threads_are_those_of_torch_unless_stated(monkeypatch: pytest.MonkeyPatch):
    thread_counts: list[int] = []
    counting = SimpleNamespace(diagonal_f64=lambda *given: thread_counts.append(given[12]))
    monkeypatch.setattr(native_calls, "core", counting)
    x, before = make("smooth", 0, 2, 5, 1), torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            signature_kernel_diag(x)
        signature_kernel_diag(x, n_jobs=5)
    finally:
        torch.set_num_threads(before)
    assert thread_counts == [1, 2, 5]


def test_it_works_after_a_fork():
    x = make("brownian", 0, 400, 60, 3, 2.0)

    def values() -> list[list[float]]:
        return [part.tolist() for part in (signature_kernel_diag(x, n_jobs=2), signature(x, 4, n_jobs=2))]

    wanted = values()  # threads have been used before the fork
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def child() -> None:
        queue.put(values())

    process = context.Process(target=child)
    process.start()
    try:
        assert queue.get(timeout=300) == wanted
    finally:
        process.join(timeout=300)
        process.kill()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_empty_batches(dtype: torch.dtype):
    none, some = torch.zeros(0, 5, 2, dtype=dtype, requires_grad=True), make("smooth", 0, 3, 4, 2).to(dtype)
    for value, shape in (
        (signature_kernel_diag(none), (0,)),
        (signature_kernel_diag(none, log=True), (0,)),
        (signature_kernel_diag(none, gradient="variation"), (0,)),
        (signature_kernel(none), (0, 0)),
        (signature_kernel(none, some), (0, 3)),
        (signature_kernel(some, none), (3, 0)),
        (signature_kernel(none, some, gradient="variation"), (0, 3)),
    ):
        assert value.shape == shape and value.dtype == dtype
        assert torch.autograd.grad(value.sum(), none)[0].shape == none.shape
    for of_slopes, (value, slope) in (
        ((0, 2), signature_kernel_diag_scales(none, torch.ones(2))),
        (none.shape, signature_kernel_diag_gradient(none)),
    ):
        assert (value.shape, slope.shape) == ((0,), of_slopes)


def test_large_batches_go_through_in_chunks_unchanged():
    """Above 4096 series: values, gradients, lengths and the series named by an error are those of small batches."""
    x = 0.3 * torch.randn(4500, 6, 2, dtype=torch.float64, generator=generator(3)).cumsum(1)
    counts = torch.randint(1, 7, (4500,), generator=generator(4))
    leaf, part = x.clone().requires_grad_(), x[4000:4100].clone().requires_grad_()
    whole = signature_kernel_diag(leaf, lengths=counts, n_jobs=2)
    some = signature_kernel_diag(part, lengths=counts[4000:4100])
    assert torch.equal(whole[4000:4100], some)
    whole.sum().backward()
    some.sum().backward()
    assert leaf.grad is not None and part.grad is not None
    assert torch.equal(leaf.grad[4000:4100], part.grad)
    x[4321, 3, 1] = torch.nan
    assert_refused(r"series 4321, at time index 3, channel 1", signature_kernel_diag, x)
    x[4321, 3, 1] = 1e3
    assert_refused(r"series 4321 of x", signature_kernel_diag, x, error=OverflowError)


CODE = """
import json, torch, siggpde
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
x = torch.randn({shape}, generator=torch.Generator().manual_seed(0)).double()
x = (x * {size} / (x.shape[1] * x.shape[2]) ** 0.5).cumsum(1)
def run(x):
    x = x.clone().requires_grad_()
    {operation}.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad != 0).any()
run(x[:1, :4])
before = peak()
run(x)
print(json.dumps(peak() - before))
"""
MB, GIB = 1e6, 2.0**30
DIAGONAL, GRAM = "siggpde.signature_kernel_diag(x)", "siggpde.signature_kernel(x)"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("shape", "operation", "max_bytes"),
    [
        ((16, 1000, 5), DIAGONAL, 50 * MB),
        ((1, 10_000, 3), DIAGONAL, GIB),
        ((1, 4000, 3), GRAM, GIB),
        ((60, 200, 5), GRAM, 50 * MB),
    ],
)
def test_the_peak_stays_low(shape: tuple[int, ...], operation: str, max_bytes: float):
    assert numbers_from(CODE.format(shape=shape, size=1.5, operation=operation)) < max_bytes
