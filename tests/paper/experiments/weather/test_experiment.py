"""The weather experiment from files to report, on a made-up station."""

import numpy as np
import pytest

from helpers.weather_station import write_station
from siggpde_paper.experiments.results import Results, load_config, merged
from siggpde_paper.experiments.weather import rainiest, report, run, run_method
from siggpde_paper.experiments.weather_models import Windows

FEW = {"views": ["linear", "path"], "members": 2, "n_features": 30}
BOTH = {"by_size", "by_spread"}
SMALL = {
    "data": {"train": "Train", "test": "Test", "train_every": 30, "thinned_every": 30, "block_days": 3},
    "logistic": {"strengths": [0.01]},
    "paper": {"inducing": 40, "schedule": {"iterations": 30, "batch": 50, "evaluate_every": 15}},
    "methods": {"classifier": {"settings": FEW}, "grouped": {"settings": FEW}},
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
    run(config, kept, 2)
    yield kept
    patch.undo()


def test_records(config, results):
    test = results.get("test")
    assert test["windows"]["train"]["missing"] == 36
    assert test["windows"]["test"]["crossing"] == 41
    assert set(results.records("run/")) == {f"run/{name}/{seed}" for name in config["methods"] for seed in (0, 1)}
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
        for feature in (each for features in record["features"].values() for each in features):
            assert feature["letters"] and set(feature["letters"]) <= letters
    series = [results.get(f"run/{name}/0")["series"] for name in ("paper-series", "paper-set")]
    assert series[0]["minutes"] == series[1]["minutes"] and np.shape(series[0]["values"]) == (8, 36)
    assert series[0]["values"] != series[1]["values"]
    assert results.get("run/classifier/0")["facts"] == {} and results.get("run/grouped/0")["facts"]["groups"] > 2


def test_run_again_computes_nothing(config, results, monkeypatch):
    monkeypatch.setattr("siggpde_paper.experiments.weather.load_station", lambda name: pytest.fail("computed again"))
    before = results.file.read_bytes()
    run(config, results, 2)
    assert results.file.read_bytes() == before


def test_report(config, results, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    text = report(config, results)
    for method in config["methods"].values():
        assert f"| {method['name']} |" in text
    for difference in (
        "SigGPClassifier, weeks as groups minus SigGPDE, the paper's model, scaled by series",
        "SigGPDE, the paper's model, scaled by data set minus logistic regression",
    ):
        assert text.count(f"| {difference} |") == 2  # of both tests
    assert "Means over 2 runs, each" in text and "36 have a reading missing" in text
    assert "M = 40 words" in text and "three phases of 30 iterations with minibatches of 50" in text
    for name in ("weather-stretch", "weather-features"):
        assert f"({name}.png)" in text
        for ending in ("png", "svg"):
            assert (results.folder / f"{name}.{ending}").stat().st_size > 1000
    stretch, features = ((results.folder / f"weather-{n}.svg").read_text() for n in ("stretch", "features"))
    assert "a window scaled by data set" in stretch and "probability of rain, SigGPClassifier" in stretch
    assert stretch.count("posterior mean of the latent") == 3
    assert [features.count(f"words, share of {measure} -->") for measure in ("|m|", "sd × |m|", "sd × |weight|")] == [
        2,
        2,
        1,
    ]


def test_report_says_how_many_runs_each_row_has(config, results, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    fewer = Results(tmp_path, config)
    for key, record in results.records().items():
        if key != "run/paper-set/1":
            fewer.put(key, record)
    assert "Means over 2 runs, of SigGPDE, the paper's model, scaled by data set over 1, each" in report(config, fewer)


def test_report_of_baselines_alone(config, results, tmp_path):
    alone = Results(tmp_path, config)
    for key in ("test", "run/climatology/0", "run/logistic/0"):
        alone.put(key, results.get(key))
    text = report(config, alone)
    assert "| logistic regression |" in text and "difference" not in text and "M = " not in text


def test_report_of_nothing(config, tmp_path):
    with pytest.raises(ValueError, match="holds no results of the weather experiment"):
        report(config, Results(tmp_path, config))


def test_unknown_kind(config, data, monkeypatch):
    monkeypatch.setenv("SIGGPDE_DATA", str(data))
    with pytest.raises(ValueError, match="'tarot', which is none of climatology"):
        run_method(config | {"methods": {"cards": {"name": "x", "kind": "tarot"}}}, "cards", 0)


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
    assert rainiest(windows_at(range(19690, 19830), wet_days), year, 7) == expected


def test_rainiest_of_a_short_record():
    assert rainiest(windows_at(range(19800, 19803), [19801]), 2024, 7) == [19800, 19802]
