"""Imports while the garbage collector rests: what they make stays, and looking for garbage in it, while it is imported
and once more when the process ends, is a third of the time that `import torch` takes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Runs a block, such as the first import of torch, without collections; afterwards they are as before, but leave
    out what there is by then."""
    enabled, first = gc.isenabled(), "torch" not in sys.modules
    gc.disable()
    try:
        yield
    finally:
        if first:
            gc.freeze()
        if enabled:
            gc.enable()
