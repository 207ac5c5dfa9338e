"""Experiments: settings, results that resume, tables, and whole runs on small data."""

import json
import re
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.cli_data import run as run_command
from helpers.refusals import assert_refused
from siggpde import SigGPClassifier
from siggpde_paper.experiments import reproduction
from siggpde_paper.experiments.comparison import resampled
from siggpde_paper.experiments.methods import prepare
from siggpde_paper.experiments.reproduction import NAMES, reproduce
from siggpde_paper.experiments.results import Results, load_config, merged
from siggpde_paper.experiments.tables import duration, markdown_table, spread


def square(number: int) -> dict:
    return {"square": number * number}


def fail() -> dict:
    raise ValueError("no")


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_settings_and_a_quick_form(name: str):
    full, quick = load_config(name), load_config(name, quick=True)
    assert full["title"] and "quick" not in full and "quick" not in quick
    assert quick != full and set(full) <= set(quick)


def test_settings_change_in_single_entries_and_wrong_files_are_refused(tmp_path: Path):
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}) == {"a": {"b": 3, "c": 2}, "d": 4}
    absent = tmp_path / "none.toml"
    assert_refused(r"none\.toml cannot be read", load_config, "pendigits", path=absent, error=FileNotFoundError)
    (tmp_path / "bad.toml").write_text("a = [")
    assert_refused(r"bad\.toml is no TOML file", load_config, "pendigits", path=tmp_path / "bad.toml")
    (tmp_path / "odd.toml").write_text("quick = 3")
    assert_refused("quick must be a table", load_config, "pendigits", path=tmp_path / "odd.toml")
    assert markdown_table(["a", "b"], [["1", "2"]]).splitlines() == ["| a | b |", "| :--- | ---: |", "| 1 | 2 |"]
    assert spread([1.0, 3.0]) == "2.00 ± 1.41" and spread([]) == "–"
    assert [duration(s) for s in (0.01, 2.0, 600.0)] == ["10.0 ms", "2.00 s", "10.0 min"]


def test_results_are_computed_once_kept_and_refused_for_other_settings(tmp_path: Path):
    results = Results(tmp_path, {"a": 1})
    assert results.once("x/1", partial(square, 3)) == {"square": 9}
    again = Results(tmp_path, {"a": 1})
    assert again.once("x/1", fail) == {"square": 9}
    assert again.runs("x/") == [{"square": 9}] and again.runs("y") == []
    assert_refused("no", again.once, "y", fail)
    assert Results(tmp_path, {"a": 1}).get("y") is None
    Results(tmp_path, {"a": 1}).put("x", {})
    assert_refused("made with other settings; choose another folder", Results, tmp_path, {"a": 2})
    (tmp_path / "results.json").write_text("{")
    assert_refused("not a file of results", Results, tmp_path, {"a": 1})


def test_results_from_several_processes(tmp_path: Path):
    results = Results(tmp_path, {})
    results.put("0", {"square": "kept"})
    results.compute({str(number): partial(dict, square=number**2) for number in range(3)}, jobs=2)
    assert results.records() == {"0": {"square": "kept"}, "1": {"square": 1}, "2": {"square": 4}}
    assert_refused("no", results.compute, {"bad": partial(int, "no")}, apart=True)


@pytest.fixture
def small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes of noisy curves, 6 points and 2 channels, as PenDigits."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    parts = {}
    for part, n in (("train", 90), ("test", 60)):
        y = np.arange(n) % 3
        t = np.linspace(0, 1, 6)
        x = np.stack([np.sin((1 + y)[:, None] * 3 * t), (y - 1)[:, None] * t], axis=1)
        parts[f"X_{part}"] = (x + 0.1 * rng.standard_normal(x.shape)).astype(np.float32)
        parts[f"y_{part}"] = y.astype(str)
    np.savez(folder / "PenDigits.npz", **parts)
    np.savez(folder / "Crop.npz", **parts)
    monkeypatch.setenv("SIGGPDE_DATA", str(folder))
    return folder


