"""Natural gradients: their fixed point is the optimum, of a fit as of an update with new series."""

import copy
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from helpers.refusals import assert_refused
from helpers.small_models import QUIET, dense_covariance, labels, same_state, series, small_gp, targets, whole_gp
from siggpde.gp import natural_gradients as new_series
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import Climb, NaturalGradient, update_posterior
from siggpde.training import Exact, NaturalGradients, fit

EXACT = NaturalGradients(learn=False, settle=1e-10, max_iter=300)
both = pytest.mark.parametrize("covariance", ["full", "diagonal"])


def task(kind: str, n: int = 40) -> tuple[Likelihood, Tensor, Tensor]:
    x = series(n)
    y = targets(x)
    likelihood, y = {
        "gaussian": (Gaussian(0.1), y),
        "student": (StudentT(0.2, df=4), y + 4.0 * (torch.arange(n) % 7 == 0)),
        "poisson": (Poisson(), y.exp().round().clamp(max=6)),
        "bernoulli": (Bernoulli(), labels(x, 2)),
        "softmax": (Softmax(3, points=1024), labels(x, 3)),
    }[kind]
    return likelihood, x, y


def climbed_by_autograd(model: SignatureGP, x: Tensor, y: Tensor) -> float:
    """The ELBO after L-BFGS on q(u) alone, which knows nothing of natural gradients."""
    with torch.no_grad():
        seen = model.project(x)
    q = list(model.variational.parameters())
    optimizer = torch.optim.LBFGS(
        q, max_iter=400, history_size=30, line_search_fn="strong_wolfe", tolerance_grad=1e-9, tolerance_change=1e-12
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -model.elbo_of(seen, y)
        value.backward()
        return value

    optimizer.step(loss)
    return float(model.elbo_of(seen, y).detach())


@both
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "student", "poisson", "softmax"])
def test_the_fixed_point_is_the_optimum_that_autograd_finds(kind: str, covariance: str):
    likelihood, x, y = task(kind)
    natural, other = (small_gp(likelihood, 7, theta=0.5, covariance=covariance) for _ in range(2))
    history = fit(natural, (x, y), EXACT, validation=0, **QUIET)
    assert history.stopped == {"q": "settled", "all": "settled"}
    elbos = [record.elbo for record in history.of("q")]
    if kind == "gaussian" and covariance == "full":
        assert elbos[0] == pytest.approx(elbos[-1], abs=1e-10), "one step is the optimum"
    wanted = climbed_by_autograd(other, x, likelihood.check_targets(y))
    # Curvatures by Price's theorem and the slope of the quadrature differ by the error of its points.
    loose = kind in ("softmax", "student")
    assert natural.elbo(x, y).item() == pytest.approx(wanted, abs=2e-3 if loose else 1e-6)
    assert torch.allclose(natural.variational.mean, other.variational.mean, atol=2e-2 if loose else 1e-3)
    actual, wanted = dense_covariance(natural.variational), dense_covariance(other.variational)
    assert torch.allclose(actual, wanted, atol=2e-2 if loose else 1e-3)


def test_minibatch_targets_average_to_the_whole_one():
    likelihood, x, y = task("bernoulli")
    for covariance in ("full", "diagonal"):
        model = small_gp(likelihood, 7, covariance=covariance)
        with torch.no_grad():
            model.variational.mean.normal_(generator=torch.Generator().manual_seed(0))
            seen = model.project(x)
        natural = NaturalGradient(model)
        whole = natural.target(natural.statistics([(seen, y)]), 40)
        chunks = torch.arange(40).split(8)
        parts = [natural.target(natural.statistics([(seen[rows], y[rows])]), 40) for rows in chunks]
        assert torch.allclose(sum(p.precision for p in parts) / 5, whole.precision, atol=1e-10)
        assert torch.allclose(sum(p.shift for p in parts) / 5, whole.shift, atol=1e-10)


