"""Static kernels at the ends of the range of numbers: values that are right, or errors that say what is wrong."""

import math

import pytest
import torch

from helpers.lifted_paths import LIFTS, paths
from siggpde import signature_kernel, signature_kernel_diag, signature_kernel_diag_scales
from siggpde.numerics import reference
from siggpde.numerics.static_kernels import KernelSettings, check_static


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


def test_padding_has_no_part_in_the_gradient_of_the_amplitude():
    x = torch.tensor([[[0.0], [1.0], [math.nan]], [[0.0], [1.0], [2.0]]]).double()
    for static in ("linear", "rbf"):
        amplitude = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        signature_kernel_diag(x, lengths=[2, 3], static=static, amplitude=amplitude).sum().backward()
        assert bool(torch.isfinite(amplitude.grad))


def test_idle_lanes_do_not_meet_infinities():
    x = line(0.0, 1.0, 3.0) * 1e20 + 1e25
    width = torch.tensor(1e20, dtype=torch.float64, requires_grad=True)
    k = signature_kernel(x, static="rbf", bandwidth=width, amplitude=3.0)
    assert bool(torch.isfinite(torch.autograd.grad(k.sum(), width)[0]))


@pytest.mark.parametrize("settings", [{"bandwidth": 1e-160}, {"bandwidth": 1e200}, {"amplitude": 1e100}])
def test_parameters_out_of_range_are_refused(settings: dict[str, float]):
    with pytest.raises(ValueError, match="from 1e-30 to 1e30"):
        signature_kernel_diag(line(0.0, 1.0), static="rbf", **settings)
