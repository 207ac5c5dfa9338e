"""Members for which all training series count: leave-one-out and predictions against plain Gaussian processes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import rank_jobs
from helpers.view_data import random_walks
from siggpde.committee import exact
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.cost import exact_members
from siggpde.committee.exact import ExactFit
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Groups, Regression, Targets
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.explain.contributions import explain_series
from siggpde.explain.shapley import PermutationSettings
from siggpde.series import SeriesBatch
from siggpde.series.statistics import statistics_of
from siggpde.views import PathView, WindowSettings, WindowsView
from siggpde.views.base import Rows

SETTINGS = ViewSettings(kinds=("linear", "path", "kernel", "windows"), words=40, max_landmarks=40, exact=160)


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "_WORTH", -torch.inf)
    monkeypatch.setattr(exact, "_LITTLE", -torch.inf)


def series(count: int, seed: int) -> SeriesBatch:
    batch = SeriesBatch(random_walks(count, 20, 1, seed))
    return replace(batch, statistics=statistics_of(batch))


def labels(batch: SeriesBatch, classes: int | None = 3) -> Targets:
    ends = batch.values[:, -1, 0] + 0.3 * batch.values[:, 10, 0]
    return Targets(ends if classes is None else ends.argsort().argsort() * classes // len(ends), classes)


def fit(batch: SeriesBatch, targets: Targets, settings: ViewSettings = SETTINGS) -> ViewCommittee:
    return fit_view_committee(batch, targets, settings, Shard(ALONE, len(batch)))


def gram_of(committee: ViewCommittee, number: int, batch: SeriesBatch) -> Tensor:
    """The member's kernel between series and all training series, in float64, from blocks that were never extended."""
    member = committee.members[number]
    return member.mixed(committee.rows(batch)).gram


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_left_out_predictions_are_those_of_refits(weighted: bool, grouped: bool):
    random = torch.Generator().manual_seed(1)
    features = torch.randn(24, 9, generator=random).double()
    gram, noise = features @ features.T / 9 + 1, 0.07
    weights = torch.rand(24, generator=random).double() + 0.5 if weighted else None
    groups = torch.arange(24) // 3 if grouped else None
    targets = Targets(torch.randint(3, (24,), generator=random), 3, weights, groups)
    left_out, amplitude, alpha = exact._left_out(gram.tril(), targets, noise)
    signs, noises = targets.signs(), noise / targets.counts
    torch.testing.assert_close((gram + noises.diag()) @ alpha, signs)
    for row in range(24):
        rest = torch.arange(24) != row if groups is None else groups != groups[row]
        solved = torch.linalg.solve(gram[rest][:, rest] + noises[rest].diag(), gram[rest, row])
        torch.testing.assert_close(left_out.mean[row], signs[rest].T @ solved)
        variance = amplitude * (gram[row, row] - gram[row, rest] @ solved)
        torch.testing.assert_close(left_out.variance[row], variance)


def test_blocks_of_an_inverse_are_solved_group_by_group():
    random = torch.Generator().manual_seed(2)
    factor, values = (torch.randn(12, width, generator=random).double() for width in (30, 2))
    inverse, groups = factor @ factor.T, torch.tensor([0, 1, 1, 2, 2, 2, 0, 3, 3, 3, 3, 3])
    solved, diagonal = Groups.of(groups).without(inverse, values)
    for group in range(4):
        rows = (groups == group).nonzero()[:, 0]
        block = torch.linalg.inv(inverse[rows][:, rows])
        torch.testing.assert_close(solved[rows], block @ values[rows])
        torch.testing.assert_close(diagonal[rows], block.diagonal())


