"""Series and labels of every kind go in, and what comes out obeys the laws of probability."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, rising
from siggpde import load
from siggpde.estimators.targets import as_classes
from siggpde.io import SeriesData, TimeFormat
from siggpde.series import PathOptions, Spectrogram

KINDS = ("classifier", "regressor")
X, Y = rising(20)
ALIKE = [np.where(Y, 1, 0), np.where(Y, 1.0, 0.0), np.where(Y, "1", "0"), np.where(Y, "1.0", "0.0")]  # in four types


WORDS = np.where(Y, "up", "down")
TYPES = [WORDS, WORDS.astype(object), 10 * Y - 3, np.where(Y, 7, 3).astype(np.uint8), Y.astype(bool), Y + 1.0]


@pytest.mark.parametrize("labels", TYPES, ids=lambda labels: str(labels.dtype))
def test_labels_come_back_as_they_were(labels: np.ndarray):
    fitted = classifier().fit(X, labels)
    assert fitted.classes_.tolist() == sorted(set(labels.tolist())) and fitted.n_classes_ == 2
    assert fitted.predict(X).dtype == labels.dtype == fitted.classes_.dtype
    assert (fitted.predict(X) == labels).mean() > 0.9
    assert np.array_equal(classifier().fit(X, labels.tolist()).predict_proba(X), fitted.predict_proba(X))
    assert fitted.summary_["labels"] == {str(label): 10 for label in fitted.classes_}


@pytest.mark.parametrize("fitted", range(4))
def test_partial_fit_and_likelihood_take_labels_of_every_type(fitted: int):
    model = classifier().fit(X, ALIKE[fitted])
    expected = model.log_likelihood(X, ALIKE[fitted])
    for labels in ALIKE:
        np.testing.assert_array_equal(model.log_likelihood(X, labels), expected)
    more = classifier().fit(X, ALIKE[fitted]).partial_fit(X[:6], ALIKE[3 - fitted][:6])
    same = classifier().fit(X, ALIKE[fitted]).partial_fit(X[:6], ALIKE[fitted][:6])
    np.testing.assert_array_equal(more.predict_proba(X), same.predict_proba(X))
    assert more.classes_.dtype == ALIKE[fitted].dtype


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (["true", "False"], [False, True], [True, False]),
        ([True, False], ["False", "True"], ["True", "False"]),
        (["007"], [7, 8], ["007"]),
        ([1, 2], ["1", "1.0", "2"], [1, 2]),
        ([1.5, 2.0], ["1.5", "2"], ["1.5", "2"]),
        ([3, 1], ["1", "2"], [3, "1"]),
        (["a", "b"], ["a", "b"], ["a", "b"]),
    ],
)
def test_labels_become_classes_where_they_are_written_alike(labels: Any, classes: Any, expected: Any):
    assert as_classes(np.array(labels), np.array(classes)).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_and_types_of_the_same_series_are_the_same(kind: str):
    expected = outputs(estimator(kind).fit(X, Y), X)
    layouts = [X[:, 0], list(X), list(X[:, 0]), X.tolist(), torch.tensor(X), [torch.tensor(one) for one in X]]
    layouts += [np.asfortranarray(X), X.astype(object), np.pad(X, ((0, 0), (0, 0), (0, 3)), constant_values=np.nan)]
    for layout in layouts:
        assert np.array_equal(outputs(estimator(kind).fit(layout, Y), layout), expected)
    for targets in (Y.tolist(), torch.tensor(Y), Y.astype(float) if kind == "regressor" else Y.astype(np.int8)):
        assert np.array_equal(outputs(estimator(kind).fit(X, targets), X), expected)
    for dtype in ("float32", "int16", "int64", "bool", "float16"):
        series = np.round(X).astype(dtype)
        expected = outputs(estimator(kind).fit(series.astype(float), Y), series.astype(float))
        assert np.array_equal(outputs(estimator(kind).fit(series, Y), series), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_in_single_precision(kind: str):
    """That of the paper; views are in double precision always."""
    for method, same in (("paper", False), ("views", True)):
        fits = (estimator(kind, dtype=dtype, method=method).fit(X, Y) for dtype in ("float64", "float32"))
        double, single = (outputs(fitted, X) for fitted in fits)
        assert single == pytest.approx(double, abs=0.02) and np.array_equal(single, double) == same


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_and_gaps(kind: str):
    ragged = [series[:, : 5 + i % 8] for i, series in enumerate(X)]
    fitted = estimator(kind).fit(ragged, Y)
    assert fitted.length_range_ == (5, 12) and np.isfinite(outputs(fitted, ragged)).all()
    assert np.isfinite(outputs(fitted, random_walks(3, 1, 40))).all()
    gappy = X.copy()
    gappy[:, :, 4] = np.nan
    filled = X.copy()
    filled[:, :, 4] = (X[:, :, 3] + X[:, :, 5]) / 2
    actual = outputs(estimator(kind).fit(gappy, Y), gappy)
    assert actual == pytest.approx(outputs(estimator(kind).fit(filled, Y), filled), abs=1e-9)
    masked = outputs(estimator(kind, mask=True).fit(gappy, Y), gappy)
    assert np.isfinite(masked).all() and not np.allclose(masked, actual)


@pytest.mark.parametrize("kind", KINDS)
def test_time_stamps(kind: str):
    stamps = np.random.default_rng(1).exponential(size=(20, 1, 12)).cumsum(axis=2)
    noisy, _ = rising(20, noise=6.0)
    timed = np.concatenate([stamps, noisy], axis=1)

    def of_paths(**settings: Any) -> Any:
        """Windows count points, whatever their time stamps."""
        return estimator(kind, views=["linear", "path", "kernel", "lifted"], **settings)

    fitted = of_paths(time_channel=0).fit(timed, Y)
    assert fitted.n_channels_ == 2
    expected = outputs(fitted, timed)
    assert not np.allclose(expected, outputs(of_paths().fit(noisy, Y), noisy))
    assert not np.allclose(expected, outputs(of_paths().fit(timed, Y), timed))
    moved = timed + np.array([[[1000.0], [0.0]]])
    assert outputs(fitted, moved) == pytest.approx(expected, abs=1e-6)
    assert outputs(of_paths(time_channel=0).fit(moved, Y), moved) == pytest.approx(expected, abs=1e-6)
    last = np.concatenate([noisy, stamps], axis=1)
    assert np.array_equal(outputs(of_paths(time_channel=-1).fit(last, Y), last), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_change_the_paths(kind: str):
    plain = outputs(estimator(kind).fit(X, Y), X)
    wave = {"nfft": 4, "overlap": 2}
    for given_settings in ({"max_points": 4}, {"spectrogram": wave}, {"transforms": {"lead_lag": True}}):
        actual = outputs(estimator(kind, **given_settings).fit(X, Y), X)
        assert np.isfinite(actual).all() and not np.allclose(actual, plain)
    same = [({"spectrogram": wave}, {"spectrogram": Spectrogram(**wave)})]
    same.append(({"transforms": {"append": "arc"}}, {"transforms": PathOptions(append="arc")}))
    same.append(({"max_points": None}, {"max_points": 12}))
    for one, other in same:
        actual = (outputs(estimator(kind, **either).fit(X, Y), X) for either in (one, other))
        assert np.array_equal(*actual)
    fitted = estimator(kind, transforms={"append": "arc"}, members=3, views=["path", "linear"]).fit(X, Y)
    assert {block.view.options for block in fitted.committee_.blocks} == {PathOptions(append="arc")}
    assert classifier().fit(X, Y).channel_names_ == ("channel 0",)
    assert classifier(channel_names=np.array(["height"])).fit(X, Y).channel_names_ == ("height",)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[np.ndarray], np.ndarray]:
    """A few series of any lengths, with gaps, of a type, and labels of a type."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, channels = draw(st.integers(4, 9)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from([np.float64, np.float32, np.int32]))
    gaps = kind is not np.int32 and draw(st.booleans())
    series = []
    for _ in range(n):
        one = (10 * random.normal(size=(channels, draw(st.integers(1, 6))))).astype(kind)
        if gaps:
            one[random.random(one.shape) < 0.2] = np.nan
            one[0, 0] = 1.0
        series.append(one)
    names = draw(st.sampled_from([np.array(["a", "b", "c"]), np.array([5, 1, 3]), np.array([False, True])]))
    return series, names[np.arange(n) % draw(st.integers(2, len(names)))]


