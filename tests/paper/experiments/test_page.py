"""The tables on the pages of the paper's experiments are those of the records that their sections name."""

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from siggpde_paper.experiments.reproduction import _EXPERIMENTS, _NOT_IN_RESULTS
from siggpde_paper.experiments.results import Results, load_config
from siggpde_paper.experiments.weather import score_sections

DOCS = Path(__file__).parents[3] / "docs"
OTHER_SETTINGS = ("whales-long", "complexity")  # a longer schedule; inducing sequences that grow with the level
RECORDS = [path for path in (DOCS / "paper" / "records").glob("*.json") if path.stem not in OTHER_SETTINGS]


def experiment(record: str) -> str:
    """The experiment whose record has this name, also where it is one of other settings."""
    return record.removesuffix("-authors")


def rows(text: str) -> list[list[str]]:
    """The cells of the rows below the rules of all tables."""
    tables = re.findall(r"^\| :?---.*\n((?:\|.*\n?)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for table in tables for line in table.splitlines()]


@pytest.fixture(scope="module")
def rows_of_report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[list[str]]]:
    """The rows of the report of a record, computed anew."""

    @cache
    def compute(name: str) -> list[list[str]]:
        folder = tmp_path_factory.mktemp(name)
        shutil.copy(DOCS / "paper" / "records" / f"{name}.json", folder / "results.json")
        stored = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        config = stored["config"]
        if experiment(name) == "weather":  # reduced to what the page needs
            return rows("\n\n".join(score_sections(config, stored["records"])))
        module, _, report = _EXPERIMENTS[experiment(name)]
        module = import_module(f"siggpde_paper.experiments.{module}")
        return rows(getattr(module, report)({"title": name} | config, Results(folder, config)))

    return compute


def is_part(cells: list[str], row: list[str]) -> bool:
    """Whether the cells are in the row, in this order: a page may leave out columns."""
    rest = iter(row)
    return all(cell in rest for cell in cells)


@pytest.mark.parametrize("page", ["paper.md", "paper-details.md"])
def test_tables_are_those_of_the_records(page: str, rows_of_report: Callable[[str], list[list[str]]]):
    checked = 0
    for section in re.split(r"^#+ ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE):
        names = re.findall(r"paper/records/([\w-]+)\.json", section)
        names = [name for name in names if experiment(name) in _EXPERIMENTS]
        if section.startswith("Verdict") or not names:
            continue
        known = [row for name in dict.fromkeys(names) for row in rows_of_report(name)]
        for cells in rows(section):
            assert any(is_part(cells, row) for row in known), f"{page}: {' | '.join(cells)} is in no record of {names}"
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_records_are_taken_up(record: Path, tmp_path: Path):
    """By the settings of today, so that `siggpde reproduce` goes on from them."""
    shutil.copy(record, tmp_path / "results.json")
    settings = {key: value for key, value in load_config(record.stem).items() if key not in ("runs", *_NOT_IN_RESULTS)}
    assert Results(tmp_path, settings).records()
