"""The same numbers from every instruction set, from the reference and without the native core."""

import json
from typing import Any

import pytest
import torch

from helpers.random_paths import numbers_from

CODE = """
import json, sys, warnings
import torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import siggpde
    from siggpde.numerics.core import core
    x = (torch.arange(2 * 9 * 3).double() * 0.7).sin().reshape(2, 9, 3).requires_grad_()
    y = (torch.arange(3 * 6 * 3).double() * 0.3).cos().reshape(3, 6, 3)
    theta = torch.tensor([0.5, 1.0, 2.0]).double()
    fine = {"tol": 1e-11}
    results = [siggpde.signature_kernel_diag(x, log=log, **fine) for log in (False, True)]
    results += [siggpde.signature_kernel(x, y, **fine), siggpde.signature_kernel(x, **fine)]
    for log in (False, True):
        results += siggpde.signature_kernel_diag_scales(x, theta, log=log, **fine)
        results += siggpde.signature_kernel_diag_gradient(x, log=log, **fine)
    results += [torch.autograd.grad(value.sum(), x)[0] for value in results[:4]]
    single = siggpde.signature_kernel_diag(x.detach().float())
print(json.dumps({
    "isa": core and core.isa(),
    "warnings": [str(item.message) for item in caught if "siggpde" in str(item.message)],
    "results": [value.flatten().tolist() for value in results],
    "single": single.tolist(),
}))
"""
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "siggpde._core":
            raise ImportError("no such thing here")
sys.meta_path.insert(0, Block())
"""


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    return numbers_from(CODE)


def differ(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The largest difference, beside the largest number of each result."""
    worst = 0.0
    for mine, other in zip(a["results"], b["results"], strict=True):
        p, q = torch.tensor(mine).double(), torch.tensor(other).double()
        worst = max(worst, float((p - q).abs().max() / q.abs().max()))
    return worst


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_instruction_sets_agree(here: dict[str, Any], isa: str):
    there = numbers_from(CODE, SIGGPDE_ISA=isa)
    if there["isa"] != isa:
        pytest.skip(f"this processor has no {isa}")
    assert differ(here, there) == 0
    assert there["single"] == here["single"]


def test_the_reference_agrees(here: dict[str, Any]):
    there = numbers_from(CODE, SIGGPDE_BACKEND="reference")
    assert there["isa"] is None
    assert there["warnings"] == []
    assert differ(here, there) < 1e-8
    assert there["single"] == pytest.approx(here["single"], rel=1e-5)


def test_without_the_core_there_is_one_warning_and_the_right_numbers(here: dict[str, Any]):
    there = numbers_from(BLOCKED + CODE)
    assert there["isa"] is None
    (warning,) = there["warnings"]
    assert "without its native core (no such thing here)" in warning
    assert "pip install --force-reinstall ." in warning
    assert "C++20 compiler" in warning
    assert differ(here, there) < 1e-8


def refusal(kind: str) -> str:
    """Code that imports the operations and prints what the import raises."""
    tried = "try:\n import siggpde.numerics.signature_kernel\n"
    return f"{tried}except {kind} as e:\n import json\n print(json.dumps(str(e)))"


def test_the_core_can_be_insisted_on():
    assert numbers_from(BLOCKED + "\n" + refusal("ImportError"), SIGGPDE_BACKEND="native") == "no such thing here"


def test_an_unknown_backend_is_refused():
    said = numbers_from(refusal("ValueError"), SIGGPDE_BACKEND="fast")
    assert "SIGGPDE_BACKEND is 'fast'; set it to 'native', 'reference' or 'triton'" in said


def test_here_is_native(here: dict[str, Any]):
    assert here["isa"] in ("baseline", "avx2", "avx512", "neon")
    assert here["warnings"] == []
    assert json.dumps(here["results"]).count("NaN") == 0
