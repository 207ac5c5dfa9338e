"""Classification by regression on ±1: the regression is Gaussian's, the probabilities are those of a softmax."""

import json
import math

import pytest
import torch
from torch import Tensor

from helpers import likelihood_oracles as oracle
from siggpde.gp.likelihoods import Gaussian, LeastSquares, Likelihood, Softmax


def problem(rows: int = 8, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(rows, classes, generator=random, dtype=torch.float64)
    variance = 0.5 * torch.rand(rows, classes, generator=random, dtype=torch.float64)
    return mean, variance, torch.randint(classes, (rows,), generator=random)


@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 3.0]])
def test_the_regression_is_that_of_a_gaussian_for_every_class(weight: list[float] | None):
    mean, variance, y = problem()
    likelihood, single = LeastSquares(3, noise=0.2, class_weight=weight), Gaussian(0.2)
    factor = torch.ones(8).double() if weight is None else torch.tensor(weight).double()[y]
    value, slope, curvature = likelihood.statistics(mean, variance, y)
    total = torch.zeros(8).double()
    for c in range(3):
        sign = torch.where(y == c, 1.0, -1.0).double()
        one = single.statistics(mean[:, c : c + 1], variance[:, c : c + 1], sign)
        total += one[0]
        assert torch.allclose(slope[:, c], factor * one[1][:, 0], rtol=1e-12)
        assert torch.allclose(curvature[:, c], factor * one[2][:, 0], rtol=1e-12)
    assert torch.allclose(value, factor * total, rtol=1e-12)
    assert torch.allclose(likelihood.expected_log_prob(mean, variance, y), factor * total, rtol=1e-12)


@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 3.0]])
def test_the_gradient_is_that_of_finite_differences(weight: list[float] | None):
    mean, variance, y = problem()
    likelihood = LeastSquares(3, noise=0.2, class_weight=weight)
    variables = mean.requires_grad_(), variance.requires_grad_(), likelihood.log_noise
    gradients = torch.autograd.grad(likelihood.expected_log_prob(mean, variance, y).sum(), variables)
    step = 1e-5
    for variable, gradient in zip(variables, gradients, strict=True):
        for place in range(variable.numel()):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    variable.view(-1)[place] += sign * step
                    ends.append(likelihood.expected_log_prob(mean, variance, y).sum().item())
                    variable.view(-1)[place] -= sign * step
            assert gradient.reshape(-1)[place].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("lapse", [0.0, 0.1])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probabilities_are_the_gumbel_integral(classes: int, lapse: float):
    mean, variance, _ = problem(classes=classes)
    _, wanted = oracle.softmax(2.5 * mean, 2.5**2 * variance)
    found = LeastSquares(classes, temperature=2.5, lapse=lapse, opposite=False).predict(mean, variance)
    assert torch.allclose(found.sum(dim=1), torch.ones(8).double(), atol=1e-14)
    assert torch.allclose(found, (1 - lapse) * wanted + lapse / classes, atol=6e-3)


def test_probabilities_are_the_average_over_samples():
    mean, variance, _ = problem(rows=3)
    random = torch.Generator().manual_seed(1)
    latent = mean + variance.sqrt() * torch.randn(100_000, 3, 3, generator=random, dtype=torch.float64)
    wanted = 0.95 * torch.softmax(3 * latent, dim=2).mean(dim=0) + 0.05 / 3
    assert torch.allclose(LeastSquares(3, temperature=3.0, lapse=0.05).predict(mean, variance), wanted, atol=5e-3)


