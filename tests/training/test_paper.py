"""The paper's schedule: where it leads, what its phases change, and when they end."""

import math

import pytest
import torch
from torch import Tensor

from helpers.small_models import QUIET, dense_covariance, labels, same_state, series, small_gp, targets
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Softmax, StudentT
from siggpde.gp.phases import NadamPhase
from siggpde.gp.trainer import Trainer
from siggpde.training import NaturalGradients, PaperSchedule, fit

both = pytest.mark.parametrize("covariance", ["full", "diagonal"])
MAKERS = {
    "gaussian": lambda: Gaussian(0.2),
    "student": lambda: StudentT(0.3, learn_df=True),
    "softmax": lambda: Softmax(3, points=16),
    "bernoulli": Bernoulli,
}


def targets_for(likelihood, x: Tensor) -> Tensor:
    return labels(x, likelihood.classes) if hasattr(likelihood, "classes") else targets(x)


@both
@pytest.mark.parametrize("kind", ["softmax", "bernoulli", "student"])
def test_a_long_run_comes_to_the_fixed_point_of_natural_gradients(kind: str, covariance: str):
    x = series(40)
    likelihoods = [MAKERS[kind]() if kind != "softmax" else Softmax(3, points=64) for _ in range(2)]
    y = targets_for(likelihoods[0], x)
    if kind == "student":
        y[::9] += 3.0
    natural, nadam = (small_gp(likelihood, 7, theta=0.5, covariance=covariance) for likelihood in likelihoods)
    for model in (natural, nadam):
        for part in (model.kernel, model.likelihood):
            part.requires_grad_(False)
    fit(natural, (x, y), NaturalGradients(learn=False, settle=1e-9, max_iter=200), validation=0, **QUIET)
    schedule = PaperSchedule(iterations=400, batch=40, learning_rate=0.01)
    fit(nadam, (x, y), schedule, validation=0, **QUIET)
    assert natural.elbo(x, y).item() >= nadam.elbo(x, y).item() - 2e-2
    assert natural.elbo(x, y).item() == pytest.approx(nadam.elbo(x, y).item(), abs=2e-2)
    assert torch.allclose(natural.variational.mean, nadam.variational.mean, atol=5e-2)
    assert torch.allclose(dense_covariance(natural), dense_covariance(nadam), atol=5e-2)


def test_phases_of_q_leave_kernel_and_likelihood_bitwise_alone(monkeypatch: pytest.MonkeyPatch):
    changed: dict[str, int] = {"q": 0, "hyperparameters": 0, "all": 0}
    iterate = NadamPhase.iterate

    def watched(self: NadamPhase, trainer) -> str | None:
        parts = (trainer.model.kernel, trainer.model.likelihood)
        before = [p.detach().clone() for part in parts for p in part.parameters()]
        reason = iterate(self, trainer)
        after = [p for part in parts for p in part.parameters()]
        changed[self.name] += sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        return reason

    monkeypatch.setattr(NadamPhase, "iterate", watched)
    x = series(60)
    model = small_gp(Gaussian(0.3), 7)
    history = fit(model, (x, targets(x)), PaperSchedule(iterations=6, batch=10, evaluate_every=2), **QUIET)
    assert changed == {"q": 0, "hyperparameters": 18, "all": 0}, "three parameters, six iterations"
    assert history.stopped == dict.fromkeys(changed, "6 iterations")
    for name in ("q", "hyperparameters"):
        records = history.of(name)
        assert [record.iteration for record in records] == [1, 3, 5]
        assert all(record.nlpp is not None and record.elbo is not None for record in records)
    assert all(record.nlpp is None for record in history.of("all")), "there all series train"


def test_the_best_validation_nlpp_of_the_second_phase_is_restored():
    x = series(60)
    model = small_gp(Gaussian(0.3), 7)
    schedule = PaperSchedule(iterations=12, batch=48, evaluate_every=1, learning_rate=0.3)
    history = fit(model, (x, targets(x)), schedule, **QUIET)
    best = min(history.of("hyperparameters"), key=lambda record: record.nlpp or math.inf)
    assert best is not history.of("hyperparameters")[-1]
    assert model.kernel.theta.tolist() == best.theta


