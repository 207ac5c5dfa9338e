"""Whether Triton can be used, and how its kernels are launched; importing this module does not import Triton."""

from __future__ import annotations

import importlib.util
import os
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor


def interpreted() -> bool:
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


# Lanes of a program, and the largest number of rows of one grid among them.
LANES = 64
MAX_ROWS = 32
# Scratch memory of one launch; batches that need more are computed in chunks.
SCRATCH_BYTES = 1 << 29


def run(kernel: Any, programs: int, like: Tensor, *args: Any, **constants: Any) -> None:
    """Runs kernel[(programs,)](*args) on the device and stream of `like`, with fused multiply-adds whatever the
    environment says, and num_stages=1, because an iteration reads what the last one stored."""
    if programs == 0:
        return
    with torch.cuda.device(like.device) if like.is_cuda else nullcontext():
        kernel[(programs,)](*args, **constants, num_warps=LANES // 32, num_stages=1, enable_fp_fusion=True)


def tile(rows: int) -> tuple[int, int]:
    """(SERIES, ROWS) of a program for grids of so many rows: the fewer rows, the more series."""
    rows_in_tile = 4
    while rows_in_tile < min(rows, MAX_ROWS):
        rows_in_tile *= 2
    return LANES // rows_in_tile, rows_in_tile


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def at_once(bytes_each: int) -> int:
    return max(1, SCRATCH_BYTES // max(1, bytes_each))