def test_the_latents_of_two_classes_are_f_and_minus_f():
    """By Monte Carlo: the difference of the logits has the variance of 2 f, not that of two independent latents."""
    random = torch.Generator().manual_seed(2)
    f, spread = torch.tensor([0.0, 0.4, -1.5, 2.0]).double(), torch.tensor([1.0, 0.7, 0.5, 1.5]).double()
    mean, variance = torch.stack([f, -f], dim=1), spread.square()[:, None].expand(4, 2)
    mixing, offset = torch.tensor([[1.0, -0.2], [0.3, 0.8]]).double(), torch.tensor([0.2, -0.1]).double()
    draws = f + spread * torch.randn(400_000, 4, generator=random, dtype=torch.float64)
    logits = 3 * torch.stack([draws, -draws], dim=2) @ mixing.T + offset
    wanted = 0.95 * torch.softmax(logits, dim=2).mean(0) + 0.05 / 2
    likelihood = LeastSquares(2, temperature=3.0, lapse=0.05, mixing=mixing, offset=offset, predict_points=1024)
    assert torch.allclose(likelihood.predict(mean, variance), wanted, atol=2e-3)
    assert torch.allclose(likelihood.log_predictive(mean, variance, torch.ones(4)), wanted[:, 1].log(), atol=1e-2)
    points = mean[:, None] + spread[:, None, None] * likelihood.normal_points(1024)
    difference = (points[:, :, 0] - points[:, :, 1]).var(dim=1, correction=0)
    assert torch.allclose(difference, 4 * spread.square(), rtol=1e-9)
    independent = LeastSquares(2, temperature=3.0, lapse=0.05, mixing=mixing, offset=offset, opposite=False)
    assert (independent.predict(mean, variance) - wanted).abs().max() > 0.01


def test_models_saved_without_the_setting_predict_as_they_did():
    mean, variance, _ = problem(classes=2)
    settings = LeastSquares(2, opposite=False).settings()
    assert settings.pop("opposite") is False
    old, new = Likelihood.from_settings(settings), Likelihood.from_settings(LeastSquares(2).settings())
    assert isinstance(old, LeastSquares) and not old.opposite and isinstance(new, LeastSquares) and new.opposite
    assert torch.equal(old.predict(mean, variance), LeastSquares(2, opposite=False).predict(mean, variance))
    assert not torch.allclose(old.predict(mean, variance), new.predict(mean, variance), atol=1e-3)
    more = problem()[:2]
    assert torch.equal(LeastSquares(3).predict(*more), LeastSquares(3, opposite=False).predict(*more))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("lapse", [0.0, 1e-3, 0.5])
def test_the_density_is_the_probability_of_the_label(lapse: float, dtype: torch.dtype):
    mean, variance, y = (part.to(dtype) if part.is_floating_point() else part for part in problem(rows=30, classes=4))
    likelihood = LeastSquares(4, temperature=3.0, lapse=lapse)
    column = likelihood.predict(mean, variance).gather(1, y[:, None])[:, 0]
    found = likelihood.log_predictive(mean, variance, y)
    assert found.dtype == dtype
    assert torch.allclose(found, column.log(), rtol=1e-10 if dtype == torch.float64 else 1e-4)
    certain = likelihood.log_predictive(1e4 * (2 * torch.nn.functional.one_hot(y, 4).to(mean) - 1), 0 * variance, y)
    assert torch.allclose(certain, torch.full_like(certain, math.log1p(-lapse * 3 / 4)), atol=1e-6)
    wrong = likelihood.log_predictive(1e4 * torch.nn.functional.one_hot((y + 1) % 4, 4).to(mean), 0 * variance, y)
    assert torch.isfinite(wrong).all()
    if lapse:
        assert torch.allclose(wrong, torch.full_like(wrong, math.log(lapse / 4)))


def test_a_lapse_bounds_the_loss_and_class_weights_leave_predictions():
    mean, variance, y = problem()
    plain, weighted = LeastSquares(3), LeastSquares(3, class_weight=[1.0, 5.0, 0.2])
    assert torch.equal(plain.predict(mean, variance), weighted.predict(mean, variance))
    assert torch.equal(plain.log_predictive(mean, variance, y), weighted.log_predictive(mean, variance, y))
    assert torch.equal(weighted.weights(y.to(torch.int8), mean), torch.tensor([1.0, 5.0, 0.2], dtype=torch.float64)[y])
    assert torch.equal(plain.signs(torch.tensor([2, 0]), mean), torch.tensor([[-1.0, -1, 1], [1, -1, -1]]).double())
    assert LeastSquares(3, lapse=0.1).log_predictive(mean * 1e6, variance, y).min() >= math.log(0.1 / 3) - 1e-12


