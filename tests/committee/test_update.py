"""Members that learn from more series are regressions on whitened landmark features of all series."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from siggpde.committee import update as updating
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Normal, Regression, Targets, fit_exact, whitening_of
from siggpde.committee.update import Posterior
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows, rows_of

FIRST, ALL = 40, 90
WEIGHTS = torch.tensor([0.5, 2.0, 1.1], dtype=torch.float64)


def series(n: int = ALL, seed: int = 0) -> SeriesBatch:
    random = torch.Generator().manual_seed(seed)
    return SeriesBatch(torch.randn(n, 16, 2, dtype=torch.float64, generator=random).cumsum(dim=1))


def targets(batch: SeriesBatch, classes: int | None) -> Tensor:
    last = batch.values[:, -1, 0]
    return last + last.sin() if classes is None else (last > -1).long() + (last > 1).long()


def fitted(classes: int | None, weights: Tensor | None = None, count: int = FIRST, **settings: Any) -> ViewCommittee:
    batch = series()[:count]
    y = targets(batch, classes)
    by_class = None if weights is None else weights / weights[y].mean()
    series_weights = None if by_class is None else by_class[y]
    chosen = ViewSettings(kinds=("linear", "path", "windows"), members=3, words=100, **settings)
    committee = fit_view_committee(batch, Targets(y, classes, series_weights), chosen, Shard(ALONE, count))
    assert isinstance(committee, ViewCommittee)
    committee.class_weights = by_class
    return committee


def brute_force(committee: ViewCommittee, learned: SeriesBatch, y: Tensor, new: SeriesBatch) -> list[tuple[Any, Any]]:
    """Means and variances of every member at new series: ridge regressions on whitened features of all of `learned`."""
    actual = []
    rows, new_rows, landmarks = committee.rows(learned), committee.rows(new), rows_of(committee.blocks)
    outputs = y.double()[:, None]
    if committee.link is not None:
        outputs = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    weights = torch.ones(len(y)).double() if committee.class_weights is None else committee.class_weights[y]
    for member in committee.members:
        whitening = whitening_of(member.mixed(landmarks).gram)
        phi, mixed = member.mixed(rows).gram @ whitening, member.mixed(new_rows)
        precision = phi.T @ (weights[:, None] * phi) + member.regression.noise * torch.eye(phi.shape[1]).double()
        at = mixed.gram @ whitening
        mean = at @ torch.linalg.solve(precision, phi.T @ (weights[:, None] * outputs))
        spread = member.regression.noise * (at * torch.linalg.solve(precision, at.T).T).sum(1)
        tail = mixed.variance - at.square().sum(1)
        actual.append((mean, member.regression.amplitude * (tail + spread)))
    return actual


@pytest.mark.parametrize(("classes", "weights"), [(None, None), (3, None), (3, WEIGHTS)], ids=["y", "3", "weighted"])
def test_an_update_is_the_regression_on_all_series(classes: int | None, weights: Tensor | None):
    committee, batch = fitted(classes, weights), series()
    before = copy.deepcopy(committee)
    committee.update(batch[FIRST:], targets(batch, classes)[FIRST:])
    means, variances = committee.member_latents(series(30, seed=1))
    for index, (mean, variance) in enumerate(brute_force(before, batch, targets(batch, classes), series(30, seed=1))):
        torch.testing.assert_close(means[index], mean, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(variances[index], variance, rtol=1e-8, atol=1e-8)
    for old, new in zip(before.members, committee.members, strict=True):
        assert (old.recipe, old.score) == (new.recipe, new.score)
        assert (old.regression.noise, old.regression.amplitude) == (new.regression.noise, new.regression.amplitude)
    assert torch.equal(before.weights, committee.weights)
    assert (variances < before.member_latents(series(30, seed=1))[1] + 1e-12).all()


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_neither_order_nor_pieces_of_new_series_matter(weights: Tensor | None, monkeypatch: pytest.MonkeyPatch):
    batch = series()
    y = targets(batch, 3)
    together, pieces, turned, chunked = (fitted(3, weights) for _ in range(4))
    together.update(batch[FIRST:], y[FIRST:])
    for rows in (slice(FIRST, 55), slice(55, 56), slice(56, ALL)):
        pieces.update(batch[rows], y[rows])
    order = torch.arange(FIRST, ALL).flip(0)
    turned.update(batch[order], y[order])
    monkeypatch.setattr(updating, "_CHUNK", 7)
    chunked.update(batch[FIRST:], y[FIRST:])
    for other in (pieces, turned, chunked):
        for actual, expected in zip(other.member_latents(batch), together.member_latents(batch), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-7)
        assert all(member.regression.root.shape[1] <= FIRST for member in other.members)


def test_members_on_more_series_than_landmarks_learn_on():
    committee, batch = fitted(None, count=60, max_landmarks=30), series()
    before = copy.deepcopy(committee)
    committee.update(batch[60:], targets(batch, None)[60:])
    means, variances = committee.member_latents(series(30, seed=1))
    for index, (mean, variance) in enumerate(brute_force(before, batch, targets(batch, None), series(30, seed=1))):
        torch.testing.assert_close(means[index], mean, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(variances[index], variance, rtol=1e-7, atol=1e-8)


def test_what_was_left_out_of_a_root_is_known_where_the_landmarks_are_all_series():
    random = torch.Generator().manual_seed(0)
    phi = torch.randn(60, 50, dtype=torch.float64, generator=random) / torch.arange(1, 51)
    gram = phi @ phi.T + 10
    weights = 0.5 + torch.rand(60, dtype=torch.float64, generator=random)
    y = Targets(phi[:, 0] + 0.1 * torch.randn(60, dtype=torch.float64, generator=random), None, weights)
    rows, new = Rows(gram[:50, :50], gram.diagonal()[:50]), Rows(gram[50:, :50], gram.diagonal()[50:])
    whole, _ = fit_exact(rows, y[:50])
    actual = []
    for regression in (replace(whole, counts=None), whole, replace(whole, root=whole.root[:, 30:].float())):
        posterior = Posterior(regression, whitening_of(rows.gram))
        posterior.add(new, y[50:])
        actual.append(posterior.regression())
        assert float(torch.linalg.eigvalsh(posterior.covariance)[0]) > -1e-9
    for other in actual[1:]:
        torch.testing.assert_close(other.alpha, actual[0].alpha, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(other.predict(new)[1], actual[0].predict(new)[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("noise", "nearer"), [(1e-5, 0.6), (1e-2, 0.1)])
def test_roots_in_single_precision_give_an_update_that_is_nearer_to_the_regression_on_all(noise: float, nearer: float):
    """Of 2000 series with 600 landmarks, and twice as many new ones."""
    random = torch.Generator().manual_seed(0)
    spread = 1 / torch.arange(1, 301).double()
    phi = torch.randn(6500, 300, dtype=torch.float64, generator=random) * spread / spread.norm()
    y = Targets(phi[:, 0] + 0.5 * phi[:, 1] + 0.02 * torch.randn(6500, dtype=torch.float64, generator=random), None)
    gram = phi @ phi[:600].T + 10
    variance = phi.square().sum(1) + 10
    sums = Normal.of(gram[:600], 1)
    sums.add(Rows(gram[:2000], variance[:2000]), y[:2000])
    fitted, _ = sums.solve(Rows(gram[:2000], variance[:2000]), y[:2000])
    share, vectors = torch.linalg.eigh(sums.precision)
    turn = sums.whitening @ vectors
    explained = share / (share + noise)
    weight = turn @ ((vectors.T @ sums.shift) / (share + noise)[:, None])
    fitted = Regression(weight, (turn * explained.sqrt())[:, explained > 1e-3].float(), noise, fitted.amplitude)
    posterior = Posterior(fitted, sums.whitening)
    for start in range(2000, 6000, 500):
        posterior.add(Rows(gram[start : start + 500], variance[start : start + 500]), y[start : start + 500])
    updated, new = posterior.regression(), Rows(gram[6000:], variance[6000:])
    sums.add(Rows(gram[2000:6000], variance[2000:6000]), y[2000:6000])
    eye = torch.eye(len(sums.precision), dtype=torch.float64)
    expected = new.gram @ sums.whitening @ torch.linalg.solve(sums.precision + noise * eye, sums.shift)
    mean, spread_of_new = updated.predict(new)
    assert float((mean - expected).std()) < nearer * float((new.gram @ weight - expected).std())
    assert bool((spread_of_new <= fitted.predict(new)[1] * 1.001 + 1e-6).all())


def test_an_error_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    committee, batch = fitted(3), series()
    members, calls, real = committee.members, [], Posterior.add

    def third_fails(self: Posterior, rows: Rows, y: Targets) -> None:
        calls.append(1)
        real(self, rows, y)
        if len(calls) == 3:
            raise MemoryError("no more")

    before = committee.member_latents(batch)
    with monkeypatch.context() as patch:
        patch.setattr(Posterior, "add", third_fails)
        with pytest.raises(MemoryError):
            committee.update(batch, targets(batch, 3))
    assert committee.members is members
    assert all(torch.equal(*both) for both in zip(committee.member_latents(batch), before, strict=True))
    bad = SeriesBatch(torch.full_like(batch.values, torch.nan))
    with pytest.raises((ValueError, ArithmeticError)):
        committee.update(bad, targets(batch, 3))
    assert all(torch.equal(*both) for both in zip(committee.member_latents(batch), before, strict=True))
