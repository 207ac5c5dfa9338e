"""From series to paths: every option against plain loops; time stamps over the median duration of training series."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_models import series
from siggpde import signature
from siggpde.series import PathOptions, PathTransform, SeriesBatch

LENGTHS = [7, 1, 4, 2]
BOTH = (False, True)
OPTIONS = [
    PathOptions(time=time, base_point=base_point, append=append, lead_lag=lead_lag)
    for time, base_point, append, lead_lag in product(BOTH, BOTH, ("none", "variation", "arc"), BOTH)
] + [
    PathOptions(clock="points", lead_lag=True),
    PathOptions(scale="series", base_point=False, append="variation"),
    PathOptions(clock="points", scale="series", base_point=False),
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
TIMED_OPTIONS = [
    PathOptions(base_point=base_point, append=append, lead_lag=lead_lag, difference=difference)
    for base_point, append, lead_lag, difference in product(BOTH, ("none", "arc"), BOTH, (0, 1))
]
every_timed_option = pytest.mark.parametrize("options", TIMED_OPTIONS, ids=str)
TIMED_LENGTHS = [7, 3, 4, 5]
RANGE = 12**0.5


def ragged() -> list[Tensor]:
    return [3 + 10 * series(1, length=length, seed=length)[0] for length in LENGTHS]


def running(points: list[list[float]], append: str) -> list[list[float]]:
    """The running sums of absolute changes, or the running length, of one path."""
    sums = [[0.0] * (len(points[0]) if append == "variation" else 1)]
    for before, after in pairwise(points):
        change = [abs(b - a) for a, b in zip(before, after, strict=True)]
        step = change if append == "variation" else [sum(c * c for c in change) ** 0.5]
        sums.append([total + s for total, s in zip(sums[-1], step, strict=True)])
    return sums


def spread_of(rows: list[list[float]]) -> np.ndarray:
    return np.std(np.array(rows), axis=0)


def by_loops(train: list[Tensor], options: PathOptions) -> list[np.ndarray]:
    values = np.concatenate([x.numpy() for x in train])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    standard = [((x.numpy() - mean) / spread).tolist() for x in train]
    if options.scale == "series":
        own = [np.where(len(x) > 1, x.numpy().std(axis=0), 1.0) for x in train]
        standard = [((x.numpy() - x.numpy().mean(axis=0)) / s).tolist() for x, s in zip(train, own, strict=True)]
    appended = [row for path in standard for row in running(path, options.append)] if options.append != "none" else []
    result = []
    for path in standard:
        points = [[0.0] * len(path[0]), *path] if options.base_point else path
        if options.append != "none":
            more = np.array(running(points, options.append)) / spread_of(appended)
            points = [[*point, *extra] for point, extra in zip(points, more.tolist(), strict=True)]
        if options.lead_lag:
            doubled = [[*points[0], *points[0]]]
            for before, after in pairwise(points):
                doubled += [[*after, *before], [*after, *after]]
            points = doubled
        if options.time:
            unit = max(1, len(points) - 1) / 12**0.5
            if options.clock == "points":
                unit = np.arange(len(points)).std() if len(points) > 1 else 1.0
            points = [[i / unit, *point] for i, point in enumerate(points)]
        result.append(np.array(points))
    return result


@every_option
def test_every_option_is_its_definition_on_ragged_series_and_of_one_point(options: PathOptions):
    train = ragged()
    kept = [x.clone() for x in train]
    paths, lengths = PathTransform(options).fit(train)(train)
    assert paths.dtype == torch.float64 and paths.shape[2] == options.channels(2)
    assert lengths is not None
    for path, length, wanted in zip(paths, lengths.tolist(), by_loops(train, options), strict=True):
        assert wanted.shape == (length, paths.shape[2])
        assert np.allclose(path[:length].numpy(), wanted, atol=1e-12)
        assert torch.equal(path[length:], path[length - 1].expand_as(path[length:])), "the rest stands still"
    assert all(torch.equal(x, y) for x, y in zip(train, kept, strict=True))
    with_rest = signature(paths, depth=2)
    assert torch.allclose(signature(paths, depth=2, lengths=lengths), with_rest, atol=1e-10)
    x = series(3, length=1)
    path, lengths = PathTransform(options).fit(x)(x)
    assert lengths is None and torch.isfinite(path).all()
    points = 2 if options.base_point else 1
    assert path.shape == (3, 2 * points - 1 if options.lead_lag else points, options.channels(2))


@every_option
def test_padding_is_never_read_and_states_come_back(options: PathOptions):
    train = ragged()
    padded = torch.full((4, 7, 2), float("nan")).double()
    for row, x in zip(padded, train, strict=True):
        row[: len(x)] = x
    before = padded.clone()
    transform = PathTransform(options).fit(padded, lengths=LENGTHS)
    got, lengths = transform(padded, lengths=LENGTHS)
    wanted, wanted_lengths = PathTransform(options).fit(train)(train)
    assert torch.equal(got, wanted) and torch.equal(lengths, wanted_lengths)
    assert torch.equal(padded.nan_to_num(9e9), before.nan_to_num(9e9))
    equal = torch.stack([train[0], train[0].flip(0)])
    assert transform(equal)[1] is None
    assert torch.allclose(transform(equal)[0], transform(list(equal))[0])
    transform = PathTransform(options).fit(ragged())
    state = transform.state()
    again = PathTransform.from_state(json.loads(json.dumps(state)))
    assert again.options == options
    assert torch.equal(again(ragged())[0], transform(ragged())[0])
    state["options"]["time"] = "changed"
    assert transform.options == options, "the state is a copy"


def test_training_series_have_zero_mean_and_unit_spread_a_channel():
    x = series(20, length=9) * torch.tensor([1e-9, 1e6]).double() + torch.tensor([0.0, -5e6]).double()
    options = PathOptions(time=False, base_point=False, append="variation")
    path, _ = PathTransform(options).fit(x)(x)
    points = path.reshape(-1, 4)
    assert torch.allclose(points[:, :2].mean(dim=0), torch.zeros(2).double(), atol=1e-9)
    assert torch.allclose(points.std(dim=0, correction=0), torch.ones(4).double(), rtol=1e-9)
    new = series(3, length=4, seed=5)
    kept = new.clone()
    PathTransform(options).fit(x)(new)
    assert torch.equal(new, kept)


@pytest.mark.parametrize("append", ["none", "variation", "arc"])
def test_a_constant_channel_stays_at_zero(append: str):
    x = series(5)
    for constant in (0.0, 0.1, 12345.678):
        x[:, :, 1] = constant
        path, _ = PathTransform(PathOptions(time=False, append=append)).fit(x)(x)
        assert torch.isfinite(path).all()
        assert path[:, :, [1, 3] if append == "variation" else [1]].abs().max() < 1e-9


def test_a_point_alone_other_types_and_older_states():
    path, _ = PathTransform(PathOptions(base_point=False)).fit(torch.ones(1, 1, 1))(torch.ones(1, 1, 1))
    assert torch.equal(path, torch.zeros(1, 1, 2).double())
    x = series(4).float()
    path, _ = PathTransform().fit(x)(x)
    assert path.dtype == torch.float64
    assert torch.equal(PathTransform().fit(x.numpy())(x.numpy())[0], path)
    assert torch.equal(PathTransform().fit(x.double())(x.double())[0], path)
    x = series(4)
    transform = PathTransform(PathOptions(append="arc")).fit(x)
    state = transform.state()
    assert state.pop("duration") is None
    assert state["options"].pop("difference") == 0
    assert torch.equal(PathTransform.from_state(state)(x)[0], transform(x)[0])


def test_differences_come_before_all_else():
    train = [x for x in ragged() if len(x) > 2]
    for count in (1, 2):
        options = PathOptions(difference=count, append="arc")
        changed = [x.diff(n=count, dim=0) for x in train]
        wanted, wanted_lengths = PathTransform(PathOptions(append="arc")).fit(changed)(changed)
        actual, lengths = PathTransform(options).fit(train)(train)
        assert torch.allclose(actual, wanted, atol=1e-10) and torch.equal(lengths, wanted_lengths)
        assert options.channels(2) == actual.shape[2]
    padded = torch.full((2, 9, 2), float("nan")).double()
    for row, x in zip(padded, train, strict=True):
        row[: len(x)] = x
    actual, lengths = PathTransform(options).fit(train)(padded, lengths=[len(x) for x in train])
    assert actual.isfinite().all() and torch.allclose(actual[:, : wanted.shape[1]], wanted, atol=1e-10)


@every_option
@pytest.mark.parametrize("difference", [0, 2])
def test_every_channel_has_a_name(options: PathOptions, difference: int):
    options = replace(options, difference=difference)
    names = PathTransform(options).names(["x", "y"])
    assert len(names) == len(set(names)) == options.channels(2)
    assert (names[0] == "time") == options.time
    channel = "change of change of x" if difference else "x"
    assert names.index(channel) == int(options.time)
    if options.lead_lag:
        before = names.index(f"{channel} before")
        x = series(3)
        path, _ = PathTransform(options).fit(x)(x)
        lead, lag = path[:, :, int(options.time)], path[:, :, before]
        assert torch.equal(lead[:, :-1:2], lag[:, :-1:2]) and torch.equal(lead[:, :-2:2], lag[:, 1::2])
    if options.append == "variation":
        assert f"variation of {channel}" in names
    elif options.append == "arc":
        assert "path length" in names
    origins = PathTransform(options).origins(["x", "y"])
    assert all(origin in name for origin, name in zip(origins, names, strict=True))
    assert set(origins) <= {"time", "path length", "x", "y"}


def test_errors():
    assert_refused("append must be", PathOptions, append="length")
    for wrong in (-1, 6, 1.0):
        assert_refused(f"difference must be an integer from 0 to 5, got {wrong}", PathOptions, difference=wrong)
    with pytest.raises(ValueError, match="series 1 has too few points to take differences 2 times"):
        PathTransform(PathOptions(difference=2)).fit(ragged())
    with pytest.raises(ValueError, match="series 0 has too few points to take differences 3 times"):
        PathTransform(PathOptions(difference=3)).fit(series(2, length=3))
    assert_refused("call fit first", PathTransform(), series(2))
    assert_refused("no series to learn", PathTransform().fit, series(2)[:0])
    fitted = PathTransform().fit(series(2))
    assert_refused("3 channels, but those of fit had 2", fitted, series(2, channels=3))
    x = series(3)
    x[2, 4, 1] = float("nan")
    for call in (PathTransform().fit, fitted):
        assert_refused(r"series is not finite .nan. in series 2, at time index 4, channel 1", call, x)
    assert fitted(x, lengths=[6, 6, 4])[0].isfinite().all()
    assert fitted(series(2)[:0])[0].shape[0] == 0


@pytest.mark.parametrize("options", [{}, {"append": "variation", "difference": 1}, {"append": "arc", "lead_lag": True}])
@pytest.mark.parametrize("ragged", [False, True])
def test_chunks_make_no_difference(options: dict, ragged: bool, monkeypatch: pytest.MonkeyPatch):
    series = torch.randn(7, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    times = torch.arange(5.0).double().expand(7, 5) * torch.arange(1, 8)[:, None]
    lengths = torch.tensor([5, 3, 4, 5, 2, 5, 5]) if ragged else None
    actual = []
    for values in (10**6, 20, 1):
        monkeypatch.setattr("siggpde.series.transform._CHUNK_VALUES", values)
        transform = PathTransform(PathOptions(**options)).fit(series, lengths=lengths, times=times)
        actual.append(transform(series, lengths=lengths, times=times))
    for paths, counts in actual[1:]:
        torch.testing.assert_close(paths, actual[0][0], rtol=1e-13, atol=1e-14)
        assert counts is None if not ragged else torch.equal(counts, actual[0][1])


def test_a_batch_whole_gives_the_paths_of_its_tensors():
    values = torch.randn(7, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    times = torch.arange(5.0).double().expand(7, 5) * torch.arange(1, 8)[:, None]
    batch = SeriesBatch(values, torch.tensor([5, 3, 4, 5, 2, 5, 5]), times, first=3)
    transform = PathTransform().fit(batch)
    assert transform.state() == PathTransform().fit(values, lengths=batch.lengths, times=times).state()
    paths = transform.paths(batch)
    expected, lengths = transform(values, lengths=batch.lengths, times=times)
    assert torch.equal(paths.values, expected) and torch.equal(paths.lengths, lengths)
    assert paths.times is None and paths.first == 3
    assert_refused("a SeriesBatch has its own lengths and times", transform.fit, batch, times=times)


def stamps(n: int = 4, length: int = 7, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    steps = torch.rand(n, length, generator=random, dtype=torch.float64) + 0.01
    return 1000 + 60 * steps.cumsum(dim=1)


def clock(times: list[float], options: PathOptions, duration: float) -> np.ndarray:
    """The time channel of one series, point by point."""
    times = times[options.difference :]
    actual = [t - times[0] for t in times]
    if options.base_point:
        actual = [actual[0], *actual]
    if options.lead_lag:
        actual = [actual[0], *(t for later in actual[1:] for t in (later, later))]
    return RANGE * np.array(actual) / duration


@every_timed_option
def test_the_time_channel_is_the_stamps_and_the_state_has_their_duration(options: PathOptions):
    x, times = series(4, length=7), stamps()
    kept = times.clone()
    for row, length in zip(times, TIMED_LENGTHS, strict=True):
        row[length:] = float("nan")  # padding is never read
    transform = PathTransform(options).fit(x, lengths=TIMED_LENGTHS, times=times)
    path, lengths = transform(x, lengths=TIMED_LENGTHS, times=times)
    plain, _ = PathTransform(options).fit(x, lengths=TIMED_LENGTHS)(x, lengths=TIMED_LENGTHS)
    assert path.shape == plain.shape and torch.equal(path[:, :, 1:], plain[:, :, 1:])
    first = options.difference
    durations = [row[: TIMED_LENGTHS[i]][-1] - row[first] for i, row in enumerate(kept)]
    duration = float(torch.stack(durations).median())
    assert lengths is not None
    for i, count in enumerate(lengths.tolist()):
        wanted = clock(kept[i, : TIMED_LENGTHS[i]].tolist(), options, duration)
        assert np.allclose(path[i, :count, 0].numpy(), wanted, atol=1e-12)
        assert bool((path[i, count:, 0] == path[i, count - 1, 0]).all()), "the rest stands still"
    transform = PathTransform(options).fit(x, times=kept)
    state = json.loads(json.dumps(transform.state()))
    assert state["duration"] > 0
    again = PathTransform.from_state(state)
    assert torch.equal(again(x, times=kept)[0], transform(x, times=kept)[0])


def test_stamps_by_points_have_unit_spread_over_all_series():
    train, times = series(6, length=5), torch.rand(6, 5, generator=torch.Generator().manual_seed(0)).double().cumsum(1)
    transform = PathTransform(PathOptions(base_point=False, clock="points")).fit(train, times=times)
    paths, _ = transform(train, times=times)
    assert float(paths[:, :, 0].std(correction=0)) == pytest.approx(1.0, rel=1e-12)
    elapsed = times - times[:, :1]
    assert torch.allclose(paths[:, :, 0], elapsed / elapsed.std(correction=0), rtol=1e-12)
    even = torch.arange(5).double().expand(6, 5) * 0.3
    plain = PathOptions(base_point=False, clock="points")
    by_stamps, _ = PathTransform(plain).fit(train, times=even)(train, times=even)
    assert torch.allclose(by_stamps, PathTransform(plain).fit(train)(train)[0], rtol=1e-12)


def test_each_series_has_its_own_scale_far_from_one_too():
    """Near the ends of the range, constant, and of one point."""
    wide = torch.tensor([[[1e300, 5.0, 1e-300], [-1e300, 5.0, 3e-300], [0.0, 5.0, 2e-300]]], dtype=torch.float64)
    paths, _ = PathTransform(PathOptions(time=False, base_point=False, scale="series")).fit(wide)(wide)
    assert torch.allclose(paths[0].mean(0), torch.zeros(3).double(), atol=1e-12)
    assert torch.allclose(paths[0].std(0, correction=0), torch.tensor([1.0, 0.0, 1.0]).double(), rtol=1e-9)


def test_time_channels_by_hand():
    x = series(5, length=7)
    options = PathOptions(base_point=False)
    wanted, _ = PathTransform(options).fit(x)(x)
    for start, step in ((0.0, 1.0), (-1e6, 0.001), (3.0, 1e5)):
        times = (start + step * torch.arange(7).double()).expand(5, 7)
        actual, _ = PathTransform(options).fit(x, times=times)(x, times=times)
        assert torch.allclose(actual, wanted, atol=1e-6)
    based, _ = PathTransform(PathOptions()).fit(x, times=times)(x, times=times)
    assert bool((based[:, :2, 0] == 0).all()), "no time passes from the base point to the first value"
    assert torch.allclose(based[:, 1:, 0], wanted[:, :, 0])
    x = series(3, length=4)
    times = torch.arange(4).double() * torch.tensor([[1.0], [2.0], [4.0]]).double()
    path, _ = PathTransform().fit(x, times=times)(x, times=times)
    assert path[:, -1, 0].tolist() == pytest.approx([RANGE / 2, RANGE, 2 * RANGE])
    new, _ = PathTransform().fit(x, times=times)(x[:1], times=10 * times[:1])
    assert new[0, -1, 0].item() == pytest.approx(5 * RANGE)
    for times, wanted in ((torch.full((3, 4), 7), 0.0), (torch.arange(4).expand(3, 4), RANGE / 3)):
        path, _ = PathTransform().fit(x, times=times)(x, times=times)
        assert path[0, :, 0].tolist() == pytest.approx([0, 0, wanted, 2 * wanted, 3 * wanted])


def test_stamps_come_as_in_fit_and_fit_the_series():
    x, times = series(4, length=7), stamps()
    with_them, without = PathTransform().fit(x, times=times), PathTransform().fit(x)
    assert_refused("time stamps must be given as in fit, and the series of fit had them", with_them, x)
    assert_refused("time stamps must be given as in fit, and the series of fit had none", without, x, times=times)
    options = replace(PathOptions(), time=False)
    no_time = PathTransform(options).fit(x, times=times)
    assert torch.equal(no_time(x)[0], no_time(x, times=times)[0]), "without a time channel they do not matter"
    assert with_them.fit(x)(x)[0].isfinite().all(), "a new fit without stamps forgets them"
    for call in (PathTransform().fit, PathTransform().fit(x, times=times)):
        assert_refused(r"times must have shape \(4, 7\), got \(4, 6\)", call, x, times=times[:, 1:])
        bad = times.clone()
        bad[2, 5] = float("nan")
        assert_refused(r"times is not finite \(nan\) in series 2, at time index 5", call, x, times=bad)
        assert call(x, times=bad, lengths=[7, 7, 5, 7]) is not None
