"""The channel-selection curve keeps the channel that was planted, and knows its own errors."""

import math

import numpy as np
import pytest
import torch

from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.estimators.channel_selection import _standard_error

SETTINGS = {"views": ["linear"], "members": 1, "n_features": 20, "channel_names": ["a", "b", "c"]}


@pytest.fixture(scope="module")
def walks():
    X = np.random.default_rng(0).normal(size=(50, 3, 12)).cumsum(axis=2)
    return X, X[:, 1].mean(axis=1)


def test_the_planted_channel_is_kept(walks, caplog):
    X, level = walks
    with caplog.at_level("INFO", logger="siggpde"):
        found = SigGPClassifier(**SETTINGS).channel_selection(X, level > 0)
    assert [len(step.channels) for step in found.steps] == [3, 2, 1]
    assert found.steps[-1].channels == ("b",) and found.chosen == ("b",) and found.measure == "NLPP"
    assert found.steps[0].left_out is None and {step.left_out for step in found.steps[1:]} == {"a", "c"}
    assert all(0 < step.loss < math.log(2) and step.error > 0 for step in found.steps)
    assert found.steps[0].difference_error == 0 and found.to_dict()["chosen"] == ["b"]
    assert "1 of 3 channels" in caplog.text


def test_numbers_groups_lists_and_a_time_channel(walks):
    X, level = walks
    clock = np.broadcast_to(np.arange(12.0), (50, 1, 12))
    named = {**SETTINGS, "channel_names": ["minute", "a", "b", "c"], "time_channel": 0}
    series = list(np.concatenate([clock, X], axis=1))
    found = SigGPRegressor(**named).channel_selection(series, level, groups=np.arange(50) // 5, fewest=2)
    assert len(found.steps) == 2 and "b" in found.steps[-1].channels and found.measure == "negative log density"
    single = SigGPRegressor(**SETTINGS).fit(X, level)
    plain = SigGPRegressor(**SETTINGS).channel_selection(X, level, fewest=3).steps[0]
    record = single.committee_.left_out
    variance = single.committee_.target_variances(record.variances.double())[0]
    density = torch.distributions.Normal(record.means[0, :, 0].double(), variance.sqrt()).log_prob(record.y)
    assert plain.loss == pytest.approx(math.log(single.target_scale_) - float(density.mean()), abs=0.2)  # but its tails


def test_lists_are_read_as_by_fit(walks):
    """One channel may be (n_timepoints,), and series nested lists."""
    X, level = walks
    settings = {**SETTINGS, "channel_names": None}
    whole = SigGPClassifier(**settings).channel_selection(X[:, 1:2], level > 0)
    assert SigGPClassifier(**settings).channel_selection(list(X[:, 1]), level > 0) == whole
    assert SigGPClassifier(**settings).channel_selection(X[:, 1:2].tolist(), level > 0) == whole


def test_errors_count_groups():
    losses = torch.tensor([1.0, 1.0, 3.0, 3.0]).double()
    assert _standard_error(losses, torch.arange(4)) == pytest.approx(2 / 4)
    assert _standard_error(losses, torch.tensor([0, 0, 1, 1])) == pytest.approx(8**0.5 / 4)


def test_what_cannot_be_selected(walks):
    X, level = walks
    with pytest.raises(ValueError, match="method='paper' has no leave-one-out"):
        SigGPClassifier(method="paper").channel_selection(X, level > 0)
    with pytest.raises(ValueError, match="likelihood='softmax' has no closed form"):
        SigGPClassifier(likelihood="softmax").channel_selection(X, level > 0)
    with pytest.raises(ValueError, match="fewest must be from 1 to the 3 channels"):
        SigGPClassifier().channel_selection(X, level > 0, fewest=4)
    with pytest.raises(ValueError, match="n_channels"):
        SigGPClassifier().channel_selection(X[:, 0], level > 0)
    with pytest.raises(ValueError, match="fewest must be from 1"):
        SigGPClassifier().channel_selection(X, level > 0, fewest=1.5)  # pyright: ignore[reportArgumentType]
    for nothing in (X[:0], []):
        with pytest.raises(ValueError, match="X is empty"):
            SigGPClassifier().channel_selection(nothing, level[:0] > 0)
    with pytest.raises(ValueError, match="2 channel_names, but the series of X have 3"):
        SigGPClassifier(channel_names=["a", "b"]).channel_selection(X, level > 0)
    with pytest.raises(ValueError, match="time_channel is 9, but the series of X have 3"):
        SigGPClassifier(time_channel=9).channel_selection(X, level > 0)
    with pytest.raises(ValueError, match="a time channel alone"):
        SigGPClassifier(time_channel=0).channel_selection(X[:, :1], level > 0)
    with pytest.raises(ValueError, match="closed form"):
        SigGPClassifier(**{**SETTINGS, "likelihood": "softmax", "max_iter": 2}).channel_selection(X, level > 0)