def test_joint_steps_never_lower_the_elbo():
    for kind in ("student", "softmax"):
        likelihood, x, y = task(kind)
        model = small_gp(likelihood, 15, theta=1.5)
        with torch.no_grad():
            seen = model.project(x)
        climb = Climb(NaturalGradient(model), [(seen, likelihood.check_targets(y))], 1.0)
        elbos = [climb.elbo]
        for _ in range(15):
            gain = climb.step()
            assert climb.elbo == pytest.approx(model.elbo_of(seen, likelihood.check_targets(y)).item(), abs=1e-8)
            assert gain == pytest.approx(climb.elbo - elbos[-1], abs=1e-12)
            elbos.append(climb.elbo)
        assert all(later >= earlier - 1e-9 for earlier, later in pairwise(elbos))


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("normalized", [False, True])
def test_with_more_words_than_series_the_rotated_posterior_is_the_same(kind: str, normalized: bool):
    likelihood, x, y = task(kind, n=9)
    new = series(6, seed=5)
    rotated, plain = (small_gp(likelihood, 63, theta=0.7, normalized=normalized) for _ in range(2))
    fit(rotated, (x, y), EXACT, validation=0, **QUIET)
    assert rotated.features.size <= 9 and len(rotated.features.words) == 63
    climb = Climb(NaturalGradient(plain), [(plain.project(x), likelihood.check_targets(y))], 0.5)
    while climb.step() > 1e-11:
        pass
    assert plain.features.size == 63
    assert rotated.elbo(x, y).item() == pytest.approx(plain.elbo(x, y).item(), abs=1e-5)
    for got, wanted in zip(rotated.predict_f(new), plain.predict_f(new), strict=True):
        assert torch.allclose(got, wanted, atol=1e-4)


def test_hyperparameters_end_with_the_best_state_seen():
    likelihood, x, y = task("gaussian", n=60)
    for theta in (0.2, 1.5):
        model = small_gp(likelihood, 15, theta=theta)
        history = fit(model, (x, y), NaturalGradients(max_iter=8, learning_rate=0.2), **QUIET)
        start = next(record for record in history.of("q") if record.nlpp is not None)
        best = min([start, *history.of("hyperparameters")], key=lambda record: record.nlpp or math.inf)
        assert model.kernel.theta.tolist() == pytest.approx(best.theta, rel=1e-12)
        assert history.of("all")[-1].theta == model.kernel.theta.tolist()


def test_scales_far_off_are_left_while_the_elbo_rises_by_nats():
    """The validation NLPP is worse for a few steps on the way, for q(u) follows the scales by one step at a time."""
    x = series(300, length=16, channels=4)
    y = labels(x, 2)
    model = small_gp(Bernoulli(), 15, channels=4, theta=2.0, tol=1e-6)
    history = fit(model, (x, y), **QUIET)
    before = [record.nlpp for record in history.of("q") if record.nlpp is not None]
    first, *_, best = sorted((r.nlpp for r in history.of("hyperparameters") if r.nlpp is not None), reverse=True)
    assert first > before[-1] > best, "the case that it is about"
    assert float(model.elbo(x, y).detach()) / len(y) > -10, "where it starts it is below -1000"


def test_without_validation_hyperparameters_that_only_get_worse_are_taken_back():
    _, x, y = task("gaussian", n=20)
    model = whole_gp(2, Gaussian(0.1))
    fit(model, (x, y), NaturalGradients(), **QUIET)
    learned, elbo = [p.detach().clone() for p in model.kernel.parameters()], model.elbo(x, y).item()
    history = fit(model, (x, y), NaturalGradients(max_iter=1, learning_rate=4.0, inner=1), **QUIET)
    tried = history.of("hyperparameters")[0].elbo
    assert tried is not None and tried < elbo / 20 - 0.1
    assert all(torch.equal(a, b) for a, b in zip(learned, model.kernel.parameters(), strict=True))
    assert model.elbo(x, y).item() == pytest.approx(elbo, abs=1e-6)


def test_an_error_in_a_step_leaves_q_trainable(monkeypatch: pytest.MonkeyPatch):
    likelihood, x, y = task("gaussian")
    model = small_gp(likelihood, 7)

    squared_norm = SignatureKernel.squared_norm

    def fail(*arguments: Any, **lengths: Any) -> Tensor:
        if torch.is_grad_enabled():  # in a step of Adam
            raise KeyboardInterrupt
        return squared_norm(*arguments, **lengths)

    monkeypatch.setattr(SignatureKernel, "squared_norm", fail)
    with pytest.raises(KeyboardInterrupt):
        fit(model, (x, y), NaturalGradients(), validation=0, **QUIET)
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(("channels", "count", "rank"), [(1, 20, None), (1, 17, None), (2, 40, None), (2, 15, 6)])
def test_words_by_energy_and_directions_of_them(channels: int, count: int, rank: int | None):
    """The pool of words stops at 16 letters, and words with a constant channel have no energy: fewer than wanted."""
    x = series(60, channels=channels)
    x[:, :, -1] *= 0.0 if count == 40 else 1.0
    y = x[:, -1, 0] - x[:, 0, 0]
    model = small_gp(Gaussian(), count, channels=channels, order="energy", rank=rank)
    history = fit(model, (x, y), NaturalGradients(max_iter=3), **QUIET)
    assert len(model.features.words) == count and rank in (None, model.features.size)
    assert model.elbo(x, y).item() / 60 == pytest.approx(history.elbo, rel=1e-6)
    assert torch.isfinite(model.predict_f(x)[1]).all()


