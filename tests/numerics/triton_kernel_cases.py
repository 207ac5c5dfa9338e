"""The kernels of the signature kernel, of plain and of lifted paths, against the reference in Triton's interpreter.

Run by test_triton. Grids are tiny, because the interpreter takes a millisecond for what a GPU does in a nanosecond.
"""

# pyright: reportMissingImports=false

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
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
    with_gradients,
    worst,
)
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import native, reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.goursat import Scheme, solve_goursat
from siggpde.numerics.signature_kernel import signature_kernel_diag_gradient, signature_kernel_diag_scales
from siggpde.numerics.static_kernels import KernelSettings, StaticKernel
from siggpde.numerics.triton import cell, grid, operations, solve
from siggpde.numerics.triton.plan import SCHEME_DEGREE

slow = pytest.mark.slow
statics = pytest.mark.parametrize("static", ["linear", "rbf"])
RAGGED, OTHERS = torch.tensor([4, 1, 3]), torch.tensor([3, 2])
# Finite differences once refined, where every segment is two pieces; polynomial edges to a tolerance, of which degree
# 2 or 3 meets the rough one.
FD, REFINED, SERIES, ROUGH = (0, 1e-8), (1, 1e-8), (-1, 1e-6), (-1, 1e-5)


def lifted_by(static: str, amplitude: float = 1.0, bandwidth: float = 0.7) -> tuple[StaticKernel | None, list[Tensor]]:
    """The static kernel and its parameters, which require a gradient."""
    if static == "linear":
        return None, []
    width, height = leaf(bandwidth), leaf(amplitude)
    return StaticKernel("rbf", width, height, 1.0), [width, height]


def agree(compute: Callable[[Any, torch.dtype], tuple[Tensor, ...]], dtype: torch.dtype, solver: tuple[int, float]):
    """What Triton computes in a dtype is what the reference computes in float64, parameters and their gradients too."""
    got = compute(operations, dtype)
    assert got[0].dtype == got[1].dtype == dtype
    # The reference is exact; gradients have fewer digits than the tolerance asks for values.
    assert worst(got, compute(reference, torch.float64)) < (EPS[dtype] if solver[0] >= 0 else 1e-4)


