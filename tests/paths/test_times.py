"""Time stamps: the time channel is them, over the median duration of the training series, whatever the options."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.small_models import series
from siggpde.paths import PathOptions, PathTransform

OPTIONS = [
    PathOptions(base_point=base_point, append=append, lead_lag=lead_lag, difference=difference)
    for base_point in (False, True)
    for append in ("none", "arc")
    for lead_lag in (False, True)
    for difference in (0, 1)
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
LENGTHS = [7, 3, 4, 5]
RANGE = 12**0.5


def stamps(n: int = 4, length: int = 7, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    steps = torch.rand(n, length, generator=random, dtype=torch.float64) + 0.01
    return 1000 + 60 * steps.cumsum(dim=1)


def clock(times: list[float], options: PathOptions, duration: float) -> np.ndarray:
    """The time channel of one series, point by point."""
    times = times[options.difference :]
    found = [t - times[0] for t in times]
    if options.base_point:
        found = [found[0], *found]
    if options.lead_lag:
        found = [found[0], *(t for later in found[1:] for t in (later, later))]
    return RANGE * np.array(found) / duration


@every_option
def test_the_time_channel_is_the_stamps_and_the_rest_is_as_without(options: PathOptions):
    x, times = series(4, length=7), stamps()
    kept = times.clone()
    for row, length in zip(times, LENGTHS, strict=True):
        row[length:] = float("nan")  # padding is never read
    transform = PathTransform(options).fit(x, lengths=LENGTHS, times=times)
    path, lengths = transform(x, lengths=LENGTHS, times=times)
    plain, _ = PathTransform(options).fit(x, lengths=LENGTHS)(x, lengths=LENGTHS)
    assert path.shape == plain.shape and torch.equal(path[:, :, 1:], plain[:, :, 1:])
    first = options.difference
    durations = [row[: LENGTHS[i]][-1] - row[first] for i, row in enumerate(kept)]
    duration = float(torch.stack(durations).median())
    assert lengths is not None
    for i, count in enumerate(lengths.tolist()):
        wanted = clock(kept[i, : LENGTHS[i]].tolist(), options, duration)
        assert np.allclose(path[i, :count, 0].numpy(), wanted, atol=1e-12)
        assert bool((path[i, count:, 0] == path[i, count - 1, 0]).all()), "the rest stands still"


def test_even_stamps_are_the_even_time_of_series_without():
    x = series(5, length=7)
    options = PathOptions(base_point=False)
    wanted, _ = PathTransform(options).fit(x)(x)
    for start, step in ((0.0, 1.0), (-1e6, 0.001), (3.0, 1e5)):
        times = (start + step * torch.arange(7).double()).expand(5, 7)
        found, _ = PathTransform(options).fit(x, times=times)(x, times=times)
        assert torch.allclose(found, wanted, atol=1e-6)
    based, _ = PathTransform(PathOptions()).fit(x, times=times)(x, times=times)
    assert bool((based[:, :2, 0] == 0).all()), "no time passes from the base point to the first value"
    assert torch.allclose(based[:, 1:, 0], wanted[:, :, 0])


def test_series_that_last_longer_go_further():
    x = series(3, length=4)
    times = torch.arange(4).double() * torch.tensor([[1.0], [2.0], [4.0]]).double()
    path, _ = PathTransform().fit(x, times=times)(x, times=times)
    assert path[:, -1, 0].tolist() == pytest.approx([RANGE / 2, RANGE, 2 * RANGE])
    new, _ = PathTransform().fit(x, times=times)(x[:1], times=10 * times[:1])
    assert new[0, -1, 0].item() == pytest.approx(5 * RANGE)


def test_series_of_no_duration_and_stamps_in_whole_numbers():
    x = series(3, length=4)
    still = torch.full((3, 4), 7)
    path, _ = PathTransform().fit(x, times=still)(x, times=still)
    assert bool((path[:, :, 0] == 0).all())
    whole = torch.arange(4).expand(3, 4)
    path, _ = PathTransform().fit(x, times=whole)(x, times=whole)
    assert path[0, :, 0].tolist() == pytest.approx([0, 0, RANGE / 3, 2 * RANGE / 3, RANGE])


@every_option
def test_state_goes_through_json_and_back(options: PathOptions):
    x, times = series(4, length=7), stamps()
    transform = PathTransform(options).fit(x, times=times)
    state = json.loads(json.dumps(transform.state()))
    assert state["duration"] > 0
    again = PathTransform.from_state(state)
    assert torch.equal(again(x, times=times)[0], transform(x, times=times)[0])


def test_a_state_from_before_there_were_stamps_or_differences():
    x = series(4)
    transform = PathTransform(PathOptions(append="arc")).fit(x)
    state = transform.state()
    assert state.pop("duration") is None
    assert state["options"].pop("difference") == 0
    assert torch.equal(PathTransform.from_state(state)(x)[0], transform(x)[0])


def test_stamps_come_as_in_fit():
    x, times = series(4, length=7), stamps()
    with_them, without = PathTransform().fit(x, times=times), PathTransform().fit(x)
    with pytest.raises(ValueError, match="time stamps must be given as in fit, and the series of fit had them"):
        with_them(x)
    with pytest.raises(ValueError, match="time stamps must be given as in fit, and the series of fit had none"):
        without(x, times=times)
    options = replace(PathOptions(), time=False)
    no_time = PathTransform(options).fit(x, times=times)
    assert torch.equal(no_time(x)[0], no_time(x, times=times)[0]), "without a time channel they do not matter"
    assert with_them.fit(x)(x)[0].isfinite().all(), "a new fit without stamps forgets them"


def test_stamps_that_are_refused():
    x, times = series(4, length=7), stamps()
    for call in (PathTransform().fit, PathTransform().fit(x, times=times)):
        with pytest.raises(ValueError, match=r"times must have shape \(4, 7\), got \(4, 6\)"):
            call(x, times=times[:, 1:])
        bad = times.clone()
        bad[2, 5] = float("nan")
        with pytest.raises(ValueError, match=r"times is not finite \(nan\) in series 2, at time index 5"):
            call(x, times=bad)
        assert call(x, times=bad, lengths=[7, 7, 5, 7]) is not None
