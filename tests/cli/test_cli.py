"""The command line, in this process and as a user starts it."""

import json
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import siggpde
from siggpde.cli import app, options
from siggpde.io.formats import FORMATS, READ_OPTIONS

runner = CliRunner()


@pytest.mark.parametrize("arguments", [["--help"], ["info", "--help"], ["demo", "--help"]])
def test_help_is_shown(arguments: list[str]):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_version_is_printed():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("siggpde 0.")


@pytest.mark.parametrize("arguments", [["nonsense"], ["info", "--nonsense"]])
def test_wrong_calls_exit_with_2(arguments: list[str]):
    assert runner.invoke(app, arguments).exit_code == 2


def test_demo_writes_what_it_prints_over_an_earlier_one_if_asked(tmp_path: Path):
    output = tmp_path / "new" / "folder"
    output.mkdir(parents=True)
    (output / "demo.json").write_text("{}")
    result = runner.invoke(app, ["demo", "--series", "120", "--output", str(output), "--force"])
    assert result.exit_code == 0, result.output
    assert "PenDigits" in result.stdout
    assert "Gram" in result.stdout
    facts = json.loads((output / "demo.json").read_text())
    assert facts["signature"]["shape"] == [7494, 1 + 3 + 9 + 27 + 81 + 243]
    assert facts["kernel_diagonal"]["shape"] == [7494]
    assert facts["kernel_diagonal"]["smallest"] >= 1
    assert facts["gram"]["shape"] == [200, 200]
    assert facts["checks"]["smallest_relative_tail"] > -1e-7
    assert facts["checks"]["smallest_relative_eigenvalue"] > -1e-7
    assert facts["training"]["accuracy"] > 0.6 and facts["training"]["nlpp"] < 1.5
    assert f"{100 * facts['training']['accuracy']:.2f} %" in result.stdout
    assert "| accuracy | NLPP |" in (output / "report.md").read_text(encoding="utf-8")
    classifier = siggpde.load(output / "model")
    assert isinstance(classifier, siggpde.SigGPClassifier) and len(classifier.classes_) == 10


def test_demo_does_not_overwrite_unasked(tmp_path: Path):
    for name in ("model", "report.md", "demo.json"):
        (tmp_path / name).write_text("{}")
        refused = runner.invoke(app, ["demo", "--output", str(tmp_path)])
        assert refused.exit_code == 2
        assert f"{name} exists; --force" in refused.output
        assert (tmp_path / name).read_text() == "{}"
        (tmp_path / name).unlink()


def test_demo_fails_with_1_when_it_cannot_write(tmp_path: Path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    assert runner.invoke(app, ["demo", "--output", str(in_the_way / "folder")]).exit_code == 1


def test_the_version_is_that_of_the_package():
    assert siggpde.__version__ == metadata.version("siggpde")


def test_the_formats_are_those_of_the_library():
    assert [each.value for each in options.Format] == list(FORMATS)
    assert {field.name for field in fields(options.ReadOptions)} == {
        option for names in READ_OPTIONS.values() for option in names
    } - {"reader", "mmap"} | {"format", "groups_by_time"}
