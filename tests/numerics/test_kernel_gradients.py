"""Gradients of the signature kernel: exact, the same by every route, and honest about what they cannot do.

Routes are the adjoint, blocks of rows of long paths that are computed again, and the paper's two algorithms with their
parts. Forward-mode derivatives and the transforms of torch.func are refused where they would be dropped.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.autograd import forward_ad

import siggpde
from helpers.random_paths import batches, few, make, numbers_from
from helpers.refusals import assert_refused
from siggpde import extend, signature, signature_kernel, signature_kernel_diag, words
from siggpde.numerics import gradients, reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.goursat import LEGENDRE, boundary, solve_goursat
from siggpde.numerics.gradients import (
    augmented_gradient,
    augmented_gradients,
    directional_derivatives,
    edges,
    kernel_variation,
    localised_impulses,
    solution,
    time_reversed_solution,
    variation_gradients,
)
from siggpde.numerics.signature_kernel import signature_kernel_diag_gradient, signature_kernel_diag_scales
from siggpde.numerics.static_kernels import KernelSettings

SOLVERS: list[dict[str, Any]] = [{"solver": "series", "tol": 1e-11}, {"solver": "fd"}, {"solver": "fd", "refine": 2}]
EXACT: dict[str, Any] = {"tol": 1e-13}
solvers = pytest.mark.parametrize("settings", SOLVERS, ids=["series", "fd", "fd refined"])
# Size 1: whole segments. Size 9: segments longer than 1, which the series solver splits.
sizes = pytest.mark.parametrize("size", [1.0, 9.0])


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def gradient(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Of a fixed weighting of the values, so that no symmetry hides a mistake."""
    weight = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    return torch.autograd.grad((value * weight).sum(), inputs)


def agree(got: tuple[Tensor, ...], wanted: tuple[Tensor, ...], rtol: float) -> bool:
    """Of paths that come back on themselves the gradient is 0, but for rounding of values of 1 and more."""
    return all((a - b).abs().max() <= rtol * b.abs().max().clamp_min(1e-3) for a, b in zip(got, wanted, strict=True))


@solvers
@sizes
def test_gradcheck(settings: dict[str, Any], size: float):
    x, y = leaf(make("smooth", 1, 3, 5, 2, size)), leaf(make("smooth", 2, 2, 4, 2, size))
    lengths: dict[str, Any] = {"lengths": [5, 2, 1], "y_lengths": [3, 4]}
    for log in (False, True):

        def diagonal(a: Tensor, log: bool = log) -> Tensor:
            return signature_kernel_diag(a, lengths=[5, 3, 1], log=log, **settings)

        assert torch.autograd.gradcheck(diagonal, x)
    assert torch.autograd.gradcheck(lambda a: signature_kernel(a, lengths=[5, 3, 1], **settings), x)
    assert torch.autograd.gradcheck(lambda a, b: signature_kernel(a, b, **lengths, **settings), (x, y))
    assert torch.autograd.gradcheck(lambda b: signature_kernel(x.detach(), b, **settings), y)


@few
@given(batches(n=2, min_length=2, max_length=12, max_channels=8))
def test_the_native_gradient_is_autograd_through_the_reference(x: Tensor):
    y = make("brownian", 3, 2, 6, x.shape[2])
    for settings in SOLVERS:
        plain = KernelSettings(None, -1 if settings["solver"] == "series" else settings.get("refine", 0))
        a, b = leaf(x), leaf(y)
        wanted = gradient(reference.diagonal(a, None, plain, False, True), a)
        assert agree(gradient(signature_kernel_diag(a, **settings), a), wanted, 1e-8)
        wanted = gradient(reference.gram(Pairs(a, y=b, settings=plain), True), a, b)
        assert agree(gradient(signature_kernel(a, b, **settings), a, b), wanted, 1e-8)
        wanted = gradient(reference.gram(Pairs(a, settings=plain), True), a)
        assert agree(gradient(signature_kernel(a, **settings), a), wanted, 1e-8)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
