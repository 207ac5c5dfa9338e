"""The native core `siggpde._core`, the backend that the environment asks for, and how many threads compute; `core` is
None with the reason `core_error` if it cannot be imported or SIGGPDE_BACKEND is "reference"."""

import importlib
import os
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import torch

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")

requested_backend = os.environ.get("SIGGPDE_BACKEND", "")  # read once: a lookup takes a tenth of a small call


def _load() -> tuple[ModuleType | None, str | None]:
    if (wanted := os.environ.get("SIGGPDE_ISA", "")) not in ("", *INSTRUCTION_SETS):
        raise ValueError(f"SIGGPDE_ISA is {wanted!r}; set it to one of {', '.join(INSTRUCTION_SETS)}, or unset it")
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
    """The threads of an operation of the core without `n_jobs`: those of `limited`, else torch's number."""
    limit = _core_threads.get()
    return torch.get_num_threads() if limit is None else limit


@contextmanager
def limited(threads: int, rows: int | None = None) -> Iterator[None]:
    """Runs a block with `threads` threads of the core and `torch_threads` of torch; torch's number is restored."""
    before = torch.get_num_threads()
    token = _core_threads.set(threads)
    torch.set_num_threads(torch_threads(threads, rows))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _core_threads.reset(token)


def torch_threads(threads: int, rows: int | None, environment: MutableMapping[str, str] = os.environ) -> int:
    """Returns how many of `threads` torch has for matrices of so many rows, or of any (None): one for few rows and
    where waiting threads spin, which beside a busy program can be a thousand times slower, and one in a forked process,
    where torch would wait for ever for the threads of its parent."""
    if os.getpid() != _IMPORTED_IN:  # this process was forked since
        return 1
    return threads if rows is None or (rows > FEW and waits_passively(environment)) else 1


def waits_passively(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Whether the environment tells OpenMP that threads which wait should sleep."""
    policy = environment.get("OMP_WAIT_POLICY", "").strip().lower()
    return policy == "passive" or any(environment.get(name, "").strip() == "0" for name in _SPINS)
