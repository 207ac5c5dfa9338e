"""The native core, or None where it cannot be used.

`core` is the compiled module `siggpde._core`. It is None, and the reference implementations run instead, when the
module cannot be imported (one warning says so) or when the environment variable SIGGPDE_BACKEND is "reference";
`core_error` then says why. With SIGGPDE_BACKEND=triton the core is loaded as usual, but
`siggpde.numerics.triton` goes first. The variable counts as it is when siggpde is imported.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Any

backend = os.environ.get("SIGGPDE_BACKEND", "")  # read once: looking it up takes a tenth of a small call


def _load() -> tuple[ModuleType | None, str | None]:
    if backend == "reference":
        return None, "SIGGPDE_BACKEND=reference"
    if backend not in ("", "native", "triton"):
        raise ValueError(f"SIGGPDE_BACKEND is {backend!r}; set it to 'native', 'reference' or 'triton', or unset it")
    try:
        return importlib.import_module("siggpde._core"), None
    except ImportError as error:
        if backend == "native":
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
