"""Very large and very small paths: the right number, or an error that names the series and the fix."""

import warnings

import pytest
import torch
from torch import Tensor

from helpers.random_paths import make
from helpers.refusals import assert_refused
from siggpde import signature_kernel, signature_kernel_diag, signature_kernel_diag_scales
from siggpde.numerics import reference
from siggpde.numerics.static_kernels import KernelSettings

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def with_one_large(dtype: torch.dtype, size: float, series: int = 2) -> Tensor:
    x = make("smooth", 0, 4, 9, 2).to(dtype)
    x[series] *= size
    return x


def growing(dtype: torch.dtype) -> float:
    """Makes k of a path of length 1 overflow, though no segment is absurd."""
    return 700.0 if dtype == torch.float64 else 70.0


def fixes(dtype: torch.dtype) -> str:
    return "rescale the series" + ("" if dtype == torch.float64 else " or use float64")


@DTYPES
@pytest.mark.parametrize("solver", ["series", "fd"])
@pytest.mark.parametrize("size", [None, 1e6, 1e18])
def test_overflow_of_the_diagonal(dtype: torch.dtype, solver: str, size: float | None):
    if size is None:
        size = growing(dtype) if solver == "series" else 1e5
    x = with_one_large(dtype, size)
    x.requires_grad_()
    message = rf"kernel of series 2 of x is too large for {dtype}; {fixes(dtype)} or take signature_kernel_diag\("
    # Segments that are long and not absurd are cut into many pieces by the slow rule.
    settings = {"solver": solver, "error": OverflowError}
    for rule in ("adjoint", "variation") if size != 700 and solver == "series" else ("adjoint",):
        assert_refused(message, signature_kernel_diag, x, gradient=rule, **settings)
    assert_refused(message, signature_kernel_diag, x.detach(), **settings)
    assert_refused(message, signature_kernel_diag_scales, x, torch.ones(2), **settings)


@DTYPES
@pytest.mark.parametrize("size", [None, 1e6, 1e18])
def test_overflow_of_gram_matrices(dtype: torch.dtype, size: float | None):
    x, y = with_one_large(dtype, growing(dtype) if size is None else size), make("smooth", 1, 3, 5, 2).to(dtype)
    for name, pair in (("x", (x,)), *((("x", (x, y)), ("y", (y, x))) if size else ())):
        message = rf"series 2 of {name} .*too large for {dtype}; {fixes(dtype)}"
        assert_refused(message, signature_kernel, *pair, error=OverflowError)
    x[0] = x[2]
    assert_refused(r"series 0 of x( and series 0 of x)? is too large", signature_kernel, x, error=OverflowError)


def test_overflow_of_a_pair_names_both():
    x = torch.zeros(3, 2, 1).double()
    y = torch.zeros(2, 2, 1).double()
    x[1, 1], y[1, 1] = 300.0, 500.0
    message = "kernel of series 1 of x and series 1 of y is too large"
    assert_refused(message, signature_kernel, x, y, error=OverflowError)


def test_differences_beyond_the_type():
    x = torch.tensor([[[0.0], [1.0]], [[-1.5e308], [1.5e308]]], dtype=torch.float64)
    assert_refused("series 1 of x", signature_kernel, x, error=OverflowError)
    for log in (False, True):
        assert_refused("series 1 of x", signature_kernel_diag, x, log=log, error=OverflowError)


@DTYPES
def test_logarithms_of_large_paths(dtype: torch.dtype):
    x = with_one_large(dtype, 1000.0)
    got = signature_kernel_diag(x, log=True)
    assert torch.isfinite(got).all()
    assert got[2] > 709  # past what a float64 holds
    assert torch.allclose(got[[0, 1, 3]], signature_kernel_diag(x[[0, 1, 3]].double()).log().to(dtype), rtol=1e-5)
    for size in (1e8, 1e30):
        message, x = "series 2 of x is beyond even its logarithm; rescale the series", with_one_large(dtype, size)
        assert_refused(message, signature_kernel_diag, x, log=True, error=OverflowError)


