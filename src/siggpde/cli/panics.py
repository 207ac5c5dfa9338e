"""What Rust writes on stderr when polars panics over a damaged file is held back: one line says that it is damaged."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def panics_held_back() -> Iterator[None]:
    """Keeps stderr of this process, also of threads and of Rust, until the end of the block, which should be short.

    It is then written, unless the block raised an error that a panic caused.
    """
    sys.stderr.flush()
    try:
        own = os.dup(2)
    except OSError:  # no stderr at all
        yield
        return
    panicked = False
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except ValueError as error:
            panicked = type(error.__cause__).__name__ == "PanicException"
            raise
        finally:
            sys.stderr.flush()
            os.dup2(own, 2)
            os.close(own)
            held.seek(0)
            with suppress(OSError):
                os.write(2, b"" if panicked else held.read())
