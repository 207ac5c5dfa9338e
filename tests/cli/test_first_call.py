"""What commands and `import siggpde` import: libraries that take long come only where they are needed."""

import json
import subprocess
import sys

import numpy as np
import pytest

from helpers.small_estimators import classifier, regressor, rising

SLOW = ("sklearn", "scipy", "pandas", "aeon", "numba", "matplotlib", "gpytorch", "torch._dynamo", "triton")
OURS = (
    "siggpde.gp.training",
    "siggpde.gp.phases",
    "siggpde.explain",
    "siggpde.gp.likelihoods",
    "siggpde.committee.fit",
)
IMPORTED = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"


def imported(program: str, *arguments: str) -> set[str]:
    """The modules that a program has imported in the end."""
    flags = ["-S"] if sys.flags.no_site else []
    command = [sys.executable, *flags, "-c", IMPORTED.format(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


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
