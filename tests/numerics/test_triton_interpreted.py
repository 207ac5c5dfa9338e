"""The Triton kernels in Triton's interpreter, which needs no GPU, in a process of its own: it is chosen at import.

The cases are in triton_*_cases.py; the slow part also runs tests of the native core
unchanged, with Triton in its place.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip('triton is not installed: pip install "triton>=3.5"', allow_module_level=True)

HERE = Path(__file__).parent
FILES = ["triton_kernel_cases.py", "triton_lifted_cases.py", "triton_signature_cases.py"]
INTERPRETED = {"TRITON_INTERPRET": "1", "SIGGPDE_BACKEND": "triton"}


def run_tests(file: str, *options: str) -> None:
    flags = ["-S"] if sys.flags.no_site else []
    plain = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "helpers.quick_interpreter"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *flags, *plain, str(HERE / file), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env=kept | INTERPRETED | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("file", FILES)
def test_in_the_interpreter(file: str):
    run_tests(file, "-m", "not slow")


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_more_in_the_interpreter(file: str):
    run_tests(file, "-m", "slow")


@pytest.mark.slow
def test_the_command_for_a_machine_with_a_gpu():
    """In the interpreter it compares every operation with the reference, and times nothing."""
    flags = ["-S"] if sys.flags.no_site else []
    done = subprocess.run(
        [sys.executable, *flags, str(HERE.parents[1] / "benchmarks" / "gpu.py")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | INTERPRETED,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rbf gram" in done.stdout


# Tests of the native core, and which of a file's: long paths, and large ones, which are cut into thousands of pieces,
# would take the interpreter hours.
NATIVE = {
    "test_kernel_errors.py": "",
    "test_signature_errors.py": "",
    "test_kernel_autograd.py": "not long",
    "test_kernel_range.py": "tiny or beyond or small_and_large or 1e+18 or 1000000.0",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", NATIVE)
def test_what_holds_for_the_native_core_holds_here(file: str):
    run_tests(file, "-m", "not slow", "-k", NATIVE[file])
