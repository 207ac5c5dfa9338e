"""SigGPDE in plain torch gives what the core gives."""

from itertools import pairwise

import pytest
import torch

from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import signature_kernel_diag
from siggpde.numerics.words import words
from siggpde_paper.experiments.variants import TorchFeatures, TorchKernel, kernel_diagonal, word_signatures


def walks(n: int, length: int, channels: int) -> torch.Tensor:
    steps = torch.randn(n, length, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return (steps / (length * channels) ** 0.5).cumsum(dim=1)


@pytest.mark.parametrize(("channels", "count"), [(1, 1), (1, 6), (2, 37), (3, 100), (5, 31), (7, 8)])
def test_signatures_of_words_and_their_gradients(channels: int, count: int):
    x = walks(4, 9, channels).requires_grad_()
    chosen = words(channels, count)
    ours, core = word_signatures(x, chosen), signature(x, words=chosen)
    assert torch.allclose(ours, core, rtol=1e-8, atol=1e-12)
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    if count > 1:
        slopes = [torch.autograd.grad((values * weights).sum(), x)[0] for values in (ours, core)]
        assert torch.allclose(*slopes, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("refine", [0, 1, 3])
@pytest.mark.parametrize("length", [2, 3, 8])
def test_diagonal_and_its_gradient_by_the_same_finite_differences(length: int, refine: int):
    x = (2 * walks(5, length, 3)).requires_grad_()
    ours, core = kernel_diagonal(x, refine), signature_kernel_diag(x, solver="fd", refine=refine)
    assert torch.allclose(ours, core, rtol=1e-8, atol=0)
    slopes = [torch.autograd.grad(values.sum(), x)[0] for values in (ours, core)]
    assert torch.allclose(*slopes, rtol=1e-8, atol=1e-10)


def test_refinement_leads_to_the_solver_of_the_core():
    x = walks(5, 10, 2)
    exact = signature_kernel_diag(x, tol=1e-12)
    errors = [float((kernel_diagonal(x, refine) / exact - 1).abs().max()) for refine in (2, 3, 4)]
    ratios = [coarse / fine for coarse, fine in pairwise(errors)]
    assert all(3.5 < ratio < 4.5 for ratio in ratios), ratios  # of second order
    assert errors[2] < 1e-4


def test_features_and_scales_as_those_of_the_core():
    x = walks(6, 12, 3)
    theta = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    slopes = []
    for kernel, features in (
        (TorchKernel(3, refine=5, theta=theta), TorchFeatures(3, 50, "lexicographic")),
        (SignatureKernel(3, theta=theta), OrthogonalSignatureFeatures(3, 50, "lexicographic")),
    ):
        projection = features(kernel, x)
        (projection.features.square().sum() + projection.variance.sum()).backward()
        slopes.append((projection.features.detach(), projection.variance.detach(), kernel.log_theta.grad))
    (ours, ours_variance, ours_slope), (core, core_variance, core_slope) = slopes
    assert torch.allclose(ours, core, rtol=1e-8, atol=1e-14)
    assert torch.allclose(ours_variance, core_variance, rtol=1e-5)  # the scheme's own error
    assert torch.allclose(ours_slope, core_slope, rtol=1e-4)


def test_series_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="equal length"):
        TorchKernel(2).squared_norm(walks(2, 5, 2), lengths=[5, 3])