def test_steps_from_the_prior_are_taken_back_where_they_lower_the_elbo():
    """E[exp f] is huge at the prior of large series: a step of the curvature of a logistic likelihood goes astray."""
    likelihood, x, y = task("poisson")
    model = small_gp(likelihood, 7)
    assert model.kernel(x, diag=True).max() > 50
    fit(model, (x, y), EXACT, validation=0, **QUIET)
    assert model.elbo(x, y).item() > -143


@pytest.mark.parametrize("batch", [30, None])
def test_outliers_do_not_lead_steps_by_batches_astray(batch: int | None):
    """Where log p is not concave a may be negative: joint steps have to find back from wherever batches have led."""
    likelihood, x, y = task("student", n=200)
    model = small_gp(likelihood, 15)
    parameters = [*model.kernel.parameters(), *model.likelihood.parameters()]
    kept = copy.deepcopy(parameters)
    history = fit(model, (x, y), NaturalGradients(learn=False, batch=batch), validation=0, **QUIET)
    assert all(torch.equal(a, b) for a, b in zip(kept, parameters, strict=True))
    assert list(history.stopped) == ["q", "all"]
    assert model.elbo(x, y).item() / 200 == pytest.approx(-2.97, abs=0.02)


@pytest.mark.parametrize("kind", ["gaussian", "softmax"])
def test_too_many_series_for_joint_steps_come_close_by_batches(kind: str):
    likelihood, x, y = task(kind, n=200)
    likelihood = Softmax(3) if kind == "softmax" else likelihood
    joint, stochastic = small_gp(likelihood, 7), small_gp(likelihood, 7)
    fit(joint, (x, y), EXACT, validation=0, **QUIET)
    schedule = NaturalGradients(learn=False, max_joint=10, batch=50)
    history = fit(stochastic, (x, y), schedule, validation=0, **QUIET)
    assert history.stopped["all"] == "settled"
    gap = (joint.elbo(x, y) - stochastic.elbo(x, y)).item() / 200
    assert -1e-6 < gap < 0.01


X = series(120)
A, B = slice(0, 80), slice(80, 120)
STEPS = NaturalGradients(learn=False, settle=1e-9)
CASES: dict[str, Any] = {
    "gaussian": (lambda: Gaussian(0.2), targets(X)),
    "softmax": (lambda: Softmax(3), labels(X, 3)),
    "bernoulli": (Bernoulli, labels(X, 2)),
    "student": (lambda: StudentT(0.3, 4.0), targets(X)),
    "poisson": (Poisson, (3 * targets(X).exp()).clamp(max=30).round()),
}
others = pytest.mark.parametrize("case", ["softmax", "bernoulli", "student", "poisson"])
covariances = pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])


def problem(case: str, covariance: Any = "full", dtype: torch.dtype = torch.float64) -> tuple[SignatureGP, Tensor]:
    likelihood, y = CASES[case]
    return small_gp(likelihood(), 7, theta=0.6, covariance=covariance, dtype=dtype), y


def expected(model: SignatureGP, x: Tensor, y: Tensor) -> float:
    mean, variance = model.predict_f(x)
    with torch.no_grad():
        return float(model.likelihood.expected_log_prob(mean, variance, model.likelihood.check_targets(y)).sum())


