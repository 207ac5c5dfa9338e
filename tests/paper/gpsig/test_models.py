"""GPSig's start and model; inducing tensors and sequences against explicit tensors, signatures and the kernel."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_models import QUIET, labels, series, targets
from helpers.time_tuples import tuples
from siggpde import fit, signature
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, RobustMax
from siggpde.gp.model import SparseGP
from siggpde.numerics.words import count_up_to, words_up_to
from siggpde.series import SeriesBatch
from siggpde.training import PaperSchedule
from siggpde_paper.gpsig import InducingSequences, InducingTensors, TruncatedKernel, gpsig
from siggpde_paper.gpsig.models import chosen_series, initial_sequences, initial_tensors, lengthscales, whiten
from siggpde_paper.gpsig.tensor_levels import slot_index

KINDS = ("tensors", "sequences")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"method": "recursion"}, {"static": "rbf", "order": 1}])
def test_the_bound_is_finite_and_so_is_its_gradient(kind, settings):
    x = series(30, length=6)
    y = labels(x, 3)
    model = gpsig(x, y, RobustMax(3), kind=kind, count=7, level=3, seed=4, **settings)
    with torch.no_grad():
        model.variational.mean.normal_(generator=torch.Generator().manual_seed(0))
    bound = model.elbo(x, y)
    assert torch.isfinite(bound)
    parameters = [*model.kernel.parameters(), *model.features.parameters()]
    slopes = torch.autograd.grad(bound, parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        direction = torch.randn(parameter.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                values.append(model.elbo(x, y).item())
                parameter.sub_(direction, alpha=step)
        actual = (values[0] - values[1]) / 2e-5
        assert actual == pytest.approx((slope * direction).sum().item(), rel=1e-4, abs=1e-4)


def test_the_model_is_what_was_asked_for():
    x = [series(1, length=length, seed=length)[0] for length in (7, 3, 1, 9)]
    model = gpsig(x, [0, 1, 1, 0], Bernoulli(), count=6, level=3, order=2)
    assert isinstance(model, SparseGP) and isinstance(model.features, InducingTensors)
    assert (model.kernel.level, model.kernel.order, model.variational.latents) == (3, 2, 1)
    model = gpsig(x, targets(series(4)), Gaussian(0.1), kind="sequences", count=9)
    assert isinstance(model.features, InducingSequences) and model.features.values.shape == (9, 5, 2)
    again, other = (gpsig(x, targets(series(4)), Gaussian(0.1), kind="sequences", count=9, seed=s) for s in (0, 1))
    assert torch.equal(again.features.values, model.features.values)
    assert not torch.equal(other.features.values, model.features.values)


def test_lengthscales_are_at_least_one_and_classes_have_quotas():
    x = series(50, length=20) * torch.tensor([10.0, 0.01])
    actual = lengthscales(x, torch.full((50,), 20), torch.Generator().manual_seed(0))
    points = x.reshape(-1, 2)[:, 0]
    wanted = (2 * (points[:, None] - points).square().mean()).sqrt()
    assert actual[1] == 1.0 and actual[0].item() == pytest.approx(float(wanted))
    y = torch.tensor([0] * 50 + [1] * 3 + [2] * 20)
    rows = chosen_series(y, 30, 3, torch.Generator().manual_seed(0))
    assert len(rows) == 30
    assert [int((y[rows[:23]] == label).sum()) for label in range(3)] == [10, 3, 10]
    assert len(set(rows[:23].tolist())) == 23
    assert len(chosen_series(y[:4], 30, 0, torch.Generator().manual_seed(0))) == 30


def test_tensors_are_steps_at_sorted_times_and_sequences_windows(monkeypatch):
    monkeypatch.setattr("siggpde_paper.gpsig.models._NOISE", 0.0)
    time = torch.arange(8).double()[None, :, None].expand(200, -1, 1)
    values = initial_tensors(time, torch.full((200,), 6), 4, torch.Generator().manual_seed(0))
    for m in range(1, 5):
        pairs = torch.stack([values[:, slot_index(k, m, 4), :, 0] for k in range(1, m + 1)], dim=1)
        assert torch.equal(pairs[:, :, 1] - pairs[:, :, 0], torch.ones(200, m).double())
        assert (pairs[:, 1:, 0] > pairs[:, :-1, 0]).all(), "sorted, distinct"
        assert pairs[:, :, 0].min() == 0 and pairs[:, :, 0].max() == 4, "the last of 6 points is number 5"
    short = initial_tensors(time[:, :2], torch.full((200,), 2), 3, torch.Generator().manual_seed(0))
    last = [short[0, slot_index(k, 3, 3), :, 0].tolist() for k in (1, 2, 3)]
    assert last == [[0, 1], [1, 1], [1, 1]], "after its end a series stands still"
    time = torch.arange(9).double()[None, :, None].expand(200, -1, 1)
    values = initial_sequences(time, torch.full((200,), 7), 5, torch.Generator().manual_seed(0))[:, :, 0]
    assert (values.diff(dim=1) == 1).all()
    assert set(values[:, 0].tolist()) == {0.0, 1.0, 2.0}
    short = initial_sequences(time[:, :2], torch.full((200,), 2), 4, torch.Generator().manual_seed(0))
    assert short[0, :, 0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("method", ["explicit", "recursion"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_raises_the_bound(kind, method):
    x = series(40, length=5)
    y = labels(x, 2)
    model = gpsig(x, y, Bernoulli(), kind=kind, count=6, level=2, method=method)
    before, start = model.elbo(x, y).item(), model.features.values.detach().clone()
    fit(model, (x, y), PaperSchedule(iterations=40, batch=20, learning_rate=1e-2), **QUIET)
    assert model.elbo(x, y).item() > before + 0.5
    assert not torch.equal(model.features.values, start)
    assert model.predict(x).shape == (40, 2)


def test_bad_input_and_settings():
    x = series(4)
    wrong = "kind must be 'tensors' or 'sequences', got 'words'"
    assert_refused(wrong, gpsig, x, [0, 1, 0, 1], Bernoulli(), kind="words", count=3)
    assert_refused("there are 4 series and 3 targets", gpsig, x, [0, 1, 0], Bernoulli(), count=3)
    assert_refused("count must be an integer, at least 1, got 0", gpsig, x, [0, 1, 0, 1], Bernoulli(), count=0)
    wrong = "InducingTensors are for a TruncatedKernel, not for a SignatureKernel"
    assert_refused(wrong, SparseGP, SignatureKernel(2), InducingTensors(2, 3), Bernoulli())
    words = OrthogonalSignatureFeatures(2, 3)
    assert_refused("SignatureKernel, not of a TruncatedKernel", SparseGP, TruncatedKernel(2), words, Bernoulli())
    assert_refused("count must be an integer, at least 1, got 0", InducingTensors, 2, 0)
    wrong = r"values must have shape \(3, 10, 2, 2\), got \(3, 2\)"
    assert_refused(wrong, InducingTensors, 2, 3, values=torch.zeros(3, 2))
    assert_refused("values must be finite", InducingTensors, 2, 3, 1, values=torch.full((3, 1, 2, 2), math.nan))
    assert_refused(r"values must have shape \(3, 5, 2\)", InducingSequences, 2, 3, values=torch.zeros(3, 2))
    assert_refused("length must be an integer, at least 2, got 1", InducingSequences, 2, 3, length=1)
    assert_refused("jitter must be between 0 and 1", InducingSequences, 2, 3, jitter=0.0)
    assert_refused("the kernel has 3 levels and the inducing tensors 4", InducingTensors(2, 3).check, kernel_of(3))
    assert_refused("the kernel has 2 channels and the features 3", InducingSequences(3, 3).check, kernel_of(3))
    assert_refused("depends on the kernel", InducingTensors(2, 3).inducing_covariance)
    project = InducingTensors(2, 3, 3).project_signatures
    assert_refused("not a product of signatures", project, kernel_of(static="rbf"), torch.zeros(1, 1), torch.zeros(2))
    assert_refused("positions 1 to 2, got position 3", slot_index, 3, 2, 4)


METHODS = ("explicit", "recursion")


def kernel_of(level: int = 3, **settings) -> TruncatedKernel:
    kernel = TruncatedKernel(2, level, theta=[0.7, 1.3], amplitude=1.5, **settings)
    with torch.no_grad():
        kernel.log_weights.copy_(torch.linspace(-0.3, 0.4, level + 1))
    return kernel


def dense_tensors(features: InducingTensors, theta: Tensor) -> Tensor:
    """All coefficients (M, words), one by one."""
    slots = features.slots.detach() * theta
    rows = torch.zeros(features.size, count_up_to(2, features.level), dtype=torch.float64)
    for column, word in enumerate(words_up_to(2, features.level)):
        for row in range(features.size):
            places = [slot_index(k, len(word), features.level) for k in range(1, len(word) + 1)]
            rows[row, column] = math.prod(slots[row, p, a].item() for p, a in zip(places, word, strict=True))
    return rows


@pytest.mark.parametrize("method", METHODS)
def test_tensors_are_contracted_with_signatures(method):
    kernel, x = kernel_of(method=method), series(4, length=5)
    features = InducingTensors(2, 5, 3)
    theta = kernel.theta.detach()
    rows, columns = dense_tensors(features, theta), signature(x * theta, depth=3)
    weights = (kernel.amplitude * kernel.weights)[[len(word) for word in words_up_to(2, 3)]]
    assert torch.allclose(features.inducing_covariance(kernel), rows * weights @ rows.T, rtol=1e-10)
    assert torch.allclose(features.cross_covariance(kernel, x), rows * weights @ columns.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_tensors_of_any_order_by_loops(order):
    kernel, x = kernel_of(order=order, method="recursion"), series(2, length=5)
    features = InducingTensors(2, 3, 3)
    slots, steps = (features.slots * kernel.theta).detach(), (x * kernel.theta).detach().diff(dim=1)
    actual = features.cross_covariance(kernel, x)
    for row, column in itertools.product(range(3), range(2)):
        wanted = kernel.weights[0].item()
        for m in (1, 2, 3):
            g = [slots[row, slot_index(k, m, 3)] @ steps[column].T for k in range(1, m + 1)]
            level = sum(w * math.prod(g[k][t].item() for k, t in enumerate(times)) for times, w in tuples(4, m, order))
            wanted += kernel.weights[m].item() * level
        assert actual[row, column].item() == pytest.approx(1.5 * wanted, rel=1e-10)


def test_rbf_tensors_by_loops():
    kernel, x = kernel_of(static="rbf", order=2), series(2, length=4)
    features = InducingTensors(2, 3, 3)
    values, paths = (features.values * kernel.theta).detach(), (x * kernel.theta).detach()
    signs, weights = (-1.0, 1.0), kernel.weights.tolist()
    places = {m: [slot_index(k, m, 3) for k in range(1, m + 1)] for m in (1, 2, 3)}

    def kap(a: Tensor, b: Tensor) -> float:
        return math.exp(-((a - b) @ (a - b)).item() / 2)

    def gram(a: Tensor, b: Tensor) -> float:
        return sum(s * t * kap(p, q) for s, p in zip(signs, a, strict=True) for t, q in zip(signs, b, strict=True))

    def step(a: Tensor, path: Tensor, t: int) -> float:
        return sum(s * (kap(p, path[t + 1]) - kap(p, path[t])) for s, p in zip(signs, a, strict=True))

    covariance, cross = features.inducing_covariance(kernel), features.cross_covariance(kernel, x)
    for row, other in itertools.product(range(3), range(3)):
        grams = [math.prod(gram(values[row, p], values[other, p]) for p in places[m]) for m in (1, 2, 3)]
        wanted = weights[0] + sum(w * g for w, g in zip(weights[1:], grams, strict=True))
        assert covariance[row, other].item() == pytest.approx(1.5 * wanted, rel=1e-10)
    for row, column in itertools.product(range(3), range(2)):
        wanted = weights[0]
        for m in (1, 2, 3):
            for times, weight in tuples(3, m, 2):
                steps = [step(values[row, p], paths[column], t) for p, t in zip(places[m], times, strict=True)]
                wanted += weights[m] * weight * math.prod(steps)
        assert cross[row, column].item() == pytest.approx(1.5 * wanted, rel=1e-9)


@pytest.mark.parametrize("settings", [{"method": "explicit"}, {"order": 2}, {"static": "rbf"}])
def test_sequences_are_values_of_the_kernel(settings):
    kernel, x = kernel_of(**settings), series(4, length=5)
    features = InducingSequences(2, 3, length=4)
    assert torch.allclose(features.inducing_covariance(kernel), kernel(features.values), rtol=1e-10)
    assert torch.allclose(features.cross_covariance(kernel, x), kernel(features.values, x), rtol=1e-10, atol=1e-12)
    seen = features(kernel, x)
    assert torch.allclose(seen.variance, kernel(x, diag=True), rtol=1e-10)


@pytest.mark.parametrize("kind", ["tensors", "sequences"])
@pytest.mark.parametrize("method", METHODS)
def test_covariance_is_psd_and_its_rank_is_that_of_words(kind, method):
    kernel = kernel_of(2, method=method)
    features = InducingTensors(2, 20, 2) if kind == "tensors" else InducingSequences(2, 20, 4)
    share = torch.linalg.eigvalsh(features.inducing_covariance(kernel).detach())
    assert share.min() > -1e-10 * share.max()
    assert int((share > 1e-10 * share.max()).sum()) == count_up_to(2, 2) == 7


@pytest.mark.parametrize("method", METHODS)
def test_tensors_of_words_have_signatures_as_features(method):
    kernel, x = TruncatedKernel(2, 3, method=method), series(4)
    listed = words_up_to(2, 3)[1:]
    values = torch.zeros(len(listed), 6, 2, 2, dtype=torch.float64)  # slots of two points, unit vectors of letters
    for row, word in enumerate(listed):
        for position, letter in enumerate(word, 1):
            values[row, slot_index(position, len(word), 3), 1, letter] = 1.0
    features = InducingTensors(2, len(listed), 3, values=values)
    unit = torch.eye(len(listed), dtype=torch.float64)
    assert torch.equal(features.inducing_covariance(kernel), 1 + unit)  # 1 of level 0
    wanted = 1 + signature(x, depth=3)[:, 1:]
    assert torch.allclose(features.cross_covariance(kernel, x).T, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["tensors", "sequences"])
def test_explicit_recursion_and_kept_signatures_agree_with_gradients(kind):
    x = series(4, length=5)
    actual = []
    for way in ("explicit", "recursion", "kept"):
        kernel = kernel_of(method="recursion" if way == "recursion" else "explicit")
        features = InducingTensors(2, 4, 3) if kind == "tensors" else InducingSequences(2, 4, 4)
        assert kernel.explicit == (way != "recursion")
        if way == "kept":
            reference = kernel.log_theta.detach().clone()
            plain = features.signatures(kernel, SeriesBatch(x))
            with torch.no_grad():
                kernel.log_theta.add_(0.3)
            kept = features.project_signatures(kernel, plain, reference)
            assert torch.allclose(kept.features, features(kernel, x).features, rtol=1e-9, atol=1e-9)
            assert not torch.equal(kernel.log_theta, reference)
            with torch.no_grad():
                kernel.log_theta.copy_(reference)
            seen = features.project_signatures(kernel, plain, reference)
        else:
            seen = features(kernel, x)
        total = seen.features.sin().sum() + seen.tail.sum() + seen.variance.cos().sum()
        grads = torch.autograd.grad(total, [*kernel.parameters(), *features.parameters()])
        actual.append([seen.features, seen.variance, seen.tail, *grads])
    for other in actual[1:]:
        for one, two in zip(actual[0], other, strict=True):
            assert torch.allclose(one, two, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("settings", [{"method": "explicit"}, {"method": "recursion"}, {"static": "rbf", "order": 2}])
@pytest.mark.parametrize("kind", ["tensors", "sequences"])
def test_gradients(kind, settings):
    kernel, x = kernel_of(2 if "static" not in settings else 3, **settings), series(2, length=4)
    features = InducingTensors(2, 3, kernel.level) if kind == "tensors" else InducingSequences(2, 3, 3)
    inputs = (*kernel.parameters(), *features.parameters())

    def covariances(*_: Tensor) -> tuple[Tensor, Tensor]:
        return features.inducing_covariance(kernel), features.cross_covariance(kernel, x)

    assert torch.autograd.gradcheck(covariances, inputs)


def test_whitening_and_its_gradient():
    random = torch.Generator().manual_seed(0)
    half, cross = (torch.randn(4, n, dtype=torch.float64, generator=random).requires_grad_() for n in (6, 3))
    gram = (half @ half.T).detach()
    actual = whiten(gram, cross, 0.1)
    shifted = gram + 0.1 * torch.eye(4)
    assert torch.allclose(actual.T @ actual, cross.T @ torch.linalg.solve(shifted, cross))
    assert torch.autograd.gradcheck(lambda h, c: whiten(h @ h.T, c, 0.1), (half, cross))
    assert_refused("not positive definite", whiten, -gram, cross, 0.1, error=ArithmeticError)
