"""The kernels of the signature kernel against the reference, in Triton's interpreter: run by test_triton_interpreted.

Grids are tiny, because the interpreter takes a millisecond for what a GPU does in a nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import make
from helpers.triton_cases import (
    EPS,
    dtypes,
    launches_without_memory,
    leaf,
    small_bands,
    weighted,
    weights,
    with_gradients,
    worst,
)
from siggpde import (
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
)
from siggpde.numerics import native as native_operations
from siggpde.numerics import reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.goursat import Scheme, solve_goursat
from siggpde.numerics.static_kernels import KernelSettings
from siggpde.numerics.triton import operations as fast
from siggpde.numerics.triton import solve
from siggpde.numerics.triton.plan import SCHEME_DEGREE

FD: dict[str, Any] = {"solver": "fd"}
# A tolerance that degree 2 or 3 meets, and what it leaves of the gradients' digits.
ROUGH: dict[str, Any] = {"tol": 1e-5}
LENGTHS = [4, 1, 3]


def exactly(settings: dict[str, Any]) -> KernelSettings:
    return KernelSettings(None, settings.get("refine", 0) if settings.get("solver") == "fd" else -1)


@dtypes
@pytest.mark.parametrize(
    ("settings", "log"),
    [
        pytest.param(FD, False, id="fd"),
        pytest.param(FD, True, id="log fd", marks=pytest.mark.slow),
        pytest.param({"solver": "fd", "refine": 1}, False, id="refined", marks=pytest.mark.slow),
        pytest.param(ROUGH, False, id="series", marks=pytest.mark.slow),
        pytest.param(ROUGH, True, id="log series"),
    ],
)
def test_the_diagonal_and_its_gradient(dtype: torch.dtype, settings: dict[str, Any], log: bool):
    x = leaf(make("smooth", 0, 3, 4, 2, 1.0), dtype)
    got = with_gradients(signature_kernel_diag(x, lengths=LENGTHS, log=log, **settings), x)
    a = leaf(x)
    wanted = with_gradients(reference.diagonal(a, torch.tensor(LENGTHS), exactly(settings), log, True), a)
    assert got[0].dtype == got[1].dtype == dtype
    value, slope = signature_kernel_diag_gradient(x, lengths=LENGTHS, log=log, **settings)
    assert torch.equal(value, got[0])
    assert worst((slope * weights(value)[:, None, None],), got[1:]) < EPS[dtype]
    assert not got[1][2, 3].any()  # after the end of a series there is nothing to learn
    assert worst(got, wanted) < (EPS[dtype] if "solver" in settings else 1e-4)


@dtypes
def test_value_and_scale_gradient_come_from_one_pass(dtype: torch.dtype):
    x, theta = make("brownian", 1, 3, 4, 3).to(dtype), torch.tensor([0.5, 1.0, 2.0], dtype=dtype)
    got = signature_kernel_diag_scales(x, theta, lengths=LENGTHS, **FD)
    log_theta = theta.double().log().expand(3, -1).clone().requires_grad_()
    value = reference.diagonal(x.double() * log_theta.exp()[:, None], torch.tensor(LENGTHS), exactly(FD), False, True)
    (slope,) = torch.autograd.grad(value.sum(), log_theta)
    assert worst(got, (value.detach(), slope)) < EPS[dtype]


@dtypes
@pytest.mark.parametrize("settings", [FD, pytest.param(ROUGH, marks=pytest.mark.slow)], ids=["fd", "series"])
def test_gram_matrices_and_their_gradients(dtype: torch.dtype, settings: dict[str, Any]):
    x, y = leaf(make("smooth", 2, 2, 3, 2, 1.0), dtype), leaf(make("brownian", 3, 3, 4, 2, 1.0), dtype)
    lengths: dict[str, Any] = {"lengths": [3, 2], "y_lengths": LENGTHS}
    got = with_gradients(signature_kernel(x, y, **lengths, **settings), x, y)
    a, b = leaf(x), leaf(y)
    value = reference.gram(Pairs(a, torch.tensor([3, 2]), b, torch.tensor(LENGTHS), settings=exactly(settings)), True)
    assert worst(got, with_gradients(value, a, b)) < (EPS[dtype] if settings is FD else 1e-4)
    both = torch.tensor(LENGTHS)
    got = with_gradients(signature_kernel(y, lengths=both, **settings), y)
    assert torch.equal(got[0], got[0].T)
    assert worst(got, with_gradients(reference.gram(Pairs(b, both, b, both, settings=exactly(settings)), True), b)) < (
        EPS[dtype] if settings is FD else 1e-4
    )


def one_grid(scheme: int, dtype: torch.dtype) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Value and gradients of a grid of two rows and three columns, by the kernels and by the reference."""
    dx, dy = make("brownian", 4, 1, 2, 2).to(dtype), make("brownian", 5, 1, 3, 2).to(dtype)
    x, y = (solve.Steps(v.transpose(1, 2).contiguous(), torch.tensor([v.shape[1]])) for v in (dx, dy))
    value, of_x, of_y = solve.Grids(x, y, scheme, False).differentiate(torch.full((1,), 0.5, dtype=dtype), True)
    a, b = leaf(dx), leaf(dy)
    degree = SCHEME_DEGREE[scheme]
    exact = solve_goursat(a @ b.transpose(1, 2), Scheme(degree, 2 if scheme == 0 else 2 * degree + 4, 0))
    assert of_y is not None
    return (value, of_x.transpose(1, 2), of_y.transpose(1, 2)), with_gradients(exact, a, b)


