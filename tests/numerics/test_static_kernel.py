"""Signature kernels of paths that a static kernel lifts."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.lifted_paths import LIFTS, as_reference, lifts, paths, seeds
from helpers.random_paths import generator, modest
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import reference
from siggpde.numerics.static_kernels import KernelSettings


def kappa(name: str, x: Tensor, y: Tensor, bandwidth: float, amplitude: float, alpha: float = 1.0) -> Tensor:
    """The static kernel of points x (n, d) and y (m, d) as the manual has it, (n, m)."""
    r = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") / bandwidth
    return (
        amplitude**2
        * {
            "rbf": lambda: torch.exp(-(r**2) / 2),
            "matern12": lambda: torch.exp(-r),
            "matern32": lambda: (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
            "matern52": lambda: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * torch.exp(-math.sqrt(5) * r),
            "rational_quadratic": lambda: (1 + r**2 / (2 * alpha)) ** -alpha,
        }[name]()
    )


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
    wanted = reference.gram(x, lengths, y, None, None, KernelSettings(lift), False)
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
    wanted = reference.gram(x, None, y, None, None, KernelSettings(as_reference(settings), refine), False)
    got = signature_kernel(x, y, solver="fd", refine=refine, **settings)
    torch.testing.assert_close(got, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_the_tolerance_is_kept(name: str, tol: float):
    x = paths(5, 16, 20, 3).cumsum(1) * 0.4
    for amplitude in (0.5, 1.5):
        settings = {"static": name, "bandwidth": 1.2, "amplitude": amplitude}
        wanted = reference.gram(x, None, None, None, None, KernelSettings(as_reference(settings), -1, tol), False)
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
    padded = x.clone()
    for row, length in zip(padded, lengths, strict=True):
        row[length:] = float("nan")
    alone = torch.cat(
        [signature_kernel_diag(row[None, :length], **settings) for row, length in zip(x, lengths, strict=True)]
    )
    assert torch.equal(signature_kernel_diag(padded, lengths=lengths, **settings), alone)
    rows = [signature_kernel(row[None, :length], x[:2], **settings) for row, length in zip(x, lengths, strict=True)]
    assert torch.equal(signature_kernel(padded, x[:2], lengths=lengths, **settings), torch.cat(rows))


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


def test_threads_change_no_bit():
    x, y = paths(16, 70, 12, 2), paths(17, 90, 12, 2)
    for settings in ({"static": "matern32"}, {"static": "rbf", "normalize": True}):
        one, two = (signature_kernel(x, y, n_jobs=jobs, **settings) for jobs in (1, 2))
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"static": "gauss"}, ValueError, "static must be one of"),
        ({"static": None}, ValueError, "static must be one of"),
        ({"bandwidth": 2.0}, ValueError, "linear static kernel has no bandwidth"),
        ({"static": "rbf", "bandwidth": 0.0}, ValueError, "bandwidth must be one positive"),
        ({"static": "rbf", "bandwidth": float("nan")}, ValueError, "bandwidth must be one positive"),
        ({"static": "rbf", "bandwidth": "wide"}, TypeError, "bandwidth must be a number"),
        ({"static": "rbf", "bandwidth": torch.ones(2)}, ValueError, "bandwidth must be one positive"),
        ({"static": "rbf", "amplitude": -1.0}, ValueError, "amplitude must be one positive"),
        ({"amplitude": math.inf}, ValueError, "amplitude must be one positive"),
        ({"static": "rbf", "alpha": 2.0}, ValueError, "alpha=2.0 is for static='rational_quadratic'"),
        ({"static": "rational_quadratic", "alpha": 0.0}, ValueError, "alpha must be a positive number"),
        ({"static": "rbf", "gradient": "variation"}, ValueError, "take 'adjoint'"),
    ],
)
def test_wrong_settings_say_what_is_wrong(settings: dict[str, Any], error: type[Exception], message: str):
    for function in (signature_kernel, signature_kernel_diag):
        with pytest.raises(error, match=message):
            function(paths(19, 2, 3, 1), **settings)


def test_too_large_is_refused_and_named():
    x = paths(20, 2, 3, 1)
    with pytest.raises(OverflowError, match="series 0 of x"):
        signature_kernel_diag(x, static="rbf", amplitude=480.0, bandwidth=0.1)
    with pytest.raises(ValueError, match="not finite"):
        signature_kernel_diag(torch.full((1, 3, 1), math.inf).double(), static="rbf")