@settings(max_examples=10, deadline=None)
@given(problems(), st.integers(0, 3), st.sampled_from([1, 3]))
def test_laws(problem: tuple[list[np.ndarray], np.ndarray], seed: int, members: int):
    series, labels = problem
    copies = [one.copy() for one in series]
    chosen: dict[str, Any] = {"random_state": seed, "members": members, "n_features": 8}
    generators = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 - they are not to be used
    threads = torch.get_num_threads()
    fitted = classifier(**chosen).fit(series, labels)
    chances = fitted.predict_proba(series)
    assert ((chances >= 0) & (chances <= 1)).all() and np.allclose(chances.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(fitted.predict(series), fitted.classes_[chances.argmax(axis=1)])
    places = np.searchsorted(fitted.classes_, labels)
    of_truth = chances[np.arange(len(labels)), places]
    assert np.exp(fitted.log_likelihood(series, labels)) == pytest.approx(of_truth, abs=1e-8)
    number = places + 0.5
    mine = regressor(**chosen).fit(series, number)
    for one, targets in ((fitted, labels), (mine, number)):
        expected = outputs(one, series)
        again = type(one)(**one.get_params()).fit(series, targets)
        assert np.array_equal(outputs(again, series), expected)
        order = np.random.default_rng(seed).permutation(len(series))
        assert outputs(one, [series[i] for i in order]) == pytest.approx(expected[order], abs=1e-10)
        assert outputs(one, series[:1]) == pytest.approx(expected[:1], abs=1e-8)
    assert all(np.array_equal(one, copy, equal_nan=True) for one, copy in zip(series, copies, strict=True))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert np.array_equal(np.random.get_state()[1], generators[1])  # noqa: NPY002


def test_threads_are_restored_after_an_error():
    threads = torch.get_num_threads()
    fitted = classifier().fit(X, Y).set_params(n_jobs=2)
    assert_refused("infinite", fitted.predict, np.full_like(X, np.inf))
    assert_refused("targets", classifier(n_jobs=2).fit, X, Y[:3])
    assert torch.get_num_threads() == threads


def test_generators_as_random_state():
    states = (None, 0, np.random.RandomState(5), np.random.default_rng(5), np.int64(0))
    chances = [classifier(random_state=state).fit(X, Y).predict_proba(X) for state in states]
    assert np.array_equal(chances[0], chances[1]) and np.array_equal(chances[0], chances[4])
    assert all(np.isfinite(one).all() for one in chances)


@pytest.mark.parametrize("kind", KINDS)
def test_series_data_are_taken_whole(kind: str):
    times = np.cumsum(np.random.default_rng(0).uniform(1, 3, size=(20, 1, X.shape[2])), axis=2)
    series = np.concatenate([times, X], axis=1)
    names, beside = ("day", "level"), {"groups": np.arange(20) // 2, "sample_weight": np.linspace(1, 2, 20)}
    data = SeriesData(series, y=Y, channel_names=names, time_channel=0, **beside)
    apart = estimator(kind).set_params(time_channel=0, channel_names=["day", "level"]).fit(series, Y, **beside)
    whole = estimator(kind).fit(data)
    assert np.array_equal(outputs(whole, data), outputs(apart, series)) and whole.is_fitted_to(data, Y)
    assert whole.channel_names_ == ("day", "level") and whole.n_groups_ == 10 and whole.time_channel is None
    assert np.array_equal(outputs(whole, data[3:7]), outputs(apart, series[3:7]))
    more = whole.partial_fit(data[[1, 4]]), apart.partial_fit(series[[1, 4]], Y[[1, 4]])
    assert np.array_equal(outputs(more[0], data), outputs(more[1], series))
    for wrong, message in (
        (SeriesData(series[:, 1:]), "no time stamps, but the model was fitted with them"),
        (SeriesData(series, channel_names=("day", "other"), time_channel=0), "fitted with day, level"),
    ):
        assert_refused(message, whole.predict, wrong)
    assert_refused("y", estimator(kind).fit, SeriesData(X))


@pytest.mark.parametrize("kind", KINDS)
def test_what_time_stamps_are_is_remembered_and_saved(kind: str, tmp_path: Path):
    """Explanations, importances and counterfactuals of a model of dates tell dates, those of numbers as before."""
    hours = 1743926400 + 3600.0 * np.arange(X.shape[2]) + np.zeros((20, 1, 1))
    clock = TimeFormat("s", dates=True, zone="+02:00")
    data = SeriesData(np.concatenate([hours, X], axis=1), y=Y, time_channel=0, time_format=clock)
    model = estimator(kind).fit(data)
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        (why,) = one.explain(data[:1], segments=3)
        assert why.segments.main[0].when.startswith("2025-04-06 1") and "2025-04-06 1" in str(why)
        assert why.to_dict()["segments"]["starts"][0] == "2025-04-06T10:00:00+02:00"
        assert one.importance(data, regions=2).regions[0].name.startswith("2025-04-06 10:00 to")
        (why,) = one.explain(data[:1], segments=3, time_as="elapsed")
        assert "after the start" in str(why) and why.to_dict()["segments"]["starts"][0] == "2025-04-06T10:00:00+02:00"
        targets = [float(one.predict(data[:1])[0]) + 0.5] if kind == "regressor" else []
        change = one.counterfactual(data.X[0], *targets, time_as="dates")
        assert "2025-04-06" in str(change) and change.to_dict()["original"][0][0] == "2025-04-06T10:00:00+02:00"
    model.set_params(time_channel=0).fit(np.concatenate([hours - hours[0, 0, 0], X], axis=1), Y)
    assert not hasattr(model, "reading_") and model.explain(data[:1], segments=3)[0].segments.starts[0] > 1e9
    assert_refused("which the model has not", estimator(kind).fit(X, Y).explain, X[:1], time_as="dates")
