"""The paper's schedule: where its phases lead and end; Nadam against torch, native steps against plain ones."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_models import QUIET, dense_covariance, disturb, labels, series, small_gp, targets
from siggpde.gp import nadam
from siggpde.gp.likelihoods import Bernoulli, Gaussian, RobustMax, Softmax, StudentT
from siggpde.gp.nadam import Minibatch, Nadam, q_gradient, q_step
from siggpde.gp.trainer import Trainer
from siggpde.training import NaturalGradients, PaperSchedule, fit

both = pytest.mark.parametrize("covariance", ["full", "diagonal"])
MAKERS = {
    "gaussian": lambda: Gaussian(0.2),
    "student": lambda: StudentT(0.3, learn_df=True),
    "softmax": lambda: Softmax(3, points=16),
    "bernoulli": Bernoulli,
    "robustmax": lambda: RobustMax(3),
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
    assert torch.allclose(dense_covariance(natural.variational), dense_covariance(nadam.variational), atol=5e-2)


def test_every_evaluation_is_recorded_and_the_best_of_the_second_phase_restored():
    x, model = series(60), small_gp(Gaussian(0.3), 7)
    schedule = PaperSchedule(iterations=12, batch=48, evaluate_every=2, learning_rate=0.3)
    history = fit(model, (x, targets(x)), schedule, **QUIET)
    assert history.stopped == dict.fromkeys(("q", "hyperparameters", "all"), "12 iterations")
    for name in ("q", "hyperparameters"):
        assert [record.iteration for record in history.of(name)] == [1, 3, 5, 7, 9, 11]
        assert all(record.nlpp is not None and record.elbo is not None for record in history.of(name))
    assert all(record.nlpp is None for record in history.of("all")), "there all series train"
    best = min(history.of("hyperparameters"), key=lambda record: record.nlpp or math.inf)
    assert best is not history.of("hyperparameters")[-1]
    assert model.kernel.theta.tolist() == best.theta


@both
@pytest.mark.parametrize("kind", ["gaussian", "softmax", "student"])
def test_integer_weights_are_repeated_series(kind: str, covariance: str):
    """In full batches, hyperparameters and the validation score that chooses the best state included."""
    x, counts = series(40), 1 + torch.arange(40) % 3
    y = targets_for(MAKERS[kind](), x)
    repeated = torch.arange(40).repeat_interleave(counts)
    results = []
    for rows, weights in ((torch.arange(40), counts), (repeated, None)):
        model = small_gp(MAKERS[kind](), 7, theta=0.5, covariance=covariance)
        parts = tuple(part.nonzero()[:, 0].tolist() for part in (rows % 5 != 0, rows % 5 == 0))
        schedule = PaperSchedule(iterations=12, batch=100, learning_rate=0.05, evaluate_every=3)
        history = fit(model, (x[rows], y[rows]), schedule, sample_weight=weights, validation=parts, **QUIET)
        results.append((model, [(r.nlpp, r.accuracy or 0.0) for r in history.records if r.nlpp is not None]))
    (weighted, scores), (other, wanted) = results
    torch.testing.assert_close(weighted.predict_f(x), other.predict_f(x), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(weighted.kernel.theta, other.kernel.theta, rtol=1e-6, atol=1e-7)
    assert len(scores) == 8
    for mine, theirs in zip(scores, wanted, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)


def test_wrong_weights_and_schedules_that_make_no_sense_are_refused():
    x, model = series(10), small_gp()
    data, message = (x, targets(x)), "sample_weight must be 10 positive numbers, one a series"
    for weights in (torch.ones(9), [1.0] * 9 + [0.0], [float("nan")] * 10):
        assert_refused(message, fit, model, data, PaperSchedule(), sample_weight=weights)
    message = r"sample_weight is for PaperSchedule\(\); .* NaturalGradients"
    assert_refused(message, fit, model, data, sample_weight=torch.ones(10))
    for name in ("iterations", "batch", "learning_rate", "evaluate_every", "patience"):
        assert_refused(f"{name} must be positive", PaperSchedule, **{name: 0})
    assert_refused("cpu_budget must be positive", PaperSchedule, cpu_budget=-1.0)
    for name in ("max_iter", "learning_rate", "inner", "settle", "patience", "max_joint", "batch"):
        assert_refused(f"{name} must be positive", NaturalGradients, **{name: -1})
    assert_refused("schedule must be NaturalGradients", fit, model, data, "adam")


def test_only_some_parameters_are_learned():
    """A kernel that is not trained has no gradient to pass on; a likelihood may be the only thing learned."""
    x = series(60)
    for schedule in (PaperSchedule(iterations=3, batch=10), NaturalGradients(max_iter=2)):
        likelihood = Gaussian(0.3)
        model = small_gp(likelihood, 80)
        model.kernel.requires_grad_(False)
        before = likelihood.log_noise.detach().clone()
        fit(model, (x, targets(x)), schedule, validation=0, **QUIET)
        assert torch.equal(model.kernel.theta, torch.ones(2).double())
        assert not torch.equal(likelihood.log_noise, before)
        if isinstance(schedule, PaperSchedule):  # more words than series stay words
            assert model.features.basis is None and model.features.size == len(model.features.words) == 80
    model = small_gp(Bernoulli(), 7)
    model.kernel.requires_grad_(False)
    history = fit(model, (x, labels(x, 2)), NaturalGradients(), **QUIET)
    assert history.stopped["hyperparameters"] == "nothing to learn"


@pytest.mark.parametrize(("rate", "reason", "steps"), [(1e-9, "settled", 9), (0.03, "30 iterations", 30)])
def test_settled_phases_end_and_the_last_takes_as_many_iterations_as_the_first(rate: float, reason: str, steps: int):
    x = series(60)
    schedule = PaperSchedule(iterations=30, batch=10, learning_rate=rate, evaluate_every=3, patience=2)
    history = fit(small_gp(Softmax(3)), (x, labels(x, 3)), schedule, **QUIET)
    assert history.stopped["q"] == reason
    assert history.steps["q"] == history.steps["all"] == steps  # the first evaluation, then two without a gain
    assert reason != "settled" or (history.stopped["hyperparameters"], history.steps["hyperparameters"]) == (reason, 9)


def test_a_spent_budget_ends_every_phase_with_an_evaluation():
    x = series(60)
    schedule = PaperSchedule(iterations=400, batch=10, cpu_budget=1e-6)
    history = fit(small_gp(Softmax(3)), (x, labels(x, 3)), schedule, **QUIET)
    assert set(history.stopped.values()) == {"budget spent"}
    assert history.steps == {"q": 1, "hyperparameters": 1, "all": 1}
    assert [record.nlpp is not None for record in history.records] == [True, True, False]
    assert all(history.step_seconds[name] > 0 for name in history.steps)


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


SIZES = [1, 5, 40, 211]  # below a vector, below a block, one block, several blocks with a remainder


def random_roots(latents: int, size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    roots = torch.randn(latents, size, size, generator=generator, dtype=dtype).tril() / size
    roots.diagonal(dim1=1, dim2=2).add_(1)
    return roots


def small_model(likelihood=Softmax, words: int = 40, **options):
    """A model away from the prior, and series with their classes."""
    x = series(12, length=5)
    return disturb(small_gp(likelihood(3), words, **options)), x, labels(x, 3)


@both
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_gradient_by_hand_is_that_of_autograd(covariance: str, kind: str, count: int):
    likelihood = MAKERS[kind]()
    x = series(6)
    y = likelihood.check_targets(targets_for(likelihood, x))
    model = disturb(small_gp(likelihood, count, theta=0.6, covariance=covariance))
    with torch.no_grad():
        seen = model.project(x)
    features, tail = seen.features.clone().requires_grad_(), seen.tail.clone().requires_grad_()
    loss = -model.elbo_of(replace(seen, features=features, tail=tail), y, 50)
    q, others = model.variational, [p for p in likelihood.parameters() if p.requires_grad]
    wanted = torch.autograd.grad(loss, [q.mean, q.root, features, tail, *others])
    for of_features in (False, True):
        likelihood.zero_grad()
        computed = q_gradient(model, Minibatch(features, tail, y, 50), of_features=of_features)
        assert computed.elbo == pytest.approx(-loss.item(), rel=1e-10)
        got = [computed.mean, computed.root, *(p.grad for p in others)]
        expected = [wanted[0], wanted[1], *wanted[4:]]
        if of_features:
            got, expected = [*got, computed.features, computed.tail], [*expected, *wanted[2:4]]
        else:
            assert computed.features is None and computed.tail is None
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-8, atol=1e-9 * float(b.abs().max()) + 1e-12)
    assert not (q.full and computed.root.triu(1).any())
    narrow = disturb(small_gp(likelihood, count, theta=0.6, covariance=covariance, dtype=torch.float32))
    seen = narrow.project(x)
    rounded = q_gradient(narrow, Minibatch(seen.features, seen.tail, y, 50), of_features=True)
    assert rounded.root.dtype == torch.float32
    for name in ("mean", "root", "features", "tail"):
        one, other = getattr(computed, name), getattr(rounded, name).double()
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3 * float(one.abs().max()))


def test_nadam_makes_the_steps_of_torch():
    start = [torch.tensor([1.0, -2.0, 3.0]).double(), torch.tensor(0.5).double(), torch.ones(2, 2)]
    mine, theirs = copy.deepcopy(start), [p.clone().requires_grad_() for p in start]
    optimizer, reference = Nadam(mine, 0.03), torch.optim.NAdam(theirs, lr=0.03)
    for step in range(40):
        if step == 20:  # through a state, as a checkpoint does
            state = copy.deepcopy(optimizer.state())
            optimizer = Nadam(mine, 0.03)
            optimizer.load(state)
        gradients = [torch.sin(3 * p.detach() + step) + p.detach() for p in theirs]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        optimizer.step(gradients)
        for a, b in zip(mine, theirs, strict=True):
            assert torch.allclose(a, b, rtol=1e-12 if a.dtype == torch.float64 else 1e-5)


@pytest.mark.skipif(nadam.core is None, reason="needs the native core")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_native_step_is_the_plain_one(size, dtype):
    generator = torch.Generator().manual_seed(size + 1)
    start = random_roots(3, size, dtype)
    plain, native = Nadam([start.clone()], 0.01), Nadam([start.clone()], 0.01)
    junk = torch.full((size, size), torch.nan, dtype=dtype).triu(1)  # above the diagonal nothing may be read
    for _ in range(5):
        gradient = torch.randn(3, size, size, generator=generator, dtype=dtype)
        old = plain.parameters[0].clone()
        whole = (gradient + old).tril()
        whole.diagonal(dim1=1, dim2=2).sub_(old.diagonal(dim1=1, dim2=2).reciprocal())
        plain.step([whole])
        rates = native.advance()
        for latent in range(3):
            squares, logs = native.update_root(0, latent, 0, gradient[latent] + junk, rates)
            assert squares == pytest.approx(old[latent].double().square().sum().item(), rel=1e-5)
            assert logs == pytest.approx(old[latent].diagonal().double().abs().log().sum().item(), rel=1e-4, abs=1e-4)
    rtol = 1e-12 if dtype == torch.float64 else 1e-4
    for mine, oracle in zip(native.state()["second"] + native.first, plain.second + plain.first, strict=True):
        torch.testing.assert_close(mine, oracle, rtol=rtol, atol=rtol)
    torch.testing.assert_close(native.parameters[0], plain.parameters[0], rtol=rtol, atol=rtol)
    assert not native.parameters[0].triu(1).any()


@pytest.mark.parametrize("likelihood", [Softmax, RobustMax])
@pytest.mark.parametrize("normalized", [False, True])
@both
def test_the_gradient_reaches_the_scales_as_that_of_autograd(covariance, normalized, likelihood):
    model, x, y = small_model(likelihood, covariance=covariance, normalized=normalized)
    seen, theta = model.project(x), model.kernel.log_theta
    computed = q_gradient(model, Minibatch(seen.features, seen.tail, y, 60), of_features=True)
    of_theta = torch.autograd.grad(-model.elbo(x, y, total=60), theta)
    pulled = torch.autograd.grad([seen.features, seen.tail], theta, [computed.features, computed.tail])
    torch.testing.assert_close(pulled, of_theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("words", [40, 210])
@pytest.mark.parametrize("of_features", [False, True])
@pytest.mark.parametrize("weights", [None, torch.linspace(0.5, 2.0, 12, dtype=torch.float64)])
def test_step_of_q_is_the_gradient_and_a_step(weights, of_features, words):
    """The mean of gradients of minibatches over a partition is the gradient of all series."""
    (plain, x, y), (fused, _, _) = (small_model(words=words) for _ in range(2))
    with torch.no_grad():
        seen = plain.project(x)
    batch, *parts = (
        Minibatch(seen.features[rows], seen.tail[rows], y[rows], 60, None if weights is None else weights[rows])
        for rows in (torch.arange(12), *torch.arange(12).split(4))
    )
    whole, gradients = q_gradient(plain, batch), [q_gradient(plain, part) for part in parts]
    torch.testing.assert_close(sum(part.root for part in gradients) / 3, whole.root)
    torch.testing.assert_close(sum(part.mean for part in gradients) / 3, whole.mean)
    expected = plain.likelihood.expected_log_prob(*plain.latent_marginals(seen), y)
    elbo = 5 * (expected.sum() if weights is None else expected @ weights) - plain.variational.kl()
    assert whole.elbo == pytest.approx(elbo.item(), rel=1e-12)
    optimizer, other = (Nadam([m.variational.mean, m.variational.root], 0.01) for m in (plain, fused))
    for _ in range(3):
        wanted = q_gradient(plain, batch, of_features=of_features)
        optimizer.step([wanted.mean, wanted.root])
        computed = q_step(fused, other, other.advance(), batch, of_features=of_features)
        assert computed.elbo == pytest.approx(wanted.elbo, rel=1e-10)
        if of_features:
            torch.testing.assert_close(computed.features, wanted.features, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(computed.tail, wanted.tail, rtol=1e-10, atol=1e-10)
        else:
            assert computed.features is None and computed.tail is None
    state, expected = fused.variational.state_dict(), plain.variational.state_dict()
    torch.testing.assert_close(dict(state), dict(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(nadam.core is None, reason="needs the native core")
def test_threads_change_no_bit():
    start, gradient = random_roots(2, 700).split(1)
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            optimizer = Nadam([start.clone()], 0.01)
            sums = optimizer.update_root(0, 0, 0, gradient[0], optimizer.advance())
            results.append((*sums, optimizer.parameters[0]))
    finally:
        torch.set_num_threads(before)
    assert results[0][:2] == results[1][:2] and torch.equal(results[0][2], results[1][2])