def test_only_some_parameters_are_learned():
    """A kernel that is not trained has no gradient to pass on; a likelihood may be the only thing learned."""
    x = series(60)
    for schedule in (PaperSchedule(iterations=3, batch=10), NaturalGradients(max_iter=2)):
        likelihood = Gaussian(0.3)
        model = small_gp(likelihood, 7)
        model.kernel.requires_grad_(False)
        before = likelihood.log_noise.detach().clone()
        fit(model, (x, targets(x)), schedule, validation=0, **QUIET)
        assert torch.equal(model.kernel.theta, torch.ones(2).double())
        assert not torch.equal(likelihood.log_noise, before)
    model = small_gp(Bernoulli(), 7)
    model.kernel.requires_grad_(False)
    history = fit(model, (x, labels(x, 2)), NaturalGradients(), **QUIET)
    assert history.stopped["hyperparameters"] == "nothing to learn"


def test_the_same_seed_gives_bitwise_the_same_and_the_global_generator_is_left_alone():
    x = series(60)
    state = torch.get_rng_state()
    models = [small_gp(Softmax(3), 7, order="energy") for _ in range(3)]
    for model, seed in zip(models, (4, 4, 5), strict=True):
        fit(model, (x, labels(x, 3)), PaperSchedule(iterations=5, batch=7), seed=seed, **QUIET)
    assert torch.equal(state, torch.get_rng_state())
    assert same_state(models[0], models[1]) and not same_state(models[0], models[2])


def test_schedules_refuse_what_makes_no_sense():
    for name in ("iterations", "batch", "learning_rate", "evaluate_every"):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            PaperSchedule(**{name: 0})
    for name in ("max_iter", "learning_rate", "inner", "settle", "patience", "max_joint", "batch"):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            NaturalGradients(**{name: -1})
    with pytest.raises(ValueError, match="schedule must be NaturalGradients"):
        fit(small_gp(), (series(3), targets(series(3))), "adam", **QUIET)


def test_settled_phases_end_and_the_last_takes_as_many_iterations_as_the_first():
    x = series(60)
    schedule = PaperSchedule(iterations=400, batch=10, learning_rate=1e-9, evaluate_every=3, patience=2)
    history = fit(small_gp(Softmax(3)), (x, labels(x, 3)), schedule, **QUIET)
    assert history.stopped["q"] == history.stopped["hyperparameters"] == "settled"
    assert history.steps == {"q": 9, "hyperparameters": 9, "all": 9}  # the first evaluation, then two without a gain


def test_a_phase_that_still_improves_goes_on():
    x = series(60)
    schedule = PaperSchedule(iterations=30, batch=10, learning_rate=0.03, evaluate_every=3, patience=2)
    history = fit(small_gp(Softmax(3)), (x, labels(x, 3)), schedule, **QUIET)
    assert history.stopped["q"] == "30 iterations" and history.steps["all"] == 30


def test_a_spent_budget_ends_every_phase_with_an_evaluation():
    x = series(60)
    schedule = PaperSchedule(iterations=400, batch=10, cpu_budget=1e-6)
    history = fit(small_gp(Softmax(3)), (x, labels(x, 3)), schedule, **QUIET)
    assert set(history.stopped.values()) == {"budget spent"}
    assert history.steps == {"q": 1, "hyperparameters": 1, "all": 1}
    assert [record.nlpp is not None for record in history.records] == [True, True, False]
    assert all(history.step_seconds[name] > 0 for name in history.steps)


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"cpu_budget": -1.0}])
def test_wrong_ends_are_refused(wrong: dict):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be positive"):
        PaperSchedule(**wrong)


def test_each_phase_has_a_third_of_a_time_limit(monkeypatch: pytest.MonkeyPatch):
    now = iter(range(10**6))
    monkeypatch.setattr(Trainer, "seconds", property(lambda _: next(now) / 2))
    x = series(60)
    model = small_gp(Gaussian(0.3), 7)
    history = fit(model, (x, targets(x)), PaperSchedule(iterations=1000, batch=10), time_limit=30.0, **QUIET)
    assert history.stopped == dict.fromkeys(("q", "hyperparameters", "all"), "time limit")
    first, second, third = history.steps.values()
    assert 15 < first < 25 and abs(second - first) < 4 and abs(third - first) < 4
    assert history.of("hyperparameters")[-1].nlpp is not None, "evaluated, though cut short before its time"


def test_more_words_than_series_stay_words():
    x = series(10)
    model = small_gp(Gaussian(0.3), 30)
    words = list(model.features.words)
    fit(model, (x, targets(x)), PaperSchedule(iterations=3), **QUIET)
    assert model.features.basis is None and model.features.words == words and model.features.size == 30
