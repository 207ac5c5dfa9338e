"""`siggpde report`, and `--report` of fit and evaluate, on models that were fitted by the command line."""

from pathlib import Path

import polars as pl
import pytest

from helpers.cli_data import FAST, LONG, long_table, refuse, run, succeed, write
from helpers.report_pages import SECTIONS, parsed
from siggpde.cli.report import name_page
from siggpde.utils import progress

QUICK = ("--explained", "0")


def test_a_page_about_a_model_and_a_file(models: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    succeed("report", models / "kinds", models / "test.csv", "--output", page, *QUICK)
    made = parsed(page)
    assert made.sections == SECTIONS and "kinds on test" in made.text and "[red]" in made.text
    assert "siggpde report kinds test.csv --output page.html --explained 0" in made.text
    assert str(tmp_path) not in made.html and str(models) not in made.html
    refuse(2, "--force overwrites it", "report", models / "kinds", models / "test.csv", "--output", page, *QUICK)
    assert run("report", models / "kinds", models / "test.csv", "--output", tmp_path / "page.txt").exit_code == 2


def test_a_page_has_the_whole_fit_its_groups_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    table = long_table(24).with_columns(ward=pl.col("who").str.slice(1).cast(int) % 4)
    train, page = write(table, tmp_path / "train.csv"), tmp_path / "page.html"
    more = ("--groups", "ward", "--seed", "3", "--mask", "--max-points", "0")
    succeed("fit", train, "--output", tmp_path / "m", "--target", "kind", *LONG, *FAST, *more)
    result = succeed("report", tmp_path / "m", train, "--output", page, "--title", "My page", *QUICK)
    text = parsed(page).text
    assert "Group by group" in text and "report: 5 of 5" in result.stderr
    assert "siggpde report m train.csv --output page.html --title 'My page' --explained 0" in text
    line = next(line for line in text.splitlines() if "siggpde fit TRAINING-DATA" in line)
    for words in ("--output m", "--groups ward", "--seed 3", "--mask", "--max-points 0", "--target kind", "--task"):
        assert words in line


@pytest.mark.slow
def test_a_page_without_labels_and_one_of_groups(models: Path, tmp_path: Path):
    table = pl.read_csv(models / "test.csv")
    bare = write(table.drop("kind"), tmp_path / "bare.csv")
    page = tmp_path / "page.html"
    succeed("report", models / "kinds", bare, "--no-labels", "--output", page, *QUICK)
    assert "no true answers" in parsed(page).text
    grouped = table.with_columns(ward=pl.col("who").str.slice(1).cast(int) % 3)
    path = write(grouped, tmp_path / "grouped.csv")
    succeed("report", models / "kinds", path, "--groups", "ward", "--output", page, "--force", *QUICK)
    assert "Group by group" in parsed(page).text


def test_fit_and_evaluate_write_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train, page = write(long_table(30), tmp_path / "train.csv"), tmp_path / "fit.html"
    fit = ("fit", train, "--output", tmp_path / "m", "--target", "kind", *LONG, *FAST)
    page.write_text("precious")
    assert run(*fit, "--report", page).exit_code == 2 and not (tmp_path / "m").exists()
    page.unlink()
    succeed(*fit, "--report", page)
    assert "Judged on left-out training series" in parsed(page).text
    test, page = write(long_table(9, seed=1), tmp_path / "test.csv"), tmp_path / "evaluate.html"
    succeed("evaluate", tmp_path / "m", test, "--report", page)
    assert "Judged on new series" in parsed(page).text
    monkeypatch.chdir(tmp_path)
    succeed("evaluate", "--report", tmp_path / "m", test)
    assert "Judged on new series" in parsed(tmp_path / "report.html").text
    for words, name in (("report.html", []), ("--force", []), ("page.pdf", ["page.pdf"]), (".html", ["page.pdf"])):
        refuse(2, words, "evaluate", tmp_path / "m", test, "--report", *name)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("fit --report", "fit --report report.html"),
        ("fit --report --force data", "fit --report report.html --force data"),
        ("fit --report data", "fit --report report.html data"),
        ("fit --report my.HTM data", "fit --report my.HTM data"),
        ("fit --report=my.html data", "fit --report=my.html data"),
        ("fit --report my.txt data", "fit --report my.txt data"),
    ],
)
def test_the_name_of_a_page_may_be_left_out(given: str, read: str):
    assert name_page(given.split()) == read.split()
