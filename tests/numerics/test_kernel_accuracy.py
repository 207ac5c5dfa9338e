"""The series solver keeps its promise, |error| <= tol sqrt(k(X,X) k(Y,Y)), and finite differences are the paper's."""

import pytest
import torch
from torch import Tensor

from helpers.random_paths import FAMILIES, make
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import goursat as reference
from siggpde.numerics.goursat import LEGENDRE, empty_cells, scheme_of, solve_goursat

# Family and size: from hardly any movement to kernels of about a thousand, or falls of U(i, i) of as much.
CASES = [
    ("smooth", 0.1), ("smooth", 1.0), ("smooth", 4.4),
    ("brownian", 0.1), ("brownian", 1.0), ("brownian", 4.0),
    ("spiky", 0.5), ("spiky", 1.5),
    ("drift", 0.5), ("drift", 4.0),
    ("heavy-tailed", 0.3), ("heavy-tailed", 2.0),
    ("out-and-back", 0.5), ("out-and-back", 2.0), ("out-and-back", 4.4),
    ("stride-and-return", 0.5), ("stride-and-return", 2.0), ("stride-and-return", 4.4),
]  # fmt: skip
TOLERANCES = [1e-4, 1e-8, 1e-12]


def rounding(x: Tensor) -> float:
    """What rounding leaves beside k: more where U(i, i) falls along the way, as it does when a path comes back."""
    steps = reference.split_increments(x, None, LEGENDRE)
    rho = steps @ steps.transpose(1, 2)
    cells = empty_cells(rho, LEGENDRE.degree)
    end = solve_goursat(rho, LEGENDRE.degree, LEGENDRE.powers, cells=cells)
    along = torch.cat([cells.corner.diagonal(dim1=1, dim2=2), end[:, None]], 1)
    return 1e-13 + 1e-15 * float((along.cummax(1).values / along).max()) ** 2


@pytest.mark.parametrize(("family", "size"), CASES)
def test_the_tolerance_is_kept_on_the_diagonal(family: str, size: float):
    for seed, (length, channels) in enumerate([(6, 2), (22, 1), (13, 12)]):
        x = make(family, seed, 3, length, channels, size)
        wanted, allowed = reference.diagonal(x, None, LEGENDRE), rounding(x)
        for tol in TOLERANCES:
            error = (signature_kernel_diag(x, tol=tol) - wanted).abs() / wanted
            assert error.max() <= tol + allowed
            error = (signature_kernel_diag(x, tol=tol, log=True) - wanted.log()).abs()
            assert error.max() <= 1.01 * tol + allowed


@pytest.mark.parametrize(("family", "size"), CASES)
def test_the_tolerance_is_kept_by_gram_matrices(family: str, size: float):
    others = [("smooth", 1.0), ("brownian", 2.0), ("stride-and-return", 2.5)]
    for seed, (length, channels) in enumerate([(5, 2), (18, 1), (12, 3)]):
        x = make(family, seed, 2, length, channels, size)
        y = torch.cat([make(name, seed + 9, 1, 7, channels, scale) for name, scale in others])
        own, cross = reference.gram(x, None, x, None, LEGENDRE), reference.gram(x, None, y, None, LEGENDRE)
        of_x, of_y = own.diagonal().sqrt(), reference.diagonal(y, None, LEGENDRE).sqrt()
        allowed = max(rounding(x), rounding(y))
        for tol in TOLERANCES:
            error = (signature_kernel(x, y, tol=tol) - cross).abs() / torch.outer(of_x, of_y)
            assert error.max() <= tol + allowed
            error = (signature_kernel(x, tol=tol) - own).abs() / torch.outer(of_x, of_x)
            assert error.max() <= tol + allowed


def test_a_smaller_tolerance_is_not_for_nothing():
    x = make("brownian", 0, 20, 30, 2, 3.0)
    wanted = reference.diagonal(x, None, LEGENDRE)
    coarse, fine = ((signature_kernel_diag(x, tol=tol) - wanted).abs().max() for tol in (1e-2, 1e-10))
    assert coarse > 1e-9
    assert fine < coarse / 100


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("refine", [0, 1, 2, 3])
def test_finite_differences_are_those_of_the_reference(family: str, refine: int):
    scheme = scheme_of(refine)
    x, y = make(family, 1, 3, 17, 3, 1.0), make("brownian", 2, 4, 9, 3, 1.0)
    wanted = reference.diagonal(x, None, scheme)
    assert torch.allclose(signature_kernel_diag(x, solver="fd", refine=refine), wanted, rtol=1e-13, atol=1e-13)
    got = signature_kernel_diag(x, solver="fd", refine=refine, log=True)
    assert torch.allclose(got, wanted.log(), rtol=1e-12, atol=1e-13)
    got = signature_kernel(x, y, solver="fd", refine=refine)
    assert torch.allclose(got, reference.gram(x, None, y, None, scheme), rtol=1e-13, atol=1e-13)
    own = reference.gram(x, None, x, None, scheme)
    assert torch.allclose(signature_kernel(x, solver="fd", refine=refine), own, rtol=1e-13, atol=1e-13)


def test_finite_differences_of_one_cell_by_hand():
    x = torch.tensor([[[0.0], [0.6]]], dtype=torch.float64)
    p = 0.36
    wanted = 2 * (1 + p / 2 + p * p / 12) - (1 - p * p / 12)
    assert signature_kernel_diag(x, solver="fd").item() == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize("family", ["smooth", "brownian", "drift"])
def test_finite_differences_converge_with_order_two(family: str):
    x, y = make(family, 5, 3, 12, 2, 1.5), make("smooth", 6, 2, 10, 2, 1.5)
    exact, exact_gram = signature_kernel_diag(x, tol=1e-13), signature_kernel(x, y, tol=1e-13)
    errors, gram_errors = [], []
    for refine in range(4, 8):
        errors.append((signature_kernel_diag(x, solver="fd", refine=refine) - exact).norm())
        gram_errors.append((signature_kernel(x, y, solver="fd", refine=refine) - exact_gram).norm())
    for sequence in (torch.stack(errors), torch.stack(gram_errors)):
        ratio = sequence[:-1] / sequence[1:]
        assert ((ratio > 3.5) & (ratio < 4.5)).all(), ratio
