"""Which matrices are inverted or factorised: every such operation of torch, whoever calls it."""

from types import TracebackType
from typing import Any, Self

import numpy as np
import pytest
from torch.utils._python_dispatch import TorchDispatchMode

_NAMES = ("linalg", "cholesky", "inverse", "eigh", "svd", "geqrf", "ormqr", "solve", "lu_unpack", "lu_with_info")
_PRODUCTS = ("linalg_vector_norm",)  # a sum of squares


class Factorisations(TorchDispatchMode):
    """Within, `found` collects the names of the operations that invert, factorise or solve, of torch and numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._patch = pytest.MonkeyPatch()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::")
        if any(part in name for part in _NAMES) and not name.startswith(_PRODUCTS):
            self.found.append(name)
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        for name in ("inv", "pinv", "solve", "cholesky", "qr", "svd", "eigh", "eig", "eigvals", "lstsq"):
            self._patch.setattr(np.linalg, name, self._counted(name, getattr(np.linalg, name)))
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._patch.undo()

    def _counted(self, name: str, real: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.found.append(f"numpy.{name}")
            return real(*args, **kwargs)

        return counted