def test_at_temperature_one_it_predicts_as_a_softmax():
    mean, variance, _ = problem()
    found = LeastSquares(3, temperature=1.0, predict_points=512).predict(mean, variance)
    assert torch.allclose(found, Softmax(3).predict(mean, variance), atol=1e-12)


def test_mixing_and_offset_are_those_of_a_linear_link():
    mean, _, _ = problem()
    generator = torch.Generator().manual_seed(3)
    mixing = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    likelihood = LeastSquares(3, temperature=2.0, mixing=mixing, offset=[0.1, -0.2, 0.3])
    logits = 2.0 * mean @ mixing.T + torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    found = likelihood.predict(mean, torch.zeros_like(mean))
    assert torch.allclose(found, torch.softmax(logits, dim=1), atol=1e-6)
    assert "mixing" not in repr(likelihood)


@pytest.mark.parametrize("wrong", [{"mixing": [[1.0]]}, {"offset": [1.0, 2.0]}, {"offset": [1.0, 2.0, math.nan]}])
def test_a_link_of_another_shape_is_refused(wrong):
    with pytest.raises(ValueError, match="must be finite numbers of shape"):
        LeastSquares(3, **wrong)


def test_settings_and_state_go_there_and_back():
    likelihood = LeastSquares(3, 0.3, 2.0, 0.01, predict_points=64, class_weight=[1.0, 2.0, 3.0], seed=7)
    with torch.no_grad():
        likelihood.log_noise.add_(0.5)
        likelihood.calibration.copy_(torch.tensor([5.5, 0.03125]))
    settings = json.loads(json.dumps(likelihood.settings()))
    assert (settings["temperature"], settings["lapse"]) == (5.5, 0.03125)
    again = Likelihood.from_settings(settings)
    assert isinstance(again, LeastSquares) and again.settings().keys() == settings.keys()
    assert again.noise.item() == pytest.approx(0.3 * math.exp(0.5), rel=1e-14)
    mean, variance, y = problem()
    assert torch.equal(again.predict(mean, variance), likelihood.predict(mean, variance))
    other = LeastSquares(3, predict_points=64, class_weight=[1.0, 2.0, 3.0], seed=7)
    other.load_state_dict(likelihood.state_dict())
    assert torch.equal(other.log_predictive(mean, variance, y), likelihood.log_predictive(mean, variance, y))
    assert "temperature=5.5" in repr(likelihood) and likelihood.is_gaussian and likelihood.log_concave


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 1}, "classes must be an integer of at least 2, got 1"),
        ({"classes": 2, "noise": 0.0}, "noise, a variance, must be positive and finite, got 0.0"),
        ({"classes": 2, "noise": math.nan}, "noise, a variance"),
        ({"classes": 2, "temperature": 0.0}, "temperature must be positive and finite, got 0.0"),
        ({"classes": 2, "temperature": math.inf}, "temperature must be positive and finite, got inf"),
        ({"classes": 2, "lapse": 1.0}, "lapse must be from 0 up to 1, got 1.0"),
        ({"classes": 2, "lapse": -0.1}, "lapse must be from 0 up to 1, got -0.1"),
        ({"classes": 2, "class_weight": [1.0]}, "class_weight must be 2 positive numbers"),
        ({"classes": 2, "predict_points": 3}, "must be even and at least 2, got 3"),
    ],
)
def test_mistakes_are_explained(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        LeastSquares(**arguments)


def test_targets_and_shapes_are_checked():
    likelihood = LeastSquares(3)
    with pytest.raises(ValueError, match="target 1 is 3: labels must be whole numbers from 0 to 2"):
        likelihood.check_targets([0, 3])
    with pytest.raises(ValueError, match=r"mean and variance must both be \(B, 3\)"):
        likelihood.predict(torch.zeros(2, 2), torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"y must be \(2,\), one target a row"):
        likelihood.statistics(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3).long())
    with pytest.raises(NotImplementedError, match="LeastSquares has no quantiles"):
        likelihood.quantile(torch.zeros(2, 3), torch.zeros(2, 3), 0.5)
