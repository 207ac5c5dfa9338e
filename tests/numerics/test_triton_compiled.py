"""The Triton kernels compile to machine code of the GPUs they are meant for, which needs no GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip('triton is not installed: pip install "triton>=3.5"', allow_module_level=True)


def compiled(cache: Path, capability: int, scheme: int, depth: int, *dtypes: str) -> list[dict[str, Any]]:
    flags = ["-S"] if sys.flags.no_site else []
    file = Path(__file__).parent / "triton_compile.py"
    # The default is set against what the launches ask for: it must not matter.
    environment = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache), "TRITON_DEFAULT_FP_FUSION": "0"}
    done = subprocess.run(
        [sys.executable, *flags, str(file), *map(str, (capability, scheme, depth)), *dtypes],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(kernels: list[dict[str, Any]]) -> None:
    assert {kernel["kernel"] for kernel in kernels} == {
        "sweep", "reverse", "pull_back", "pull_back_lifted", "collect", "advance", "retreat", "collect_words",
    }  # fmt: skip
    for kernel in kernels:
        assert kernel["cubin"] > 1000
        assert kernel["target"]
        # No number of a float64 kernel goes through float32, nor the other way round.
        assert kernel["floats"] == ["f32" if kernel["dtype"] == "fp32" else "f64"], kernel
        if kernel["kernel"] in ("sweep", "reverse", "pull_back_lifted", "advance", "retreat"):
            assert kernel["fused"] > 0
        # What a row leaves, the next one finds a turn later; what a tile adds, the next one adds to.
        if kernel["kernel"] in ("sweep", "reverse", "pull_back_lifted"):
            assert kernel["barriers"] == 1


@pytest.mark.parametrize(("capability", "dtype"), [(80, "fp64"), (90, "fp32")])
def test_kernels_compile(tmp_path: Path, capability: int, dtype: str):
    check(compiled(tmp_path, capability, 0, 0, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("scheme", range(7))
def test_kernels_of_every_degree_compile(tmp_path: Path, capability: int, scheme: int):
    check(compiled(tmp_path, capability, scheme, 1 + scheme, "fp64", "fp32"))