@pytest.mark.parametrize("covariance", ["full", "shared"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_regression_is_that_of_old_and_new_series(covariance: Any, dtype: torch.dtype):
    """Whatever the order of new series and the number of portions they come in."""
    model, y = problem("gaussian", covariance, dtype)
    joint = copy.deepcopy(model)
    fit(model, (X[A], y[A]), Exact(tune=False), **QUIET)
    fit(joint, (X, y), Exact(tune=False), **QUIET)
    close = 1e-10 if dtype == torch.float64 else 1e-4
    new = torch.arange(80, 120)
    for portions in ([new], [new[20:], new[10:20], new[:1], new[1:10]], [new.flip(0)]):
        updated = copy.deepcopy(model)
        for rows in portions:
            update_posterior(updated, X[rows], y[rows])
        for one, other in zip(updated.predict_f(X), joint.predict_f(X), strict=True):
            assert one.dtype == dtype and torch.allclose(one, other, rtol=close, atol=close)
        assert torch.allclose(updated.variational.mean, joint.variational.mean, rtol=close, atol=10 * close)


@others
@covariances
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_new_series_are_learned_about_as_in_a_joint_fit(case: str, covariance: Any, dtype: torch.dtype):
    model, y = problem(case, covariance, dtype)
    joint = copy.deepcopy(model)
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    fit(joint, (X, y), STEPS, **QUIET)
    before, old = expected(model, X[B], y[B]), model.elbo(X, y).item()
    apart = float((model.predict_f(X)[0] - joint.predict_f(X)[0]).norm())
    update_posterior(model, X[B], y[B])
    assert expected(model, X[B], y[B]) > before + 0.5, "the new series are likelier than before"
    if covariance == "diagonal":  # what a diagonal has forgotten of the old series, no update brings back
        return
    assert old < model.elbo(X, y).item() <= joint.elbo(X, y).item() + 1e-3
    left = float((model.predict_f(X)[0] - joint.predict_f(X)[0]).norm())
    assert left < 0.4 * apart


@pytest.mark.parametrize("case", ["gaussian", "softmax", "poisson"])
@covariances
def test_nothing_near_is_better(case: str, covariance: Any, monkeypatch: pytest.MonkeyPatch):
    """q(u) maximises E[log p] of the new series minus the divergence from q(u) before, in chunks or not."""
    model, y = problem(case, covariance)
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    old, in_chunks = copy.deepcopy(model.variational), copy.deepcopy(model)
    update_posterior(model, X[B], y[B])
    monkeypatch.setattr(new_series, "_CHUNK", 7)
    update_posterior(in_chunks, X[B], y[B])
    assert torch.allclose(model.variational.mean, in_chunks.variational.mean, atol=1e-9)

    def bound() -> float:
        new, before = (MultivariateNormal(q.mean.detach(), dense_covariance(q)) for q in (model.variational, old))
        return expected(model, X[B], y[B]) - float(kl_divergence(new, before).sum())

    best, q = bound(), model.variational
    with torch.no_grad():
        for part in (q.mean, q.root):
            kept = part.clone()
            for seed in range(4):
                change = torch.randn(part.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
                part.copy_(kept + 0.05 * (change.tril() if part.ndim == 3 else change) * old.root.abs().mean())
                assert bound() < best
            part.copy_(kept)


def test_a_portion_that_surprises_does_not_throw_it_off():
    """Counts a thousand times those of before: whole steps would overflow the exponential."""
    model, y = problem("poisson")
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    before = expected(model, X[B], 3000 + y[B])
    update_posterior(model, X[B], 3000 + y[B])
    assert expected(model, X[B], 3000 + y[B]) > before
    assert torch.isfinite(model.predict_f(X)[0]).all()


def test_ragged_series_lists_and_nothing_at_all():
    model, y = problem("gaussian")
    fit(model, (X[A], y[A]), Exact(tune=False), **QUIET)
    other, same = copy.deepcopy(model), copy.deepcopy(model)
    counts = torch.arange(40) % 5 + 2
    padded = X[B].clone()
    for row, count in zip(padded, counts.tolist(), strict=True):
        row[count:] = float("nan")
    update_posterior(model, padded, y[B], lengths=counts)
    update_posterior(other, [x[:count] for x, count in zip(X[B], counts.tolist(), strict=True)], y[B].tolist())
    assert torch.allclose(model.variational.mean, other.variational.mean, atol=1e-5)
    assert padded[0].isnan().any()
    kept = copy.deepcopy(same)
    update_posterior(same, X[:0], y[:0])
    assert same_state(same, kept)


@pytest.mark.parametrize("case", ["gaussian", "softmax"])
@covariances
def test_a_failure_changes_nothing(case: str, covariance: Any, monkeypatch: pytest.MonkeyPatch):
    model, y = problem(case, covariance)
    fit(model, (X[A], y[A]), NaturalGradients(max_iter=5, learn=False), **QUIET)
    kept = copy.deepcopy(model)
    bad = X[B].clone()
    bad[7, 2, 1] = float("nan")
    wrong = y[B].clone()
    wrong[3] = 5 if case == "softmax" else float("nan")
    for x, given, message in (
        (X[B], y[A], "40 series but 80 targets"),
        (bad, y[B], "in series 7, at time index 2, channel 1"),
        (X[B], wrong, "target 3 is 5" if case == "softmax" else "target 3 is nan"),
        (series(40, channels=3), y[B], "channels"),
    ):
        assert_refused(message, update_posterior, model, x, given)
        assert same_state(model, kept)
    statistics = model.likelihood.statistics

    def broken(*arguments: Any) -> Any:
        value, g, a = statistics(*arguments)
        return value, g * float("nan"), a * float("nan")

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    if case == "gaussian" and covariance != "diagonal":
        monkeypatch.setattr(model.likelihood, "statistics", broken)
        assert_refused("could not be updated", update_posterior, model, X[B], y[B], error=ArithmeticError)
        assert same_state(model, kept)
    monkeypatch.setattr(model.likelihood, "statistics", stopped)
    with pytest.raises(KeyboardInterrupt):
        update_posterior(model, X[B], y[B])
    assert same_state(model, kept)
