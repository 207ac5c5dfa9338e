"""The Triton kernels in Triton's interpreter, and compiled to machine code of GPUs, without a GPU.

The interpreter is chosen at import, so that its cases, in triton_*_cases.py, run in a process of their own; the slow
part also runs tests of the native core unchanged, with Triton in its place.
"""

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

HERE = Path(__file__).parent
FILES = ["triton_kernel_cases.py", "triton_signature_cases.py"]
INTERPRETED = {"TRITON_INTERPRET": "1", "SIGGPDE_BACKEND": "triton"}


def python(*arguments: object, **environment: str) -> str:
    """What a new process prints; it has to end well."""
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, *["-S"] * sys.flags.no_site, *map(str, arguments)]
    there: Any = {"cwd": HERE.parents[1], "env": kept | {"PYTHONPATH": path} | environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **there)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(file: str, *options: str) -> None:
    plain = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "helpers.quick_interpreter"]
    assert " passed" in python(*plain, HERE / file, *options, **INTERPRETED)


@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", FILES)
def test_in_the_interpreter(file: str, which: str):
    run_tests(file, "-m", which)


@pytest.mark.slow
def test_the_command_for_a_machine_with_a_gpu():
    """In the interpreter it compares every operation with the reference, and times nothing."""
    assert "rbf gram" in python(HERE.parents[1] / "benchmarks" / "gpu.py", **INTERPRETED)


# Tests of the native core, and which of a file's: long paths, and large ones, which are cut into thousands of pieces,
# would take the interpreter hours.
NATIVE = {
    "test_errors.py": "",
    "test_kernel_autograd.py": "not long",
    "test_kernel_range.py": "tiny or beyond or small_and_large or 1e+18 or 1000000.0",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", NATIVE)
def test_what_holds_for_the_native_core_holds_here(file: str):
    run_tests(file, "-m", "not slow", "-k", NATIVE[file])


def compiled(cache: Path, capability: int, scheme: int, depth: int, *dtypes: str) -> list[dict[str, Any]]:
    # The default is set against what the launches ask for: it must not matter.
    environment = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache), "TRITON_DEFAULT_FP_FUSION": "0"}
    return json.loads(python(HERE / "triton_compile.py", capability, scheme, depth, *dtypes, **environment))


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
