"""The leaderboard as a program: cells, going on after an interruption, tables from records into a page."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "leaderboard.py"


def start(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *["-S"] * sys.flags.no_site, str(PROGRAM), *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "SIGGPDE_DATA"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def record(method: str, data: str, accuracy: float, nlpp: float | str, **more: Any) -> dict[str, Any]:
    cell = {"method": method, "settings": {} if method == "siggpde" else None, "data": data, "split": "archive"}
    cell |= {"task": "classification", "seed": 0, "max_train": None, "max_test": None, "n_train": 50, "n_test": 60}
    figures = {"accuracy": accuracy, "nlpp": nlpp, "brier": 0.1, "ece": 0.02, "cpu_fit": 4.0, "cpu_predict": 0.25}
    return cell | figures | {"versions": {"aeon": "1.0"}} | more


def tables(records: list[dict[str, Any]], folder: Path) -> str:
    results, page = folder / "results.jsonl", folder / "page.md"
    results.write_text("".join(json.dumps(one) + "\n" for one in records) + '{"cut off', encoding="utf-8")
    page.write_text("before\n<!-- leaderboard: begin -->\nold\n<!-- leaderboard: end -->\nafter\n", encoding="utf-8")
    done = start("--write", page, results)
    assert done.returncode == 0, done.stderr
    assert "no JSON is left out" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert done.stdout == ""
    return text


def test_tables_have_means_and_tests(tmp_path: Path):
    records = []
    for number in range(6):
        data = f"set{number}"
        records += [record("siggpde", data, 0.9, 0.2, cpu_fit=2.0 if number % 2 else 8.0)]
        records += [record("minirocket", data, 0.8, 0.1 + 0.01 * number)]
    records += [record("siggpde", "set0", 0.96, 0.2, cpu_fit=8.0)]  # a later record of the same cell counts
    text = tables(records, tmp_path)
    assert "| set0 | **96.0** | 80.0 |" in text and "| set1 | 0.200 | **0.110** |" in text
    assert "| siggpde | 91.00 | 0.200 | 0.100 | 0.020 | 4.00 | 0.25 |" in text  # (6 of 2 and 8): geometric mean 4
    assert "| minirocket | 6 / 0 / 0 | 0.031 | 0 / 0 / 6 | 0.031 |" in text  # 2 / 2^6
    assert "Versions: aeon 1.0." in text


def test_failures_resamples_infinite_losses_and_regressions_are_shown(tmp_path: Path):
    seeds = [record("siggpde", "a", 0.8 + 0.1 * seed, 0.3, split="resample", seed=seed) for seed in range(2)]
    others = [record("quant", "a", 0.7, "inf", split="resample", seed=seed) for seed in range(2)]
    broken = {key: value for key, value in record("siggpde", "b", 0, 0).items() if key not in ("accuracy", "nlpp")}
    parts = [record("siggpde", "a", 0.8, 0.3), record("without x", "a", 0.7, 0.4, settings={"x": 1})]
    text = tables([*seeds, *others, broken | {"failed": "out of memory"}, *parts], tmp_path)
    assert "**85.0 ± 5.0**" in text and "| inf |" in text and "seeds 0 to 1, ± standard error" in text
    assert "| b | – |" in text and "Failed: siggpde on b, archive 0: out of memory." in text
    assert "### Archive splits: without a part" in text and "| without x | 70.00 |" in text
    figures = {"task": "regression", "split": "resample", "nlpd": 2.0, "coverage": 0.9}
    cells = [record("siggpde", "c", 0, 0, seed=seed, rmse=1.0 + seed, **figures) for seed in range(3)]
    assert "| c | siggpde | 3 | 2 ± 0.5774 | 2 ± 0 | 90.0 ± 0.0 | 4.00 | 0.25 |" in tables(cells, tmp_path)


def test_a_page_without_markers_is_left_alone(tmp_path: Path):
    page, results = tmp_path / "page.md", tmp_path / "results.jsonl"
    page.write_text("text\n")
    results.write_text("")
    done = start("--write", page, results)
    assert done.returncode == 1 and "leaderboard: begin" in done.stderr and page.read_text() == "text\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--methods", "rocket"], "--methods names rocket"),
        (["--datasets", "Nowhere"], "set SIGGPDE_DATA"),
        (["--methods", "without windows"], "--methods names without windows"),  # only with --ablation
        (["--write", "page.md"], "there is no"),
    ],
)
def test_wrong_calls(arguments: list[str], words: str, tmp_path: Path):
    done = start(tmp_path / "results.jsonl", *arguments)
    assert done.returncode == 2 and words in done.stderr


def test_cells_run_and_are_not_run_again(tmp_path: Path):
    results = tmp_path / "results.jsonl"
    wanted = [results, "--datasets", "PenDigits", "--methods", "constant", "--max-train", 60, "--max-test", 40]
    done = start(*wanted, "--resamples", 1)
    assert done.returncode == 0, done.stderr
    first, second = [json.loads(line) for line in results.read_text().splitlines()]
    assert (first["split"], first["n_train"], first["n_test"]) == ("archive", 7494, 3498)
    assert (second["split"], second["n_train"], second["n_test"], second["seed"]) == ("resample", 60, 40, 0)
    assert first["versions"]["numpy"] and first["classes"] == 10 and first["nlpp"] == pytest.approx(2.303, abs=0.01)
    assert "| constant |" in done.stdout
    assert start(*wanted).returncode == 2  # the file exists
    assert start(*wanted, "--resamples", 2, "--no-archive", "--resume").returncode == 0
    assert [json.loads(line)["seed"] for line in results.read_text().splitlines()] == [0, 0, 1]
