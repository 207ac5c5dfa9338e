"""Committees of views end to end: laws, unusual sets of series, landmarks."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import few
from helpers.refusals import assert_refused
from helpers.view_data import generator, ragged, random_walks
from siggpde.committee import committee as module
from siggpde.committee.committee import ViewCommittee, average_latents
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Targets
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch
from siggpde.views import TransformerView
from siggpde.views.base import FeatureBlock, Part, Rows
from siggpde.views.kernels import KernelBlock
from siggpde.views.kinds import KINDS
from siggpde.views.windows import WindowsBlock, log_spectrum

QUICK = ViewSettings(kinds=("linear", "path", "kernel", "lifted"), words=60)


def fit(batch: SeriesBatch, targets: Targets, settings: ViewSettings = QUICK) -> ViewCommittee:
    committee = fit_view_committee(batch, targets, settings, Shard(ALONE, len(batch)))
    assert isinstance(committee, ViewCommittee)
    return committee


def labels(batch: SeriesBatch, classes: int = 2) -> Targets:
    ends = batch.values[torch.arange(len(batch)), batch.counts() - 1, 0]
    return Targets(ends.argsort().argsort() * classes // len(batch), classes)


def numbers(batch: SeriesBatch) -> Targets:
    ends = batch.values[torch.arange(len(batch)), batch.counts() - 1, 0]
    return Targets(ends / 4 + 0.2 * torch.randn(len(batch), generator=generator(99)).double(), None)


def outputs(committee: ViewCommittee, batch: SeriesBatch) -> Tensor:
    if committee.link is not None:
        return committee.probabilities(batch)
    return torch.stack([*committee.mean_and_variance(batch), *committee.quantiles(batch, [0.1, 0.9]).T], dim=1)


def check(committee: ViewCommittee, batch: SeriesBatch, targets: Targets) -> None:
    actual, density = outputs(committee, batch), committee.log_predictive(batch, targets.y)
    assert bool(torch.isfinite(actual).all()) and bool(torch.isfinite(density).all())
    assert bool((committee.latents(batch).variance >= 0).all())
    assert float(committee.weights.sum()) == pytest.approx(1, abs=1e-12) and len(committee.weights) <= 8
    if committee.link is not None:
        torch.testing.assert_close(actual.sum(1), torch.ones(len(batch)).double(), rtol=0, atol=1e-12)
        torch.testing.assert_close(density.exp(), actual.gather(1, targets.y[:, None])[:, 0])
    else:
        assert bool((actual[:, 1] > 0).all()) and bool((actual[:, 2] < actual[:, 3]).all())


@given(st.integers(6, 14), st.integers(1, 3), st.sampled_from([None, 2, 3]), st.integers(0, 999))
@few
def test_the_order_of_series_does_not_matter(n: int, channels: int, classes: int | None, seed: int):
    batch, new = SeriesBatch(random_walks(n, 12, channels, seed)), SeriesBatch(random_walks(5, 12, channels, seed + 1))
    targets = numbers(batch) if classes is None else labels(batch, classes)
    order = torch.randperm(n, generator=generator(seed))
    one, other = fit(batch, targets), fit(batch[order], targets[order])
    assert [member.recipe for member in one.members] == [member.recipe for member in other.members]
    torch.testing.assert_close(other.weights, one.weights, rtol=0, atol=1e-8)
    torch.testing.assert_close(outputs(other, new), outputs(one, new), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 4])
def test_names_of_classes_do_not_matter(classes: int):
    batch, new = SeriesBatch(random_walks(40, 12, 2, 1)), SeriesBatch(random_walks(6, 12, 2, 2))
    targets, order = labels(batch, classes), torch.randperm(classes, generator=generator(3))
    one, other = fit(batch, targets), fit(batch, Targets(order.argsort()[targets.y], classes))
    torch.testing.assert_close(outputs(other, new), outputs(one, new)[:, order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_predictions_do_not_depend_on_the_batch(kind: str, monkeypatch: pytest.MonkeyPatch):
    batch = ragged()
    targets = labels(batch) if kind == "classes" else numbers(batch)
    committee = fit(batch, targets, replace(QUICK, kinds=KINDS))
    whole = outputs(committee, batch)
    singles = (SeriesBatch(batch.values[i : i + 1, :c].clone()) for i, c in enumerate(batch.counts()))
    alone = torch.cat([outputs(committee, single) for single in singles])
    torch.testing.assert_close(alone, whole, rtol=0, atol=1e-8)
    monkeypatch.setattr(module, "_CHUNK", 2)
    torch.testing.assert_close(outputs(committee, batch), whole, rtol=0, atol=1e-8)
    assert outputs(committee, batch[:0]).shape == (0, whole.shape[1])


def slowly(committee: ViewCommittee, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
    """Means and variances of the members' latents, view by view, part by part, and with kernels to 1e-10."""
    seen = committee.standard(batch)
    rows: dict[str, Rows] = {}
    for block in committee.blocks:
        if isinstance(block, KernelBlock):
            precise = copy.copy(block)
            precise.precise = True
            rows |= precise.rows(seen)
            continue
        assert isinstance(block, FeatureBlock)
        parts = block.parts(seen)
        if isinstance(block, WindowsBlock):
            windows = seen if block.view.bins is None else log_spectrum(seen, block.view.bins)
            scaled, units = block.scaler(block.features.blocks(windows)), block.units
            parts = (
                Part(name, (values / unit).round() * unit)
                for (name, _, values), unit in zip(scaled, units, strict=True)
            )
        raw: dict[str, list[Rows]] = {}
        for part, landmarks in zip(parts, block.landmarks, strict=True):
            x, z = part.values.double(), landmarks.values.double()
            raw.setdefault(landmarks.name, []).append(Rows(x @ z.T, x.square().sum(1)))
        for name, found in raw.items():
            gram, variance = (torch.stack(column).mean(0) for column in zip(*found, strict=True))
            rows[name] = block.centring[name](Rows(gram, variance))
    latents = [member.regression.predict(member.mixed(rows)) for member in committee.members]
    return torch.stack([mean for mean, _ in latents]), torch.stack([variance for _, variance in latents])


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_predictions_are_those_of_the_slow_path(kind: str):
    batch = SeriesBatch(random_walks(60, 40, 2))
    targets = labels(batch, 3) if kind == "classes" else numbers(batch)
    committee = fit(batch[:40], targets[:40], replace(QUICK, kinds=KINDS))
    assert {block.kind for block in committee.blocks} & {"kernel", "lifted"}
    new = batch[40:]
    expected = committee.predicted(*slowly(committee, new), new.described)
    actual = committee.predict(new)
    if kind == "classes":
        torch.testing.assert_close(actual.probabilities(), expected.probabilities(), rtol=0, atol=1e-6)
        one = torch.cat([committee.probabilities(new[i : i + 1]) for i in range(len(new))])
        torch.testing.assert_close(one, actual.probabilities(), rtol=0, atol=1e-12)
    else:
        for mine, theirs in zip(actual.mean_and_variance(), expected.mean_and_variance(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_threads_that_predict_with_one_model_get_the_same_bits():
    batch = SeriesBatch(random_walks(48, 40, 2))
    committee = fit(batch[:40], labels(batch)[:40], replace(QUICK, kinds=KINDS))
    expected = committee.probabilities(batch[40:])
    again = copy.deepcopy(committee)  # which has prepared nothing
    assert again.prepared is None
    with ThreadPoolExecutor(8) as pool:
        for chances in pool.map(again.probabilities, [batch[40:]] * 16):
            assert torch.equal(chances, expected)


UNUSUAL: dict[str, tuple[Any, Any]] = {
    "two series": (lambda: random_walks(2, 10, 1), [0, 1]),
    "one point": (lambda: random_walks(3, 1, 1), [0, 1, 0]),
    "two points": (lambda: random_walks(8, 2, 2), [0, 1] * 4),
    "a class of one": (lambda: random_walks(12, 10, 1), [1] + [0] * 11),
    "doubles": (lambda: random_walks(6, 10, 1).repeat(2, 1, 1), [0, 1] * 6),
    "doubles that disagree": (lambda: random_walks(6, 10, 1).repeat_interleave(2, 0), [0, 1] * 6),
    "many classes": (lambda: random_walks(12, 10, 1), [i % 8 for i in range(12)]),
    "a class each": (lambda: random_walks(12, 10, 1), list(range(12))),
    "one far away": (lambda: torch.cat([1e8 * random_walks(1, 10, 1), random_walks(11, 10, 1)]), [0, 1] * 6),
    "constants": (lambda: torch.arange(8.0).double()[:, None, None].expand(8, 6, 2).clone(), [0, 1] * 4),
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_unusual_series(name: str, kind: str):
    make, given_labels = UNUSUAL[name]
    batch, y = SeriesBatch(make()), torch.tensor(given_labels)
    targets = Targets(y, int(y.max()) + 1) if kind == "classes" else Targets(y.double() - y.double().mean(), None)
    committee = fit(batch, targets, replace(QUICK, kinds=KINDS))
    check(committee, batch, targets)
    far = SeriesBatch(batch.values * 1e6)
    assert bool(torch.isfinite(outputs(committee, far)).all())


def test_series_that_disagree_are_a_toss_and_constant_targets_are_known():
    batch = SeriesBatch(random_walks(6, 10, 1).repeat_interleave(2, 0))
    chances = outputs(fit(batch, Targets(torch.arange(12) % 2, 2)), batch)
    torch.testing.assert_close(chances, torch.full((12, 2), 0.5).double(), rtol=0, atol=0.1)
    batch = SeriesBatch(random_walks(12, 10, 1))
    mean, variance = fit(batch, Targets(torch.zeros(12).double(), None)).mean_and_variance(batch)
    assert bool((mean.abs() < 1e-6).all()) and bool((variance < 1e-6).all())


@pytest.mark.parametrize("kinds", [("path", "windows"), ("kernel",), ("lifted", "linear"), KINDS])
def test_of_series_that_are_all_alike_only_their_targets_are_known(kinds: tuple[str, ...]):
    batch, settings = SeriesBatch(random_walks(1, 20, 1).repeat(40, 1, 1)), replace(QUICK, kinds=kinds)
    committee = fit(batch, Targets((torch.arange(40) % 4 == 0).long(), 2), settings)
    for series in (batch, SeriesBatch(random_walks(40, 20, 1, 1))):
        assert outputs(committee, series)[:, 1].numpy() == pytest.approx(np.full(40, 0.25), abs=0.07)
    mean, _ = fit(batch, Targets(torch.arange(40).double() / 40 - 0.2, None), settings).mean_and_variance(batch)
    assert mean.numpy() == pytest.approx(np.full(40, 0.2875), abs=0.02)


def test_views_and_members_are_as_many_as_asked_and_some_at_least():
    batch = SeriesBatch(random_walks(30, 20, 1, 9))
    for most in (1, 2):
        assert len(fit(batch, labels(batch), replace(QUICK, members=most)).members) <= most
    hurried = fit(batch, labels(batch), replace(QUICK, kinds=("path", "kernel"), time_limit=1e-9))
    assert len(hurried.blocks) == 1
    check(hurried, batch, labels(batch))
    batch = SeriesBatch(random_walks(6, 8, 1))
    spectrum = replace(QUICK, kinds=("spectrum",))
    assert_refused("no view of such series", fit, batch, Targets(torch.arange(6) % 2, 2), spectrum)


def test_weights_of_series_move_probabilities():
    batch = SeriesBatch(random_walks(40, 10, 1, 4))
    y = (torch.rand(40, generator=generator(5)) < 0.2).long()
    weights = torch.where(y == 1, 4.0, 1.0).double()
    even = weights * 40 / weights.sum()
    plain, weighed = (outputs(fit(batch, Targets(y, 2, w)), batch)[:, 1].mean() for w in (None, even))
    assert float(weighed) > float(plain) + 0.1
    even = outputs(fit(batch, Targets(y, 2, torch.ones(40).double())), batch)[:, 1].mean()
    assert float(even) == pytest.approx(float(plain), abs=1e-8)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_landmarks_are_close_to_all_series(kind: str, monkeypatch: pytest.MonkeyPatch):
    """A third of the series as landmarks, of members that are compared on fewer still."""
    monkeypatch.setattr("siggpde.committee.fit.COMPARED", 60)
    batch, new = SeriesBatch(random_walks(300, 12, 1, 6)), SeriesBatch(random_walks(200, 12, 1, 7))
    targets, truth = (labels(batch), labels(new)) if kind == "classes" else (numbers(batch), numbers(new))
    settings = replace(QUICK, kinds=("linear", "path"))
    exact, sparse = fit(batch, targets, settings), fit(batch, targets, replace(settings, max_landmarks=100))
    assert len(exact.landmarks) == 300 and len(sparse.landmarks) == 100
    check(sparse, new, truth)
    best, close = (float(model.log_predictive(new, truth.y).mean()) for model in (exact, sparse))
    assert close > best - 0.1
    few_series = fit(batch[:100], targets[torch.arange(100)], settings)
    assert close > float(few_series.log_predictive(new, truth.y).mean()) - 0.02


def test_what_members_disagree_about_is_variance():
    means = torch.tensor([[[1.0, -1.0]], [[3.0, -3.0]]]).double()
    actual = average_latents(means, torch.tensor([[0.5], [0.1]]).double(), torch.tensor([0.25, 0.75]).double())
    torch.testing.assert_close(actual.mean, torch.tensor([[2.5, -2.5]]).double())
    torch.testing.assert_close(actual.variance, torch.tensor([0.25 * (0.5 + 2.25) + 0.75 * (0.1 + 0.25)]).double())


class Ends:
    def fit(self, X: Any) -> "Ends":
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([x[:, -1] for x in X])


def test_views_of_ones_own_are_members():
    batch = SeriesBatch(random_walks(40, 10, 1, 8))
    own_views = (TransformerView("ends", Ends()),)
    committee = fit(batch, labels(batch), replace(QUICK, kinds=(), more_views=own_views))
    assert {member.recipe.name for member in committee.members} <= {"ends", "ends²"}
    assert float((outputs(committee, batch).argmax(1) == labels(batch).y).double().mean()) > 0.9
    taken = (TransformerView("L", Ends()),)
    assert_refused("the same name 'L'", fit, batch, labels(batch), replace(QUICK, more_views=taken))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_more_series_than_landmarks_can_be(kind: str):
    batch, new = SeriesBatch(random_walks(1700, 16, 2, 10)), SeriesBatch(random_walks(400, 16, 2, 11))
    targets, truth = (labels(batch), labels(new)) if kind == "classes" else (numbers(batch), numbers(new))
    whole, few_landmarks = fit(batch, targets), fit(batch, targets, replace(QUICK, max_landmarks=50))
    assert len(whole.landmarks) == 1134  # two thirds: the others decide the noise
    assert len(few_landmarks.landmarks) == 50
    best, close = (float(model.log_predictive(new, truth.y).mean()) for model in (whole, few_landmarks))
    assert close > best - 0.15
    check(whole, new, truth)
    check(few_landmarks, new, truth)
