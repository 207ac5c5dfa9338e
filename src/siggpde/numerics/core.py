"""The native core, the backend that the environment asks for, and how many threads compute.

`core` is the compiled module `siggpde._core`. It is None when the module cannot be imported (one warning says so) or
when the environment variable SIGGPDE_BACKEND is "reference"; `core_error` is then the reason. `requested_backend` is
the value of that variable when siggpde is imported. Which backend computes for a tensor: `siggpde.numerics.backend`.

Threads of the core live for one call, those of torch's OpenMP pool spin while they wait for each other. Beside another
busy program the one that is waited for may not be running, and the decomposition of a small matrix then takes a
thousand times as long. So torch computes with one thread where there are few series, and where its threads spin; the
core has the threads asked for. A forked process has the memory of its parent but none of its threads: torch would wait
for ever for those of a pool that the parent has used. There too torch computes with one thread.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import torch

requested_backend = os.environ.get("SIGGPDE_BACKEND", "")  # read once: a lookup takes a tenth of a small call


def _load() -> tuple[ModuleType | None, str | None]:
    if requested_backend == "reference":
        return None, "SIGGPDE_BACKEND=reference"
    if requested_backend not in ("", "native", "triton"):
        raise ValueError(
            f"SIGGPDE_BACKEND is {requested_backend!r}; set it to 'native', 'reference' or 'triton', or unset it"
        )
    try:
        return importlib.import_module("siggpde._core"), None
    except ImportError as error:
        if requested_backend == "native":
            raise
        warnings.warn(
            f"siggpde runs without its native core ({error}) and is many times slower. To get it, install "
            "siggpde anew with a C++20 compiler at hand: `pip install --force-reinstall .` in its sources. Set "
            "SIGGPDE_BACKEND=reference to run without it and without this warning.",
            UserWarning,
            stacklevel=2,
        )
        return None, str(error)


_loaded = _load()
core: Any = _loaded[0]
core_error = _loaded[1]


FEW = 1000
"""Up to so many series (rows of matrices), threads of torch gain nothing worth the risk."""

_IMPORTED_IN = os.getpid()
_SPINS = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME")

_core_threads: ContextVar[int | None] = ContextVar("threads of the core", default=None)


def usual_threads() -> int:
    """The threads of an operation of the core that is not told how many: those of `limited`, else torch's number."""
    limit = _core_threads.get()
    return torch.get_num_threads() if limit is None else limit


@contextmanager
def limited(threads: int, rows: int | None = None) -> Iterator[None]:
    """Runs a block with this number of threads of the core; torch has `torch_threads` of them.

    The number of torch's threads is one of the thread that calls, and restored in the end.
    """
    before = torch.get_num_threads()
    token = _core_threads.set(threads)
    torch.set_num_threads(torch_threads(threads, rows))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _core_threads.reset(token)


def torch_threads(threads: int, rows: int | None, environment: MutableMapping[str, str] = os.environ) -> int:
    """Returns how many of `threads` torch has for matrices with `rows` rows: one for few rows, where waiting threads
    spin, and one in a forked process.

    None for `rows` leaves torch all of them.

    Examples:
        >>> torch_threads(8, 40), torch_threads(8, 5000, {}), torch_threads(8, 5000, {"OMP_WAIT_POLICY": "passive"})
        (1, 1, 8)
    """
    if os.getpid() != _IMPORTED_IN:  # this process was forked since
        return 1
    return threads if rows is None or (rows > FEW and waits_passively(environment)) else 1


def waits_passively(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Whether the environment tells OpenMP that threads which wait should sleep."""
    policy = environment.get("OMP_WAIT_POLICY", "").strip().lower()
    return policy == "passive" or any(environment.get(name, "").strip() == "0" for name in _SPINS)
