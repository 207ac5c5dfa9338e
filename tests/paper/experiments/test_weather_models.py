"""Windows of weather, their thinning and baselines, bands and words of the classifier, and the paper's model."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from helpers.refusals import assert_refused
from helpers.weather_station import COLUMNS, nlpp, windows, write_station
from siggpde import SigGPClassifier
from siggpde.explain.terms import word_features
from siggpde.gp.likelihoods import Bernoulli
from siggpde.series import SeriesBatch
from siggpde_paper.experiments import weather_models as models
from siggpde_paper.experiments.weather_models import Station, as_paths, climatology, cut_windows, fit_paper_model, thin

LENGTH, AHEAD = 4, 2


def station_of(steps, drops, missing=(), segment=None):
    """A station with two channels, whose rows are `steps` minutes apart; `missing` are (row, column)."""
    minutes = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    readings = np.stack([np.arange(len(minutes)), minutes, drops], axis=1).astype(float)
    for row, column in missing:
        readings[row, column] = np.nan
    segment = np.zeros(len(minutes)) if segment is None else segment
    return Station(readings, ("a (x)", "b (y)", "rain (mm)"), minutes, segment)


def cut(station):
    return cut_windows(station, ["a", "b"], "rain", length=LENGTH, ahead=AHEAD)


@st.composite
def stations(draw):
    steps = draw(st.lists(st.sampled_from([10, 10, 10, 10, 10, 0, 20, 100, 5]), min_size=0, max_size=40))
    count = len(steps) + 1
    drops = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    places = st.tuples(st.integers(0, count - 1), st.integers(0, 2))
    missing = draw(st.lists(places, max_size=4))
    segment = np.cumsum([0, *draw(st.lists(st.sampled_from([0] * 9 + [1]), min_size=count - 1, max_size=count - 1))])
    return station_of(steps, np.array(drops) / 10, missing, segment)


@settings(max_examples=200, deadline=None)
@given(stations())
def test_windows_are_those_found_one_by_one(station):
    """Every stretch of the station is looked at by itself, and is a window or has a reason not to be one."""
    actual = cut(station)
    kept, rain, crossing, missing = [], [], 0, 0
    for start in range(len(station.minutes) - LENGTH - AHEAD + 1):
        rows = slice(start, start + LENGTH + AHEAD)
        if (np.diff(station.minutes[rows]) != 10).any() or len(set(station.segment[rows])) > 1:
            crossing += 1
        elif np.isnan(station.readings[rows][:LENGTH, :2]).any() or np.isnan(station.readings[rows][LENGTH:, 2]).any():
            missing += 1
        else:
            kept.append(start)
            rain.append(station.readings[rows][LENGTH:, 2].sum())
    assert actual.start.tolist() == kept
    assert (actual.crossing, actual.missing) == (crossing, missing)
    np.testing.assert_allclose(actual.rain, rain, atol=1e-3)
    assert actual.wet.tolist() == [round(10 * amount) > 10 for amount in rain]
    assert actual.x.shape == (len(kept), 2, LENGTH)
    if kept:
        assert np.isfinite(actual.x).all()
        assert (np.diff(actual.x[:, 1], axis=1) == 10).all()
        np.testing.assert_array_equal(actual.x[:, 1, -1], actual.minutes)


def test_windows_by_hand():
    drops = np.zeros(10)
    drops[4:6] = 0.5, 0.5  # exactly 1.0 ahead of window 0: not more than that
    drops[9] = 1.1
    actual = cut(station_of([10] * 9, drops))
    assert actual.rain.tolist() == [1.0, 0.5, 0.0, 0.0, 1.1]
    assert actual.wet.tolist() == [False, False, False, False, True]
    tenths = cut_windows(station_of([10] * 20, np.full(21, 0.1)), ["a"], "rain", length=4, ahead=10)
    assert not tenths.wet.any()  # ten times 0.1 is 1, whatever the sum of floats is
    drops = np.arange(20) / 10
    station = station_of([10] * 19, drops)
    windows_ = cut_windows(station, ["a", "rain"], "rain", length=LENGTH, ahead=AHEAD, cumulated=["rain"])
    for start, x in zip(windows_.start, windows_.x, strict=True):
        np.testing.assert_allclose(x[1], np.cumsum(drops[start : start + LENGTH]))
        np.testing.assert_array_equal(x[0], np.arange(start, start + LENGTH))
    actual = cut(station_of([10] * 40, np.zeros(41)))
    hourly = actual.every(60)
    assert hourly.minutes.tolist() == [60, 120, 180, 240, 300, 360]
    assert hourly.day.tolist() == [0] * 6
    np.testing.assert_array_equal(hourly.x[0], actual.x[actual.minutes == 60][0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(60, 90), st.integers(1, 3), st.integers(0, 5))
def test_thinning(rainy, dry, ratio, seed):
    wet = np.zeros(rainy + dry, dtype=bool)
    wet[np.random.default_rng(seed).choice(len(wet), rainy, replace=False)] = True
    rows = thin(wet, ratio, seed)
    assert wet[rows].sum() == rainy and (~wet[rows]).sum() == ratio * rainy
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, thin(wet, ratio, seed))


def test_other_seeds_thin_otherwise_and_all_need_enough():
    wet = np.arange(200) % 20 == 0
    assert thin(wet, 3, 0).tolist() != thin(wet, 3, 1).tolist()
    for few in ([False] * 5, [True] * 5, [True, True, False]):
        assert_refused("dry ones at the ratio 3", thin, np.array(few), 3, 0)


def test_sentinels_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    data = write_station(tmp_path / "Here.npz", days=3, seed=0, sentinels=[(50, "p (mbar)"), (60, "rain (mm)")])
    station = models.load_station("Here")
    assert station.columns == COLUMNS
    assert np.isnan(station.readings).sum() == 2
    actual = cut_windows(station, ["p", "T"], "rain")
    assert actual.crossing == 0
    # Row 50 is in the channels of windows 15 to 50, row 60 in the hour after windows 19 to 24, which are among them.
    assert actual.missing == 36
    assert not set(range(15, 51)) & set(actual.start.tolist())
    np.testing.assert_array_equal(actual.readings[0], data[0, :2].astype(np.float32))


def test_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    assert_refused("SIGGPDE_DATA", models.load_station, "Nowhere", error=FileNotFoundError)
    np.savez(tmp_path / "Other.npz", X_train=np.zeros(3))
    assert_refused("no array 'data'", models.load_station, "Other")
    np.savez(tmp_path / "Odd.npz", data=np.zeros((3, 2)), columns=["a"], time_minutes=np.arange(3))
    assert_refused("do not fit", models.load_station, "Odd")
    station = station_of([10] * 5, np.zeros(6))
    assert_refused("no column 'snow'; its columns are a, b, rain", cut_windows, station, ["snow"], "rain")
    assert_refused("at least 1, got 0", cut_windows, station, ["a"], "rain", length=0)


NAMES = ["p", "rh"]
SETTINGS = {"views": ["linear", "path"], "members": 2, "n_features": 30}


@pytest.fixture(scope="module")
def fitted():
    x, wet, blocks = windows(150, 3)
    classifier = SigGPClassifier(random_state=0, channel_names=NAMES, **SETTINGS)
    return classifier.fit(x, wet, groups=blocks), x, wet


def test_climatology_is_the_share_of_rain():
    actual = climatology(np.arange(8) < 2)
    np.testing.assert_allclose(expit(actual.log_odds(np.zeros((3, 1, 5)))), 0.25)
    assert_refused("0 of 4 training windows are wet", climatology, np.zeros(4, dtype=bool))


def test_forecasters_beat_climatology(fitted):
    x, wet, blocks = windows(200, 0)
    new, truth, _ = windows(400, 1)
    plain = nlpp(climatology(wet).log_odds(new), truth)
    linear = models.logistic(x, wet, blocks, [0.001, 0.1, 10.0])
    assert linear.facts["C"] in (0.001, 0.1, 10.0)
    assert nlpp(linear.log_odds(new), truth) < plain - 0.1
    classifier, *_ = fitted
    assert classifier.n_groups_ == 8
    assert nlpp(models.classifier_log_odds(classifier, new), truth) < plain - 0.1


def test_log_odds_are_those_of_the_probabilities_and_the_band_that_of_the_latents(fitted):
    classifier, x, _ = fitted
    middle = models.classifier_log_odds(classifier, x)
    np.testing.assert_allclose(expit(middle), classifier.predict_proba(x)[:, 1])
    quantiles = models.log_odds_quantiles(classifier, x, (0.05, 0.5, 0.95))
    assert quantiles.shape == (150, 3) and (np.diff(quantiles, axis=1) > 0).all()
    inside = (quantiles[:, 0] < middle) & (middle < quantiles[:, 2])
    assert inside.mean() > 0.95
    assert np.corrcoef(middle, quantiles[:, 1])[0, 1] > 0.99
    # By Monte Carlo with latents -f and f, through the link.
    x = x[:20]
    mean, spread = classifier.latent(x)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1])
    f = mean[:, 1] + spread[:, 1] * np.random.default_rng(0).normal(size=(4000, 20))
    batch, committee = classifier.preparation_(x), classifier.committee_
    prediction, chances = committee.predict(batch), []
    for row in torch.from_numpy(f):
        means = torch.stack([-row, row], dim=1).expand_as(prediction.means)
        known = replace(prediction, means=means, variances=torch.zeros_like(prediction.variances))
        chances.append(known.probabilities()[:, 1])
    wanted = torch.logit(torch.stack(chances)).quantile(torch.tensor([0.05, 0.95]).double(), dim=0).T.numpy()
    actual = models.log_odds_quantiles(classifier, x, (0.05, 0.95))
    assert np.abs(actual - wanted).max() < 0.1 * (wanted[:, 1] - wanted[:, 0]).max()


def test_words_have_names_and_the_channels_all_of_the_importance(fitted):
    classifier, x, wet = fitted
    actual = models.word_importance(classifier, x, wet, 5)
    assert len(actual) == 5
    for word in actual:
        assert word["letters"] and set(word["letters"]) <= {"time", *NAMES} and 0 < word["share"] < 1
    assert [word["importance"] for word in actual] == sorted((word["importance"] for word in actual), reverse=True)
    level = next(word for word in models.word_importance(classifier, x, wet, 200) if word["name"] == "rh–time")
    expected = models.before_rain(x[:, 1].mean(axis=1), wet)
    assert expected is not None and level["before_rain"] * expected > 0
    assert sum(channel.share for channel in classifier.importance(x).channels) == pytest.approx(1)
    wet = np.array([True, False])
    assert models.before_rain(np.full(2, 0.1), wet) is None and models.before_rain(np.array([0.0, 3.0]), wet) == -2.0


SCHEDULE = {"iterations": 120, "batch": 40, "learning_rate": 0.02, "evaluate_every": 30}
TRAINING = {"inducing": 30, "validation": 0.25, "schedule": SCHEDULE}
X, WET, BLOCKS = windows(160, 0)


@cache
def trained_by(series: bool):
    return fit_paper_model(X, WET, BLOCKS, TRAINING, by_series=series, seed=0)


@pytest.fixture(params=[True, False], ids=["by series", "by data set"])
def trained(request):
    return trained_by(request.param)


def test_scaling_by_series_as_tslearn_has_it_and_by_the_training_windows():
    x = np.concatenate([X[:5], np.full((1, 2, 12), 7.0)])  # the last is constant
    paths = as_paths(x, X, by_series=True).numpy()
    assert paths.shape == (6, 12, 3)
    wanted = (x - x.mean(axis=2, keepdims=True))[:5] / x.std(axis=2, keepdims=True)[:5]
    np.testing.assert_allclose(paths[:5, :, 1:], wanted.swapaxes(1, 2), atol=1e-12)
    assert (paths[5, :, 1:] == 0).all()
    time = np.arange(12.0)
    np.testing.assert_allclose(paths[:, :, 0], np.tile((time - time.mean()) / time.std(), (6, 1)), atol=1e-12)
    paths = as_paths(X[:5] + 1.0, X, by_series=False).numpy()
    mean, spread = X.mean(axis=(0, 2)), X.std(axis=(0, 2))
    np.testing.assert_allclose(paths[:, :, 1:], (X[:5].swapaxes(1, 2) + 1 - mean) / spread, atol=1e-12)


def test_it_is_the_papers_and_the_posterior_mean_the_sum_over_words(trained):
    model = trained.model
    assert isinstance(model.likelihood, Bernoulli) and model.likelihood.link == "probit"
    assert model.kernel.words is None and not model.kernel.normalized
    assert len(model.features.words) == 30 and model.features.words[:3] == [(), (0,), (1,)]
    assert trained.facts()["iterations"] == {"q": 120, "hyperparameters": 120, "all": 120}
    assert trained.cpu_seconds > 0
    new, truth, _ = windows(300, 1)  # it learns
    assert nlpp(trained.log_odds(new), truth) < nlpp(climatology(WET).log_odds(new), truth) - 0.03
    mean, spread = trained.latent(X[:10])
    terms = word_features(trained.model, SeriesBatch(trained.paths(X[:10]))).detach()
    np.testing.assert_allclose(mean, (terms @ trained.model.variational.mean[0].detach()).numpy(), rtol=1e-7)
    at = mean / np.sqrt(1 + spread**2)
    np.testing.assert_allclose(trained.log_odds(X[:10]), norm.logcdf(at) - norm.logcdf(-at), rtol=1e-7)


def test_no_scaling_sees_levels_and_one_sees_sizes():
    trained = [trained_by(series) for series in (True, False)]
    now, higher, larger = ([model.log_odds(x) for model in trained] for x in (X[:20], X[:20] + 2, 3 * X[:20]))
    for before, after in zip(now, higher, strict=True):
        np.testing.assert_allclose(before, after, atol=1e-9)
    np.testing.assert_allclose(now[0], larger[0], atol=1e-9)
    assert np.abs(now[1] - larger[1]).max() > 0.1


def test_words_by_both_readings(trained):
    actual = trained.features(X, WET, ["p", "rh"], 5)
    weights = trained.model.variational.mean[0].detach().abs()
    spread = word_features(trained.model, SeriesBatch(trained.paths(X))).detach().std(dim=0, correction=0)
    names = ["–".join(("time", "p", "rh")[letter] for letter in word) for word in trained.model.features.words]
    for reading, measure in (("by_size", weights), ("by_spread", weights * spread)):
        order = [place for place in measure.argsort(descending=True).tolist() if names[place]][:5]
        assert [word["name"] for word in actual[reading]] == [names[place] for place in order]
        whole = float(measure[1:].sum())
        np.testing.assert_allclose([word["share"] for word in actual[reading]], measure[order] / whole, rtol=1e-7)
    words = trained.features(X, WET, ["p", "rh"], 29)["by_size"]
    constant = [word for word in words if set(word["letters"]) == {"time"}]
    assert {word["name"] for word in constant} == {"time", "time–time", "time–time–time"}
    assert all(word["before_rain"] is None for word in constant)


def test_the_authors_setting_has_no_time_and_no_third_phase():
    schedule = TRAINING["schedule"] | {"iterations": 40, "evaluate_every": 20, "l1": 1.0, "last": False}
    settings_ = TRAINING | {"schedule": schedule}
    made = fit_paper_model(X, WET, BLOCKS, settings_, by_series=True, seed=0, time=False)
    assert as_paths(X, X, True, time=False).shape == (160, 12, 2) and made.model.features.channels == 2
    assert made.facts()["iterations"] == {"q": 40, "hyperparameters": 40}
    words = made.features(X, WET, ["p", "rh"], 5)["by_size"]
    assert {letter for word in words for letter in word["letters"]} <= {"p", "rh"}


def test_validation_by_whole_blocks():
    train, valid = models.split_blocks(BLOCKS, 0.25, seed=1)
    assert sorted(train + valid) == list(range(160))
    assert len(set(BLOCKS[valid])) == 2 and not set(BLOCKS[valid]) & set(BLOCKS[train])
    assert models.split_blocks(BLOCKS, 0.25, seed=1) == (train, valid) != models.split_blocks(BLOCKS, 0.25, seed=2)
    assert_refused("two or more of them", models.split_blocks, np.zeros(9), 0.25, seed=0)


def test_a_checkpoint_keeps_the_fit(tmp_path, monkeypatch):
    file = tmp_path / "state.pt"
    first = fit_paper_model(X, WET, BLOCKS, TRAINING, by_series=True, seed=0, checkpoint=file)
    monkeypatch.setattr(torch.autograd, "backward", lambda *_: pytest.fail("trained again"))
    again = fit_paper_model(X, WET, BLOCKS, TRAINING, by_series=True, seed=0, checkpoint=file)
    np.testing.assert_array_equal(first.log_odds(X), again.log_odds(X))
    assert again.cpu_seconds == first.cpu_seconds