def test_the_rules_of_the_paper_agree_with_the_adjoint(rule: Any):
    x, y = leaf(make("smooth", 4, 2, 7, 2, 2.0)), leaf(make("brownian", 5, 2, 5, 2, 2.0))
    lengths = [7, 5]
    wanted = gradient(signature_kernel_diag(x, lengths=lengths, **EXACT), x)
    assert agree(gradient(signature_kernel_diag(x, lengths=lengths, gradient=rule), x), wanted, 1e-7)
    wanted = gradient(signature_kernel_diag(x, log=True, **EXACT), x)
    assert agree(gradient(signature_kernel_diag(x, log=True, gradient=rule), x), wanted, 1e-7)
    wanted = gradient(signature_kernel(x, y, **EXACT), x, y)
    assert agree(gradient(signature_kernel(x, y, gradient=rule), x, y), wanted, 1e-7)
    wanted = gradient(signature_kernel(x, **EXACT), x)
    assert agree(gradient(signature_kernel(x, gradient=rule), x), wanted, 1e-7)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
def test_the_rules_of_the_paper_are_in_plain_torch_on_every_device(rule: Any, monkeypatch: pytest.MonkeyPatch):
    """No backend is asked, neither the core nor Triton, where there is something to differentiate."""
    x = leaf(make("brownian", 0, 3, 5, 2, 1.0))
    module = "siggpde.numerics.signature_kernel.backend_for"
    monkeypatch.setattr(module, lambda *_, **__: pytest.fail("a backend was asked"))
    for value in (signature_kernel_diag(x, gradient=rule), signature_kernel(x, gradient=rule)):
        assert bool(gradient(value, x)[0].any())
    with pytest.raises(pytest.fail.Exception):
        signature_kernel_diag(x)


@pytest.mark.parametrize("rule", ["adjoint", "variation", "augmented"])
def test_gradients_of_finite_differences_converge(rule: Any):
    x, y = leaf(make("smooth", 6, 2, 5, 2, 1.5)), leaf(make("smooth", 7, 2, 4, 2, 1.5))
    exact = gradient(signature_kernel_diag(x, **EXACT), x)[0], gradient(signature_kernel(x, y, **EXACT), x)[0]
    errors = []
    for refine in range(4):
        settings: dict[str, Any] = {"solver": "fd", "refine": refine, "gradient": rule}
        diag, gram = signature_kernel_diag(x, **settings), signature_kernel(x, y, **settings)
        got = gradient(diag, x)[0], gradient(gram, x)[0]
        errors.append([float((a - b).norm()) for a, b in zip(got, exact, strict=True)])
    ratio = torch.tensor(errors[:-1]) / torch.tensor(errors[1:])
    assert (ratio > 2.5).all(), ratio


def differences(values: Callable[[Tensor], Tensor], step: Tensor) -> Tensor:
    """Half of what a step forward changes more than one back."""
    return (values(step) - values(-step)) / 2


@solvers
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_in_one_pass(settings: dict[str, Any], log: bool, dtype: torch.dtype):
    x, theta = make("brownian", 8, 5, 20, 3, 2.0).to(dtype), torch.tensor([0.5, 1.5, -0.8]).to(dtype)
    lengths = [20, 1, 7, 20, 13]
    settings = {**settings, "log": log}
    value, slope = signature_kernel_diag_scales(x, theta, lengths=lengths, **settings)
    logarithm = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
    expected = signature_kernel_diag(x.double() * (theta * logarithm.exp())[:, None], lengths=lengths, **settings)
    (expected_slope,) = torch.autograd.grad(expected.sum(), logarithm)
    rtol = 1e-9 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(value.double(), expected.detach(), rtol=rtol, atol=rtol)
    torch.testing.assert_close(slope.double(), expected_slope, rtol=rtol, atol=rtol * float(expected_slope.abs().max()))

    leaf = x.clone().requires_grad_()
    expected = signature_kernel_diag(leaf, lengths=lengths, **settings)
    of_points, of_x = signature_kernel_diag_gradient(leaf, lengths=lengths, **settings)
    assert torch.equal(of_points, expected)
    assert torch.equal(of_x, torch.autograd.grad(expected.sum(), leaf)[0])
    series = [item[:length] for item, length in zip(x, lengths, strict=True)]
    assert torch.equal(signature_kernel_diag_gradient(series, **settings)[1], of_x)
    for result in (value, slope, of_points, of_x):
        assert result.dtype == dtype and not result.requires_grad

    if dtype == torch.float64:
        for channel, step in enumerate(1e-5 * torch.eye(3).double()):
            change = differences(
                lambda h: signature_kernel_diag_scales(x, theta * h.exp(), lengths=lengths, **settings)[0], step
            )
            torch.testing.assert_close(change / 1e-5, slope[:, channel], rtol=1e-6, atol=1e-5)
        step = 1e-6 * make("smooth", 9, 5, 20, 3)
        change = differences(lambda h: signature_kernel_diag_gradient(x + h, lengths=lengths, **settings)[0], step)
        torch.testing.assert_close(change, (step * of_x).sum((1, 2)), rtol=1e-5, atol=1e-9)