@dtypes
@pytest.mark.parametrize(
    ("static", "solver", "amplitude", "log"),
    [
        pytest.param("linear", FD, 1.0, False, id="fd"),
        pytest.param("linear", FD, 1.0, True, id="log fd", marks=slow),
        pytest.param("linear", REFINED, 1.0, False, id="refined", marks=slow),
        pytest.param("linear", ROUGH, 1.0, False, id="series", marks=slow),
        pytest.param("linear", ROUGH, 1.0, True, id="log series"),
        pytest.param("rbf", FD, 1.0, False, id="rbf fd"),
        pytest.param("rbf", REFINED, 3.0, True, id="rbf log refined"),
        pytest.param("rbf", SERIES, 1.0, False, id="rbf series", marks=slow),
        pytest.param("rbf", SERIES, 3.0, False, id="rbf split series", marks=slow),
        pytest.param("rbf", SERIES, 3.0, True, id="rbf log split series", marks=slow),
    ],
)
def test_the_diagonal_and_its_gradients(
    dtype: torch.dtype, static: str, solver: tuple[int, float], amplitude: float, log: bool
):
    points = make("smooth", 0, 3, 4, 2, 1.0)

    def compute(ops: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
        x, (lift, parameters) = leaf(points, dtype), lifted_by(static, amplitude)
        value = ops.diagonal(x.double() if log else x, RAGGED, KernelSettings(lift, *solver), log, True).to(dtype)
        results = with_gradients(value, x, *parameters)
        assert not results[1][2, 3].any()  # after the end of a series there is nothing to learn
        return results

    agree(compute, dtype, solver)


@dtypes
@pytest.mark.parametrize(
    ("static", "solver", "amplitude"),
    [
        pytest.param("linear", FD, 1.0, id="fd"),
        pytest.param("linear", ROUGH, 1.0, id="series", marks=slow),
        pytest.param("rbf", FD, 1.0, id="rbf fd"),
        pytest.param("rbf", REFINED, 3.0, id="rbf refined", marks=slow),
        pytest.param("rbf", SERIES, 3.0, id="rbf split series", marks=slow),
    ],
)
@pytest.mark.parametrize("symmetric", [False, True], ids=["pairs", "symmetric"])
def test_gram_matrices_and_their_gradients(
    dtype: torch.dtype, static: str, solver: tuple[int, float], amplitude: float, symmetric: bool
):
    points, others = make("smooth", 21, 3, 4, 2, 1.0), make("brownian", 22, 2, 3, 2, 1.0)

    def compute(ops: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
        x, (lift, parameters) = leaf(points, dtype), lifted_by(static, amplitude)
        y, lengths = (None, None) if symmetric else (leaf(others, dtype), OTHERS)
        value = ops.gram(Pairs(x, RAGGED, y, lengths, settings=KernelSettings(lift, *solver)), True)
        assert not symmetric or ops is reference or torch.equal(value, value.T)
        return with_gradients(value, x, *parameters, *([] if y is None else [y]))

    agree(compute, dtype, solver)


@dtypes
@statics
@pytest.mark.parametrize("log", [False, pytest.param(True, marks=slow)])
def test_scale_gradients(dtype: torch.dtype, static: str, log: bool):
    """Far from the origin, where the gradients of the points cancel: only differences of points matter."""
    points, theta = 5 + make("brownian", 3, 3, 4, 3), torch.tensor([0.5, 1.0, 2.0])

    def compute(ops: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
        settings = KernelSettings(lifted_by(static, 1.5)[0], 0)
        x, scales = (v.to(torch.float64 if log else dtype) for v in (points, theta))
        value, slope = ops.diagonal_with_scale_gradient(x, RAGGED, scales, settings, log)
        return value.to(dtype), slope.to(dtype)

    agree(compute, dtype, FD)
    assert not compute(operations, dtype)[1].requires_grad


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


@dtypes
@pytest.mark.parametrize("scheme", [1, *(pytest.param(s, marks=slow) for s in range(2, len(SCHEME_DEGREE)))])
def test_every_degree_has_its_cell_and_adjoint(dtype: torch.dtype, scheme: int):
    # What the powers left out of the polynomials may change beside the error of the degree itself.
    small_tail = 10.0 ** (-2 * SCHEME_DEGREE[scheme])
    assert worst(*one_grid(scheme, dtype)) < max(EPS[dtype], small_tail)


@pytest.mark.parametrize("log", [False, pytest.param(True, marks=slow)])
@pytest.mark.parametrize(
    ("static", "pairs"), [("linear", False), ("rbf", False), pytest.param("rbf", True, marks=slow)]
)
def test_grids_of_several_bands_and_segments(monkeypatch: pytest.MonkeyPatch, log: bool, static: str, pairs: bool):
    small_bands(monkeypatch, solve)
    monkeypatch.setattr(solve, "_OWN", 4)
    monkeypatch.setattr(solve, "_OTHER", 4)
    points, lengths = make("brownian", 8, 2, 7, 1), torch.tensor([7, 5])

    def compute(ops: Any, _dtype: torch.dtype) -> tuple[Tensor, ...]:
        x, (lift, parameters) = leaf(points), lifted_by(static)
        settings, norm = KernelSettings(lift, *FD), torch.full((2,), 0.5).double()
        if not pairs:
            value = ops.diagonal(x, lengths, settings, log, True)
        elif log:
            value = ops.gram(Pairs(x, lengths, x, lengths, (norm, norm), settings), True)
        else:
            value = ops.gram(Pairs(x, lengths, settings=settings), True)
        return with_gradients(value, x, *parameters)

    agree(compute, torch.float64, FD)


@slow
def test_no_length_is_too_long():
    points = make("smooth", 7, 1, 150, 1, 3.0)

    def compute(ops: Any) -> tuple[Tensor, ...]:
        x = leaf(points)
        return with_gradients(ops.diagonal(x, None, KernelSettings(None, *FD), False, True), x)

    assert worst(compute(operations), compute(reference)) < 1e-12


def test_chunks_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    x = leaf(make("smooth", 8, 2, 3, 2))

    def everything() -> list[Tensor]:
        diagonal = with_gradients(signature_kernel_diag(x, lengths=[3, 2], solver="fd"), x)
        return [*diagonal, signature_kernel(x.detach(), x.detach()[:1], solver="fd")]

    whole = everything()
    launches = launches_without_memory(monkeypatch, solve)
    chunked = everything()
    assert launches.count("sweep") == 4  # one series, one pair at a time
    for a, b in zip(whole, chunked, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("static", "solver", "symmetric"),
    [
        pytest.param("linear", FD, False, id="linear"),
        pytest.param("rbf", FD, False, id="rbf"),
        pytest.param("rbf", FD, True, id="rbf, symmetric", marks=slow),
        pytest.param("linear", SERIES, True, id="linear, series, symmetric", marks=slow),
        pytest.param("rbf", SERIES, False, id="rbf, split series", marks=slow),
    ],
)
def test_normalised_gram_matrices_and_their_gradients(
    monkeypatch: pytest.MonkeyPatch, static: str, solver: tuple[int, float], symmetric: bool
):
    """Grids are rescaled on the way, here by 4 as soon as numbers are above 4."""
    monkeypatch.setattr(grid, "GROWN", tl.constexpr(2.0))
    points, others = make("smooth", 4, 2, 4, 2, 4.0), make("brownian", 5, 2, 3, 2, 4.0)
    lengths = torch.tensor([4, 3])

    def compute(ops: Any) -> tuple[Tensor, ...]:
        x, y = leaf(points), None if symmetric else leaf(others)
        lift, parameters = lifted_by(static, 3.0)
        norm = ops.diagonal(x, lengths, KernelSettings(lift, *solver), True, True) / 2
        other = norm if y is None else ops.diagonal(y, OTHERS, KernelSettings(lift, *solver), True, True) / 2
        assert float(norm.detach().max()) > 1  # k > e², so that there is something to rescale
        value = ops.gram(Pairs(x, lengths, y, OTHERS, (norm, other), KernelSettings(lift, *solver)), True)
        return with_gradients(value, x, *([] if y is None else [y]), *parameters)

    assert worst(compute(operations), compute(reference)) < (1e-12 if solver is FD else 1e-4)


@slow
def test_normalised_gram_matrices_beyond_range():
    """Finite differences of long steps: numbers beyond 1e308, and those of the gradient with them."""

    def compute(ops: Any) -> tuple[Tensor, ...]:
        x = leaf(9000.0 * torch.arange(15.0).double()[None, :, None])
        y = leaf(8000.0 * torch.arange(14.0).double()[None, :, None])
        of_x, of_y = (ops.diagonal(v, None, KernelSettings(None, *FD), True, True) / 2 for v in (x, y))
        assert min(float(of_x.detach()), float(of_y.detach())) > 355
        pairs = Pairs(x, y=y, norms=(of_x, of_y), settings=KernelSettings(None, *FD))
        return with_gradients(ops.gram(pairs, True), x, y)

    assert worst(compute(operations), compute(reference)) < 1e-12


@statics
def test_public_functions_take_the_kernel(monkeypatch: pytest.MonkeyPatch, static: str):
    """Everything is computed by Triton, twice if asked, and after the end of a series anything may stand."""
    for name in ("diagonal", "gram", "diagonal_with_scale_gradient", "diagonal_with_gradient"):
        monkeypatch.setattr(reference, name, None)
    points = make("smooth", 6, 2, 3, 1, 1.0)
    points[1, 2] = torch.nan
    x = leaf(points)
    lift = {"static": "rbf", "bandwidth": 0.7} if static == "rbf" else {}
    how: dict[str, Any] = {**lift, "amplitude": 1.5, "solver": "fd", "lengths": [3, 2]}
    value = signature_kernel_diag(x, **how)
    once, again = (torch.autograd.grad(value.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, again)
    assert not once[1, 2].any()
    for a, b in zip(signature_kernel_diag_gradient(x, **how), (value, once), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(signature_kernel_diag_scales(x, torch.ones(1).double(), **how)[0], value)
    torch.testing.assert_close(signature_kernel(x, **how).diagonal(), value, rtol=1e-14, atol=0)
    correlation = signature_kernel(x.detach().float(), normalize=True, **how)
    assert correlation.dtype == torch.float32
    torch.testing.assert_close(correlation.diagonal(), torch.ones(2), rtol=0, atol=0)


@statics
def test_plans_are_those_of_the_native_core(static: str):
    """At a loose tolerance another plan than the native core's would make another number, far beyond rounding."""
    x = make("heavy-tailed", 12, 2, 4, 2, 2.0)
    loose = KernelSettings(lifted_by(static, 3.0)[0], -1, 1e-2)
    if loose.static is not None:
        batch = solve.LiftedBatch(x, None, loose.static)
        batch.plan(operations.plan_request(-1, 1e-2, True, False, x.dtype))
        assert (batch.plans.counts > 1).any()
    value = operations.diagonal(x, None, loose, False, False)
    torch.testing.assert_close(value, native.diagonal(x, None, loose, False, False), rtol=1e-11, atol=0)
    assert torch.equal(value[1:], operations.diagonal(x[1:], None, loose, False, False))


@triton.jit
def less_one_of(z, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, cell.less_one(tl.load(z + at)))


@dtypes
def test_near_points_keep_their_digits(dtype: torch.dtype):
    z = torch.cat([torch.zeros(1), torch.logspace(-30, 4, 511)]).to(dtype)
    out = torch.empty_like(z)
    less_one_of[(1,)](z, out, SIZE=512)
    torch.testing.assert_close(out, torch.expm1(-z / 2), rtol=4 * torch.finfo(dtype).eps, atol=0)


RBF: dict[str, Any] = {"static": "rbf", "bandwidth": 0.5, "amplitude": 3.0}
OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "diagonal": lambda x: signature_kernel_diag(x[:1, :2], tol=0.1),
    "gradient": lambda x: weighted(signature_kernel_diag(x, solver="fd", refine=1), x),
    "gram": lambda x: weighted(signature_kernel(x, solver="fd"), x),
    "scales": lambda x: operations.diagonal_with_scale_gradient(
        x.detach(), None, x.detach()[0, 1], KernelSettings(None, 0, 0.1), False
    )[1],
    "lifted diagonal": lambda x: signature_kernel_diag(x[:1, :2], tol=0.5, **RBF),
    "lifted gradient": lambda x: weighted(signature_kernel_diag(x, solver="fd", refine=1, **RBF), x),
    "lifted gram": lambda x: weighted(signature_kernel(x, solver="fd", **RBF), x),
    "normalised": lambda x: signature_kernel(x[:, :2], solver="fd", normalize=True, **RBF),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_nothing_is_made_on_the_default_device(operation: Callable[[Tensor], Tensor]):
    """Here that device is one without numbers: a tensor that does not say where it belongs would break the rest."""
    x = leaf(make("drift", 11, 2, 3, 2, 4.0))  # long segments, which are split
    wanted = operation(x)
    with torch.device("meta"):
        got = operation(x)
    assert torch.equal(got, wanted)


hard = st.sampled_from(["spiky", "heavy-tailed", "out-and-back"])


@statics
@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.integers(0, 999), hard, st.integers(1, 4), st.floats(0.3, 3), st.floats(0.3, 2))
def test_the_tolerance_holds(static: str, seed: int, family: str, channels: int, bandwidth: float, amplitude: float):
    x, lift = make(family, seed, 2, 4, channels, 1.0), lifted_by(static, amplitude, bandwidth)[0]
    exact = reference.diagonal(x, None, KernelSettings(lift), False, False).detach()
    loose = operations.diagonal(x, None, KernelSettings(lift, -1, 1e-2), False, False)
    assert ((loose - exact).abs() <= 1e-2 * exact).all()
