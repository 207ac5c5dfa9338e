"""The native core, and the backend that the environment asks for.

`core` is the compiled module `siggpde._core`. It is None when the module cannot be imported (one warning says so) or
when the environment variable SIGGPDE_BACKEND is "reference"; `core_error` is then the reason. `requested_backend` is
the value of that variable when siggpde is imported. Which backend computes for a tensor: `siggpde.numerics.backend`.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Any

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
