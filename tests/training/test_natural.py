"""Natural gradients: their fixed point is the optimum, and the phases change what they should and nothing else."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from helpers.small_models import QUIET, dense_covariance, labels, same_state, series, small_gp, targets, whole_gp
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import Climb, NaturalGradient
from siggpde.gp.phases import LearnHyperparameters, SettleQ
from siggpde.training import NaturalGradients, fit

EXACT = NaturalGradients(learn=False, settle=1e-10, max_iter=300)
both = pytest.mark.parametrize("covariance", ["full", "diagonal"])


def task(kind: str, n: int = 40) -> tuple[Likelihood, Tensor, Tensor]:
    x = series(n)
    if kind == "softmax":
        return Softmax(3, points=1024), x, labels(x, 3)
    if kind == "bernoulli":
        return Bernoulli(), x, labels(x, 2)
    if kind == "poisson":
        return Poisson(), x, targets(x).exp().round().clamp(max=6)
    y = targets(x)
    if kind == "student":
        y[::7] += 4.0
        return StudentT(0.2, df=4), x, y
    return Gaussian(0.1), x, y


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
    fit(natural, (x, y), EXACT, validation=0, **QUIET)
    wanted = climbed_by_autograd(other, x, likelihood.check_targets(y))
    # Curvatures by Price's theorem and the slope of the quadrature differ by the error of its points.
    loose = kind in ("softmax", "student")
    assert natural.elbo(x, y).item() == pytest.approx(wanted, abs=2e-3 if loose else 1e-6)
    assert torch.allclose(natural.variational.mean, other.variational.mean, atol=2e-2 if loose else 1e-3)
    assert torch.allclose(dense_covariance(natural), dense_covariance(other), atol=2e-2 if loose else 1e-3)


def test_one_step_is_the_optimum_for_gaussian_noise():
    likelihood, x, y = task("gaussian")
    model = small_gp(likelihood, 15)
    history = fit(model, (x, y), EXACT, validation=0, **QUIET)
    elbos = [record.elbo for record in history.of("q")]
    assert elbos[0] == pytest.approx(elbos[-1], abs=1e-10)
    assert history.stopped == {"q": "settled", "all": "settled"}


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


def test_phases_of_q_leave_kernel_and_likelihood_bitwise_alone(monkeypatch: pytest.MonkeyPatch):
    likelihood, x, y = task("student", n=60)
    seen: dict[str, int] = {}
    iterate = SettleQ.iterate

    def watched(self: SettleQ, trainer) -> str | None:
        parts = (trainer.model.kernel, trainer.model.likelihood)
        before = [p.detach().clone() for part in parts for p in part.parameters()]
        reason = iterate(self, trainer)
        after = [p for part in parts for p in part.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        seen[self.name] = seen.get(self.name, 0) + 1
        return reason

    monkeypatch.setattr(SettleQ, "iterate", watched)
    model = small_gp(likelihood, 7, theta=0.2)
    log_theta = model.kernel.log_theta.detach().clone()
    history = fit(model, (x, y), NaturalGradients(max_iter=5), **QUIET)
    assert seen.keys() == {"q", "all"} and list(history.stopped) == ["q", "hyperparameters", "all"]
    assert not torch.equal(model.kernel.log_theta, log_theta), "the other phase did learn"
    assert all(p.requires_grad for p in model.variational.parameters())
    frozen = small_gp(Gaussian(0.3), 7)
    kept = frozen.kernel.state_dict(), frozen.likelihood.state_dict()
    kept = [value.clone() for part in kept for value in part.values()]
    history = fit(frozen, (x, y), NaturalGradients(learn=False), **QUIET)
    now = [*frozen.kernel.state_dict().values(), *frozen.likelihood.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(kept, now, strict=True))
    assert list(history.stopped) == ["q", "all"]


def test_hyperparameters_end_with_the_best_state_seen():
    likelihood, x, y = task("gaussian", n=60)
    for theta in (0.2, 1.5):
        model = small_gp(likelihood, 15, theta=theta)
        history = fit(model, (x, y), NaturalGradients(max_iter=8, learning_rate=0.2), **QUIET)
        start = next(record for record in history.of("q") if record.nlpp is not None)
        best = min([start, *history.of("hyperparameters")], key=lambda record: record.nlpp or math.inf)
        assert model.kernel.theta.tolist() == pytest.approx(best.theta, rel=1e-12)
        assert history.of("all")[-1].theta == model.kernel.theta.tolist()


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

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("siggpde.gp.cache.SignatureCache._paths_at", fail)
    with pytest.raises(KeyboardInterrupt):
        fit(model, (x, y), NaturalGradients(), validation=0, **QUIET)
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(("channels", "count"), [(1, 20), (1, 17), (2, 40)])
def test_more_words_than_have_energy(channels: int, count: int):
    """The pool of words stops at 16 letters, and words with a constant channel have no energy: fewer than wanted."""
    x = series(60, channels=channels)
    x[:, :, -1] *= 0.0 if channels == 2 else 1.0
    model = small_gp(Gaussian(), count, channels=channels, order="energy")
    history = fit(model, (x, x[:, -1, 0] - x[:, 0, 0]), NaturalGradients(max_iter=3), **QUIET)
    assert len(model.features.words) == count and history.elbo is not None
    assert torch.isfinite(model.predict_f(x)[1]).all()


def test_words_by_energy_and_directions_of_them():
    likelihood, x, y = task("gaussian", n=60)
    model = small_gp(likelihood, 15, theta=0.7, order="energy", rank=6)
    history = fit(model, (x, y), NaturalGradients(max_iter=3), **QUIET)
    assert model.features.size == 6 and len(model.features.words) == 15
    assert model.elbo(x, y).item() / 60 == pytest.approx(history.elbo, rel=1e-6)


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
    fit(model, (x, y), NaturalGradients(learn=False, batch=batch), validation=0, **QUIET)
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


def test_the_same_seed_gives_bitwise_the_same_and_the_global_generator_is_left_alone():
    likelihood, x, y = task("softmax", n=60)
    schedule = NaturalGradients(max_iter=3, batch=20)
    state = torch.get_rng_state()
    models = [small_gp(likelihood, 7, order="energy") for _ in range(3)]
    histories = [fit(m, (x, y), schedule, seed=seed, **QUIET) for m, seed in zip(models, (1, 1, 2), strict=True)]
    assert torch.equal(state, torch.get_rng_state())
    assert same_state(models[0], models[1]) and not same_state(models[0], models[2])
    assert [r.elbo for r in histories[0].records] == [r.elbo for r in histories[1].records]
    assert LearnHyperparameters(schedule).max_steps == 3