@pytest.mark.parametrize("power", [1, 2])
def test_weights_are_those_of_the_whole_gram_matrix_with_any_number_of_threads(power: int):
    batch = series(90, 3)
    blocks, rows = [], {}
    for view in (PathView("L", degree=1, words=30), WindowsView(WindowSettings(lifts=("x",)))):
        block, _ = view.fit(batch[:30])
        extended = block.extended(batch[30:])
        for name, one in block.rows(batch[30:]).items():
            torch.testing.assert_close(extended.rows(batch[30:])[name].gram[:, :30], one.gram)
        blocks, rows = [*blocks, extended], rows | extended.rows(batch)
    recipe = Recipe("sum", (("L", 1.0), ("x1", 2.0)), power)
    norms = recipe.average(rows).variance
    gram = recipe.mix(rows, norms).gram
    targets = labels(batch)
    before = Regression(torch.zeros(30, 3).double(), torch.zeros(30, 1).double(), 1.0, 1.0)
    fits = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        fits.append(ExactFit(blocks, targets, threads).fit([(recipe, before)])[0])
    regression, found, left_out = fits[0]
    assert torch.equal(regression.alpha, fits[1][0].alpha) and torch.equal(left_out.mean, fits[1][2].mean)
    if power == 2:
        assert found is not None
        torch.testing.assert_close(found, norms)
    system = gram + regression.noise * torch.eye(90).double()
    wanted = torch.linalg.solve(system, targets.signs())
    torch.testing.assert_close(gram @ regression.alpha, gram @ wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("classes", [3, None])
def test_a_committee_of_exact_members(classes: int | None):
    batch, new = series(160, 4), series(12, 5)
    targets = labels(batch, classes)
    committee = fit(batch, targets)
    wide = [k for k, member in enumerate(committee.members) if len(member.alpha) == 160]
    assert committee.others is not None and wide and len(committee.others) == 120
    assert all(len(member.alpha) in (40, 160) for member in committee.members)
    rest = torch.cat([committee.landmarks.values, committee.others.values])  # standardised
    standard = committee.standard(batch).values
    order = torch.cdist(rest.flatten(1), standard.flatten(1)).argmin(1)
    assert sorted(order.tolist()) == list(range(160))
    for k in wide:
        member = committee.members[k]
        gram = gram_of(committee, k, batch[order])
        system = gram + member.regression.noise * torch.eye(160).double()
        mean = gram_of(committee, k, new) @ torch.linalg.solve(system, targets.signs()[order])
        torch.testing.assert_close(committee.member_latents(new)[0][k], mean, rtol=0, atol=2e-4)
    assert bool((committee.latents(new).variance >= 0).all())


def test_fewer_series_than_allowed_none_that_gain_and_a_limit_of_time(monkeypatch, caplog):
    batch = series(100, 6)
    targets = labels(batch)
    assert fit(batch, targets, replace(SETTINGS, exact=99)).others is None
    assert fit(batch, targets, replace(SETTINGS, keep_series=False, kinds=("linear", "windows"))).others is None
    for name in ("_WORTH", "_LITTLE"):
        with monkeypatch.context() as changed:
            changed.setattr(exact, name, torch.inf)
            assert fit(batch, targets).others is None
    block, _ = PathView("L", degree=1, words=30).fit(batch[:30])
    assert exact_members([block], 10_000, None, 0.0) == (3, None)
    count, reason = exact_members([block], 10_000, 100.0, 99.0)
    assert count == 0 and reason is not None and "time limit" in reason
    count, reason = exact_members([block], 10**6, None, 0.0)
    assert count == 0 and reason is not None and "GB of memory" in reason


def test_a_saved_state_explanations_and_updates():
    batch, new = series(120, 7), series(5, 8)
    targets = labels(batch)
    committee = fit(batch, targets)
    loaded = ViewCommittee.from_state(committee.state(), {})
    torch.testing.assert_close(loaded.probabilities(new), committee.probabilities(new), rtol=0, atol=1e-12)
    for one in (committee, loaded):
        explanation = explain_series(
            one, new, ["x"], walks=PermutationSettings(segments=4, permutations=4), classes=["a", "b", "c"]
        )
        for row in explanation:
            terms = sum(term.value for term in row.contributions) + row.rest
            assert row.constant + terms == pytest.approx(row.latent, abs=1e-6)
            assert row.constant + sum(view.value for view in row.views) == pytest.approx(row.latent, abs=1e-6)
            assert row.segments is not None
            sums = row.segments.values.sum((0, 1))
            np.testing.assert_allclose(sums, row.segments.latents - row.segments.baseline, atol=1e-6)
    before = committee.latents(new).mean
    committee.update(new, torch.zeros(5).long())
    after = committee.latents(new).mean
    assert bool((after[:, 0] > before[:, 0]).all())


def test_two_ranks_find_what_one_does(tmp_path):
    wanted = rank_jobs.exact_series(ALONE)
    for facts in rank_jobs.run(2, "exact_series", tmp_path):
        assert isinstance(facts, dict), facts
        assert facts["members"] == wanted["members"] and facts["others"] == wanted["others"] == 2440
        assert torch.equal(facts["probabilities"], wanted["probabilities"])


def test_rows_are_against_all_series_only_where_a_member_needs_them():
    batch = series(120, 9)
    committee = fit(batch, labels(batch), replace(SETTINGS, kinds=("kernel", "windows")))
    rows: dict[str, Rows] = committee.rows(batch[:3])
    exactly = {name for member in committee.members if len(member.alpha) == 120 for name, _ in member.recipe.weights}
    assert {name for name, one in rows.items() if one.gram.shape[1] == 120} >= exactly
    assert all(one.gram.shape[1] == 40 for name, one in rows.items() if name.startswith("P"))
