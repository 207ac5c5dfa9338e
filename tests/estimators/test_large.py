"""Many series in bounded memory: a fit of more than are affordable in full, and predictions that stream."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_WAVES = """
import json, logging, resource, sys
import numpy as np
from siggpde import SigGPClassifier, load, predict_stream
from siggpde.committee import cost as budget

def waves(n, seed):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    phases = 2 * np.pi * (np.arange(24) * (labels[:, None] + 2) / 24 + random.random((n, 1)))
    return (np.sin(phases) + random.normal(size=(n, 24))).astype(np.float32), labels

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""

_FIT = """
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
folder, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
budget.BUDGET = seconds
X, y = waves(count, 0)
before = peak()
fitted = SigGPClassifier().fit(X, y)
facts = {"grown": peak() - before, "landmarks": len(fitted.committee_.landmarks)}
facts["members"] = [member.recipe.name for member in fitted.committee_.members]
fitted.save(folder)
new, truth = waves(600, 1)
print(json.dumps(facts | {"accuracy": fitted.score(new, truth)}))
"""

_STREAM = """
from pathlib import Path
folder, count = Path(sys.argv[1]), int(sys.argv[2])
model = load(folder)
np.save(folder.parent / f"{count}.npy", waves(count, 2)[0])
model.predict_proba(waves(2048, 3)[0])
before = peak()
predict_stream(model, folder.parent / f"{count}.npy", folder.parent / f"{count}.parquet", block=4096, progress=False)
print(json.dumps({"grown": peak() - before}))
"""


def run(code: str, *arguments: Any) -> tuple[dict[str, Any], str]:
    """What a process prints as JSON, and its log."""
    command = [sys.executable, *["-S"] * sys.flags.no_site, "-c", _WAVES + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
def test_a_large_fit_and_its_predictions_stay_within_memory_and_say_what_is_left_out(tmp_path: Path):
    """Of 30,000 series, with a budget that not all members are within.

    The rows of all series against the landmarks would be 72 MB a kernel, of which there are 20.
    """
    facts, log = run(_FIT, tmp_path / "model", 30_000, 6.0)
    assert facts["landmarks"] == 300 and "300 of 30000 series are landmarks" in log
    assert "of 30000 series the rows of members would take longer than the budget of 6 s" in log
    assert f"left out for {facts['members'][0]} (loss" in log
    assert facts["accuracy"] > 0.6
    assert facts["grown"] < 300  # MB
    few, many = (run(_STREAM, tmp_path / "model", count)[0] for count in (8192, 131_072))
    assert many["grown"] < few["grown"] + 60  # MB: probabilities and series of all would be 15 more
