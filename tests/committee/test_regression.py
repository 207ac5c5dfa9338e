"""Closed-form regressions of members against dense Gaussian processes, one refit for every series left out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import few
from helpers.refusals import assert_refused
from helpers.view_data import dense, generator, left_out_one_by_one, random_rows
from siggpde.committee import regression as module
from siggpde.committee.regression import NOISES, Normal, Regression, Targets, fit_exact
from siggpde.views.base import Rows

SOME_NOISES = (NOISES[0], NOISES[5], NOISES[-1])


GROUPS = (3, 1, 4, 3, 2)  # sizes, again and again


def targets_of(n: int, classes: int | None, weighted: bool, seed: int, grouped: bool = False) -> Targets:
    random = generator(seed)
    y = torch.randn(n, generator=random).double() if classes is None else torch.arange(n) % classes
    weights = torch.rand(n, generator=random).double() + 0.2 if weighted else None
    groups = torch.arange(n).repeat_interleave(torch.tensor(GROUPS).repeat(n)[:n])[:n] if grouped else None
    if groups is not None:
        groups = groups[torch.randperm(n, generator=random)]
    return Targets(y, classes, None if weights is None else weights * (n / weights.sum()), groups)


@pytest.mark.parametrize("noise", SOME_NOISES)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 2, 3])
def test_left_out_is_a_refit_without_the_series(
    classes: int | None, weighted: bool, grouped: bool, noise: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "NOISES", (noise,))
    rows, _ = random_rows(18, 40, 0, tail=0.3)
    targets = targets_of(18, classes, weighted, 1, grouped)
    fitted, left_out = fit_exact(rows, targets)
    assert fitted.noise == noise
    slow = left_out_one_by_one(rows, targets, noise, fitted.amplitude)
    torch.testing.assert_close(left_out.mean, slow.mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(left_out.variance, slow.variance, rtol=1e-8, atol=1e-8)
    # The amplitude makes the left-out errors as large as their variances say.
    errors = targets.signs() - slow.mean
    variances = (slow.variance / fitted.amplitude - 0.3 + noise / targets.counts)[:, None]
    assert fitted.amplitude == pytest.approx(float((errors.square() / variances).mean()), rel=1e-8)


@pytest.mark.parametrize("noise", SOME_NOISES)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_left_out_of_landmarks_is_a_refit_too(
    classes: int | None, weighted: bool, grouped: bool, noise: float, monkeypatch: pytest.MonkeyPatch
):
    """The model is that of the whitened features; what these leave of the variance is added to every prediction."""
    monkeypatch.setattr(module, "NOISES", (noise,))
    n, m = 30, 8
    everything, _ = random_rows(n, 40, 3)
    targets = targets_of(n, classes, weighted, 4, grouped)
    rows = Rows(everything.gram[:, :m], everything.variance)
    normal = Normal.of(everything.gram[:m, :m], targets.signs().shape[1])
    for part in (slice(0, 11), slice(11, n)):
        normal.add(Rows(rows.gram[part], rows.variance[part]), targets[part])
    some = torch.arange(3, n, 2) if targets.groups is None else (targets.groups > 3).nonzero()[:, 0]  # whole groups
    fitted, left_out = normal.solve(Rows(rows.gram[some], rows.variance[some]), targets[some])
    phi = rows.gram @ normal.whitening
    slow = left_out_one_by_one(Rows(phi @ phi.T, rows.variance), targets, noise, fitted.amplitude)
    torch.testing.assert_close(left_out.mean, slow.mean[some], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(left_out.variance, slow.variance[some], rtol=1e-7, atol=1e-8)
    new, _ = random_rows(n + 5, 40, 3)
    across = Rows(new.gram[n:, :m], new.variance[n:])
    new_features = across.gram @ normal.whitening
    kernels = phi @ phi.T, new_features @ phi.T, across.variance
    wanted = dense(*kernels, targets.signs(), noise, fitted.amplitude, targets.counts)
    mean, variance = fitted.predict(across)
    torch.testing.assert_close(mean, wanted.mean, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(variance, wanted.variance, rtol=1e-6, atol=1e-8)


@given(st.integers(2, 25), st.integers(1, 40), st.sampled_from([None, 2, 4]), st.booleans(), st.integers(0, 999))
@few
def test_exact_is_the_dense_process(n: int, features: int, classes: int | None, weighted: bool, seed: int):
    together, _ = random_rows(n + 4, features, seed, tail=0.1)
    rows = Rows(together.gram[:n, :n], together.variance[:n])
    across = Rows(together.gram[n:, :n], together.variance[n:])
    targets = targets_of(n, classes, weighted, seed)
    fitted, left_out = fit_exact(rows, targets)
    assert fitted.noise in NOISES and fitted.amplitude > 0 and bool((left_out.variance >= 0).all())
    kernels = rows.gram, across.gram, across.variance
    wanted = dense(*kernels, targets.signs(), fitted.noise, fitted.amplitude, targets.counts)
    mean, variance = fitted.predict(across)
    torch.testing.assert_close(mean, wanted.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(variance, wanted.variance, rtol=1e-6, atol=1e-6 * fitted.amplitude)


@pytest.mark.parametrize("classes", [None, 3])
def test_all_series_as_landmarks_are_exact(classes: int | None, monkeypatch: pytest.MonkeyPatch):
    rows, _ = random_rows(24, 60, 5)
    targets = targets_of(24, classes, True, 6)
    monkeypatch.setattr(module, "NOISES", NOISES[3:])
    exact, one = fit_exact(rows, targets)
    normal = Normal.of(rows.gram, targets.signs().shape[1])
    normal.add(rows, targets)
    whitened, other = normal.solve(rows, targets)
    assert whitened.noise == exact.noise and whitened.amplitude == pytest.approx(exact.amplitude, rel=1e-6)
    torch.testing.assert_close(other.mean, one.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other.variance, one.variance, rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(whitened.predict(rows), exact.predict(rows), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def test_what_is_left_of_a_root_only_raises_variances(monkeypatch: pytest.MonkeyPatch):
    rows, _ = random_rows(60, 20, 7, tail=1e-3)
    targets = targets_of(60, 2, False, 8)
    monkeypatch.setattr(module, "NOISES", (0.1,))
    whole, _ = fit_exact(rows, targets)
    normal = Normal.of(rows.gram, 2)
    normal.add(rows, targets)
    whole_normal, _ = normal.solve(rows, targets)
    monkeypatch.setattr(module, "_SMALL", 4)
    cut, _ = fit_exact(rows, targets)
    cut_normal, _ = normal.solve(rows, targets)
    for full, part in ((whole, cut), (whole_normal, cut_normal)):
        assert part.root.shape[1] < full.root.shape[1] or full is whole_normal
        (mean, variance), (same, higher) = full.predict(rows), part.predict(rows)
        rounding = 1e-6 * float(rows.variance.max()) * part.amplitude  # that of float32, in which large roots are kept
        assert torch.equal(mean, same) and bool((higher >= variance - rounding).all())
        assert float((higher - variance).mean()) < 0.05 * float(variance.mean())
    assert cut.root.shape[1] <= 21  # the rank of the kernel, with the constant


def test_noise_is_the_one_that_predicts_best():
    """Labels that the kernel explains have little noise, those that it does not have much."""
    rows, phi = random_rows(80, 6, 9)
    clear = (phi[:, 0] > 0).long()
    coin = torch.randint(2, (80,), generator=generator(10))
    (one, well), (other, badly) = (fit_exact(rows, Targets(y, 2)) for y in (clear, coin))
    assert one.noise < other.noise and well.score < 0.45 and 0.6 < badly.score < 0.72


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-4, 1e-3])
def test_errors_of_the_kernel_are_not_blown_up(size: float, monkeypatch: pytest.MonkeyPatch):
    """A kernel of few directions, solved with errors: new series are predicted as well as left-out ones."""
    monkeypatch.setattr(module, "NOISES", (1e-5, 1e-4))
    n, random = 150, generator(15)
    exact, phi = random_rows(2 * n, 5, 16)
    errors = size * torch.randn(2 * n, 2 * n, generator=random).double()
    solved = exact.gram + errors + errors.T
    y = phi @ torch.randn(5, generator=random).double() + 1e-3 * torch.randn(2 * n, generator=random).double()
    fitted, left_out = fit_exact(Rows(solved[:n, :n], exact.variance[:n]), Targets(y[:n], None))
    mean, _ = fitted.predict(Rows(solved[n:, :n], exact.variance[n:]))
    claimed = float((left_out.mean[:, 0] - y[:n]).square().mean().sqrt())
    actual = float((mean[:, 0] - y[n:]).square().mean().sqrt())
    assert actual < 1.5 * claimed and claimed < 2e-3 + 30 * size


def test_log_densities_of_numbers_and_of_classes():
    targets = targets_of(12, None, False, 11)
    mean, variance = torch.randn(12, 1, generator=generator(12)).double(), torch.rand(12).double() + 0.1
    actual, prior = targets.log_density(mean, variance)
    wanted = torch.distributions.Normal(mean[:, 0], variance.sqrt()).log_prob(targets.y)
    torch.testing.assert_close(actual, wanted)
    assert prior == 0.0
    means = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double()
    few_series, _ = Targets(torch.tensor([0, 1]), 2).log_density(means, torch.ones(2).double())
    many, _ = Targets(torch.arange(100) % 2, 2).log_density(means.repeat(50, 1), torch.ones(100).double())
    assert few_series.mean() < many.mean() < 0 and float(few_series.exp().max()) < 1 - 0.5 / 4


def test_numbers_out_of_range_are_named_and_no_variance_is_negative():
    rows, _ = random_rows(5, 3, 13)
    huge = Targets(torch.full((5,), 1e300, dtype=torch.float64), None)
    assert_refused("no noise level gave finite", fit_exact, rows, huge, error=ArithmeticError)
    rows, _ = random_rows(5, 3, 14)
    fitted = Regression(torch.zeros(5, 1).double(), 100 * torch.eye(5).double(), 0.1, 1.0)
    assert torch.equal(fitted.predict(rows)[1], torch.zeros(5).double())