def test_a_channel_scaled_to_zero_has_no_slope():
    x = make("smooth", 9, 3, 10, 2, 2.0)
    value, slope = signature_kernel_diag_scales(x, torch.tensor([1.0, 0.0]).double())
    assert torch.equal(slope[:, 1], torch.zeros(3).double())
    assert torch.allclose(value, signature_kernel_diag(x[:, :, :1]), rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_padding_gets_no_gradient(dtype: torch.dtype):
    x = make("brownian", 10, 3, 12, 2).to(dtype)
    x[0, 5:] = float("nan")
    x[2, 1:] = float("inf")
    lengths = torch.tensor([5, 12, 1])
    x.requires_grad_()
    for rule in ("adjoint", "variation"):
        diag = signature_kernel_diag(x, lengths=lengths, gradient=rule)
        gram = signature_kernel(x, lengths=lengths, gradient=rule)
        for value in (diag, gram, signature_kernel(x.detach()[1:2], x, y_lengths=lengths, gradient=rule)):
            (got,) = gradient(value, x)
            assert torch.equal(got[0, 5:], torch.zeros(7, 2, dtype=dtype))
            assert torch.equal(got[2], torch.zeros(12, 2, dtype=dtype))
            assert torch.isfinite(got).all()
            assert (got[1] != 0).any()


LONG = [250, 700, pytest.param(2600, marks=pytest.mark.slow)]  # one, two and three levels of blocks


def diagonal(log: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def values(x: Tensor, _: Tensor) -> Tensor:
        return signature_kernel_diag(x, lengths=[x.shape[1], x.shape[1] // 2 + 1], log=log, tol=1e-12)

    return values


@pytest.mark.parametrize(
    "values",
    [diagonal(False), diagonal(True), lambda x, y: signature_kernel(x, y, tol=1e-12)],
    ids=["diagonal", "logarithm", "gram"],
)
@pytest.mark.parametrize("length", LONG)
def test_gradients_of_long_paths_are_slopes(length: int, values: Callable[[Tensor, Tensor], Tensor]):
    sizes = (0, 2, length), (2, 1, length - 37)  # seed, series, points
    x, y = (make("brownian", *size, 2, 2.0).requires_grad_() for size in sizes)
    there, back = make("brownian", 3, 2, length, 2, 2.0), make("brownian", 4, 1, length - 37, 2, 2.0)
    of_x, of_y = torch.autograd.grad(values(x, y).sum(), (x, y), allow_unused=True)
    slope = (of_x * there).sum() + (0 if of_y is None else (of_y * back).sum())
    h = 1e-5
    high, low = (values((x + s * h * there).detach(), (y + s * h * back).detach()).sum() for s in (1, -1))
    torch.testing.assert_close(slope, (high - low) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("length", [100, 600, 1500])
@pytest.mark.parametrize("settings", [{}, {"solver": "fd"}], ids=["series", "fd"])
def test_a_path_that_goes_straight_on_is_not_taken_for_one_that_comes_back(length: int, settings: Any):
    """Rows that are swept again for the gradient are compared with those before them, not with all."""
    line = torch.linspace(0, 16, length, dtype=torch.float64)[None, :, None]
    expected = siggpde.signature_kernel_diag(line, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaf = line.clone().requires_grad_()
        value = siggpde.signature_kernel_diag(leaf, **settings)
        value.sum().backward()
    torch.testing.assert_close(value.detach(), expected, rtol=1e-12, atol=0)
    assert leaf.grad is not None
    # k of a line of length r is I_0(2 r): d/dr = 2 I_1(2 r), all of it at the ends
    if not settings:
        slope = 2 * torch.special.i1(torch.tensor(32.0).double())
        torch.testing.assert_close(leaf.grad[0, -1, 0], slope, rtol=1e-6, atol=0)


def increments(seed: int, length: int) -> torch.Tensor:
    return make("brownian", seed, 1, length + 1, 2, 1.5)[0].diff(dim=0)


def kernel(dx: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return solve_goursat((dx @ dy.T)[None], LEGENDRE)[0]


def test_directional_derivatives_are_the_limit_of_differences():
    dx, dy = increments(1, 4), increments(2, 3)
    impulses = localised_impulses(dx)
    assert impulses.shape == (8, 4, 2) and torch.equal(impulses.sum(0), torch.ones(4, 2).double())
    assert impulses[3, 1, 1] == 1 and impulses[3].abs().sum() == 1  # one channel of one increment
    directions = torch.stack([increments(3, 4), *impulses[:2]])
    got = directional_derivatives(dx, dy, directions, LEGENDRE)
    step = 1e-5
    for derivative, gamma in zip(got, directions, strict=True):
        difference = (kernel(dx + step * gamma, dy) - kernel(dx - step * gamma, dy)) / (2 * step)
        torch.testing.assert_close(derivative, difference, rtol=1e-8, atol=1e-9)


def test_both_algorithms_give_the_gradient_of_the_solver_in_chunks_of_any_size(monkeypatch: pytest.MonkeyPatch):
    dx, dy = increments(4, 4).requires_grad_(), increments(5, 3)
    (wanted,) = torch.autograd.grad(kernel(dx, dy), dx)
    rho = (dx @ dy.T)[None].detach()
    torch.testing.assert_close(augmented_gradient(dx.detach(), dy, LEGENDRE), wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(kernel_variation(rho, LEGENDRE)[0] @ dy, wanted, rtol=1e-10, atol=1e-12)
    dx, dy = (torch.stack([increments(seed + i, 5) for i in range(3)]) for seed in (8, 20))
    grad = torch.tensor([1.0, -2.0, 0.5]).double()
    whole = [rule(LEGENDRE, grad, dx, dy) for rule in (variation_gradients, augmented_gradients)]
    for name, size in (("_CELLS_AT_ONCE", 30), ("_CELLS_EVALUATED_AT_ONCE", 11), ("_DIRECTIONS_AT_ONCE", 3)):
        monkeypatch.setattr(gradients, name, size)
    chunked = [rule(LEGENDRE, grad, dx, dy) for rule in (variation_gradients, augmented_gradients)]
    torch.testing.assert_close(chunked, whole, rtol=1e-13, atol=1e-15)


def test_the_time_reversed_solution_is_the_kernel_of_the_rest():
    """Near the end of both paths V is close to U of nothing, which is 1, and near their start to the whole kernel."""
    dx, dy = increments(6, 3), increments(7, 3)
    rho = (dx @ dy.T)[None]
    u = solution(edges(rho, LEGENDRE), rho, LEGENDRE, slice(0, 3))[0]
    v = time_reversed_solution(edges(rho.flip(1, 2), LEGENDRE), rho, LEGENDRE, slice(0, 3))[0]
    assert abs(u[0, 0, 0, 0] - 1) < 1e-2 and abs(v[-1, -1, -1, -1] - 1) < 1e-2
    for near_all in (u[-1, -1, -1, -1], kernel(dx, dy)):
        torch.testing.assert_close(v[0, 0, 0, 0], near_all, rtol=5e-2, atol=0)
    left, bottom, corner = boundary(torch.zeros(2, 3, 4).double(), 5)
    assert torch.equal(corner, torch.ones(2, 3).double())
    assert not left.any() and not bottom.any()  # derivatives along the axes


@pytest.mark.parametrize("rule", ["variation", "augmented"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_huge_numbers_are_refused_before_the_work(rule: Any, dtype: torch.dtype):
    """As by the adjoint; and grids that would take minutes are refused with what to do instead."""
    for size in (1e3, 1e6, 1e30, torch.finfo(dtype).max / 64):
        x = make("brownian", 0, 3, 8, 2).to(dtype)
        x[1] *= size / x[1].diff(dim=0).norm(dim=1).max()
        x.requires_grad_()
        for gradient_rule in ("adjoint", rule):
            settings, said = {"gradient": gradient_rule, "error": OverflowError}, f"is too large for {dtype}"
            assert_refused(f"of series 1 of x {said}", signature_kernel_diag, x, **settings)
            assert_refused(f"of series 1 of [xy] {said}", signature_kernel, x[:1].detach(), x, **settings)
    large = make("brownian", 0, 1, 60, 2, 8).to(dtype)
    assert large.diff(dim=1).norm(dim=2).max() < 87
    many = large[:, torch.arange(1200) % 60].requires_grad_()
    message = f"gradient='{rule}' would solve a grid of .* take gradient='adjoint', or"
    assert_refused(message, signature_kernel_diag, many, gradient=rule)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
def test_logarithms_reach_further_than_float32(rule: Any):
    x = (14 * torch.linspace(0, 1, 4)[None, :, None] ** 2).requires_grad_()  # k is about exp(28) / 13
    value = signature_kernel_diag(4 * x, log=True, gradient=rule)
    (slope,) = torch.autograd.grad(value.sum(), x)
    wanted = signature_kernel_diag(4 * x, log=True)
    assert wanted > 89 and value.dtype == torch.float32
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(slope, torch.autograd.grad(wanted.sum(), x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
@pytest.mark.parametrize("shape", [(0, 4, 2), (3, 1, 2), (0, 1, 1)])
def test_nothing_to_differentiate(rule: Any, shape: tuple[int, ...]):
    x = torch.ones(shape).double().requires_grad_()
    for value in (signature_kernel_diag(x, gradient=rule), signature_kernel(x, gradient=rule)):
        assert torch.equal(torch.autograd.grad(value.sum(), x)[0], torch.zeros(shape).double())


PLAIN = make("brownian", 0, 3, 5, 2)
LEAF = PLAIN.clone().requires_grad_()
OPERATIONS: dict[str, Callable[[Tensor], Any]] = {
    "signature": lambda x: signature(x, 2),
    "signature of words": lambda x: signature(x, words=[(0, 1), (1,)]),
    "increments": lambda x: extend(torch.ones(3, 4).double(), x, words(2, 4)),
    "start": lambda x: extend(x[:, 0], torch.ones(3, 5, 1).double(), words(1, 2)),
    "gram": signature_kernel,
    "rows": lambda x: signature_kernel(x, PLAIN),
    "columns": lambda x: signature_kernel(PLAIN, x),
    "diagonal": signature_kernel_diag,
    "logarithm": lambda x: signature_kernel_diag(x, log=True),
    "diagonal by variation": lambda x: signature_kernel_diag(x, gradient="variation"),
    "diagonal by augmentation": lambda x: signature_kernel_diag(x, gradient="augmented"),
    "columns by variation": lambda x: signature_kernel(LEAF, x, gradient="variation"),
    "columns by augmentation": lambda x: signature_kernel(LEAF, x, gradient="augmented"),
    "points": lambda x: signature_kernel_diag_gradient(x)[0],
    "paths": lambda x: signature_kernel_diag_scales(x, torch.ones(2).double())[0],
    "scales": lambda x: signature_kernel_diag_scales(PLAIN, x[0, 0])[0],
}
operations = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
REFUSED = "only reverse-mode gradients"


@operations
def test_tangents_and_transforms_are_refused(operation: Callable[[Tensor], Any]):
    x = PLAIN.clone()
    with forward_ad.dual_level():
        operation(x)  # a tensor without a tangent is as good as ever
        for leaf in (x, x.clone().requires_grad_()):
            dual = forward_ad.make_dual(leaf, torch.ones_like(x))
            assert_refused(REFUSED, operation, dual, error=NotImplementedError)
    for transform in (
        lambda: torch.func.jvp(operation, (x,), (torch.ones_like(x),)),
        lambda: torch.func.grad(lambda x: operation(x).sum())(x),
        lambda: torch.func.vmap(operation)(x[None]),
    ):
        assert_refused(REFUSED, transform, error=NotImplementedError)


def test_the_reference_has_forward_mode_derivatives():
    """The tangents of the points of X are what the gradient says, along the same direction."""
    code = """
import json
import torch
import siggpde
x = (torch.arange(2 * 5 * 2).double() * 0.7).sin().reshape(2, 5, 2)
v = (torch.arange(2 * 5 * 2).double() * 0.3).cos().reshape(2, 5, 2)
for operation in (siggpde.signature_kernel_diag, lambda x: siggpde.signature(x, 3).sum(1)):
    _, tangent = torch.func.jvp(operation, (x,), (v,))
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(operation(leaf).sum(), leaf)
    assert torch.allclose(tangent, (gradient * v).sum((1, 2)), rtol=1e-12)
print(json.dumps("done"))
"""
    assert numbers_from(code, SIGGPDE_BACKEND="reference") == "done"