def test_the_reference_has_logarithms_too():
    """Finite differences of a straight line in long steps: k is about e^518, which plain torch rescales on the way."""
    x = 9000.0 * torch.arange(9.0).double()[None, :, None]
    wanted = signature_kernel_diag(x, solver="fd", log=True)
    got = reference.diagonal(x, None, KernelSettings(None, 0), True, True)
    torch.testing.assert_close(got, wanted, rtol=1e-13, atol=0)


def test_float64_holds_what_float32_does_not():
    x = with_one_large(torch.float32, growing(torch.float32))
    assert_refused("use float64", signature_kernel_diag, x, error=OverflowError)
    got = signature_kernel_diag(x.double())
    assert got[2] > torch.finfo(torch.float32).max
    assert torch.allclose(signature_kernel_diag(x, log=True).double(), got.log(), rtol=1e-6)


@DTYPES
@pytest.mark.parametrize("size", [1e-5, 1e-30, 1e-200, 1e-300])
def test_tiny_paths(dtype: torch.dtype, size: float):
    x = (make("brownian", 2, 3, 8, 2).to(dtype) * size).requires_grad_()
    y = make("smooth", 3, 2, 4, 2).to(dtype)
    for value in (signature_kernel_diag(x), signature_kernel(x), signature_kernel(x, y)):
        assert (value - 1).abs().max() < 1e-4
        (got,) = torch.autograd.grad(value.sum(), x)
        assert torch.isfinite(got).all()
    (got,) = torch.autograd.grad(signature_kernel_diag(x, log=True).sum(), x)
    # k = 1 + |X_T - X_0|^2 + ..: all but the ends cancel.
    wanted = torch.zeros_like(x)
    wanted[:, -1] = 2 * (x[:, -1] - x[:, 0])
    wanted[:, 0] = -wanted[:, -1]
    assert (got - wanted).abs().max() <= 1e-3 * wanted.abs().max()


def test_small_and_large_in_one_batch():
    x = make("smooth", 4, 4, 9, 2) * torch.tensor([1e-200, 1.0, 1e-3, 20.0]).double()[:, None, None]
    alone = torch.cat([signature_kernel_diag(x[i : i + 1]) for i in range(4)])
    assert torch.equal(signature_kernel_diag(x), alone)


def out_and_back(length: float) -> torch.Tensor:
    """One channel, out to `length` and home the same way: k(X, X) is 1, and far larger on the way."""
    out = torch.linspace(0, length, 21, dtype=torch.float64)
    return torch.cat([out, out.flip(0)[1:]]).reshape(1, -1, 1)


@pytest.mark.parametrize("kernel", [signature_kernel_diag, signature_kernel])
def test_digits_lost_to_rounding_are_not_passed_over_in_silence(kernel):
    torch.testing.assert_close(kernel(out_and_back(3.0)).reshape(1), torch.ones(1, dtype=torch.float64))
    with pytest.warns(UserWarning, match=r"series 0 of x has lost most of its digits.*add a time channel"):
        kernel(out_and_back(9.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Gram matrices may see it less sharply, but they see it
        with pytest.raises((ArithmeticError, UserWarning), match=r"series 0 of x has lost (all|most) of its digits"):
            kernel(out_and_back(25.0))


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_jumps_there_and_back_keep_the_tolerance_or_are_reported(tol):
    """Long segments in one channel: a rough first pass sees too little of the fall, which once broke the tolerance."""
    generator = torch.Generator().manual_seed(1)
    steps = torch.randn(300, 8, 1, dtype=torch.float64, generator=generator) * 5**0.5
    kept = 0
    for series in torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                value, exact = (signature_kernel_diag(series[None], tol=t) for t in (tol, 1e-14))
            except (ArithmeticError, UserWarning):
                continue
        kept += 1
        assert abs(value - exact) <= tol * exact
    assert kept > 200
