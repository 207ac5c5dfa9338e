"""Predictions of new series without each training series, against refits of all members without it."""

import pytest
import torch
from torch import Tensor

from helpers.left_out_refits import means_without
from helpers.view_data import generator, walks
from siggpde.committee import jackknife as module
from siggpde.committee.fitting import ViewSettings, fit_view_committee
from siggpde.committee.jackknife import Jackknife
from siggpde.committee.targets import Targets
from siggpde.committee.view_committee import ViewCommittee
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch

QUICK = ViewSettings(kinds=("linear", "path", "kernel"), words=60)
FEW_FEATURES = ViewSettings(kinds=("linear",))  # of three points: fewer features than series


def targets_of(n: int, classes: int | None, weighted: bool = False, grouped: bool = False) -> Targets:
    random = generator(5)
    y = torch.randn(n, generator=random).double() if classes is None else torch.randperm(n, generator=random) % classes
    weights = torch.rand(n, generator=random).double() + 0.3 if weighted else None
    groups = torch.randperm(n, generator=random) // 3 if grouped else None
    return Targets(y, classes, None if weights is None else weights * (n / weights.sum()), groups)


def fitted(length: int, targets: Targets, settings: ViewSettings = QUICK) -> ViewCommittee:
    batch = SeriesBatch(walks(len(targets), length, 2, 3))
    committee = fit_view_committee(batch, targets, settings, Shard(ALONE, len(batch)))
    assert isinstance(committee, ViewCommittee)
    return committee


def closed_form(committee: ViewCommittee, new: SeriesBatch) -> Tensor:
    """(m, n, outputs)"""
    jackknife = Jackknife(committee, committee.left_out)
    assert jackknife.closed_form
    return torch.cat([means[:, jackknife.group] for _, means in jackknife.predict(new)])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 2, 3])
def test_without_a_series_is_a_refit_without_it(classes: int | None, weighted: bool, grouped: bool):
    committee = fitted(8, targets_of(20, classes, weighted, grouped))
    new = SeriesBatch(walks(6, 8, 2, 4))
    slow = means_without(committee, new)
    torch.testing.assert_close(closed_form(committee, new), slow, rtol=1e-5, atol=1e-5)
    assert float((slow - committee.latents(new).mean[:, None]).abs().max()) > 1e-3  # a series makes a difference


def test_more_series_than_features():
    """Directions in which kernels are 0 are in no root, but the left-out errors know them."""
    committee, new = fitted(3, targets_of(30, 2), FEW_FEATURES), SeriesBatch(walks(6, 3, 2, 4))
    assert all(member.regression.root.shape[1] < 30 for member in committee.members)
    torch.testing.assert_close(closed_form(committee, new), means_without(committee, new), rtol=1e-5, atol=1e-5)


def test_left_out_training_series_are_those_of_the_record():
    """Asked for a training series, the prediction without it is its left-out one."""
    committee, batch = fitted(8, targets_of(20, 3)), SeriesBatch(walks(20, 8, 2, 3))
    values = committee.standard(batch).values.flatten(1)
    order = torch.cdist(committee.landmarks.values.flatten(1), values).argmin(1)
    own = closed_form(committee, batch[order]).diagonal().T
    torch.testing.assert_close(own, committee.left_out.mean, rtol=1e-5, atol=1e-5)


def test_a_few_series_at_a_time(monkeypatch: pytest.MonkeyPatch):
    committee, new = fitted(8, targets_of(20, 3, grouped=True)), SeriesBatch(walks(7, 8, 2, 4))
    whole = closed_form(committee, new)
    monkeypatch.setattr(module, "_SERIES", 4)
    monkeypatch.setattr(module, "_NUMBERS", 2 * 20 * 3)
    torch.testing.assert_close(closed_form(committee, new), whole, rtol=1e-12, atol=1e-12)


def test_more_series_than_landmarks_are_left_out_of_nothing():
    committee = fitted(8, targets_of(20, 3), ViewSettings(kinds=("linear",), max_landmarks=10))
    jackknife, new = Jackknife(committee, committee.left_out), SeriesBatch(walks(7, 8, 2, 4))
    assert not jackknife.closed_form
    ((latents, means),) = jackknife.predict(new)
    assert torch.equal(latents.mean, committee.latents(new).mean) and torch.equal(means[:, 0], latents.mean)
