"""The authors' gradient in the channel scales against the exact one, and SigGPDE in plain torch against the core."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from helpers.refusals import assert_refused
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import signature_kernel_diag, signature_kernel_diag_scales
from siggpde.numerics.words import words
from siggpde_paper.experiments import variants
from siggpde_paper.experiments.comparison import report_scales, run_scales
from siggpde_paper.experiments.methods import build, prepare
from siggpde_paper.experiments.results import Results, load_config, merged

THETA = torch.tensor([0.4, 0.6, 0.5]).double()


def random_walks(n: int = 6, length: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, length, 3, generator=generator, dtype=torch.float64).cumsum(1) / 2


def test_the_gradient_of_corners_is_that_by_hand_and_tends_to_the_exact_one():
    x = random_walks()
    _, exact = signature_kernel_diag_scales(x, THETA, tol=1e-10)
    errors = [float((variants.scale_gradient(x, THETA, r) - exact).norm() / exact.norm()) for r in range(2, 7)]
    assert errors[0] > 0.05 and errors[-1] < 0.02
    assert all(1.7 < coarse / fine < 2.3 for coarse, fine in pairwise(errors[1:]))
    # One straight segment of squared length r at refinement 0: U = V = 1 at the corners, so dk/drho is 1.
    x = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]]).double()
    theta = torch.tensor([0.5, 0.25]).double()
    torch.testing.assert_close(variants.scale_gradient(x, theta, 0), 2 * torch.tensor([[0.25, 0.25]]).double())


@pytest.mark.parametrize("values", [False, True])
def test_the_kernel_has_the_value_asked_for_and_the_authors_gradient(values: bool):
    x = random_walks()
    kernel = variants.FiniteDifferenceKernel(3, theta=THETA, refine=3, values=values)
    actual = kernel.squared_norm(x)
    exact = SignatureKernel(3, theta=THETA, tol=1e-6).squared_norm(x)
    differences = signature_kernel_diag(x * THETA, solver="fd", refine=3)
    torch.testing.assert_close(actual, differences if values else exact, rtol=1e-9, atol=0)
    assert not torch.allclose(differences, exact, rtol=1e-6)
    weights = torch.arange(1.0, 7.0).double()
    actual.backward(weights)
    torch.testing.assert_close(kernel.log_theta.grad, weights @ variants.scale_gradient(x, THETA, 3))
    with torch.no_grad():
        torch.testing.assert_close(kernel.squared_norm(x), actual)
    assert_refused("series of equal length", kernel.squared_norm, x, lengths=[8, 8, 8, 5, 8, 8])


def test_variants_and_series_that_are_refused():
    config = load_config("scales", quick=True)
    with pytest.raises(ValueError, match="scales must be 'exact', 'frozen' or 'finite differences', got 'thawed'"):
        build(config, {"kind": "siggpde", "order": "lexicographic", "scales": "thawed"}, prepare(config), 0)
    assert_refused("equal length", variants.TorchKernel(2).squared_norm, walks_torch_siggpde(2, 5, 2), lengths=[5, 3])


def test_the_ablation_end_to_end(tmp_path: Path):
    changes = {"schedule": {"iterations": 4, "evaluate_every": 2}, "inducing": 12, "series": 120, "test_series": 60}
    config = merged(load_config("scales", quick=True), changes | {"gradient_series": 10})
    results = Results(tmp_path, config)
    run_scales(config, results, 1)
    records = results.records()
    start, refinements = records["errors"]["theta"], records["errors"]["refinements"]
    kept = {name: records[f"fit/{name}/0"] for name in config["methods"]}
    assert set(kept) == {"frozen", "exact", "variation", "authors"}
    assert all(record["theta_start"] == pytest.approx(start) for record in kept.values())
    assert kept["frozen"]["theta"] == kept["frozen"]["theta_start"]
    ends = {name: record["scales"][-1][2] for name, record in kept.items()}
    assert all(abs(a - b) > 1e-4 for name in ("exact", "variation") for a, b in zip(ends[name], start, strict=True))
    assert ends["exact"] != ends["variation"] != ends["authors"]
    text = report_scales(config, results)
    assert all(f"| {method['name']} |" in text for method in config["methods"].values())
    assert refinements["3"]["median"] < refinements["0"]["median"] and (tmp_path / "scales.png").exists()
    assert json.loads((tmp_path / "results.json").read_text())["records"]["fit/exact/0"]["iterations"]["q"] == 4


def walks_torch_siggpde(n: int, length: int, channels: int) -> torch.Tensor:
    steps = torch.randn(n, length, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return (steps / (length * channels) ** 0.5).cumsum(dim=1)


@pytest.mark.parametrize(("channels", "count"), [(1, 1), (1, 6), (2, 37), (3, 100), (5, 31), (7, 8)])
def test_signatures_of_words_and_their_gradients(channels: int, count: int):
    x = walks_torch_siggpde(4, 9, channels).requires_grad_()
    chosen = words(channels, count)
    ours, core = variants.word_signatures(x, chosen), signature(x, words=chosen)
    assert torch.allclose(ours, core, rtol=1e-8, atol=1e-12)
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    if count > 1:
        slopes = [torch.autograd.grad((values * weights).sum(), x)[0] for values in (ours, core)]
        assert torch.allclose(*slopes, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("refine", [0, 1, 3])
@pytest.mark.parametrize("length", [2, 3, 8])
def test_diagonal_and_its_gradient_by_the_same_finite_differences(length: int, refine: int):
    x = (2 * walks_torch_siggpde(5, length, 3)).requires_grad_()
    ours, core = variants.kernel_diagonal(x, refine), signature_kernel_diag(x, solver="fd", refine=refine)
    assert torch.allclose(ours, core, rtol=1e-8, atol=0)
    slopes = [torch.autograd.grad(values.sum(), x)[0] for values in (ours, core)]
    assert torch.allclose(*slopes, rtol=1e-8, atol=1e-10)


def test_refinement_leads_to_the_solver_of_the_core():
    x = walks_torch_siggpde(5, 10, 2)
    exact = signature_kernel_diag(x, tol=1e-12)
    errors = [float((variants.kernel_diagonal(x, refine) / exact - 1).abs().max()) for refine in (2, 3, 4)]
    ratios = [coarse / fine for coarse, fine in pairwise(errors)]
    assert all(3.5 < ratio < 4.5 for ratio in ratios), ratios  # of second order
    assert errors[2] < 1e-4


def test_features_and_scales_as_those_of_the_core():
    x = walks_torch_siggpde(6, 12, 3)
    theta = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    slopes = []
    for kernel, features in (
        (variants.TorchKernel(3, refine=5, theta=theta), variants.TorchFeatures(3, 50, "lexicographic")),
        (SignatureKernel(3, theta=theta), OrthogonalSignatureFeatures(3, 50, "lexicographic")),
    ):
        projection = features(kernel, x)
        (projection.features.square().sum() + projection.variance.sum()).backward()
        slopes.append((projection.features.detach(), projection.variance.detach(), kernel.log_theta.grad))
    (ours, ours_variance, ours_slope), (core, core_variance, core_slope) = slopes
    assert torch.allclose(ours, core, rtol=1e-8, atol=1e-14)
    assert torch.allclose(ours_variance, core_variance, rtol=1e-5)  # the scheme's own error
    assert torch.allclose(ours_slope, core_slope, rtol=1e-4)
