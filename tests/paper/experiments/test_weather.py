"""The weather experiment on a made-up station, and scores of its forecasts: Bayes' rule, whole days, intervals."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from helpers.refusals import assert_refused
from helpers.weather_station import write_station
from siggpde_paper.experiments import weather
from siggpde_paper.experiments.results import Results, load_config, merged
from siggpde_paper.experiments.weather_models import Windows

pytestmark = pytest.mark.filterwarnings("ignore:.* overlapping in time:UserWarning")
FEW = {"views": ["linear", "path"], "members": 2, "n_features": 30}
BOTH = {"by_size", "by_spread"}
SMALL = {
    "data": {"train": "Train", "test": "Test", "train_every": 30, "thinned_every": 30, "block_days": 3},
    "logistic": {"strengths": [0.01]},
    "paper": {"inducing": 40, "schedule": {"iterations": 30, "batch": 50, "evaluate_every": 15}},
    "methods": {name: {"settings": FEW} for name in ("ungrouped", "classifier", "grouped")},
    "bootstrap": {"samples": 50},
    "figure": {"year": 2024, "features": 4},
}


@pytest.fixture(scope="module")
def config():
    settings = merged(load_config("weather", quick=True), SMALL)
    settings.pop("runs", None)
    return settings


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stations")
    write_station(folder / "Train.npz", days=24, seed=0, sentinels=[(500, "wv (m/s)")])
    write_station(folder / "Test.npz", days=16, seed=1, first_day=19800, gap_at=700)
    return folder


@pytest.fixture(scope="module")
def results(config, data, tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("SIGGPDE_DATA", str(data))
    kept = Results(tmp_path_factory.mktemp("results"), config)
    weather.run(config, kept, 2)
    yield kept
    patch.undo()


def test_records_and_a_second_run_that_computes_nothing(config, results, monkeypatch):
    test = results.get("test")
    assert test["windows"]["train"]["missing"] == 36
    assert test["windows"]["test"]["crossing"] == 41
    assert set(results.records()) - {"test"} == {f"run/{name}/{seed}" for name in config["methods"] for seed in (0, 1)}
    for name in config["methods"]:
        first, second = results.get(f"run/{name}/0"), results.get(f"run/{name}/1")
        assert len(first["natural"]) == len(test["wet"])
        wet = np.array(first["thinned_wet"], dtype=bool)
        assert (~wet).sum() == 3 * wet.sum()
        total, rainy = first["train"]
        assert total == 4 * rainy
        assert 0 < first["kept"] < 1
        assert first["thinned_day"] != second["thinned_day"]
    letters = {"time", *config["data"]["channels"]}
    shown = len(results.get("run/grouped/0")["band"]["low"])
    assert shown > 100
    for name, readings in (("grouped", {"by_spread"}), ("paper-series", BOTH), ("paper-set", BOTH)):
        record = results.get(f"run/{name}/0")
        assert len(record["latent"]["mean"]) == len(record["latent"]["sd"]) == shown
        assert set(record["features"]) == readings
        for feature in (word for words in record["features"].values() for word in words):
            assert feature["letters"] and set(feature["letters"]) <= letters
    series = [results.get(f"run/{name}/0")["series"] for name in ("paper-series", "paper-set")]
    assert series[0]["minutes"] == series[1]["minutes"] and np.shape(series[0]["values"]) == (8, 36)
    assert series[0]["values"] != series[1]["values"]
    assert results.get("run/ungrouped/0")["facts"] == {}
    assert all(results.get(f"run/{name}/0")["facts"]["groups"] > 2 for name in ("classifier", "grouped"))
    monkeypatch.setattr("siggpde_paper.experiments.weather.load_station", lambda name: pytest.fail("computed again"))
    before = results.file.read_bytes()
    weather.run(config, results, 2)
    assert results.file.read_bytes() == before


def test_report(config, results, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    text = weather.report(config, results)
    for method in config["methods"].values():
        assert f"| {method['name']} |" in text
    ours, theirs = "SigGPClassifier, weeks as groups", "SigGPDE, the paper's model, scaled by"
    for difference in (f"{ours} minus {theirs} series", f"{theirs} data set minus logistic regression"):
        assert text.count(f"| {difference} |") == 2  # of both tests
    assert "Means over 2 runs, each" in text and "36 have a reading missing" in text
    assert "M = 40 words" in text and "three phases of 30 iterations with minibatches of 50" in text
    for name in ("weather-stretch", "weather-features"):
        assert f"({name}.png)" in text
        for ending in ("png", "svg"):
            assert (results.folder / f"{name}.{ending}").stat().st_size > 1000
    whole = json.loads((results.folder / "reduced.json").read_text())
    reduced = whole["records"]
    assert whole["config"] == json.loads(results.file.read_text())["config"]
    assert len(json.dumps(reduced)) < 0.2 * results.file.stat().st_size, "without the log-odds"
    tables = weather.score_sections(config, reduced)
    assert len(tables) == 6 and all(table in text for table in tables)
    for part in ("thinned", "natural"):
        for name, estimates in reduced[part]["scores"].items():
            value, low, high = estimates["nlpp"]
            assert f"{value:.4f} [{low:.4f}, {high:.4f}]" in text
            runs = [measures[NLPP] for measures in reduced[part]["runs"][name]]
            assert value == pytest.approx(np.mean(runs)) and len(runs) == 2
    stretch, features = ((results.folder / f"weather-{n}.svg").read_text() for n in ("stretch", "features"))
    assert "a window scaled by data set" in stretch and "probability of rain, SigGPClassifier" in stretch
    assert stretch.count("posterior mean of the latent") == 3
    counts = {"|m|": 2, "sd × |m|": 2, "sd × |weight|": 1}
    assert counts == {measure: features.count(f"words, share of {measure} -->") for measure in counts}


def test_reports_of_fewer_runs_and_of_baselines_alone(config, results, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    fewer = Results(tmp_path, config)
    for key, record in results.records().items():
        if key != "run/paper-set/1":
            fewer.put(key, record)
    said = "Means over 2 runs, of SigGPDE, the paper's model, scaled by data set over 1, each"
    assert said in weather.report(config, fewer)
    alone = Results(tmp_path / "alone", config)
    for key in ("test", "run/climatology/0", "run/logistic/0"):
        alone.put(key, results.get(key))
    text = weather.report(config, alone)
    assert "| logistic regression |" in text and "difference" not in text and "M = " not in text


def windows_at(days, wet_days):
    minutes = np.concatenate([np.arange(24) * 60 + day * 1440 for day in days])
    wet = np.isin(minutes // 1440, wet_days)
    return Windows(np.zeros((1, 1)), np.zeros(len(minutes), dtype=int), minutes, wet * 2.0, wet, 1)


@pytest.mark.parametrize(
    ("wet_days", "year", "expected"),
    [
        ([19800, 19801, 19815], 2024, [19795, 19801]),  # the first stretch that holds both
        ([19726, 19727, 19729, 19815], 2024, [19723, 19729]),  # 2024 begins on day 19723
        ([19700, 19701], 1999, [19695, 19701]),  # there is no such year: all of it
    ],
)
def test_rainiest_stretch(wet_days, year, expected):
    assert weather.rainiest(windows_at(range(19690, 19830), wet_days), year, 7) == expected
    assert weather.rainiest(windows_at(range(19800, 19803), [19801]), 2024, 7) == [19800, 19802]  # a short record


NLPP = list(weather.MEASURES).index("nlpp")


@given(st.floats(0.001, 0.5), st.floats(0.01, 1.0), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_correction_is_bayes_rule(rate, kept, if_wet, if_dry):
    """A window of a kind that is seen with these chances when it is wet or dry."""
    natural = rate * if_wet / (rate * if_wet + (1 - rate) * if_dry)
    thinned = rate * if_wet / (rate * if_wet + kept * (1 - rate) * if_dry)
    assert expit(weather.to_natural(logit(thinned), kept)) == pytest.approx(natural, rel=1e-9)


def forecasts_of(seed, days=12, per_day=10, digits=1):
    generator = np.random.default_rng(seed)
    wet = generator.random(days * per_day) < 0.3
    wet[:2] = True, False
    log_odds = (generator.normal(size=len(wet)) + wet).round(digits)  # rounded, so that there are ties
    return weather.Forecasts(log_odds, wet, np.repeat(np.arange(days) + 100, per_day))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_scores_against_scikit_learn(seed):
    given_ = forecasts_of(seed)
    counts = np.stack([np.ones(12, dtype=int), weather.draw_days(12, 1, seed)[0]])
    days = np.arange(12) + 100
    actual = weather.scores(given_, counts, days)
    np.testing.assert_allclose(actual[0], weather.scores(given_)[0])
    for count, row in zip(counts, actual, strict=True):
        weight = count[given_.day - 100]
        p = expit(given_.log_odds)
        if len(set(given_.wet[weight > 0])) < 2:
            assert np.isnan(row[2])
            continue
        right = np.average((p > 0.5) == given_.wet, weights=weight)
        oracles = ((log_loss, p), (roc_auc_score, given_.log_odds), (brier_score_loss, p))
        wanted = [right, *(score(given_.wet, forecast, sample_weight=weight) for score, forecast in oracles)]
        np.testing.assert_allclose(row, wanted, rtol=1e-9)


def test_days_are_drawn_whole():
    counts = weather.draw_days(30, 200, 0)
    assert counts.shape == (200, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert (counts == 0).any() and (counts > 1).any()
    # Sixty windows a day, all the same, leave the interval as wide as one a day.
    one = forecasts_of(3, days=60, per_day=1)
    many = weather.Forecasts(one.log_odds.repeat(60), one.wet.repeat(60), one.day.repeat(60))
    (a, _), (b, _) = (weather.bootstrap({"x": [sample]}, samples=300) for sample in (one, many))
    for measure in weather.MEASURES:
        assert a["x"][measure].low == pytest.approx(b["x"][measure].low)
        assert a["x"][measure].high == pytest.approx(b["x"][measure].high)


def test_intervals_cover():
    """Of weather that comes by the day; intervals of single windows would hold the true NLPP far less often."""
    generator = np.random.default_rng(0)
    hits = alone = 0
    trials, days, per_day = 100, 60, 8
    # A day is wet with probability 0.3, all of it, and every forecast says so.
    truth = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    for _ in range(trials):
        wet = (generator.random(days) < 0.3).repeat(per_day)
        log_odds = np.full(len(wet), logit(0.3))
        days_of, rows_of = np.arange(days).repeat(per_day), np.arange(len(wet))
        by_day, _ = weather.bootstrap({"x": [weather.Forecasts(log_odds, wet, days_of)]}, samples=200, level=0.9)
        by_row, _ = weather.bootstrap({"x": [weather.Forecasts(log_odds, wet, rows_of)]}, samples=60, level=0.9)
        hits += by_day["x"]["nlpp"].low <= truth <= by_day["x"]["nlpp"].high
        alone += by_row["x"]["nlpp"].low <= truth <= by_row["x"]["nlpp"].high
    assert 0.8 <= hits / trials <= 0.97
    assert alone / trials < 0.65


def test_differences_are_paired():
    """A method that is always a little better is surely better, though the days differ much more than that."""
    base = forecasts_of(5, days=40)
    sign = np.where(base.wet, 0.05, -0.05)
    better = weather.Forecasts(base.log_odds + sign, base.wet, base.day)
    single, pairs = weather.bootstrap({"base": [base, base], "better": [better, better]}, samples=300)
    actual = pairs["better", "base"]
    assert actual.value == pytest.approx(weather.scores(better)[0, NLPP] - weather.scores(base)[0, NLPP])
    assert actual.low < actual.value < actual.high < 0
    assert single["base"]["nlpp"].low < single["better"]["nlpp"].value  # alone they could not be told apart
    assert pairs["base", "better"].low == pytest.approx(-actual.high)


def test_refused(config, data, tmp_path, monkeypatch):
    dry = weather.Forecasts(np.zeros(3), np.zeros(3, dtype=bool), np.zeros(3))
    assert_refused("all windows are wet, or all are dry", weather.scores, dry)
    assert_refused("two days or more", weather.draw_days, 1, 10, 0)
    for kept in (0.0, -0.1, 1.5):
        assert_refused("above 0 and at most 1", weather.to_natural, np.zeros(2), kept)
    assert_refused("holds no results of the weather experiment", weather.report, config, Results(tmp_path, config))
    monkeypatch.setenv("SIGGPDE_DATA", str(data))
    cards = config | {"methods": {"cards": {"name": "x", "kind": "tarot"}}}
    assert_refused("'tarot', which is none of climatology", weather.run_method, cards, "cards", 0)
