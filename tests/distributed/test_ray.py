"""The manual's recipe for Ray, on a local cluster."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import siggpde
from helpers.cli_data import loaded
from helpers.small_estimators import rising

pytest.importorskip("ray", reason="Ray is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


@pytest.mark.slow
def test_the_recipe_makes_the_model_of_one_process(tmp_path: Path):
    text = PAGE.read_text(encoding="utf-8")
    recipe = re.search(r'^```py title="ray_fit.py"\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    assert recipe is not None
    (tmp_path / "ray_fit.py").write_text(recipe[1], encoding="utf-8")
    X, y = rising(40, classes=3)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    home = tempfile.mkdtemp(prefix="ray-")  # Ray writes there, sockets too, the names of which must be short
    names = ["X.npy", "y.npy", "model", "storage"]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "ray_fit.py"), *(str(tmp_path / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=tmp_path,
        env=os.environ | {"HOME": home, "RAY_TMPDIR": home, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"},
    )
    shutil.rmtree(home, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    actual, wanted = loaded(tmp_path / "model"), siggpde.SigGPClassifier(n_features=50).fit(X, y)
    assert actual.fingerprint_ == wanted.fingerprint_
    np.testing.assert_allclose(actual.predict_proba(X), wanted.predict_proba(X), rtol=1e-8, atol=1e-10)
