"""The example of the manual that compares with aeon's MiniRocket, on a data set of the archive."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from siggpde.datasets import find_dataset

PAGE = Path(__file__).parents[2] / "docs" / "transformers.md"


@pytest.mark.skipif(find_spec("aeon") is None, reason="aeon is not installed")
@pytest.mark.filterwarnings("ignore")
def test_the_example_runs_and_wins():
    try:
        find_dataset("UWaveGestureLibrary")
    except FileNotFoundError:
        pytest.skip("UWaveGestureLibrary is not in SIGGPDE_DATA or the cache")
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace: dict = {"__name__": "__main__"}
    exec(compile(code, PAGE.name, "exec"), namespace)
    accuracy, seconds = namespace["accuracy"], namespace["seconds"]
    assert accuracy["WindowSignatureTransformer"] > max(0.92, accuracy["MiniRocket"])
    assert 0 < seconds["WindowSignatureTransformer"] < 30
