"""`siggpde reproduce all --quick`: every table has its rows, and every figure its curves."""

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from helpers.cli_data import run
from siggpde.datasets.loading import find_dataset
from siggpde_paper.experiments import NAMES, folder_of
from siggpde_paper.experiments.results import load_config
from siggpde_paper.experiments.tables import named

DATA = ("Crop", "RightWhaleCalls", "JenaWeather2020", "JenaWeatherExtra")

# Curves of each axis of the figures, from left to right; of other figures each axis must show something.
CURVES = {
    "pendigits-quick/training.png": [3],
    "scales-quick/scales.png": [4, 4, 4],
    "whales-quick/training.png": [3],
    "crops-quick/crops.png": [3, 2, 2],
}


def tables(report: str) -> list[list[list[str]]]:
    """The cells of all tables, without their headings."""
    blocks = re.findall(r"(?:^\|.*\|\n?)+", report, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in b.splitlines()[2:]] for b in blocks]


@pytest.mark.slow
def test_all_experiments_in_their_quick_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Minutes: without weather and complexity it took at most 140 s of CPU time."""
    try:
        for name in DATA:
            find_dataset(name)
    except FileNotFoundError as error:
        pytest.skip(f"the experiments need {str(error).splitlines()[0]}")
    drawn: dict[str, Figure] = {}
    save = Figure.savefig

    def savefig(figure: Figure, path: Any, **settings: Any) -> None:
        drawn[Path(path).relative_to(tmp_path).as_posix()] = figure
        save(figure, path, **settings)

    monkeypatch.setattr(Figure, "savefig", savefig)
    result = run("reproduce", "all", "--quick", "--runs", "1", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    for name in NAMES:
        folder = folder_of(name, tmp_path, quick=True)
        report = (folder / "report.md").read_text(encoding="utf-8")
        assert report in result.stdout
        check_tables(name, report)
        for figure in re.findall(r"\]\((.*?\.png)\)", report):
            check_figure(drawn[f"{folder.name}/{figure}"], CURVES.get(f"{folder.name}/{figure}"))
            assert (folder / figure).stat().st_size > 5000 and (folder / figure).with_suffix(".svg").exists()


def check_tables(name: str, report: str) -> None:
    config, actual = load_config(name, quick=True), tables(report)
    assert actual and all(actual), f"{name} has an empty table"
    first = [row[0] for row in actual[0]]
    if name in ("pendigits", "whales", "scales"):
        assert first == [named(method["name"], config) for method in config["methods"].values()]
        assert set(re.findall(r"M = (\d+)", report)) == {str(config["inducing"])}
    elif name == "crops":
        sizes = [(method["name"], str(size)) for method in config["methods"].values() for size in method["sizes"]]
        assert [(row[0], row[1]) for row in actual[0]] == sizes
        assert [row[0] for row in actual[1]] == [str(size) for size in config["sizes"]]
    elif name == "million":
        assert first == [f"{config['synthetic']:,} synthetic", f"{config['series']:,} original"]
    elif name == "weather":
        rows = {row[0] for table in actual for row in table}
        assert {method["name"] for method in config["methods"].values()} <= rows
    else:
        assert all(any(method in row[0] for row in actual[0]) for method in ("SigGPDE", "GPSig-IT", "GPSig-IS"))
    if name in ("pendigits", "whales", "scales", "crops", "million"):
        # What is measured, after the method and the paper's figures or M, is a number in every row.
        measured = 1 if name in ("scales", "million") else 2
        assert all(re.match(r"-?\d", row[measured]) for row in actual[0])
        assert "whole schedule" in report and "budget" not in report


def check_figure(figure: Figure, curves: list[int] | None) -> None:
    lines = [[line for line in ax.lines if len(line.get_xdata()) > 1] for ax in figure.axes]
    if curves is not None:
        assert [len(of_axis) for of_axis in lines] == curves
    else:
        assert all(ax.lines or ax.patches or ax.collections or ax.containers for ax in figure.axes)
