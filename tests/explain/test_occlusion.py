"""Attribution over time of committees of views: effects of making segments ordinary."""

import json

import numpy as np
import pytest
import torch

from helpers.small_committees import batch_of, ends
from helpers.small_view_committees import explained, view_committee_of
from siggpde.explain import time_attribution
from siggpde.series import SeriesBatch

NAMES = ["a", "b"]


def planted(n: int = 40, length: int = 48) -> tuple[SeriesBatch, torch.Tensor]:
    """Noise; in class 1 channel b is higher in the middle third."""
    values = torch.randn(n, length, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.arange(n) % 2
    values[:, length // 3 : 2 * length // 3, 1] += 2.5 * labels[:, None]
    return SeriesBatch(values), labels


def test_the_place_and_the_channel_that_decide_are_found():
    batch, labels = planted()
    committee = view_committee_of(batch, labels, 2)
    found = time_attribution(committee, batch[:8], NAMES)
    assert found.channels == ("a", "b") and found.values.shape == (8, 48, 2)
    assert found.pairs is not None and found.pairs[:, 0].tolist() == labels[:8].tolist()
    by_third = found.values.reshape(8, 3, 16, 2).sum(axis=2).mean(axis=0)
    assert by_third.argmax() == 3  # the middle third of b
    assert by_third[1, 1] > 2 * np.delete(by_third.ravel(), 3).max()
    assert json.loads(json.dumps(found.to_dict()))["channels"] == ["a", "b"]


@pytest.mark.parametrize("ragged", [False, True])
def test_the_effect_of_a_segment_is_the_change_of_the_latent(ragged):
    batch = batch_of(20, 40, ragged=ragged)
    committee = view_committee_of(batch, ends(batch))
    one = batch[3:4]
    length = int(one.counts()[0])
    found = time_attribution(committee, one, NAMES)
    assert found.pairs is None
    assert (found.values[0, length:] == 0).all()
    segment = torch.arange(length) * min(32, length) // length
    rows = []
    for series, count in zip(batch.values, batch.counts().tolist(), strict=True):
        places = np.linspace(0, count - 1, 40)
        rows.append([np.interp(places, np.arange(count), series[:count, c].numpy()) for c in range(2)])
    average = np.mean(rows, axis=0)
    places = np.linspace(0, 39, length)
    for number in (0, int(segment[-1]) // 2, int(segment[-1])):
        for channel in range(2):
            values = one.values.clone()
            ordinary = torch.as_tensor(np.interp(places, np.arange(40), average[channel]))
            where = segment == number
            values[0, :length, channel] = torch.where(where, ordinary, values[0, :length, channel])
            changed = explained(committee, SeriesBatch(values, one.lengths))
            effect = float((explained(committee, one) - changed)[0, 0])
            assert found.values[0, :length, channel][where].sum() == pytest.approx(effect, abs=1e-4)
            assert len(set(found.values[0, :length, channel][where].tolist())) == 1


def test_the_average_series_has_no_effects():
    batch = batch_of(20, 40)
    committee = view_committee_of(batch, ends(batch))
    average = SeriesBatch(batch.values.mean(0, keepdim=True))
    found = time_attribution(committee, average, NAMES)
    size = time_attribution(committee, batch[:1], NAMES).values.std()
    assert np.abs(found.values).max() < 1e-3 * size


def test_series_are_left_alone_and_results_repeat(monkeypatch):
    batch, labels = planted(20)
    committee = view_committee_of(batch, labels, 2)
    before = batch.values.clone()
    found = time_attribution(committee, batch[:2], NAMES)
    assert torch.equal(batch.values, before)
    assert np.array_equal(time_attribution(committee, batch[:2], NAMES).values, found.values)
    monkeypatch.setattr("siggpde.explain.occlusion._LARGEST_BATCH", 500)
    assert time_attribution(committee, batch[:2], NAMES).values == pytest.approx(found.values, abs=1e-5)


def test_wrong_names_are_refused():
    batch, labels = planted(12)
    committee = view_committee_of(batch, labels, 2)
    with pytest.raises(ValueError, match="each of the 2 channels of the series"):
        time_attribution(committee, batch, ["a"])
    with pytest.raises(ValueError, match="no series to explain"):
        time_attribution(committee, batch[:0], NAMES)
