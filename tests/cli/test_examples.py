"""The help of every command ends with an example, and the examples run."""

import shlex
import sys
from pathlib import Path

import pytest
import typer

from helpers import processes
from helpers.cli_data import succeed
from siggpde.cli import app

COMMANDS = ["fit", "predict", "evaluate", "compare", "explain", "report", "drift", "info", "reproduce", "demo"]


def example(name: str) -> list[str]:
    """The words of the example, as the help shows it on its last line; it must fit the line to be copied."""
    result = succeed(name, "--help")
    last = result.stdout.strip().splitlines()[-1].strip()
    assert last.startswith("Example: siggpde ")
    return shlex.split(last.removeprefix("Example: "))[1:]


def test_every_command_is_here():
    group = typer.main.get_command(app)
    assert list(getattr(group, "commands")) == COMMANDS  # noqa: B009 - the type of the group is typer's own


@pytest.mark.slow
def test_examples_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("fit", "predict", "evaluate", "explain", "report", "drift", "info"):
        succeed(*example(name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits", "digits.csv", "digits.html"]
    assert (tmp_path / "digits.csv").read_text().count("\n") == 3499
    compared = succeed(*example("compare")).stdout
    assert "siggpde" in compared and "constant" in compared


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reproduce", "demo"])
def test_examples_of_whole_experiments_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    succeed(*example(name))
    assert any(tmp_path.iterdir())


def test_commands_are_known_without_torch_and_numpy():
    """Help comes at once: what takes long to import is imported by the command that needs it."""
    program = """
import sys, types
package = types.ModuleType("siggpde")  # without what it imports itself
package.__path__ = [sys.argv[1]]
sys.modules["siggpde"] = package
import siggpde.cli
slow = {"torch", "numpy", "sklearn", "scipy", "polars", "aeon", "pandas", "matplotlib"} & set(sys.modules)
sys.exit(", ".join(sorted(slow)) or 0)
"""
    assert processes.run(program, str(Path(sys.modules["siggpde"].__path__[0]))) == ""
