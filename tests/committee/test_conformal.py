"""Prediction sets, intervals and predictions without a training series, against the formulas done slowly by refits."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.left_out_refits import means_without
from helpers.view_data import generator, random_walks
from siggpde.committee import conformal
from siggpde.committee import conformal as module
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.conformal import Jackknife, adaptive_scores, scored_folds, training_shares
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.link import fit_link
from siggpde.committee.regression import Targets
from siggpde.committee.weights import fold_numbers
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch

LINEAR = ViewSettings(kinds=("linear",))


def prediction_sets(*given: Any, **settings: Any) -> Tensor:
    return module.prediction_sets(*given, **settings)[0]


def noisy(n: int, classes: int, seed: int, points: int = 3) -> tuple[SeriesBatch, Tensor]:
    """Series whose classes overlap: every class has its own end, and walks their own way there."""
    random = generator(seed)
    y = torch.randint(classes, (n,), generator=random)
    values = torch.randn(n, points, 1, generator=random, dtype=torch.float64)
    return SeriesBatch(values + 1.2 * y[:, None, None] * torch.linspace(0, 1, points)[:, None]), y


def fitted(batch: SeriesBatch, targets: Targets, settings: ViewSettings = LINEAR) -> ViewCommittee:
    return fit_view_committee(batch, targets, settings, Shard(ALONE, len(batch)))


def noisy_numbers(n: int, seed: int, points: int = 3) -> tuple[SeriesBatch, Tensor]:
    """Series and the sum of their points, with errors that have heavy tails."""
    random = generator(seed)
    values = torch.randn(n, points, 1, generator=random, dtype=torch.float64)
    errors = torch.randn(n, generator=random, dtype=torch.float64) ** 3 / 2
    return SeriesBatch(values), values.sum((1, 2)) + errors


def slow_sets(
    committee: ViewCommittee, new: SeriesBatch, level: float, by_class: bool, randomised: bool
) -> list[list[bool]]:
    """By refits and counting; links are fitted to the folds that a series is not in."""
    record = committee.left_out
    classes = record.mean.shape[1]
    folds = fold_numbers(Targets(record.y, classes, None, record.groups)).tolist()
    links = {}
    for fold in set(folds):
        others = torch.tensor([i for i, own_scores in enumerate(folds) if own_scores != fold])
        rest = Targets(record.y, classes, None, record.groups)[others]
        links[fold] = fit_link(record.mean[others], record.variance[others], rest)
    means, variance = means_without(committee, new), committee.latents(new).variance
    own_u, new_u = training_shares(len(record.y), randomised).tolist(), conformal.new_shares(new, randomised).tolist()

    def score(p: list[float], c: int, u: float) -> float:
        return sum(value for value in p if value > p[c]) + u * p[c]

    groups = list(range(len(record.y))) if record.groups is None else record.groups.tolist()
    y = record.y.tolist()
    sets = []
    for x in range(len(new)):
        row = []
        for c in range(classes):
            counted = {g: [] for g in groups}
            for i, g in enumerate(groups):
                if by_class and y[i] != c:
                    continue
                link = links[folds[i]]
                left_out = link.probabilities(record.mean[i : i + 1], record.variance[i : i + 1])[0].tolist()
                p = link.probabilities(means[x, i][None], variance[x : x + 1])[0].tolist()
                counted[g].append(score(left_out, y[i], own_u[i]) >= score(p, c, new_u[x]))
            shares = [sum(actual) / len(actual) for actual in counted.values() if actual]
            row.append((1 + sum(shares)) / (1 + len(shares)) > 1 - level + 1e-9)
        if not randomised:
            row[int(committee.probabilities(new[x : x + 1])[0].argmax())] = True
        sets.append(row)
    return sets


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("allow_empty", [False, True])
def test_sets_are_those_of_refits(grouped: bool, by_class: bool, allow_empty: bool):
    batch, y = noisy(24, 3, 1, points=6)
    groups = torch.randperm(24, generator=generator(2)) // 2 if grouped else None
    committee = fitted(batch, Targets(y, 3, None, groups), ViewSettings(kinds=("linear", "path"), words=30))
    new, _ = noisy(5, 3, 3, points=6)
    for level in (0.5, 0.8):
        actual = prediction_sets(committee, new, level, by_class=by_class, allow_empty=allow_empty)
        assert actual.tolist() == slow_sets(committee, new, level, by_class, allow_empty)


def test_scores_are_the_probability_of_what_is_more_probable():
    p = torch.tensor([[0.5, 0.2, 0.3], [0.4, 0.4, 0.2]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0.8, 0.5], [0.0, 0.0, 0.8]]).double()
    torch.testing.assert_close(adaptive_scores(p, torch.zeros(2).double()), expected)
    actual = adaptive_scores(p, torch.tensor([0.5, 1.0]).double())
    torch.testing.assert_close(actual, expected + p * torch.tensor([[0.5], [1.0]]))


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_coverage_is_as_stated(grouped: bool):
    """200 resamples of 30 series, or of 30 groups: coverage is 90 % within the error of 200 draws, or more."""
    covered, covered_random, total = 0.0, 0.0, 0.0
    for seed in range(200):
        batch, y = noisy(30, 2, 10 * seed)
        groups = None
        if grouped:  # every series twice: 60 series that are worth 30
            batch, y = SeriesBatch(batch.values.repeat(2, 1, 1)), y.repeat(2)
            groups = torch.arange(30).repeat(2)
        if len(y.unique()) < 2:
            continue
        committee = fitted(batch, Targets(y, 2, None, groups))
        new, truth = noisy(20, 2, 10 * seed + 1)
        plain, random = (prediction_sets(committee, new, 0.9, allow_empty=empty) for empty in (False, True))
        covered += float(plain.gather(1, truth[:, None]).double().mean())
        covered_random += float(random.gather(1, truth[:, None]).double().mean())
        total += 1
    # Of 30 series to compare with, coverage varies by sqrt(0.9 0.1 (1 / 30 + 1 / 20)) from resample to resample.
    error = math.sqrt(0.09 * (1 / 30 + 1 / 20) / total)
    assert covered / total > 0.9 - 3 * error
    # Links of different folds disagree, those fitted to every series twice most of all: then coverage is above 90 %.
    most = 0.95 if grouped else 28 / 31 + 3 * error
    assert 0.9 - 3 * error < covered_random / total < most, covered_random / total


def test_sets_grow_with_the_level_and_are_the_same_in_every_batch():
    batch, y = noisy(60, 3, 5)
    committee, (new, _) = fitted(batch, Targets(y, 3)), noisy(40, 3, 6)
    for settings in ({}, {"by_class": True}, {"allow_empty": True}):
        smaller, larger = (prediction_sets(committee, new, level, **settings) for level in (0.7, 0.95))
        assert bool((larger | ~smaller).all()) and int(larger.sum()) > int(smaller.sum())
    whole = prediction_sets(committee, new, 0.8, allow_empty=True)
    order = torch.randperm(40, generator=generator(1))
    assert torch.equal(prediction_sets(committee, new[order], 0.8, allow_empty=True), whole[order])
    padded = SeriesBatch(torch.nn.functional.pad(new.values, (0, 0, 0, 2), value=7.0), torch.full((40,), 3))
    assert torch.equal(prediction_sets(committee, padded, 0.8, allow_empty=True), whole)
    assert len(conformal.new_shares(new, True).unique()) == 40


def test_too_few_series_exclude_no_class_and_promise_no_interval():
    """Of fewer than 1 / alpha - 1 = 9 series of a class none is a reason to leave it out."""
    batch, y = noisy(100, 2, 7)
    for few, excluded in ((8, False), (9, True)):
        rows = torch.cat([(y == 0).nonzero()[:, 0][:40], (y == 1).nonzero()[:, 0][:few]])
        committee = fitted(batch[rows], Targets(y[rows], 2))
        far = SeriesBatch(batch.values[:5] - 10.0)  # as unlike class 1 as can be
        sets = prediction_sets(committee, far, 0.9, by_class=True)
        assert bool(sets[:, 0].all()) and bool(sets[:, 1].all()) is not excluded
    for n, finite in ((8, False), (9, True)):
        batch, y = noisy_numbers(n, 4)
        ends = conformal.conformal_intervals(fitted(batch, Targets(y, None)), noisy_numbers(3, 5)[0], 0.9)
        assert bool(torch.isfinite(ends).all()) is finite
        assert bool((ends[:, 0] < ends[:, 1]).all())


@pytest.mark.parametrize("changed", [{"max_landmarks": 40}, {"keep_series": False}])
def test_without_the_closed_form_new_series_are_compared_as_they_are(changed: dict):
    batch, y = noisy(90, 2, 8)
    committee = fitted(batch, Targets(y, 2), replace(LINEAR, **changed))
    new, truth = noisy(300, 2, 9)
    record, nothing = committee.left_out, torch.zeros(1)
    counted = torch.zeros(300, 2)
    for fold in scored_folds(committee, record, False):
        own_scores = fold.link.probabilities(record.mean[fold.rows], record.variance[fold.rows])
        own_scores = adaptive_scores(own_scores, nothing).gather(1, record.y[fold.rows][:, None])
        new_scores = adaptive_scores(fold.link.probabilities(*committee.latents(new)), nothing)
        counted += (own_scores[:, None] >= new_scores).sum(0)
    p = committee.probabilities(new)
    actual = prediction_sets(committee, new, 0.9)
    assert torch.equal(actual, ((1 + counted) / (1 + len(record.y)) > 0.1) | (p == p.amax(1, keepdim=True)))
    assert float(actual.gather(1, truth[:, None]).double().mean()) > 0.85


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_are_those_of_refits(grouped: bool):
    batch, y = noisy_numbers(24, 1, points=6)
    groups = torch.randperm(24, generator=generator(2)) // 2 if grouped else None
    committee = fitted(batch, Targets(y, None, None, groups), ViewSettings(kinds=("linear", "path"), words=30))
    record, (new, _) = committee.left_out, noisy_numbers(9, 3, points=6)
    _, variance = committee.mean_and_variance(new)
    spread = variance.sqrt() / committee.recalibration.spread
    noise = float(committee.weights @ committee.noise_variances)
    residuals = (record.y - record.mean[:, 0]).abs() / (record.variance + noise).sqrt()
    around, away = means_without(committee, new)[:, :, 0], residuals * spread[:, None]
    for level in (0.6, 0.8):
        actual = conformal.conformal_intervals(committee, new, level)
        # Twelve groups of two are 24 values of which each counts half.
        count = math.ceil(round(level * (2 * 13 if grouped else 25), 9))
        upper = (around + away).sort(1).values[:, count - 1]
        lower = (around - away).sort(1, descending=True).values[:, count - 1]
        torch.testing.assert_close(actual, torch.stack([lower, upper], 1), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_coverage_of_intervals_is_as_stated():
    """200 resamples: at least 90 % within the error of 200 draws, and little more."""
    covered = 0.0
    for seed in range(200):
        batch, y = noisy_numbers(30, 10 * seed)
        new, truth = noisy_numbers(20, 10 * seed + 1)
        ends = conformal.conformal_intervals(fitted(batch, Targets(y, None)), new, 0.9)
        covered += float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).double().mean()) / 200
    error = math.sqrt(0.09 * (1 / 30 + 1 / 20) / 200)
    assert 0.9 - 3 * error < covered < 28 / 31 + 3 * error, covered


QUICK = ViewSettings(kinds=("linear", "path", "kernel"), words=60)
FEW_FEATURES = ViewSettings(kinds=("linear",))  # of three points: fewer features than series


def targets_of(n: int, classes: int | None, weighted: bool = False, grouped: bool = False) -> Targets:
    random = generator(5)
    y = torch.randn(n, generator=random).double() if classes is None else torch.randperm(n, generator=random) % classes
    weights = torch.rand(n, generator=random).double() + 0.3 if weighted else None
    groups = torch.randperm(n, generator=random) // 3 if grouped else None
    return Targets(y, classes, None if weights is None else weights * (n / weights.sum()), groups)


def fitted_jackknife(length: int, targets: Targets, settings: ViewSettings = QUICK) -> ViewCommittee:
    return fitted(SeriesBatch(random_walks(len(targets), length, 2, 3)), targets, settings)


def closed_form(committee: ViewCommittee, new: SeriesBatch) -> Tensor:
    """(m, n, outputs)"""
    jackknife = Jackknife(committee, committee.left_out)
    assert jackknife.closed_form
    return torch.cat([means[:, jackknife.group] for _, means, _ in jackknife.predict(new)])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 2, 3])
def test_without_a_series_is_a_refit_without_it(classes: int | None, weighted: bool, grouped: bool):
    committee = fitted_jackknife(8, targets_of(20, classes, weighted, grouped))
    new = SeriesBatch(random_walks(6, 8, 2, 4))
    slow = means_without(committee, new)
    torch.testing.assert_close(closed_form(committee, new), slow, rtol=1e-5, atol=1e-5)
    assert float((slow - committee.latents(new).mean[:, None]).abs().max()) > 1e-3  # a series makes a difference


def test_predictions_without_a_series_of_few_features_or_landmarks_and_in_pieces(monkeypatch: pytest.MonkeyPatch):
    """Directions in which kernels are 0 are in no root, but the left-out errors know them."""
    committee, new = fitted_jackknife(3, targets_of(30, 2), FEW_FEATURES), SeriesBatch(random_walks(6, 3, 2, 4))
    assert all(member.regression.root.shape[1] < 30 for member in committee.members)
    torch.testing.assert_close(closed_form(committee, new), means_without(committee, new), rtol=1e-5, atol=1e-5)
    # Asked for a training series, the prediction without it is its left-out one.
    committee, batch = fitted_jackknife(8, targets_of(20, 3)), SeriesBatch(random_walks(20, 8, 2, 3))
    values = committee.standard(batch).values.flatten(1)
    order = torch.cdist(committee.landmarks.values.flatten(1), values).argmin(1)
    own_scores = closed_form(committee, batch[order]).diagonal().T
    torch.testing.assert_close(own_scores, committee.left_out.mean, rtol=1e-5, atol=1e-5)
    committee = fitted_jackknife(8, targets_of(20, 3), ViewSettings(kinds=("linear",), max_landmarks=10))
    jackknife, new = Jackknife(committee, committee.left_out), SeriesBatch(random_walks(7, 8, 2, 4))
    assert not jackknife.closed_form
    ((latents, means, _),) = jackknife.predict(new)
    assert torch.equal(latents.mean, committee.latents(new).mean) and torch.equal(means[:, 0], latents.mean)
    committee, new = fitted_jackknife(8, targets_of(20, 3, grouped=True)), SeriesBatch(random_walks(7, 8, 2, 4))
    whole = closed_form(committee, new)
    monkeypatch.setattr(module, "_SERIES", 4)
    monkeypatch.setattr(module, "_NUMBERS", 2 * 20 * 3)
    torch.testing.assert_close(closed_form(committee, new), whole, rtol=1e-12, atol=1e-12)
