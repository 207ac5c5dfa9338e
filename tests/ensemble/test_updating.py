"""Members that learn from more series are regressions on whitened landmark features of all series."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.ensemble import updating
from siggpde.ensemble.fitting import ViewSettings, fit_view_committee
from siggpde.ensemble.regression import Regression, Targets, fit_exact, whitening_of
from siggpde.ensemble.updating import Posterior, update_views
from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.paths import SeriesBatch
from siggpde.views.base import Rows

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
    own = None if by_class is None else by_class[y]
    chosen = ViewSettings(kinds=("linear", "path", "windows"), members=3, words=100, **settings)
    committee = fit_view_committee(batch, Targets(y, classes, own), chosen, Shard(ALONE, count))
    assert isinstance(committee, ViewCommittee)
    committee.class_weights = by_class
    return committee


def brute_force(committee: ViewCommittee, learned: SeriesBatch, y: Tensor, new: SeriesBatch) -> list[tuple[Any, Any]]:
    """Means and variances of every member at new series: ridge regressions on whitened features of all of `learned`."""
    found = []
    rows, new_rows, own = committee.rows(learned), committee.rows(new), {}
    for block in committee.blocks:
        own |= block.landmark_rows()
    outputs = y.double()[:, None]
    if committee.link is not None:
        outputs = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    weights = torch.ones(len(y)).double() if committee.class_weights is None else committee.class_weights[y]
    for member in committee.members:
        whitening = whitening_of(member.mixed(own).gram)
        phi, mixed = member.mixed(rows).gram @ whitening, member.mixed(new_rows)
        precision = phi.T @ (weights[:, None] * phi) + member.regression.noise * torch.eye(phi.shape[1]).double()
        at = mixed.gram @ whitening
        mean = at @ torch.linalg.solve(precision, phi.T @ (weights[:, None] * outputs))
        spread = member.regression.noise * (at * torch.linalg.solve(precision, at.T).T).sum(1)
        tail = mixed.variance - at.square().sum(1)
        found.append((mean, member.regression.amplitude * (tail + spread)))
    return found


@pytest.mark.parametrize(("classes", "weights"), [(None, None), (3, None), (3, WEIGHTS)], ids=["y", "3", "weighted"])
def test_an_update_is_the_regression_on_all_series(classes: int | None, weights: Tensor | None):
    committee, batch = fitted(classes, weights), series()
    before = copy.deepcopy(committee)
    update_views(committee, batch[FIRST:], targets(batch, classes)[FIRST:])
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
    update_views(together, batch[FIRST:], y[FIRST:])
    for rows in (slice(FIRST, 55), slice(55, 56), slice(56, ALL)):
        update_views(pieces, batch[rows], y[rows])
    order = torch.arange(FIRST, ALL).flip(0)
    update_views(turned, batch[order], y[order])
    monkeypatch.setattr(updating, "_CHUNK", 7)
    update_views(chunked, batch[FIRST:], y[FIRST:])
    for other in (pieces, turned, chunked):
        for found, expected in zip(other.member_latents(batch), together.member_latents(batch), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)
        assert all(member.regression.root.shape[1] <= FIRST for member in other.members)


def test_members_on_more_series_than_landmarks_learn_on():
    committee, batch = fitted(None, count=60, max_landmarks=30), series()
    before = copy.deepcopy(committee)
    update_views(committee, batch[60:], targets(batch, None)[60:])
    means, variances = committee.member_latents(series(30, seed=1))
    for index, (mean, variance) in enumerate(brute_force(before, batch, targets(batch, None), series(30, seed=1))):
        torch.testing.assert_close(means[index], mean, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(variances[index], variance, rtol=1e-7, atol=1e-8)


def test_a_root_that_was_cut_is_made_whole_where_it_is_known():
    random = torch.Generator().manual_seed(0)
    phi = torch.randn(60, 50, dtype=torch.float64, generator=random) / torch.arange(1, 51)
    gram = phi @ phi.T + 10
    y = Targets(phi[:, 0] + 0.1 * torch.randn(60, dtype=torch.float64, generator=random), None)
    rows = Rows(gram[:50, :50], gram.diagonal()[:50])
    whole, _ = fit_exact(rows, y[:50])
    cut = Regression(whole.alpha, whole.root[:, 30:], whole.noise, whole.amplitude)
    other = Regression(whole.alpha, whole.root[:, 30:] * 0.9, whole.noise, whole.amplitude)
    new = Rows(gram[50:, :50], gram.diagonal()[50:])
    found = []
    for regression in (whole, cut, other):
        posterior = Posterior(regression, whitening_of(rows.gram))
        posterior.add(new, y[50:])
        found.append(posterior.regression())
        assert bool((torch.linalg.eigvalsh(posterior.covariance) > -1e-10).all())
    expected, made_whole, approximate = found
    torch.testing.assert_close(made_whole.alpha, expected.alpha, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(made_whole.predict(new)[1], expected.predict(new)[1], rtol=1e-6, atol=1e-8)
    assert bool((approximate.predict(new)[1] >= expected.predict(new)[1] - 1e-10).all())


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
            update_views(committee, batch, targets(batch, 3))
    assert committee.members is members
    assert all(torch.equal(*both) for both in zip(committee.member_latents(batch), before, strict=True))
    bad = SeriesBatch(torch.full_like(batch.values, torch.nan))
    with pytest.raises((ValueError, ArithmeticError)):
        update_views(committee, bad, targets(batch, 3))
    assert all(torch.equal(*both) for both in zip(committee.member_latents(batch), before, strict=True))
