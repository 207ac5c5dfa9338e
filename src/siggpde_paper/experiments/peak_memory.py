"""Peak memory of the parts of an iteration, each method and size in a process of its own.

What counts is the growth of the process's resident memory to its peak during one call, as the kernel of the operating
system counts it (`VmHWM`): it holds what torch and the native core allocate alike, which torch's own counters do not.
The peak is reset before every call, so that imports cannot hide it, and large blocks come from the operating system
and go back to it, so that memory freed before is not used again unseen. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from siggpde_paper.experiments.iteration_parts import Size, inducing_features, parts_of
from siggpde_paper.gpsig import kernel, models

STORED = "inducing parameters"
_SPACE_PARTS = ("C_uu", "C_fu", "signatures", "diag C_ff")

Result = TypeVar("Result")

_TINY = {"M": 12, "length": 4, "batch": 9}  # warms up: what a first call loads and keeps is not what it needs
_MMAP_THRESHOLD, _BLOCK = -3, 2**16  # mallopt's M_MMAP_THRESHOLD, and from how many bytes on a block is mapped


def measurable() -> bool:
    """Whether this operating system can say what the peak during one call was."""
    return sys.platform == "linux" and Path("/proc/self/clear_refs").exists()


def space_of(method: str, size: Size, *, tiled: bool = True) -> dict[str, float]:
    """MiB to the peak of every part of a method, in a fresh process.

    Without `tiled` the recursions of GPSig store all their numbers, of all pairs, for the reverse pass.
    """
    return in_fresh_process(_measure, method, size, tiled)


def in_fresh_process(function: Callable[..., Result], *arguments: object) -> Result:
    """What a function of a module returns in a process of its own, of one thread, that has computed nothing before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # every process starts with torch imported
    with ProcessPoolExecutor(1, context, _start) as executor:
        return executor.submit(function, *arguments).result()


def _start() -> None:
    torch.set_num_threads(1)
    _return_blocks()


def _measure(method: str, size: Size, tiled: bool) -> dict[str, float]:
    if not tiled:
        for module in (kernel, models):  # of this process, which ends with the measurement
            vars(module)["_CELLS"] = sys.maxsize
    for call in parts_of(method, Size(**{**vars(size), **_TINY})).values():
        call()
    parts = parts_of(method, size)
    return {part: peak_growth(parts[part]) for part in _SPACE_PARTS if part in parts}


def kept_by(method: str, size: Size) -> dict[str, float]:
    """MiB that the inducing variables of a method keep, in a fresh process."""
    return in_fresh_process(_kept, method, size)


def _kept(method: str, size: Size) -> dict[str, float]:
    inducing_features(method, Size(**{**vars(size), **_TINY}))
    before = reset_peak()
    features = inducing_features(method, size)
    after = reset_peak()
    del features
    return {STORED: after - before}


def peak_growth(call: Callable[[], object]) -> float:
    """MiB by which resident memory rises above its present level, at most, during a call."""
    before = reset_peak()
    call()
    return _status("VmHWM") - before


def reset_peak() -> float:
    """Gives freed memory back, lowers the recorded peak to what is held now, and returns that in MiB."""
    with contextlib.suppress(OSError, AttributeError):  # another C library keeps what it likes
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _return_blocks() -> None:
    """Large blocks of memory, when freed, go back to the operating system at once (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _BLOCK)


def _status(field: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(text.split(f"{field}:")[1].split()[0]) / 1024
