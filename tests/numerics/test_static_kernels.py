"""Signature kernels of paths that a static kernel lifts: values, gradients, and the ends of the range of numbers."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.lifted_paths import LIFTS, as_reference, lifts, paths, seeds
from helpers.random_paths import generator, modest
from helpers.refusals import assert_refused
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.signature_kernel import signature_kernel_diag_gradient, signature_kernel_diag_scales
from siggpde.numerics.static_kernels import KernelSettings, check_static


def kappa(name: str, x: Tensor, y: Tensor, bandwidth: float, amplitude: float, alpha: float = 1.0) -> Tensor:
    """The static kernel of points x (n, d) and y (m, d) as the manual has it, (n, m)."""
    r = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") / bandwidth
    correlations = {
        "rbf": torch.exp(-(r**2) / 2),
        "matern12": torch.exp(-r),
        "matern32": (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
        "matern52": (1 + math.sqrt(5) * r + 5 * r**2 / 3) * torch.exp(-math.sqrt(5) * r),
        "rational_quadratic": (1 + r**2 / (2 * alpha)) ** -alpha,
    }
    return amplitude**2 * correlations[name]


@pytest.mark.parametrize("name", LIFTS)
def test_a_lifted_path_is_piecewise_linear_in_the_hilbert_space(name: str):
    """Coordinates in the span of all points, by a Cholesky factor, make a path of which the plain kernel is taken."""
    x, y = paths(0, 1, 6, 2), paths(1, 1, 5, 2)
    points = torch.cat([x[0], y[0]])
    coordinates = torch.linalg.cholesky(kappa(name, points, points, 0.9, 1.4))[None]
    settings = {"static": name, "bandwidth": 0.9, "amplitude": 1.4, "tol": 1e-12}
    plain = signature_kernel(coordinates[:, :6], coordinates[:, 6:], tol=1e-12)
    torch.testing.assert_close(signature_kernel(x, y, **settings), plain, rtol=1e-10, atol=1e-10)
    diagonal = signature_kernel_diag(coordinates[:, :6], tol=1e-12)
    torch.testing.assert_close(signature_kernel_diag(x, **settings), diagonal, rtol=1e-10, atol=0)


@modest
@given(seeds, lifts(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_native_and_reference_agree(
    seed: int, settings: dict[str, Any], length: int, other: int, channels: int, single: bool
):
    x, y = paths(seed, 11, length, channels), paths(seed + 1, 3, other, channels)
    lengths = torch.randint(1, length + 1, (11,), generator=generator(seed))
    lift = as_reference(settings)
    of_x = reference.diagonal(x, lengths, KernelSettings(lift), False, False)
    of_y = reference.diagonal(y, None, KernelSettings(lift), False, False)
    wanted = reference.gram(Pairs(x, lengths, y, settings=KernelSettings(lift)), False)
    dtype, allowed = (torch.float32, 2e-4) if single else (torch.float64, 1e-8)
    x, y = x.to(dtype), y.to(dtype)
    got = signature_kernel(x, y, lengths=lengths, **settings)
    assert got.dtype == dtype
    assert bool(((got - wanted).abs() <= allowed * (of_x[:, None] * of_y).sqrt()).all())
    diagonal = signature_kernel_diag(x, lengths=lengths, **settings)
    assert bool(((diagonal - of_x).abs() <= allowed * of_x).all())
    logarithm = signature_kernel_diag(x, lengths=lengths, log=True, **settings)
    torch.testing.assert_close(logarithm.double(), of_x.log(), rtol=allowed, atol=allowed)


@pytest.mark.parametrize("refine", [0, 2])
def test_finite_differences_are_those_of_the_reference(refine: int):
    x, y = paths(3, 9, 7, 2), paths(4, 4, 5, 2)
    settings = {"static": "rbf", "bandwidth": 1.5, "amplitude": 0.8}
    wanted = reference.gram(Pairs(x, y=y, settings=KernelSettings(as_reference(settings), refine)), False)
    got = signature_kernel(x, y, solver="fd", refine=refine, **settings)
    torch.testing.assert_close(got, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_the_tolerance_is_kept(name: str, tol: float):
    x = paths(5, 16, 20, 3).cumsum(1) * 0.4
    for amplitude in (0.5, 1.5):
        settings = {"static": name, "bandwidth": 1.2, "amplitude": amplitude}
        wanted = reference.gram(Pairs(x, settings=KernelSettings(as_reference(settings), -1, tol)), False)
        size = (wanted.diagonal()[:, None] * wanted.diagonal()).sqrt()
        assert bool(((signature_kernel(x, tol=tol, **settings) - wanted).abs() <= tol * size).all())
        k = signature_kernel_diag(x, tol=tol, **settings)
        assert bool(((k / wanted.diagonal() - 1).abs() <= tol).all())


@pytest.mark.parametrize("name", LIFTS)
def test_gram_matrices_are_positive_and_symmetric(name: str):
    x = paths(11, 30, 12, 2).cumsum(1) * 0.5
    settings = {"static": name, "bandwidth": 1.0, "amplitude": 1.5, "tol": 1e-8}
    gram = signature_kernel(x, **settings)
    assert bool((gram == gram.T).all())
    size = gram.diagonal().sqrt()
    assert float(torch.linalg.eigvalsh(gram / size / size[:, None])[0]) >= -30 * 1e-8
    rectangular = signature_kernel(x, x.clone(), **settings)
    assert bool(((gram - rectangular).abs() <= 1e-13 * size * size[:, None]).all())
    torch.testing.assert_close(gram.diagonal(), signature_kernel_diag(x, **settings), rtol=2e-8, atol=0)


@modest
@given(seeds, lifts(), st.integers(1, 9))
def test_series_of_any_length_are_those_alone(seed: int, settings: dict[str, Any], shortest: int):
    x = paths(seed, 5, 9, 2)
    lengths = torch.randint(shortest, 10, (5,), generator=generator(seed))
    series = [row[None, :length] for row, length in zip(x, lengths, strict=True)]
    padded = x.masked_fill((torch.arange(9) >= lengths[:, None])[:, :, None], math.nan)
    alone = torch.cat([signature_kernel_diag(one, **settings) for one in series])
    assert torch.equal(signature_kernel_diag(padded, lengths=lengths, **settings), alone)
    rows = torch.cat([signature_kernel(one, x[:2], **settings) for one in series])
    assert torch.equal(signature_kernel(padded, x[:2], lengths=lengths, **settings), rows)


@modest
@given(seeds, lifts())
def test_only_differences_of_points_and_their_unit_matter(seed: int, settings: dict[str, Any]):
    x, y = paths(seed, 3, 7, 2), paths(seed + 1, 2, 6, 2)
    wanted = signature_kernel(x, y, tol=1e-12, **settings)
    shift = torch.tensor([3.0, -2.0], dtype=torch.float64)
    moved = signature_kernel(x + shift, y + shift, tol=1e-12, **settings)
    torch.testing.assert_close(moved, wanted, rtol=1e-8, atol=1e-8)
    doubled = {**settings, "bandwidth": 2 * settings["bandwidth"]}
    torch.testing.assert_close(signature_kernel(2 * x, 2 * y, tol=1e-12, **doubled), wanted, rtol=1e-8, atol=1e-8)
    backwards = signature_kernel(x.flip(1), y.flip(1), tol=1e-12, **settings)
    torch.testing.assert_close(backwards, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["rbf", "rational_quadratic"])
def test_a_wide_smooth_kernel_is_the_linear_one(name: str):
    """kappa - amplitude² -> -|x - y|²/2 as bandwidth = amplitude grows, of which second differences are <dx, dy>."""
    x, y = paths(12, 4, 10, 3) * 0.5, paths(13, 3, 8, 3) * 0.5
    wide = {"static": name, "bandwidth": 1e6, "amplitude": 1e6}
    torch.testing.assert_close(signature_kernel(x, y, **wide), signature_kernel(x, y), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(signature_kernel_diag(x, **wide), signature_kernel_diag(x), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        *(({"static": v}, ValueError, "static must be one of") for v in ("gauss", None)),
        ({"bandwidth": 2.0}, ValueError, "linear static kernel has no bandwidth"),
        *(
            ({"static": "rbf", "bandwidth": v}, ValueError, "bandwidth must be one positive")
            for v in (0.0, math.nan, torch.ones(2))
        ),
        ({"static": "rbf", "bandwidth": "wide"}, TypeError, "bandwidth must be a number"),
        ({"static": "rbf", "amplitude": -1.0}, ValueError, "amplitude must be one positive"),
        ({"amplitude": math.inf}, ValueError, "amplitude must be one positive"),
        *(
            ({"static": "rbf", **wrong}, ValueError, "from 1e-30 to 1e30")
            for wrong in ({"bandwidth": 1e-160}, {"bandwidth": 1e200}, {"amplitude": 1e100})
        ),
        ({"static": "rbf", "alpha": 2.0}, ValueError, "alpha=2.0 is for static='rational_quadratic'"),
        ({"static": "rational_quadratic", "alpha": 0.0}, ValueError, "alpha must be a positive number"),
        ({"static": "rbf", "gradient": "variation"}, ValueError, "take 'adjoint'"),
        ({"static": "rbf", "amplitude": 480.0, "bandwidth": 0.1}, OverflowError, "series 0 of x"),
    ],
)
def test_wrong_settings_say_what_is_wrong(settings: dict[str, Any], error: type[Exception], message: str):
    for function in (signature_kernel, signature_kernel_diag):
        assert_refused(message, function, paths(19, 2, 3, 1), **settings, error=error)
        assert_refused("not finite", function, torch.full((1, 3, 1), math.inf).double(), static="rbf")


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("amplitude", [0.7, 2.5])
def test_gradcheck_in_points_bandwidth_and_amplitude(name: str, amplitude: float):
    x, y = paths(6, 3, 4, 2).requires_grad_(), paths(7, 2, 5, 2).requires_grad_()
    parameters = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.3, amplitude)]
    alpha = {"alpha": 1.7} if name == "rational_quadratic" else {}
    for function, points, options in (
        (signature_kernel, (x, y), {"lengths": [4, 3, 1]}),
        (signature_kernel, (x,), {}),
        (signature_kernel_diag, (x,), {"lengths": [4, 2, 1]}),
        (signature_kernel_diag, (x,), {"log": True}),
    ):
        settings = {"static": name, "tol": 1e-13, **alpha, **options}

        def value(*inputs: Any, function: Any = function, settings: Any = settings) -> Tensor:
            *points, width, height = inputs
            return function(*points, bandwidth=width, amplitude=height, **settings)

        assert torch.autograd.gradcheck(value, (*points, *parameters), rtol=1e-5, atol=1e-6)


@modest
@given(seeds, lifts(), st.integers(2, 60), st.integers(1, 3))
def test_gradients_are_those_of_the_reference(seed: int, settings: dict[str, Any], length: int, channels: int):
    x = (paths(seed, 3, length, channels).cumsum(1) * 0.3).requires_grad_()
    lengths = torch.tensor([length, max(1, length // 2), 1])
    given = [torch.tensor(settings[k], dtype=torch.float64) for k in ("bandwidth", "amplitude")]
    parameters = [value.requires_grad_() for value in given]
    settings = {**settings, "bandwidth": parameters[0], "amplitude": parameters[1]}
    got = torch.autograd.grad(signature_kernel_diag(x, lengths=lengths, tol=1e-13, **settings).sum(), [x, *parameters])
    k = reference.diagonal(x, lengths, KernelSettings(as_reference(settings), -1, 1e-13), False, True)
    wanted = torch.autograd.grad(k.sum(), [x, *parameters])
    for mine, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-7 * float(k.detach().max()))


def test_gradients_of_long_paths_whose_states_are_computed_again():
    x = (paths(8, 2, 700, 2).cumsum(1) * 0.02).requires_grad_()
    y, direction, step = paths(9, 2, 500, 2).cumsum(1) * 0.02, paths(10, 2, 700, 2), 1e-5
    for function, others in ((signature_kernel, (y,)), (signature_kernel_diag, ())):
        lift: Any = {"static": "rbf", "bandwidth": 0.5, "tol": 1e-12}
        places = (x + move * direction for move in (0, step, -step))
        value, high, low = (function(place, *others, **lift).sum() for place in places)
        slope = float((torch.autograd.grad(value, x)[0] * direction).sum())
        assert slope == pytest.approx(float((high - low).detach()) / (2 * step), rel=1e-6)


def test_scales_and_gradients_in_one_pass():
    x, theta = paths(15, 5, 9, 3), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    lengths = [9, 7, 1, 4, 9]
    settings = {"static": "matern52", "bandwidth": 0.8, "amplitude": 1.6, "lengths": lengths}
    log_theta = theta.log().requires_grad_()
    k = signature_kernel_diag(x * log_theta.exp(), **settings)
    value, slope = signature_kernel_diag_scales(x, theta, **settings)
    torch.testing.assert_close(value, k.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(slope.sum(0), torch.autograd.grad(k.sum(), log_theta)[0], rtol=1e-10, atol=1e-10)
    leaf = x.clone().requires_grad_()
    value, slope = signature_kernel_diag_gradient(leaf, **settings)
    torch.testing.assert_close(slope, torch.autograd.grad(signature_kernel_diag(leaf, **settings).sum(), leaf)[0])


def test_matern12_has_no_gradient_where_points_coincide_and_is_given_none():
    x = paths(18, 2, 5, 2).requires_grad_()
    (slope,) = torch.autograd.grad(signature_kernel_diag(x, static="matern12").sum(), x)
    assert bool(torch.isfinite(slope).all())
    k = reference.diagonal(x, None, KernelSettings(check_static("matern12", 1.0, 1.0, None)[0]), False, True)
    torch.testing.assert_close(slope, torch.autograd.grad(k.sum(), x)[0], rtol=1e-7, atol=1e-7)


def test_the_amplitude_of_the_linear_kernel_scales_the_path():
    x = paths(14, 3, 6, 2).requires_grad_()
    amplitude = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(signature_kernel(x, amplitude=0.6), signature_kernel(0.6 * x))
    assert torch.autograd.gradcheck(lambda x, a: signature_kernel_diag(x, amplitude=a), (x, amplitude), rtol=1e-5)
    value, slope = signature_kernel_diag_gradient(x, amplitude=0.6)
    k = signature_kernel_diag(x, amplitude=0.6)
    torch.testing.assert_close(value, k.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(k.sum(), x)[0])


def line(*points: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(points, dtype=dtype)[None, :, None]


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("unit", [1e-20, 1e-8, 1e8, 1e20])
def test_the_unit_of_points_and_bandwidth_does_not_matter(name: str, dtype: torch.dtype, unit: float):
    x, y = line(0.0, 0.7, 1.5, 0.3, dtype=dtype), line(0.2, 2.5, dtype=dtype)
    allowed = 1e-9 if dtype == torch.float64 else 1e-4
    wanted = signature_kernel(x, y, static=name, amplitude=1.5)
    got = signature_kernel(x * unit, y * unit, static=name, amplitude=1.5, bandwidth=unit)
    torch.testing.assert_close(got, wanted, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("name", LIFTS)
def test_points_far_from_each_other_are_orthogonal(name: str):
    """Far points have c = 0: what is left is a path between orthonormal points."""
    far = line(0.0, 1e200)
    width = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    k = signature_kernel_diag(far, static=name, bandwidth=width)
    corners = torch.eye(2, dtype=torch.float64)[None]
    torch.testing.assert_close(k.detach(), signature_kernel_diag(corners), rtol=1e-7, atol=0)
    (slope,) = torch.autograd.grad(k.sum(), width)
    assert abs(float(slope)) < 1e-9
    many = paths(0, 8, 40, 1) * 100
    many[7, 1] = 1e200
    values = signature_kernel_diag(many, lengths=[1] * 7 + [40], static=name, amplitude=5.0, log=True)
    assert bool(torch.isfinite(values).all())


@pytest.mark.parametrize(("alpha", "scale"), [(0.1, 1e3), (0.1, 1e6), (0.5, 1e3), (2.0, 1e4)])
def test_gradients_of_a_heavy_tail(alpha: float, scale: float):
    x = line(0.0, 0.7, 1.5, 2.6) * scale
    for dtype, allowed in ((torch.float64, 1e-6), (torch.float32, 1e-3)):
        width = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        settings = {"static": "rational_quadratic", "alpha": alpha}
        k = signature_kernel_diag(x.to(dtype), bandwidth=width, **settings)
        (slope,) = torch.autograd.grad(k.sum(), width)
        lift = check_static("rational_quadratic", width, 1.0, alpha)[0]
        wanted = reference.diagonal(x, None, KernelSettings(lift, -1, 1e-12), False, True)
        torch.testing.assert_close(slope, torch.autograd.grad(wanted.sum(), width)[0], rtol=allowed, atol=1e-9)


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("width", [1e2, 1e4])
def test_near_points_keep_their_digits_in_single_precision(name: str, width: float):
    if name == "matern12":
        pytest.skip("its lifted segments are long where points are near")
    x = paths(1, 4, 30, 2).cumsum(1)
    settings = {"static": name, "bandwidth": width, "amplitude": 0.3 * width}
    wanted = signature_kernel_diag(x.float().double(), tol=1e-12, **settings)
    torch.testing.assert_close(signature_kernel_diag(x.float(), **settings).double(), wanted, rtol=1e-5, atol=0)


def test_offsets_of_channels_cost_no_digits():
    x, theta = (paths(2, 5, 12, 2) * 64).round() / 64, torch.tensor([0.7, 0.3])
    for offset in (1e3, 1e5):
        here = signature_kernel_diag_scales(x.float(), theta, static="rbf")
        moved = signature_kernel_diag_scales((x + offset).float(), theta, static="rbf")
        for mine, theirs in zip(here, moved, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=2e-2 if offset > 1e4 else 1e-4, atol=1e-4)
        kernels = [signature_kernel_diag(z.float(), static="rbf", bandwidth=3.0) for z in (x, x + 1e3)]
        torch.testing.assert_close(*kernels, rtol=1e-4, atol=0)


def test_padding_and_idle_lanes_have_no_part_in_gradients_of_parameters():
    x = torch.tensor([[[0.0], [1.0], [math.nan]], [[0.0], [1.0], [2.0]]]).double()
    amplitude, width = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.5, 1e20))
    for static in ("linear", "rbf"):
        k = signature_kernel_diag(x, lengths=[2, 3], static=static, amplitude=amplitude)
        assert bool(torch.isfinite(torch.autograd.grad(k.sum(), amplitude)[0]))
    k = signature_kernel(line(0.0, 1.0, 3.0) * 1e20 + 1e25, static="rbf", bandwidth=width, amplitude=3.0)
    assert bool(torch.isfinite(torch.autograd.grad(k.sum(), width)[0]))