def small_tail(scheme: int) -> float:
    """What the powers left out of the polynomials may change beside the error of the degree itself."""
    return 1e-14 if scheme == 0 else 10.0 ** (-2 * SCHEME_DEGREE[scheme])


@dtypes
@pytest.mark.parametrize(
    "scheme", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, len(SCHEME_DEGREE)))]
)
def test_every_degree_has_its_cell_and_adjoint(dtype: torch.dtype, scheme: int):
    assert worst(*one_grid(scheme, dtype)) < max(EPS[dtype], small_tail(scheme))


@pytest.mark.parametrize("log", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_grids_of_several_bands_and_segments(monkeypatch: pytest.MonkeyPatch, log: bool):
    small_bands(monkeypatch, solve)
    x = leaf(make("brownian", 6, 2, 7, 2))
    got = with_gradients(signature_kernel_diag(x, lengths=[7, 5], log=log, **FD), x)
    a = leaf(x)
    assert worst(got, with_gradients(reference.diagonal(a, torch.tensor([7, 5]), exactly(FD), log, True), a)) < 1e-13


@pytest.mark.slow
def test_no_length_is_too_long():
    x = leaf(make("smooth", 7, 1, 150, 1, 3.0))
    got = with_gradients(signature_kernel_diag(x, **FD), x)
    a = leaf(x)
    assert worst(got, with_gradients(reference.diagonal(a, None, exactly(FD), False, True), a)) < 1e-12


def test_chunks_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    x = leaf(make("smooth", 8, 2, 3, 2))

    def everything() -> list[Tensor]:
        diagonal = with_gradients(signature_kernel_diag(x, lengths=[3, 2], **FD), x)
        return [*diagonal, signature_kernel(x.detach(), x.detach()[:1], **FD)]

    whole = everything()
    launches = launches_without_memory(monkeypatch, solve)
    chunked = everything()
    assert launches.count("sweep") == 4  # one series, one pair at a time
    for a, b in zip(whole, chunked, strict=True):
        assert torch.equal(a, b)


def test_no_value_depends_on_the_batch():
    x = make("smooth", 10, 2, 4, 2) * torch.tensor([0.1, 2.0]).double()[:, None, None]
    alone = torch.cat([signature_kernel_diag(x[i : i + 1], tol=1e-3) for i in range(2)])
    assert torch.equal(signature_kernel_diag(x, tol=1e-3), alone)


OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "diagonal": lambda x: signature_kernel_diag(x[:1, :2], tol=0.1),
    "gradient": lambda x: weighted(signature_kernel_diag(x, solver="fd", refine=1), x),
    "gram": lambda x: weighted(signature_kernel(x, solver="fd"), x),
    "scales": lambda x: fast.diagonal_with_scale_gradient(
        x.detach(), None, x.detach()[0, 1], KernelSettings(None, 0, 0.1), False
    )[1],
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_nothing_is_made_on_the_default_device(operation: Callable[[Tensor], Tensor]):
    """Here that device is one without numbers: a tensor that does not say where it belongs would break the rest."""
    x = leaf(make("drift", 11, 2, 3, 2, 4.0))  # long segments, which are split
    wanted = operation(x)
    with torch.device("meta"):
        got = operation(x)
    assert torch.equal(got, wanted)


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.integers(0, 999), st.sampled_from(["spiky", "heavy-tailed", "out-and-back"]), st.integers(1, 4))
def test_the_tolerance_holds(seed: int, family: str, channels: int):
    x = make(family, seed, 2, 4, channels, 1.0)
    exact = reference.diagonal(x, None, KernelSettings(), False, True)
    assert ((signature_kernel_diag(x, tol=1e-2) - exact).abs() <= 1e-2 * exact).all()


def test_plans_are_those_of_the_native_core():
    """At a loose tolerance another plan would make another number, far beyond rounding."""
    x = make("heavy-tailed", 12, 2, 4, 2, 2.0)
    native = native_operations.diagonal(x, None, KernelSettings(None, -1, 1e-2), False, False)
    torch.testing.assert_close(signature_kernel_diag(x, tol=1e-2), native, rtol=1e-12, atol=0)