def test_preparation_standardises_and_synthetic_series_have_noise(small_data: Path):
    data = prepare({"data": "PenDigits", "series": 50})
    assert data.x_train.shape == (50, 6, 3) and data.classes == 3 and len(data.x_test) == 60
    assert np.allclose(data.x_train.mean(dim=(0, 1)), 0, atol=1e-12)
    assert np.allclose(data.x_train.std(dim=(0, 1), correction=0), 1)
    assert (data.x_train[:, :, 0].diff(dim=1) > 0).all()
    data = prepare({"data": "PenDigits", "each": True})
    assert np.allclose(data.raw_train.mean(dim=1), 0, atol=1e-6)
    assert np.allclose(data.raw_train.std(dim=1, correction=0), 1)
    data = prepare({"data": "PenDigits"})
    series, labels = resampled(data, 500, 0.1, seed=0)
    distance = torch.cdist(series.flatten(1).double(), data.raw_train.flatten(1))
    assert (data.y_train[distance.argmin(1)] == labels).float().mean() > 0.95
    assert 0.08 < (distance.amin(1).square().mean() / data.raw_train[0].numel()).sqrt() / data.raw_train.std() < 0.12


def tiny(name: str, folder: Path) -> Path:
    """The quick settings, smaller still, as a file."""
    schedule = {"iterations": 6, "batch": 20, "evaluate_every": 3}
    changes: dict = {"runs": 1, "inducing": 12, "schedule": schedule}
    if name == "crops":
        changes |= {"sizes": [10, 12], "timing_iterations": 2}
    if name == "million":
        changes |= {"synthetic": 300}
    config = merged(load_config(name, quick=True), changes)
    for method in config.get("methods", {}).values():
        if "sizes" in method:
            method["sizes"] = [10]
    path = folder / f"{name}.toml"
    path.write_text(_toml(config))
    return path


def _toml(config: dict) -> str:
    """Settings as TOML: JSON values suffice."""
    tables = {key: value for key, value in config.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in config.items() if key not in tables]

    def write(name: str, table: dict) -> None:
        inner = {key: value for key, value in table.items() if isinstance(value, dict)}
        lines.append(f"[{name}]")
        lines.extend(f"{key} = {json.dumps(value)}" for key, value in table.items() if key not in inner)
        for key, value in inner.items():
            write(f"{name}.{key}", value)

    for key, value in tables.items():
        write(key, value)
    return "\n".join(lines)


