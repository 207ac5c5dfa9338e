"""The command line as a whole: help, exit codes, full disks, threads, and what the first call imports."""

import json
import os
import resource
import subprocess
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import siggpde
from helpers import processes
from helpers.cli_data import UNTIMED, command, long_table, refuse, run, succeed, weights, write
from helpers.small_estimators import classifier, regressor, rising
from siggpde.cli import options
from siggpde.io.formats import FORMATS, READ_OPTIONS


def test_help_and_version_are_printed():
    assert "Usage:" in run("--help").stdout  # that of the commands is in test_examples.py
    assert siggpde.__version__ == metadata.version("siggpde")
    assert run("--version").stdout == f"siggpde {siggpde.__version__}\n"
    for wrong in (["nonsense"], ["info", "--nonsense"]):
        refuse(2, "nonsense", *wrong)


def test_demo_writes_what_it_prints_over_an_earlier_one_if_asked(tmp_path: Path):
    output = tmp_path / "new" / "folder"
    output.mkdir(parents=True)
    (output / "demo.json").write_text("{}")
    result = succeed("demo", "--series", "120", "--output", output, "--force")
    assert "PenDigits" in result.stdout and "Gram" in result.stdout
    facts = json.loads((output / "demo.json").read_text())
    assert facts["signature"]["shape"] == [7494, 1 + 3 + 9 + 27 + 81 + 243]
    assert facts["kernel_diagonal"]["shape"] == [7494] and facts["kernel_diagonal"]["smallest"] >= 1
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
        refuse(2, f"{name} exists; --force", "demo", "--output", tmp_path)
        assert (tmp_path / name).read_text() == "{}"
        (tmp_path / name).unlink()
    (tmp_path / "file").write_text("")
    refuse(1, "file", "demo", "--output", tmp_path / "file" / "folder")  # cannot be written


def test_the_formats_are_those_of_the_library():
    assert get_args(options.Format) == FORMATS
    assert {field.name for field in fields(options.ReadOptions)} == {
        option for names in READ_OPTIONS.values() for option in names
    } - {"reader", "mmap"} | {"format", "groups_by_time"}


def no_large_files() -> None:
    """Files above 14,000 bytes cannot be written: EFBIG, as ENOSPC where the disk is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (14_000, 14_000))


@pytest.mark.parametrize("method", ["views", "paper"])
def test_the_path_and_the_space_are_named_and_the_fit_goes_on_with_more_space(method: str, tmp_path: Path):
    """The default fails when it saves the model, and the method of the paper at its checkpoint."""
    data, model = write(long_table(60), tmp_path / "data.csv"), tmp_path / "model"
    settings = [*UNTIMED, *([] if method == "views" else ["--method", "paper", "--max-iter", "20"])]
    arguments = ["fit", data, "--output", model, *settings]
    failed = subprocess.run(command(*arguments), capture_output=True, text=True, preexec_fn=no_large_files, timeout=300)
    assert failed.returncode == 1, failed.stderr
    last = failed.stderr.splitlines()[-1]
    where = "model/model.json" if method == "views" else "model.checkpoint/member-1.pt"
    assert last.startswith(f"Error: [Errno 27] File too large: {tmp_path / where}")
    assert " MB, and its disk has " in last and "make room there" in last
    assert not list(tmp_path.rglob("*.part")) and not (model / "model.json").exists()
    succeed(*arguments, "--resume")
    whole = tmp_path / "whole"
    succeed("fit", data, "--output", whole, *settings)
    assert weights(model) == weights(whole)


# A finder that is asked for torch before any other sees the environment in which it is loaded.
SEEN = """
import json, os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            names = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT")
            print(json.dumps({name: os.environ.get(name) for name in names}))
            sys.stdout.flush()
            os._exit(0)
sys.meta_path.insert(0, Finder())
from siggpde.cli import app
app(["predict", "model", "data.csv"])
"""


THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": None}


@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"KMP_BLOCKTIME": "9"}, {"GOMP_SPINCOUNT": "9"}])
def test_threads_sleep_while_they_wait_unless_the_user_has_said_something(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in os.environ if name.startswith(("OMP_", "KMP_", "GOMP_"))]:
        monkeypatch.delenv(name)
    assert json.loads(processes.run(SEEN, **given)) == (dict.fromkeys(THREADS) | given if given else THREADS)


SLOW = ("sklearn", "scipy", "pandas", "aeon", "numba", "matplotlib", "gpytorch", "torch._dynamo", "triton")
OURS = tuple(f"siggpde.{name}" for name in ("gp.training", "gp.phases", "gp.likelihoods", "explain", "committee.fit"))
IMPORTED = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"


def imported(program: str, *arguments: str) -> set[str]:
    """The modules that a program has imported in the end."""
    return set(json.loads(processes.run(IMPORTED.format(program), *arguments).splitlines()[-1]))


def test_importing_siggpde_imports_nothing_large():
    modules = imported("import siggpde")
    assert not modules & {*SLOW, "torch", "numpy", "polars"}
    assert "numpy" in imported("import siggpde; siggpde.SigGPClassifier")  # names are there all the same


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_predict_imports_only_what_predicts(kind, tmp_path):
    X, y = rising()
    model = classifier() if kind == "classes" else regressor()
    model.fit(X, y if kind == "classes" else y + 0.5 * X[:, 0, -1]).save(tmp_path / "model")
    np.savez(tmp_path / "new.npz", X=X)
    program = "from siggpde.cli import app; app(sys.argv[1:], standalone_mode=False)"
    files = (str(tmp_path / "model"), str(tmp_path / "new.npz"), "--output", str(tmp_path / "out.csv"))
    modules = imported(program, "predict", *files)
    assert (tmp_path / "out.csv").read_text().count("\n") == len(X) + 1
    slow = {*SLOW, *OURS} if kind == "classes" else {*SLOW, *OURS} - {"scipy"}  # tails of intervals are scipy's
    assert not modules & slow
    assert "scipy.stats" not in modules
