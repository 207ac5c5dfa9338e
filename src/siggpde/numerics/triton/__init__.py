"""The numerical operations on a GPU, by Triton: which tensors take this path, and why it may be missing.

A CUDA tensor takes it, unless SIGGPDE_BACKEND is "reference". With SIGGPDE_BACKEND=triton and Triton's interpreter
(TRITON_INTERPRET=1) so does a CPU tensor: slow, and how the kernels are tested without a GPU. No tensor is moved from
one device to another. Triton itself is imported only when it is needed.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch

from siggpde.numerics.backend import backend


def wanted(x: torch.Tensor) -> bool:
    """Whether Triton computes for this tensor; raises RuntimeError where it should but cannot."""
    if backend == "reference" or not (x.is_cuda or (backend == "triton" and x.is_cpu)):
        return False
    reason = why_not_importable()
    if reason is None and x.is_cpu and not interpreted():
        reason = "SIGGPDE_BACKEND=triton computes on CPU tensors only in Triton's interpreter, TRITON_INTERPRET=1"
    if reason is not None:
        raise RuntimeError(
            f"x is on {x.device}, where siggpde computes by Triton, which cannot be used: {reason}; "
            'pip install "triton>=3.5", or set SIGGPDE_BACKEND=reference for plain torch, which is slow'
        )
    return True


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@cache
def why_not_importable() -> str | None:
    """None if Triton is there."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    try:
        importlib.import_module("siggpde.numerics.triton.grid")
    except (ImportError, AttributeError) as error:  # a release without what the kernels use
        return f"this triton does not suit: {error}"
    return None


def why_not() -> str | None:
    """None if CUDA tensors can be used here, else the reason that they cannot."""
    reason = why_not_importable()
    if reason is None and not torch.cuda.is_available() and not interpreted():
        reason = "torch sees no CUDA device"
    return reason
