"""Groups: series that belong together are left out together, in every decision of a fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.model_selection import GroupKFold, cross_val_score

import siggpde
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, rising
from siggpde import SigGPClassifier
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.large import choose_landmarks
from siggpde.committee.regression import Targets
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch

KINDS = ("classifier", "regressor")


def curves(count: int, seed: int) -> np.ndarray:
    """A slope and a wave (count, 1, 20), both at random."""
    slope, wave = np.random.default_rng(seed).normal(size=(2, count, 1, 1))
    return slope * np.linspace(-1, 1, 20) + wave * np.sin(np.linspace(0, 6, 20))


def persons(count: int = 16, series_each: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nearly the same curve `each` times for every person, labels by person at random, and who it is."""
    generator = np.random.default_rng(seed)
    curve = curves(count, seed).repeat(series_each, axis=0)
    labels = generator.permutation(np.arange(count) % 2).repeat(series_each)
    return curve + 0.02 * generator.normal(size=curve.shape), labels, np.arange(count).repeat(series_each)


@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_groups_that_matter():
    """Four curves of a person foretell the fifth, and nothing foretells those of another person."""
    X, y, who = persons()
    new = curves(200, 9)
    alone = classifier(related="ignore").fit(X, y)
    grouped = classifier().fit(X, y, groups=who)
    assert alone.predict_proba(new).max(axis=1).mean() > 0.6
    assert grouped.predict_proba(new).max(axis=1).mean() < 0.55
    assert alone.n_groups_ is None and grouped.n_groups_ == 16
    one, whole = (min(member.score for member in fitted.committee_.members) for fitted in (alone, grouped))
    assert one < 0.2 and whole > 0.6  # log 2 is 0.693
    numbers = np.random.default_rng(3).normal(size=16).repeat(5)
    for groups, low, high in ((None, -9.0, -0.5), (who, 1.2, 2.0)):  # a normal distribution of spread 1 has 1.42
        fitted = regressor(related="ignore").fit(X, numbers, groups=groups)
        score = min(member.score for member in fitted.committee_.members)
        assert low < score < high


@pytest.mark.parametrize("kind", KINDS)
def test_groups_have_any_name_and_those_of_one_series_are_none(kind: str):
    X, y, who = persons(8, 3)
    as_numbers = outputs(estimator(kind).fit(X, y, groups=who), X)
    texts = [f"p{number}" for number in who]
    names: list[Any] = [texts, np.array(texts, dtype=object), torch.from_numpy(who)]
    for groups in names:
        assert np.array_equal(outputs(estimator(kind).fit(X, y, groups=groups), X), as_numbers)
    X, y = rising(24)
    alone, single = estimator(kind).fit(X, y), estimator(kind).fit(X, y, groups=np.arange(24))
    for one, other in zip(alone.committee_.members, single.committee_.members, strict=True):
        assert one.recipe == other.recipe and one.score == pytest.approx(other.score, rel=1e-6)


def test_a_class_of_one_group_is_named():
    X, y = rising(24)
    labels = np.where(y == 1, "up", "down").astype(object)
    labels[:4] = "odd"
    who = np.arange(24) // 4
    with pytest.warns(UserWarning, match="all series of class odd are of one group: without this group the class is"):
        fitted = classifier().fit(X, labels.astype(str), groups=who)
    assert np.isfinite(fitted.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_groups_through_scikit_learn(monkeypatch: pytest.MonkeyPatch):
    X, y, who = persons(9, 3)
    seen: list[Any] = []
    original = SigGPClassifier.fit

    def noticing(self: Any, X: Any, y: Any, **more: Any) -> Any:
        seen.append(more.get("groups"))
        return original(self, X, y, **more)

    with sklearn.config_context(enable_metadata_routing=True):
        mine = classifier().set_fit_request(groups=True)
        monkeypatch.setattr(type(mine), "fit", noticing)
        scores = cross_val_score(mine, X, y, cv=GroupKFold(3), params={"groups": who})
    assert np.isfinite(scores).all()
    assert [groups.tolist() for groups in seen] == [who[train].tolist() for train, _ in GroupKFold(3).split(X, y, who)]
    assert all(len(groups) == 18 for groups in seen)


def test_the_number_of_groups_is_saved(tmp_path: Path):
    X, y, who = persons(8)
    fitted = classifier().fit(X, y, groups=who)
    fitted.save(tmp_path / "model")
    assert siggpde.load(tmp_path / "model").n_groups_ == 8
    card = (tmp_path / "model" / "README.md").read_text()
    assert "each of 8 groups was left out as a whole" in card and "Leave-one-group-out loss" in card
    again = fitted.fit(X, y)
    assert again.n_groups_ is None
    again.save(tmp_path / "model", force=True)
    assert siggpde.load(tmp_path / "model").n_groups_ is None
    card = (tmp_path / "model" / "README.md").read_text()
    assert "assume that the series are independent" in card and "Leave-one-out loss" in card


def as_batch(X: np.ndarray) -> SeriesBatch:
    return SeriesBatch(torch.from_numpy(np.ascontiguousarray(X.swapaxes(1, 2))), None, None)


def test_landmarks_leave_groups_whole():
    """Of more series than landmarks, those that decide noise and link are of no group that has a landmark."""
    X, _, who = persons(30, 4)
    shard = Shard(ALONE, 120)
    groups = torch.from_numpy(who)
    for count, seed in ((20, 0), (41, 1), (70, 2)):
        chosen = choose_landmarks(as_batch(X), count, seed, shard, groups)
        landmarks, tuned = (set(groups[rows].tolist()) for rows in (chosen.landmarks, chosen.tuned))
        assert 0 < len(chosen.landmarks) <= count and len(chosen.tuned) >= 30
        assert not landmarks & tuned
        assert all((groups[chosen.tuned] == group).sum() == 4 for group in tuned)
    most = torch.where(torch.arange(120) < 119, 0, 1)
    assert_refused("one of the groups has most of the 120 series", choose_landmarks, as_batch(X), 20, 0, shard, most)


def test_more_series_than_landmarks_are_left_out_by_groups():
    """Random walks, which have so many directions that a linear kernel tells every person from the others."""
    _, y, who = persons(24, 5)
    generator = np.random.default_rng(0)
    X = random_walks(24, 1, 20).repeat(5, axis=0) + 0.02 * generator.normal(size=(120, 1, 20))
    new = as_batch(random_walks(200, 1, 20, seed=9))
    settings = ViewSettings(kinds=("linear",), members=1, max_landmarks=60)
    sure = {}
    for name, groups in (("alone", None), ("grouped", torch.from_numpy(who))):
        targets = Targets(torch.from_numpy(y), 2, groups=groups)
        committee = fit_view_committee(as_batch(X), targets, settings, Shard(ALONE, len(y)))
        assert isinstance(committee, ViewCommittee) and len(committee.landmarks) <= 60 < len(y)
        sure[name] = float(committee.probabilities(new).max(dim=1).values.mean())
    assert sure["alone"] > 0.75 and sure["grouped"] < 0.65, sure


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_labels_that_mean_nothing_make_nobody_sure():
    """40 random walks, 20 of each class at random: in 20 such sets, confidence on new walks hardly exceeds one half."""
    sure = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(40, 1, 50)).cumsum(axis=2)
        y = generator.permutation(np.arange(40) % 2)
        new = generator.normal(size=(200, 1, 50)).cumsum(axis=2)
        sure.append(SigGPClassifier().fit(X, y).predict_proba(new).max(axis=1).mean())
    assert np.mean(sure) <= 0.56, sure
