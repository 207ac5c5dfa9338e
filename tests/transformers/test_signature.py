"""SignatureTransformer: its features and its windows."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.random_paths import few, modest
from helpers.refusals import assert_refused
from helpers.small_estimators import random_walks, rising
from helpers.word_polynomials import exponential, lie_series, multiply
from siggpde import SignatureTransformer, logsignature, signature
from siggpde.numerics.words import words_up_to
from siggpde.series import SeriesBatch
from siggpde.transformers.signature import Interval, intervals

PLAIN: dict[str, Any] = {"time": False, "base_point": False, "standardise": False}
WINDOWS: list[dict[str, Any]] = [
    {},
    {"window": "sliding", "window_length": 0.5},
    {"window": "expanding", "window_length": 5, "window_step": 4},
    {"window": "dyadic"},
]


def points(X: np.ndarray) -> torch.Tensor:
    """(n, channels, length) to (n, length, channels)."""
    return torch.from_numpy(np.ascontiguousarray(np.swapaxes(X, 1, 2)))


def test_without_options_it_is_the_signature():
    X = random_walks(6, 3, 9)
    table = SignatureTransformer(depth=4, **PLAIN).fit_transform(X)
    np.testing.assert_allclose(table, signature(points(X), 4)[:, 1:].numpy(), rtol=1e-12)
    log = SignatureTransformer(depth=4, logsignature=True, **PLAIN).fit_transform(X)
    np.testing.assert_allclose(log, logsignature(points(X), 4).numpy(), rtol=1e-12)
    words = [(2, 0), (), (1, 1, 0)]
    some = SignatureTransformer(words=words, **PLAIN).fit_transform(X)
    np.testing.assert_allclose(some, signature(points(X), words=words).numpy(), rtol=1e-12)
    assert SignatureTransformer(**PLAIN).fit_transform(X).shape == (6, 3 + 9 + 27)


def test_time_base_point_and_standardisation():
    X = random_walks(6, 2, 9) * [[[1.0], [100.0]]] + 5
    standard = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    path = np.concatenate([np.zeros((6, 2, 1)), standard], axis=2)
    time = np.broadcast_to(np.linspace(0, 12**0.5, 10), (6, 1, 10))
    expected = signature(points(np.concatenate([time, path], axis=1)), 3)[:, 1:]
    transformer = SignatureTransformer().fit(X)
    np.testing.assert_allclose(transformer.transform(X), expected.numpy(), rtol=1e-10, atol=1e-10)
    # What was learned is kept: other series are not standardised by their own means.
    assert not np.allclose(transformer.transform(X * 2), transformer.transform(X))


def test_names_say_what_a_feature_is():
    X = random_walks(6, 2, 9)
    change = X[:, :, -1] - X[:, :, 0]
    transformer = SignatureTransformer(depth=2, channel_names=["level", "flow"], **PLAIN).fit(X)
    table = dict(zip(transformer.get_feature_names_out(), transformer.transform(X).T, strict=True))
    assert list(table) == ["level", "flow", "level–level", "level–flow", "flow–level", "flow–flow"]
    np.testing.assert_allclose(table["flow"], change[:, 1])
    np.testing.assert_allclose(table["level–level"], change[:, 0] ** 2 / 2)
    np.testing.assert_allclose(table["level–flow"] + table["flow–level"], change[:, 0] * change[:, 1])
    log = SignatureTransformer(depth=2, channel_names=["level", "flow"], logsignature=True, **PLAIN).fit(X)
    area = dict(zip(log.get_feature_names_out(), log.transform(X).T, strict=True))["[level, flow]"]
    np.testing.assert_allclose(area, (table["level–flow"] - table["flow–level"]) / 2, atol=1e-12)
    X = random_walks(6, 1, 9)
    names = SignatureTransformer(depth=1, lead_lag=True, append="arc", channel_names=["level"]).fit(X)
    wanted = ["time", "level", "path length", "level before", "path length before"]
    assert list(names.get_feature_names_out()) == wanted
    same = SignatureTransformer(depth=1, channel_names=["time"]).fit(X).get_feature_names_out()
    assert list(same) == ["time", "time 0"]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("log", [False, True])
def test_every_column_has_a_name_of_its_own(window, log: bool):
    X = random_walks(5, 2, 17)
    transformer = SignatureTransformer(depth=3, logsignature=log, **window).fit(X)
    names = transformer.get_feature_names_out()
    assert names.shape == transformer.transform(X).shape[1:] and len(set(names)) == len(names)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_is_a_series_of_its_own_and_a_series_is_transformed_alone(window):
    X = random_walks(5, 2, 17)
    ragged = [series[:, : 8 + 2 * i] for i, series in enumerate(X)]
    for given_series in (list(X), ragged):
        transformer = SignatureTransformer(depth=2, **window).fit(given_series)
        whole = SignatureTransformer(depth=2).fit(given_series)  # has learned the same scales
        table = transformer.transform(given_series).reshape(5, len(transformer.windows_), -1)
        for k, interval in enumerate(transformer.windows_):
            for i, series in enumerate(given_series):
                first, last = (int(end) for end in interval.points(torch.tensor(series.shape[1])))
                expected = whole.transform([series[:, first : last + 1]])[0]
                np.testing.assert_allclose(table[i, k], expected, rtol=1e-10, atol=1e-12)
    X = [series[:, : 9 + i] for i, series in enumerate(random_walks(7, 2, 17))]
    for log in (False, True):
        transformer = SignatureTransformer(depth=3, logsignature=log, lead_lag=True, **window).fit(X)
        table = transformer.transform(X)
        for i, series in enumerate(X):
            np.testing.assert_allclose(transformer.transform([series])[0], table[i], rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(transformer.set_params(n_jobs=2).transform(X), table)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(transformer)).transform(X), table)


def test_halves_multiply_to_the_whole_which_is_the_last_expanding_window():
    X, words = random_walks(4, 2, 9), words_up_to(2, 3)
    transformer = SignatureTransformer(depth=3, window="dyadic", window_depth=1, **PLAIN)
    table = transformer.fit_transform(X).reshape(4, 3, -1)
    for whole, left, right in table:
        a, b = ({(): 1.0, **dict(zip(words[1:], half, strict=True))} for half in (left, right))
        product = multiply(a, b, 3)
        np.testing.assert_allclose(whole, [product[word] for word in words[1:]], rtol=1e-9, atol=1e-12)
    X = random_walks(4, 2, 11)
    table = SignatureTransformer(depth=3, window="expanding").fit_transform(X)
    whole = SignatureTransformer(depth=3).fit_transform(X)
    np.testing.assert_allclose(table[:, -whole.shape[1] :], whole, rtol=1e-12)


@few
@given(st.integers(0, 99), st.sampled_from(WINDOWS))
def test_the_logarithm_holds_the_same_information(seed: int, window):
    X = random_walks(1, 2, 17, seed=seed) / 4
    log = SignatureTransformer(depth=3, logsignature=True, **window).fit(X)
    plain = SignatureTransformer(depth=3, **window).fit(X)
    parts = (np.split(one.transform(X)[0], len(log.windows_)) for one in (log, plain))
    for part, expected in zip(*parts, strict=True):
        again = exponential(lie_series(part.tolist(), list(log.elements_)), 3)
        np.testing.assert_allclose([again[word] for word in plain.elements_], expected, rtol=1e-9, atol=1e-9)


def test_single_precision_settings_changed_after_fit_and_chunks(monkeypatch: pytest.MonkeyPatch):
    X = random_walks(7, 2, 17)
    transformer = SignatureTransformer(depth=3, logsignature=True).fit(X)
    table, single = transformer.transform(X), transformer.transform(X.astype(np.float32))
    assert table.dtype == np.float64 and single.dtype == np.float32
    np.testing.assert_allclose(single, table, rtol=1e-4, atol=1e-4)
    transformer = SignatureTransformer(depth=2).fit(X)
    table, names = transformer.transform(X), list(transformer.get_feature_names_out())
    transformer.set_params(depth=3, logsignature=True, window="dyadic")
    np.testing.assert_array_equal(transformer.transform(X), table)
    assert list(transformer.get_feature_names_out()) == names
    assert transformer.fit_transform(X).shape != table.shape
    X = random_walks(23, 2, 17)
    transformer = SignatureTransformer(window="dyadic").fit(X)
    table = transformer.transform(X)
    monkeypatch.setattr("siggpde.transformers.signature._CHUNK_VALUES", 5 * 34)
    np.testing.assert_allclose(transformer.transform(X), table, rtol=1e-12)


def test_time_stamps_and_gaps():
    X = random_walks(6, 2, 9)
    stamped = np.concatenate([np.broadcast_to(np.arange(9.0) * 3 + 7, (6, 1, 9)), X], axis=1)
    transformer = SignatureTransformer(time_channel=0, channel_names=["day", "level", "flow"], depth=2).fit(stamped)
    plain = SignatureTransformer(depth=2).fit(X)
    base = plain.transform(X)[:, :1]  # time with a base point goes through as many steps, but not evenly
    assert list(transformer.get_feature_names_out()[:3]) == ["time", "level", "flow"]
    np.testing.assert_allclose(transformer.transform(stamped)[:, :1], base, rtol=1e-12)
    np.testing.assert_allclose(transformer.transform(stamped)[:, 1:3], plain.transform(X)[:, 1:3], rtol=1e-12)
    gap, middle = X.copy(), X.copy()
    gap[0, 1, 4] = np.nan
    middle[0, 1, 4] = (X[0, 1, 3] + X[0, 1, 5]) / 2
    np.testing.assert_allclose(plain.transform(gap), plain.transform(middle), rtol=1e-12)


def test_a_pipeline_that_learns():
    X, y = rising(40)
    piped = make_pipeline(SignatureTransformer(), StandardScaler(), LogisticRegression())
    grid = {"signaturetransformer__depth": [1, 2], "signaturetransformer__logsignature": [False, True]}
    assert GridSearchCV(piped, grid, cv=3).fit(X, y).best_score_ > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth must be an integer of at least 1, got 0"),
        ({"depth": 2, "words": [(0,)]}, "give depth or words, got both"),
        ({"words": [(0,)], "logsignature": True}, "no words to choose from; give depth instead of words"),
        ({"words": []}, "words is empty"),
        ({"words": [(0, 3)]}, r"word 0 is \(0, 3\), but with 3 channels letters go from 0 to 2"),
        ({"words": [(0,), (0,)]}, "comes more than once"),
        ({"logsignature": "yes"}, "logsignature must be True or False, got 'yes'"),
        ({"time": 1}, "time must be True or False, got 1"),
        ({"time": False, "time_channel": 0}, "time=False leaves time out of it"),
        ({"append": "area"}, "append must be 'none', 'variation' or 'arc', got 'area'"),
        ({"difference": 9}, "difference must be an integer from 0 to 5"),
        ({"window": "dyadic", "window_length": 3}, "window_length is for sliding and expanding windows"),
        ({"window": "sliding", "window_length": 100}, "longer than the series of fit, which have 17 points"),
        ({"depth": 40}, "ask for fewer"),
        ({"words": [0, 1]}, "word"),
        ({"dtype": "half"}, "dtype must be"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str):
    assert_refused(message, SignatureTransformer(**settings).fit, random_walks(5, 2, 17))


def test_windows_too_short_for_differences():
    transformer = SignatureTransformer(window="dyadic", difference=2).fit(random_walks(5, 2, 17))
    short = [random_walks(1, 2, 17)[0], random_walks(1, 2, 6)[0]]
    message = "the window 0–25 % of series 1 has 2 points, too few to take differences 2"
    assert_refused(message, transformer.transform, short)


Settings = tuple[Any, Any, Any, Any]


def spans(computed: tuple[Interval, ...], points: int) -> list[tuple[int, int]]:
    """First and last point of each window in a series of so many points."""
    ends = [window.points(torch.tensor([points])) for window in computed]
    return [(int(first), int(last)) for first, last in ends]


def test_windows_in_points_in_shares_and_by_default():
    assert spans(intervals("whole", None, None, None, 9), 9) == [(0, 8)]
    assert spans(intervals("sliding", 4, 2, None, 10), 10) == [(0, 3), (2, 5), (4, 7), (6, 9)]
    assert spans(intervals("sliding", 4, 4, None, 10), 10) == [(0, 3), (4, 7), (6, 9)]  # the last one is at the end
    assert spans(intervals("expanding", 4, 3, None, 10), 10) == [(0, 3), (0, 6), (0, 9)]
    assert spans(intervals("expanding", 4, 4, None, 10), 10) == [(0, 3), (0, 7), (0, 9)]
    halves, quarters = [(0, 4), (4, 8)], [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert spans(intervals("dyadic", None, None, 2, 9), 9) == [(0, 8), *halves, *quarters]
    assert spans(intervals("sliding", 10, None, None, 10), 10) == [(0, 9)]
    assert spans(intervals("sliding", 0.5, 0.25, None, 9), 9) == [(0, 4), (2, 6), (4, 8)]
    assert intervals("sliding", 0.5, None, None, 9) == intervals("sliding", 5, 2, None, 9)
    assert intervals("sliding", None, None, None, 41) == intervals("sliding", 0.25, 0.125, None, 41)
    expanding = intervals("expanding", None, None, None, 41)
    assert [str(window) for window in expanding] == ["0–25 %", "0–50 %", "0–75 %", "0–100 %"]


shares = st.floats(0.01, 1)
kinds = st.one_of(
    st.tuples(st.sampled_from(["sliding", "expanding"]), shares, st.one_of(st.none(), shares), st.none()),
    st.tuples(st.just("dyadic"), st.none(), st.none(), st.one_of(st.none(), st.integers(1, 4))),
    st.just(("whole", None, None, None)),
)


@modest
@given(kinds, st.integers(17, 60), st.integers(1, 90))
def test_windows_of_any_length_lie_in_the_series_and_reach_its_ends(settings: Settings, points: int, other: int):
    computed = intervals(*settings, points)
    here = spans(computed, other)
    assert len(here) == len(computed)
    for first, last in here:
        assert 0 <= first <= last <= other - 1 and (last > first or other == 1)
    assert min(first for first, _ in here) == 0 and max(last for _, last in here) == other - 1
    for (first, last), window in zip(here, computed, strict=True):
        scale = (other - 1) / window.last
        assert abs(first - window.start * scale) <= 1 and abs(last - window.stop * scale) <= 1


@modest
@given(st.integers(17, 90), st.integers(1, 4))
def test_neighbours_share_a_point(points: int, depth: int):
    computed = spans(intervals("dyadic", None, None, depth, 33), points)
    finest = computed[-(2**depth) :]
    assert finest[0][0] == 0 and all(a[1] == b[0] for a, b in itertools.pairwise(finest))


@modest
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), kinds)
def test_cutting_a_batch_is_cutting_each_series(lengths: list[int], settings: Settings):
    longest = max(lengths)
    values = torch.arange(len(lengths) * longest * 2).double().reshape(len(lengths), longest, 2)
    times = values[:, :, 0] * 2
    equal = len(set(lengths)) == 1
    batch = SeriesBatch(values, None if equal else torch.tensor(lengths), times, first=7)
    for window in intervals(*settings, 20):
        part = window.cut(batch)
        assert part.first == 7 and part.times is not None
        for i, length in enumerate(lengths):
            first, last = (int(end) for end in window.points(torch.tensor(length)))
            count = int(part.counts()[i])
            assert torch.equal(part.values[i, :count], values[i, first : last + 1])
            assert torch.equal(part.times[i, :count], times[i, first : last + 1])
            assert torch.isfinite(part.values).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("hopping", None, None, None), "window must be one of 'whole', 'sliding', 'dyadic', 'expanding', got"),
        ((3, None, None, None), "window must be one of .* got 3"),
        (("whole", 3, None, None), "window_length is for sliding and expanding windows, not for window='whole'; leave"),
        (("dyadic", None, 0.5, None), "window_step is for sliding and expanding windows, not for window='dyadic'"),
        (("sliding", None, None, 2), "window_depth is for dyadic windows, not for window='sliding'; leave it out"),
        (("dyadic", None, None, 5), "cuts a series into 32 parts, but those of fit have 20 points .*; the most is 4"),
        (("dyadic", None, None, 0), "window_depth must be an integer of at least 1, got 0"),
        (("sliding", 30, None, None), "window_length=30 is longer than the series of fit, which have 20 points"),
        (("sliding", 1, None, None), "window_length must be an integer of at least 2, got 1"),
        (("expanding", 1.5, None, None), "window_length must be .* or a share between 0 and 1, got 1.5"),
        (("sliding", 5, 0, None), "window_step must be an integer of at least 1, got 0"),
        (("sliding", 5, 0.0, None), "window_step must be a number of points or a share"),
    ],
)
def test_windows_that_make_no_sense(settings: Settings, message: str):
    assert_refused(message, intervals, *settings, 20)
