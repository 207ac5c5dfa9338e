"""Imports while the garbage collector rests: what they make stays, and looking for garbage is a tenth of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Runs a block, such as the first import of torch, without collections; afterwards they are as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