def test_a_comparison_end_to_end_resumes_and_reports(small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    small = partial(SigGPClassifier, n_features=40, members=1, transforms={})
    monkeypatch.setattr("siggpde_paper.experiments.methods.SigGPClassifier", small)
    config, folder = tiny("pendigits", tmp_path), tmp_path / "out"
    text = reproduce("pendigits", folder, runs=1, config=config)
    names = {"results.json", "report.md", "training.png", "training.svg"}
    assert names <= {path.name for path in folder.iterdir()}
    kept = json.loads((folder / "results.json").read_text())["records"]
    methods = ("siggpde-paper", "classifier", "gpsig-it", "gpsig-is")
    fits = {f"fit/{method}/0" for method in methods}
    timed = {name for name in kept if name.startswith("time/")}
    assert fits <= set(kept) and "time/gpsig-is-recursion/12" in timed and set(kept) == fits | timed
    for name in fits:
        assert 0 <= kept[name]["accuracy"] <= 100 and np.isfinite(kept[name]["nlpp"])
    for method in ("siggpde-paper", "gpsig-it", "gpsig-is"):
        assert kept[f"fit/{method}/0"]["iterations"] == {"q": 6, "hyperparameters": 6, "all": 6}
    assert "96.66 / 0.115" in text and "by one rule: the whole schedule" in text
    assert set(re.findall(r"M = (\d+)", text)) == {"12"}  # its own M and no other
    assert "| GPSig-IT, recursion |" in text and "*" not in text
    before = (folder / "results.json").read_bytes()
    assert reproduce("pendigits", folder, runs=1, config=config) == text
    assert (folder / "results.json").read_bytes() == before


def test_satellites_end_to_end(small_data: Path, tmp_path: Path):
    text = reproduce("crops", tmp_path / "out", runs=2, config=tiny("crops", tmp_path))
    kept = json.loads((tmp_path / "out" / "results.json").read_text())["records"]
    fits = {f"fit/{method}/10/{seed}" for method in ("siggpde", "gpsig-it") for seed in (0, 1)}
    assert fits | {"time/gpsig-it-explicit/12"} <= set(kept)
    assert text.count("| 18 |") == 2 and text.count("whole schedule |") == 2
    assert (tmp_path / "out" / "crops.svg").exists()


def test_a_budget_is_for_all_methods_alike(small_data: Path, tmp_path: Path):
    config = tiny("crops", tmp_path)
    text = reproduce("crops", tmp_path / "out", budget=1e-4, config=config, only=["fit"])
    kept = json.loads((tmp_path / "out" / "results.json").read_text())["records"]
    assert set(kept) == {"fit/siggpde/10/0", "fit/gpsig-it/10/0"}
    for record in kept.values():
        assert record["iterations"] == {"q": 1, "hyperparameters": 1, "all": 1}
        assert set(record["stopped"].values()) == {"budget spent"}
    assert all(words in text for words in ("--budget 0.0001`", "| 3 |", "budget spent |"))
    assert "whole schedule |" not in text


def test_parts_of_an_experiment_by_name(small_data: Path, tmp_path: Path):
    config, folder = tiny("crops", tmp_path), tmp_path / "out"
    text = reproduce("crops", folder, config=config, only=["time"])
    assert "time of an iteration" in text.lower() and _panels(folder / "crops.svg") == 1
    before = json.loads((folder / "results.json").read_text())["records"]
    assert before and all(key.startswith("time/") for key in before)
    text = reproduce("crops", tmp_path / "fits", config=config, only=["fit"])  # a report of fits alone shows no times
    assert "on one thread" not in text and _panels(tmp_path / "fits" / "crops.svg") == 2
    reproduce("crops", folder, config=config, only=["fit"])
    assert _panels(folder / "crops.svg") == 3
    after = json.loads((folder / "results.json").read_text())
    assert {"fit/siggpde/10/0", *before} <= set(after["records"])
    assert {key: after["records"][key] for key in before} == before
    unknown = {"config": config, "only": ["fits"]}
    assert_refused("crops has no part fits; it has 0, 10, 12, fit", reproduce, "crops", folder, **unknown)


def _panels(figure: Path) -> int:
    return figure.read_text().count('id="axes_')


def test_wrong_calls(tmp_path: Path):
    assert_refused("there is no experiment 'digits'; there are pendigits", reproduce, "digits", tmp_path)
    assert_refused("runs must be at least 1", reproduce, "pendigits", tmp_path, runs=0)
    assert_refused("jobs must be at least 1", reproduce, "pendigits", tmp_path, jobs=0)
    result = run_command("reproduce", "all", "--only", "time")
    assert result.exit_code != 0 and "--settings, --config and --only are for one experiment" in result.output


def test_missing_figures_are_noticed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="plots need matplotlib; install it with: pip install matplotlib"):
        reproduce("complexity", tmp_path / "results", quick=True)
    assert not (tmp_path / "results").exists()


def test_all_experiments_go_into_folders_of_their_own(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With the two experiments of this file's data, in a form so small that they take seconds."""
    monkeypatch.setattr(reproduction, "NAMES", ("crops", "million"))
    settings = {name: tomllib.loads(tiny(name, tmp_path).read_text()) for name in ("crops", "million")}
    monkeypatch.setattr(reproduction, "load_config", lambda name, **_: dict(settings[name]))
    text = reproduction.reproduce_all(tmp_path / "out", quick=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"crops-quick", "million-quick"}
    assert "# Satellite series (Crop)" in text and "# A million synthetic satellite series" in text
    kept = json.loads((tmp_path / "out" / "million-quick" / "results.json").read_text())["records"]
    assert kept["fit/synthetic/0"]["series"] == 300 and kept["fit/original/0"]["series"] == 90
    assert kept["fit/synthetic/0"]["iterations"] == kept["fit/original/0"]["iterations"]
    assert all(record["peak_gib"] > 0.05 for record in kept.values())
    assert "| 300 synthetic |" in text and "| 90 original |" in text and "**Synthetic series**" in text
