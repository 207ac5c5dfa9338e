"""Which tensors take the Triton path, and what is said when it cannot be taken. CUDA tensors here are fake."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from helpers.random_paths import numbers_from
from siggpde.numerics import backend, triton
from siggpde.numerics.installation import installation


def cuda_batch(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A batch that says it is on a GPU and has no numbers."""
    with FakeTensorMode():
        return torch.empty(2, 3, 2, dtype=dtype, device="cuda")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(backend, "requested_backend", "")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return monkeypatch


def missing(environment: pytest.MonkeyPatch, reason: str | None) -> None:
    environment.setattr(triton, "why_not_importable", lambda: reason)


def test_cuda_tensors_take_triton_and_cpu_tensors_do_not(environment: pytest.MonkeyPatch):
    missing(environment, None)
    assert backend.uses_triton(cuda_batch())
    assert backend.uses_triton(cuda_batch(torch.float32))
    assert not backend.uses_triton(torch.zeros(2, 3, 2))
    assert not backend.uses_triton(torch.zeros(2, 3, 2, device="meta"))


def test_the_reference_can_be_insisted_on(environment: pytest.MonkeyPatch):
    missing(environment, "triton is not installed")
    environment.setattr(backend, "requested_backend", "reference")
    assert not backend.uses_triton(cuda_batch())


def test_without_triton_a_cuda_tensor_is_refused_and_not_moved(environment: pytest.MonkeyPatch):
    missing(environment, "triton is not installed")
    with pytest.raises(RuntimeError, match=r'triton is not installed; pip install "triton>=3.5", or set SIGGPDE_'):
        backend.uses_triton(cuda_batch())


def test_triton_on_the_cpu_is_the_interpreter_or_nothing(environment: pytest.MonkeyPatch):
    missing(environment, None)
    environment.setattr(backend, "requested_backend", "triton")
    with pytest.raises(RuntimeError, match=r"only in Triton's interpreter, TRITON_INTERPRET=1"):
        backend.uses_triton(torch.zeros(2, 3, 2))
    environment.setenv("TRITON_INTERPRET", "1")
    assert backend.uses_triton(torch.zeros(2, 3, 2))


@pytest.mark.parametrize("operation", ["gram", "diag", "scales", "gradient", "signature", "extend"])
def test_every_operation_asks(environment: pytest.MonkeyPatch, operation: str):
    """Each refuses a CUDA tensor where Triton is missing, before anything is computed or moved."""
    import siggpde  # noqa: PLC0415

    missing(environment, "not here")
    x: Any = cuda_batch()
    with x.fake_mode:
        start = torch.empty(2, 2, dtype=x.dtype, device="cuda")
    calls: dict[str, Any] = {
        "gram": lambda: siggpde.signature_kernel(x),
        "diag": lambda: siggpde.signature_kernel_diag(x),
        "gradient": lambda: siggpde.signature_kernel_diag_gradient(x),
        "scales": lambda: siggpde.signature_kernel_diag_scales(x, torch.ones(2)),
        "signature": lambda: siggpde.signature(x, 2),
        "extend": lambda: siggpde.extend(start, x, [(), (0,)]),
    }
    with pytest.raises(RuntimeError, match=r"x is on cuda.*cannot be used: not here"), x.fake_mode:
        calls[operation]()


@pytest.mark.parametrize(
    ("importable", "devices", "interpreter", "reason"),
    [
        ("triton is not installed", True, "0", "triton is not installed"),
        (None, False, "0", "torch sees no CUDA device"),
        (None, True, "0", None),
        (None, False, "1", None),
    ],
)
def test_info_says_why(
    environment: pytest.MonkeyPatch, importable: str | None, devices: bool, interpreter: str, reason: str | None
):
    missing(environment, importable)
    environment.setattr(torch.cuda, "is_available", lambda: devices)
    environment.setenv("TRITON_INTERPRET", interpreter)
    assert installation()["backends"]["triton"] == {"available": reason is None, "reason": reason}


def test_importing_siggpde_does_not_import_triton():
    code = "import json, sys, siggpde, siggpde.numerics.signature_kernel; print(json.dumps('triton' in sys.modules))"
    assert numbers_from(code) is False
