"""Scores and p-values of novelty, against regressions that are made anew, and caution far from the training series."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import few
from helpers.view_data import generator, random_rows, random_walks
from siggpde.committee.committee import LeftOutRecord, ViewCommittee, ViewPrediction
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.novelty import Novelty, StatisticScores, _joined, joined_variances, variances_without
from siggpde.committee.regression import Targets, fit_exact
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import Preparation
from siggpde.views.base import Rows


def committee_of(n: int = 40, groups: torch.Tensor | None = None) -> tuple[ViewCommittee, Preparation]:
    y = torch.arange(n) % 2
    X = random_walks(n, 25, 2, 0).transpose(1, 2).numpy()
    X[y == 1, 0] += np.linspace(0, 9, 25)
    preparation = Preparation()
    batch = preparation.fit_transform(X)
    targets = Targets(y, 2, groups=groups)
    committee = fit_view_committee(batch, targets, ViewSettings(kinds=("path", "windows")), Shard(ALONE, n))
    assert isinstance(committee, ViewCommittee)
    return committee, preparation


COMMITTEE, PREPARATION = committee_of()


def new_series(n: int = 6, seed: int = 1) -> np.ndarray:
    return random_walks(n, 25, 2, seed).transpose(1, 2).numpy()


@pytest.mark.parametrize("weighted", [False, True])
def test_joined_variances_are_those_of_a_regression_on_one_series_more(weighted: bool):
    n = 20
    everything, _ = random_rows(n + 1, 40, 0)
    weights = torch.rand(n, generator=generator(1)).double() + 0.5 if weighted else None
    targets = Targets(torch.arange(n) % 2, 2, None if weights is None else weights / weights.mean())
    fitted, left_out = fit_exact(Rows(everything.gram[:n, :n], everything.variance[:n]), targets)
    record = LeftOutRecord(targets.y, left_out.mean, left_out.variance, left_out.variance[None], None, True)
    actual = _joined(fitted, Rows(everything.gram[n:, :n], everything.variance[n:]), record, 0)[0]
    noise = fitted.noise * torch.cat([1 / targets.counts, torch.ones(1).double()])
    inverse = torch.linalg.inv(everything.gram + torch.diag(noise))
    expected = fitted.amplitude * (1 / inverse.diagonal()[:n] - noise[:n] + fitted.noise)
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-10)


def test_p_values_count_left_out_series_with_the_new_one_joined():
    batch = PREPARATION(new_series())
    scores = COMMITTEE.predict(batch).scores
    assert scores is not None and COMMITTEE.novelty is not None
    joined = joined_variances(COMMITTEE, COMMITTEE.rows(batch))
    actual = COMMITTEE.novelty.p_values(scores.score, joined)
    for row in range(len(batch)):
        kernel = COMMITTEE.novelty.kernel_score(joined[:, row].log())
        reference = torch.maximum(kernel, COMMITTEE.novelty.left_out_statistics)
        assert float(actual[row]) == pytest.approx((1 + int((reference >= scores.score[row]).sum())) / 41)
    prior = COMMITTEE.left_out.variances + COMMITTEE.noise_variances[:, None]
    assert bool((joined <= prior[:, None] * (1 + 1e-9)).all())


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_p_values_come_from_one_look_at_every_series(chunk: int, monkeypatch: pytest.MonkeyPatch):
    batch, seen = PREPARATION(new_series()), []
    scores, variances = COMMITTEE.predict(batch).scores.score, joined_variances(COMMITTEE, COMMITTEE.rows(batch))
    wanted = COMMITTEE.novelty.p_values(scores, variances)
    real = type(COMMITTEE.standard).__call__
    monkeypatch.setattr("siggpde.committee.committee._CHUNK", chunk)
    monkeypatch.setattr(
        type(COMMITTEE.standard), "__call__", lambda self, part: seen.append(len(part)) or real(self, part)
    )
    p_values, scores = COMMITTEE.p_values(batch)
    torch.testing.assert_close(p_values, wanted, rtol=1e-6, atol=1e-6)
    assert sum(seen) == len(batch) == len(scores.score)


def test_p_values_count_scores_and_trust_falls_beyond_the_limit():
    novelty = COMMITTEE.novelty
    assert novelty is not None
    reference = novelty.left_out_scores
    score = torch.cat([reference, reference + 1e-6, torch.tensor([-1e9, 1e9])])
    slow = torch.tensor([(1 + int((reference >= value).sum())) / (len(reference) + 1) for value in score]).double()
    torch.testing.assert_close(novelty.p_values(score), slow)
    slow = [(1 + int((reference[novelty.labels == 1] >= value).sum())) / 21 for value in score]
    torch.testing.assert_close(novelty.p_values(score, by_class=True)[:, 1], torch.tensor(slow).double())
    assert novelty is not None
    score = torch.linspace(-1, 5 * novelty.limit, 50).double()
    trust = novelty.trust(score)
    assert bool((trust[score <= novelty.limit] == 1).all())
    assert bool((trust[score > novelty.limit].diff() < 0).all()) and float(trust[-1]) < 1e-3


@given(st.integers(0, 10**6), st.floats(0.5, 3.0))
def test_a_novel_series_is_no_surer_than_its_class_frequency_and_three_tenths(seed: int, spread: float):
    """Beyond every left-out score by (0.301 + 70 / n) M; of classes that are equally frequent none loses its place."""
    random = generator(seed)
    variances, statistics = torch.rand(2, 60, generator=random).double() + 0.5, torch.randn(60, 6, generator=random)
    novelty = Novelty.fit(variances**spread, torch.tensor([0.6, 0.4]).double(), statistics.double().exp())
    beyond = torch.logspace(0, 6, 9).double() * (0.301 + novelty.limit / novelty.largest) * novelty.largest
    chances = torch.softmax(9 * torch.randn(9, 5, generator=random).double(), dim=1)
    known = torch.softmax(torch.randn(5, generator=random).double(), dim=0)
    assert bool((novelty.mixed(chances, beyond, known) <= known + 0.3).all())
    equal = novelty.mixed(chances, beyond, torch.full((5,), 0.2).double())
    assert torch.equal(equal.argmax(1), chances.argmax(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_variances_without_neighbours_are_those_of_a_regression_without_them(weighted: bool):
    rows, _ = random_rows(24, 30, 0)
    rows = Rows(rows.gram[torch.arange(24) % 16][:, torch.arange(24) % 16], rows.variance[torch.arange(24) % 16])
    weights = torch.rand(24, generator=generator(1)).double() + 0.5 if weighted else torch.ones(24).double()
    fitted, _ = fit_exact(rows, Targets(torch.arange(24) % 2, 2, weights / weights.mean()))
    assert fitted.counts is not None
    left_out = torch.stack([torch.arange(24), (torch.arange(24) + 16) % 24, (torch.arange(24) + 5) % 24], dim=1)
    actual = variances_without(fitted, left_out)
    for row in range(24):
        rest = [other for other in range(24) if other not in left_out[row]]
        gram = rows.gram[rest][:, rest] + torch.diag(fitted.noise / fitted.counts[rest])
        explained = rows.gram[row, rest] @ torch.linalg.solve(gram, rows.gram[row, rest])
        wanted = fitted.amplitude * (float(rows.gram[row, row] - explained) + fitted.noise)
        assert float(actual[row]) == pytest.approx(wanted, rel=1e-6)


def test_p_values_of_exchangeable_scores_are_uniform():
    """Of scores that are all drawn alike, p <= a with a probability of a, but for steps of 1 / (n + 1)."""
    random = generator(0)
    rates = []
    for _ in range(300):
        variances = torch.rand(2, 60, generator=random).double() + 0.5
        statistics = torch.randn(60, 6, generator=random).double().exp()
        novelty = Novelty.fit(variances[:, :50], torch.tensor([0.6, 0.4]).double(), statistics[:50])
        score = novelty.scores(variances[:, 50:], statistics[50:]).score
        rates.append((novelty.p_values(score) <= 0.1).double().mean())
    assert float(torch.stack(rates).mean()) == pytest.approx(0.1, abs=0.02)


def test_far_series_get_the_class_frequencies_and_near_ones_keep_their_probabilities():
    X = new_series(30, seed=2)
    near, far = PREPARATION(X), PREPARATION(100 * X + 1000)
    chances = COMMITTEE.probabilities(far)
    assert COMMITTEE.link is not None and COMMITTEE.novelty is not None
    torch.testing.assert_close(chances, COMMITTEE.link.frequencies.expand_as(chances), atol=1e-6, rtol=0)
    assert bool(COMMITTEE.novelty.alarms(COMMITTEE.predict(far).scores.score).all())
    prediction = COMMITTEE.predict(near)
    assert prediction.scores is not None
    inside = prediction.scores.score <= COMMITTEE.novelty.limit
    plain = ViewPrediction(COMMITTEE, prediction.means, prediction.variances).probabilities()
    assert int(inside.sum()) > 20
    torch.testing.assert_close(COMMITTEE.probabilities(near)[inside], plain[inside], rtol=0, atol=0)
    assert not bool(COMMITTEE.novelty.alarms(prediction.scores.score).any())


def test_broken_series_and_groups_do_not_hide_novelty():
    variances = torch.rand(1, 50, generator=generator(0)).double() + 1
    statistics = torch.randn(50, 6, generator=generator(1)).double().exp()
    statistics[0, 0] = 1e9
    novelty = Novelty.fit(variances, torch.ones(1).double(), statistics)
    score = novelty.scores(variances[:, :1], statistics[1:2] + torch.tensor([1e11, 0, 0, 0, 0, 0]))
    assert bool(novelty.alarms(score.score)) and int(score.statistic) == 0
    # Pairs of equal series: among all, each has a twin at distance 0; without its group it has not.
    statistics = torch.randn(30, 6, generator=generator(0)).double().exp().repeat_interleave(2, 0)
    single, _ = StatisticScores.fit(statistics)
    grouped, _ = StatisticScores.fit(statistics, torch.arange(60) // 2)
    assert grouped.middle > 1.2 * single.middle


def test_by_class_is_nan_for_small_classes():
    variances, labels = torch.rand(1, 45, generator=generator(0)).double() + 1, [0] * 20 + [1] * 19 + [2] * 6
    statistics = torch.randn(45, 6, generator=generator(1)).double().exp()
    novelty = Novelty.fit(variances, torch.ones(1).double(), statistics, torch.tensor(labels))
    p = novelty.p_values(torch.tensor([0.0, 1e6]).double(), by_class=True)
    assert p.shape == (2, 3) and bool(p[:, 1:].isnan().all())
    assert float(p[1, 0]) == pytest.approx(1 / 21)


@few
@given(st.integers(2, 40), st.integers(1, 3), st.integers(0, 99))
def test_scores_are_finite_whatever_the_statistics(n: int, channels: int, seed: int):
    random = generator(seed)
    statistics = torch.randn(n, 3 * channels + 3, generator=random).double().abs()
    statistics[torch.rand(statistics.shape, generator=random) < 0.2] = torch.nan
    statistics[:, 0] = 5.0  # a level that never changes
    scores, reference = StatisticScores.fit(statistics)
    again, fact = scores(statistics)
    assert bool(torch.isfinite(reference).all() & torch.isfinite(again).all() & (fact < statistics.shape[1]).all())


def test_ninety_nine_points_where_all_had_a_hundred_is_no_news():
    random = generator(0)
    statistics = torch.stack([torch.randn(50, generator=random), torch.rand(50, generator=random) + 1,
                         torch.rand(50, generator=random) + 1, torch.full((50,), 100.0),
                         torch.full((50,), torch.nan), torch.zeros(50)], dim=1).double()  # fmt: skip
    scores, _ = StatisticScores.fit(statistics)
    shorter, much_shorter = statistics[:1].clone(), statistics[:1].clone()
    shorter[0, 3], much_shorter[0, 3] = 99, 10
    assert float(scores(shorter)[0]) < 0.5
    score, fact = scores(much_shorter)
    assert float(score) > 10 and int(fact) == 3


def test_state_and_back_and_no_caution_without_facts():
    novelty = COMMITTEE.novelty
    assert novelty is not None
    again = Novelty.from_state(novelty.state())
    statistics = PREPARATION(new_series()).statistics
    variances = torch.rand(len(COMMITTEE.members), 6, generator=generator(0)).double()
    for one, other in zip(novelty.scores(variances, statistics), again.scores(variances, statistics), strict=True):
        assert torch.equal(one, other)
    batch = replace(PREPARATION(100 * new_series()), statistics=None)
    assert COMMITTEE.predict(batch).scores is None
