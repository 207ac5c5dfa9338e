"""How many threads compute: those of the native core, which live for one call, and those of torch's pool.

The threads of torch's OpenMP pool spin while they wait for each other. Beside another busy program the one that is
waited for may not be running, and the decomposition of a small matrix then takes a thousand times as long. So torch
computes with one thread where there are few series, and where its threads spin; the core has the threads asked for.

A forked process has the memory of its parent but none of its threads: torch would wait for ever for those of a pool
that the parent has used. There too torch computes with one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch

FEW = 1000
"""Up to so many series (rows of matrices), threads of torch gain nothing worth the risk."""

_IMPORTED_IN = os.getpid()

_core: ContextVar[int | None] = ContextVar("threads of the core", default=None)


def usual_threads() -> int:
    """The threads of an operation of the core that is not told how many: those of `limited`, else torch's number."""
    own = _core.get()
    return torch.get_num_threads() if own is None else own


@contextmanager
def limited(threads: int, rows: int | None = None) -> Iterator[None]:
    """Runs a block with so many threads of the core; torch has `torch_threads` of them.

    The number of torch's threads is one of the thread that calls, and restored in the end.
    """
    before = torch.get_num_threads()
    token = _core.set(threads)
    torch.set_num_threads(torch_threads(threads, rows))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _core.reset(token)


def torch_threads(threads: int, rows: int | None, environment: MutableMapping[str, str] = os.environ) -> int:
    """How many of `threads` torch has for matrices of so many rows: one for few rows, where waiting threads spin, and
    in a forked process.

    None for `rows` leaves torch all of them.

    Examples:
        >>> torch_threads(8, 40), torch_threads(8, 5000, {}), torch_threads(8, 5000, {"OMP_WAIT_POLICY": "passive"})
        (1, 1, 8)
    """
    if forked():
        return 1
    return threads if rows is None or (rows > FEW and waits_passively(environment)) else 1


def forked() -> bool:
    """Whether this process was forked after this module was imported."""
    return os.getpid() != _IMPORTED_IN


def waits_passively(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Whether the environment tells OpenMP that threads which wait should sleep."""
    policy = environment.get("OMP_WAIT_POLICY", "").strip().lower()
    return policy == "passive" or any(environment.get(name, "").strip() == "0" for name in _SPINS)


_SPINS = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME")
