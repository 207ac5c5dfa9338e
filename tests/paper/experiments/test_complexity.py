"""The complexity tables: rows, exponents, and memory of processes of their own. Never a time."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch

from siggpde_paper.experiments import complexity, measurements
from siggpde_paper.experiments.complexity import Plan, Row, exponent, exponent_cell, growth_table
from siggpde_paper.experiments.results import Results, least, load_config, pass_key

linux = pytest.mark.skipif(not measurements.measurable(), reason="peak memory is measured on Linux only")


@pytest.mark.parametrize("power", [0, 1, 2.5])
def test_exponents_of_powers(power: float):
    assert exponent([(size, 3 * size**power) for size in (1.0, 2.0, 5.0)]) == pytest.approx(power, abs=1e-12)


def test_cells_of_exponents_and_the_least_of_all_passes(tmp_path: Path):
    points = [(10.0, 1.0), (20.0, 1.0), (40.0, 4.0)]
    assert exponent_cell(points, "length", "B l² d") == "1.00 (2.00)"
    assert exponent_cell(points, "length", "n B + tile") == "1.00"
    assert exponent_cell(points[:1], "length", "l") == "–"
    base = {"M": 1, "length": 1, "d": 1, "batch": 1, "n": 1}
    plan, results = Plan("x", base, {"M": [1, 2, 4]}), Results(tmp_path, {})
    for value, small, large in ((1, 0.3, 2.0), (2, 1.0, 4.0), (4, 4.0, 8.0)):
        results.put(plan.key("m", plan.size("M", value)), {"small": small, "large": large})
    rows = [Row("a", "m", ("small",), "M"), Row("b", "m", ("large",), "M"), Row("c", "m", (), "–")]
    table = growth_table(results, rows, plan, str, sum, noise=0.5)
    first, second, last = table.splitlines()[2:]
    assert first == "| a | M | – | 0 | 2.00 (2.00) |" and last == "| c | – | – | 0 | – |"
    assert second == "| b | M | – | 2.0 | 1.00 (1.00) |"
    results = Results(tmp_path, {})
    assert least(results, "a") is None
    for number, values in enumerate(({"x": 2.0, "y": 1.0}, {"x": 1.5, "y": 3.0})):
        results.put(pass_key("a", number), values)
    assert least(results, "a") == {"x": 1.5, "y": 1.0}


@pytest.mark.parametrize("squared", [1.0, 8.0])
def test_series_have_the_increments_that_were_asked_for(squared: float):
    x = measurements.series(measurements.Size(M=5, length=40, d=6, batch=100, n=2), squared)
    assert x.shape == (100, 41, 6)
    assert float(x.diff(dim=1).square().sum(dim=(1, 2)).mean()) == pytest.approx(squared, rel=0.05)


def test_parts_of_methods_and_the_least_of_several_calls():
    size = measurements.Size(6, 4, 2, 3, 2)
    parts = {method: set(measurements.parts_of(method, size)) for method in measurements.METHODS}
    both = {"C_fu", "diag C_ff", "linear algebra"}
    assert parts["siggpde"] == parts["siggpde-torch"] == both | {"signatures"}
    assert parts["gpsig-it"] == parts["gpsig-is"] == both | {"C_uu"}
    calls = []
    assert measurements.cpu_seconds(lambda: calls.append(0), 0.0) >= 0
    assert len(calls) == measurements.FEWEST_CALLS > 1


@linux
def test_memory_of_a_call_is_that_of_its_tensors():
    filled = (partial(torch.ones, mebibytes * 2**17, dtype=torch.float64) for mebibytes in (0, 8, 64))
    # A first call of torch loads some of it.
    none, some, more = (measurements.in_fresh_process(measurements.peak_growth, made) for made in filled)
    assert some - none == pytest.approx(8, abs=0.5) and more - none == pytest.approx(64, abs=0.5)


@linux
@pytest.mark.slow
def test_memory_of_the_methods_grows_as_their_orders_say():
    small, large = (measurements.Size(M=40, length=length, d=4, batch=40, n=3) for length in (32, 64))
    measured = partial(measurements.in_fresh_process, measurements.part_memory, "gpsig-it")
    stored = [measured(size, False) for size in (small, large)]
    tiled = [measurements.in_fresh_process(measurements.part_memory, "gpsig-it", size) for size in (small, large)]
    assert stored[1]["C_fu"] / stored[0]["C_fu"] == pytest.approx(2, rel=0.1)
    assert tiled[1]["C_fu"] / tiled[0]["C_fu"] == pytest.approx(1, rel=0.15)
    assert set(stored[0]) == {"C_uu", "C_fu", "diag C_ff"}
    size = measurements.Size(M=4000, length=1, d=8, batch=1, n=2)
    kept = measurements.in_fresh_process(measurements.parameter_memory, "gpsig-it", size)[measurements.STORED]
    assert kept == pytest.approx(4000 * 3 * 2 * 8 * 8 / 2**20, abs=0.3)  # slots of two points each
    assert measurements.in_fresh_process(measurements.part_memory, "siggpde", small)["diag C_ff"] < 1


def tiny() -> dict:
    """The quick settings, smaller still."""
    config = load_config("complexity", quick=True)
    config["base"] |= {"M": 10, "length": 4, "batch": 5}
    config["grow"] = {"M": [10, 20], "length": [4, 8], "d": [4, 8], "batch": [5, 10], "n": [2, 4]}
    config["large"]["grow"] = {"M": [100, 200], "length": [16, 32]}
    config["stored"]["grow"] = config["tiled"]["grow"] = {"M": [50, 100]}
    config["kept"]["grow"] = {"M": [4000, 8000]}
    config["seconds"] = 0.0
    config["iteration"]["sizes"] = {"PenDigits": config["iteration"]["sizes"]["PenDigits"] | {"M": 12, "batch": 10}}
    return config


def tables(text: str) -> dict[str, list[list[str]]]:
    """Rows of all tables by section; sections with several have them one after the other."""
    actual: dict[str, list[list[str]]] = {}
    for section in text.split("## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        actual[section.splitlines()[0]] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return actual


def test_parts_of_the_tables_by_name(tmp_path: Path):
    config = tiny() | {"passes": 2}
    results = Results(tmp_path, config, only=["time"])
    complexity.run(config, results, 1)
    keys = list(results.records())
    assert keys and all(key.startswith("time/") for key in keys)
    assert sum(key.endswith("/again 1") for key in keys) == len(keys) / 2
    assert {"iteration", "core", "PenDigits", *measurements.METHODS} < results.asked
    assert list(tables(complexity.report(config, results))) == ["Time"]
    results = Results(tmp_path, config, only=["core"])
    complexity.run(config, results, 1)
    added = [key for key in results.records() if key not in keys]
    first = "iteration/core/PenDigits"
    assert [key for key in added if key.startswith("iteration/")] == [first, f"{first}/again 1"]
    assert list(tables(complexity.report(config, results))) == ["Time", "Language and algorithm"]


@pytest.mark.slow
def test_all_tables_have_their_rows_and_exponents_and_runs_resume(tmp_path: Path):
    config = tiny()
    results = Results(tmp_path, config)
    complexity.run(config, results, 1)
    text = complexity.report(config, results)
    actual = tables(text)
    a_number, both = r"-?\d+\.\d\d", r"-?\d+\.\d\d \(-?\d+\.\d\d\)"

    rows = {row[0]: row for row in actual["Time"]}
    assert set(rows) >= {row.name for row in complexity._TIME_ROWS}
    assert rows["part"][2:] == ["in the paper", "at the base", "in M", "in length", "in d", "in batch", "in n"]
    assert rows["C_uu, SigGPDE: the identity"][3:] == ["0", "–", "–", "–", "–", "–"]
    for name in ("GPSig-IT", "GPSig-IS"):
        assert re.fullmatch(both, rows[f"C_uu, {name}"][4]) and re.fullmatch(a_number, rows[f"C_uu, {name}"][5])
        assert all(re.fullmatch(both, cell) for cell in rows[f"C_fu, {name}"][4:])
        assert all(re.fullmatch(both, cell) for cell in rows[f"iteration, {name}"][4:])
    assert re.fullmatch(both, rows["C_fu, SigGPDE, signatures computed"][5])
    assert rows["C_fu, SigGPDE"][6:] == ["–", "–", "–"]  # sizes that these settings do not let grow

    language = actual["Language and algorithm"]
    assert [row[0] for row in language[2:13]] == [
        "SigGPDE, core", "SigGPDE, core, signatures at every iteration", "SigGPDE, plain torch",
        "SigGPDE, plain torch, signatures at every iteration", "GPSig-IT, core", "GPSig-IS, core",
        "GPSig-IT, torch", "GPSig-IS, torch",
        "SigGPDE, its authors' TensorFlow (quoted)", "GPSig-IT, its authors' TensorFlow (quoted)",
        "GPSig-IS, its authors' TensorFlow (quoted)",
    ]  # fmt: skip
    ratios = [row for row in language if " / SigGPDE" in row[0]]
    assert len(ratios) == 12 and all(float(row[1]) > 0 for row in ratios)
    wanted = [f"{name} / SigGPDE, both in the core" for name in ("GPSig-IT", "GPSig-IS")]
    assert [ratios[at][0] for at in (0, 6)] == wanted
    assert ratios[5][1] == "6.1" and ratios[11][1] == "20"  # 1.23/0.2 and 3.97/0.2

    assert (tmp_path / "complexity.png").exists() and (tmp_path / "complexity.svg").exists()
    before = (tmp_path / "results.json").read_bytes()
    complexity.run(config, Results(tmp_path, config), 1)
    assert (tmp_path / "results.json").read_bytes() == before
    if not measurements.measurable():
        assert "measured on Linux only" in text
        return
    space = actual["Space"]
    starts = [index for index, row in enumerate(space) if row[0] == "part"]
    expected = (complexity._ALL_STORED, complexity._AS_HERE, complexity._KEPT)
    for start, end, listed in zip(starts, [*starts[1:], None], expected, strict=True):
        given = space[start + 2 : end]
        assert [row[0] for row in given] == [row.name for row in listed]
        assert all(len(row) == 5 and row[3] != "–" for row in given)
    stored = {row[0]: row for row in space[: starts[1]]}
    assert float(space[-2][4].split()[0]) == pytest.approx(1, abs=0.2)  # tensors, in M
    assert re.fullmatch(both, stored["C_uu, GPSig-IS"][4]) and re.fullmatch(both, stored["C_fu, GPSig-IT"][4])
    assert stored["C_uu, SigGPDE: the identity"][3] == "0"
    assert (tmp_path / "complexity-space.png").exists()
    records = json.loads(before)["records"]
    assert all(value >= 0 for record in records.values() for value in record.values())
    assert records["peak/core/PenDigits"]["MiB"] < records["peak/gpsig-is/PenDigits"]["MiB"]
