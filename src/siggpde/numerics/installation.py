"""The installation: versions, instruction set, threads, and which backends are available."""

import os
import platform
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
import torch

from siggpde.numerics import triton
from siggpde.numerics.core import core, core_error


def installation() -> dict[str, Any]:
    """Returns a description of the installation as plain data, ready for JSON.

    Its keys are

    - ``versions``: of siggpde, python, torch and numpy;
    - ``machine``: processor architecture, processors this process may use, and torch's thread count;
    - ``simd``: the instruction set of the native core on this processor, or None without the core;
    - ``backends``: for each of native, reference and triton, ``available`` and ``reason`` (None when available).

    Examples
    --------
    >>> installation()["backends"]["reference"]["available"]
    True
    """
    return {
        "versions": {
            "siggpde": _version(),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
        "machine": {
            "architecture": platform.machine(),
            "processors": _processors(),
            "threads": torch.get_num_threads(),
        },
        "simd": None if core is None else core.isa(),
        "backends": {
            "native": _backend(core_error if core is None else None),
            "reference": _backend(None),
            "triton": _backend(triton.why_not()),
        },
    }


def _backend(reason: str | None) -> dict[str, Any]:
    return {"available": reason is None, "reason": reason}


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _version() -> str:
    """Returns the version, cached because it is searched for in the folders of the installation."""
    return metadata.version("siggpde")
