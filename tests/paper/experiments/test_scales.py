"""The authors' gradient in the channel scales against the exact one, and the experiment that compares both."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics.signature_kernel import signature_kernel_diag, signature_kernel_diag_scales
from siggpde_paper.experiments.methods import build, prepare
from siggpde_paper.experiments.results import Results, load_config, merged
from siggpde_paper.experiments.scales import report, run
from siggpde_paper.experiments.variants import FiniteDifferenceKernel, scale_gradient

THETA = torch.tensor([0.4, 0.6, 0.5]).double()


def walks(n: int = 6, length: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, length, 3, generator=generator, dtype=torch.float64).cumsum(1) / 2


def test_the_gradient_of_corners_tends_to_the_exact_one_at_first_order():
    x = walks()
    _, exact = signature_kernel_diag_scales(x, THETA, tol=1e-10)
    errors = [float((scale_gradient(x, THETA, r) - exact).norm() / exact.norm()) for r in range(2, 7)]
    assert errors[0] > 0.05 and errors[-1] < 0.02
    assert all(1.7 < coarse / fine < 2.3 for coarse, fine in pairwise(errors[1:]))


def test_the_corners_of_one_cell_by_hand():
    """One straight segment of squared length r at refinement 0: U = V = 1 at the corners, so dk/drho is 1."""
    x = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]]).double()
    theta = torch.tensor([0.5, 0.25]).double()
    torch.testing.assert_close(scale_gradient(x, theta, 0), 2 * torch.tensor([[0.25, 0.25]]).double())


@pytest.mark.parametrize("values", [False, True])
def test_the_kernel_has_the_value_asked_for_and_the_authors_gradient(values: bool):
    x = walks()
    kernel = FiniteDifferenceKernel(3, theta=THETA, refine=3, values=values)
    found = kernel.squared_norm(x)
    exact = SignatureKernel(3, theta=THETA, tol=1e-6).squared_norm(x)
    differences = signature_kernel_diag(x * THETA, solver="fd", refine=3)
    torch.testing.assert_close(found, differences if values else exact, rtol=1e-9, atol=0)
    assert not torch.allclose(differences, exact, rtol=1e-6)
    weights = torch.arange(1.0, 7.0).double()
    found.backward(weights)
    torch.testing.assert_close(kernel.log_theta.grad, weights @ scale_gradient(x, THETA, 3))
    with torch.no_grad():
        torch.testing.assert_close(kernel.squared_norm(x), found)
    with pytest.raises(ValueError, match="series of equal length"):
        kernel.squared_norm(x, lengths=[8, 8, 8, 5, 8, 8])


def test_a_variant_that_there_is_not():
    config = load_config("scales", quick=True)
    with pytest.raises(ValueError, match="scales must be 'exact', 'frozen' or 'finite differences', got 'thawed'"):
        build(config, {"kind": "siggpde", "order": "lexicographic", "scales": "thawed"}, prepare(config), 0)


def test_the_ablation_end_to_end(tmp_path: Path):
    changes = {"schedule": {"iterations": 4, "evaluate_every": 2}, "inducing": 12, "series": 120, "test_series": 60}
    config = merged(load_config("scales", quick=True), changes | {"gradient_series": 10})
    results = Results(tmp_path, config)
    run(config, results, 1)
    records = results.records()
    start, refinements = records["errors"]["theta"], records["errors"]["refinements"]
    kept = {name: records[f"fit/{name}/0"] for name in config["methods"]}
    assert set(kept) == {"frozen", "exact", "variation", "authors"}
    assert all(record["theta_start"] == pytest.approx(start) for record in kept.values())
    assert kept["frozen"]["theta"] == kept["frozen"]["theta_start"]
    ends = {name: record["scales"][-1][2] for name, record in kept.items()}
    assert all(abs(a - b) > 1e-4 for name in ("exact", "variation") for a, b in zip(ends[name], start, strict=True))
    assert ends["exact"] != ends["variation"] != ends["authors"]
    text = report(config, results)
    assert all(f"| {method['name']} |" in text for method in config["methods"].values())
    assert refinements["3"]["median"] < refinements["0"]["median"] and (tmp_path / "scales.png").exists()
    assert json.loads((tmp_path / "results.json").read_text())["records"]["fit/exact/0"]["iterations"]["q"] == 4
