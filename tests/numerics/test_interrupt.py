"""Ctrl-C during a call of the core, bounded work for wild series, and tensors that other threads change."""

import _thread
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import siggpde
from helpers.refusals import assert_refused
from siggpde.numerics.core import core
from siggpde.numerics.inputs import as_batch
from siggpde.numerics.signature_kernel import signature_kernel, signature_kernel_diag, signature_kernel_diag_gradient

pytestmark = pytest.mark.skipif(core is None, reason="of the native core")


def walks(n: int, length: int, channels: int, size: float) -> Tensor:
    """Random walks (n, length, channels) of about this size."""
    steps = torch.randn(n, length, channels, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return size / length**0.5 * steps.cumsum(1)


LONG, MANY = walks(8, 200_000, 2, 1.0), walks(20_000, 100, 2, 1.0)  # hours of work


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "call",
    [
        lambda threads: signature_kernel_diag(LONG, n_jobs=threads),
        lambda threads: signature_kernel_diag_gradient(LONG, n_jobs=threads),
        lambda threads: signature_kernel(LONG, n_jobs=threads),
        lambda threads: signature_kernel(MANY, n_jobs=threads),
        lambda threads: siggpde.signature(LONG.expand(8, -1, -1).repeat(1, 1, 3), depth=7, n_jobs=threads),
    ],
)
def test_an_interrupt_ends_a_call_and_the_next_one_is_as_before(call: Callable[[int], Tensor], threads: int):
    before = signature_kernel(MANY[:20], n_jobs=threads)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call(threads)
    timer.join()
    assert torch.equal(signature_kernel(MANY[:20], n_jobs=threads), before)


@pytest.mark.parametrize("points", [2, 100])
def test_work_on_wild_series_is_bounded_and_they_are_named(points: int):
    x = walks(3, points, 2, 1.0)
    x[1] *= 9e3 / x[1].diff(dim=0).norm(dim=1).max()
    said = "series 1 of x would take too much work"
    assert_refused(said, signature_kernel_diag, x, log=True, error=OverflowError)
    assert_refused(said, signature_kernel, x, normalize=True, error=OverflowError)
    assert_refused("series 1 of y would", signature_kernel, x[:1], x, normalize=True, error=OverflowError)
    many = walks(1, 20_000, 1, 1e-2)  # however many points a series has itself
    assert torch.isfinite(signature_kernel_diag(many, log=True, tol=1e-2)).all()


def test_series_that_lose_their_digits_in_float32_are_solved_in_float64():
    single = walks(300, 60, 1, 4.0).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few of them lose digits in float64 too
        wanted, slope = signature_kernel_diag_gradient(single.double())
    got, of_points = signature_kernel_diag_gradient(single)
    assert (got > 0).all()
    torch.testing.assert_close(got.double(), wanted, rtol=2e-2, atol=0)
    hard = (got.double() / wanted - 1).abs() < 1e-6  # those in float64, at least
    assert hard.any() and torch.equal(signature_kernel_diag(single)[hard], got[hard])
    size = float(slope[hard].abs().max())
    torch.testing.assert_close(of_points[hard].double(), slope[hard], rtol=1e-2, atol=1e-2 * size)


def test_tensors_that_another_thread_changes_are_copied():
    x = walks(64, 400, 2, 1.0)
    wanted, stop, given = signature_kernel_diag(x), threading.Event(), x.clone()
    counts = torch.full((64,), 400)
    own = as_batch(given, counts)
    assert own[0] is given and own[1] is not counts  # without other threads there is no copy of the series
    threading.Thread(target=stop.wait).start()
    try:
        copied, lengths = as_batch(given, counts)
        assert copied.data_ptr() != given.data_ptr() and lengths is not None
        counts.fill_(10**9)
        assert_refused("resizable", given.untyped_storage().resize_, 0, error=RuntimeError)
        given.fill_(np.nan)
        assert torch.equal(signature_kernel_diag(copied, lengths=lengths), wanted)
    finally:
        stop.set()
