"""The operations by Triton, for tensors on a GPU. This module says whether Triton can be used, without importing it.

Which tensors it computes for is decided in `siggpde.numerics.backend`.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@cache
def why_not_importable() -> str | None:
    """The reason that Triton cannot be imported, or None if it can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    try:
        importlib.import_module("siggpde.numerics.triton.grid")
    except (ImportError, AttributeError) as error:  # a release without what the kernels use
        return f"this triton does not suit: {error}"
    return None


def why_not() -> str | None:
    """The reason that CUDA tensors cannot be used here, or None if they can."""
    reason = why_not_importable()
    if reason is None and not torch.cuda.is_available() and not interpreted():
        reason = "torch sees no CUDA device"
    return reason
