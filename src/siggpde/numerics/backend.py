"""Which implementation of `Operations` computes for a tensor: `native` on the CPU, `triton` on CUDA (or with
SIGGPDE_BACKEND=triton by its interpreter on the CPU, for tests), else `reference`; Triton is imported only then."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import native, reference, triton
from siggpde.numerics.autograd import Pairs, refuse_transforms
from siggpde.numerics.core import core, core_error, requested_backend
from siggpde.numerics.inputs import RequestedWords
from siggpde.numerics.static_kernels import KernelSettings, StaticKernel

if TYPE_CHECKING:
    from siggpde.numerics.logsignature import LogBasis
    from siggpde.numerics.windows import Chosen, PooledWindows, ViewedSeries

TRITON_STATIC_KERNELS = ("rbf",)


class Operations(Protocol):
    """What every backend computes from checked arguments, whose numbers may not be finite: x (n, length, channels)
    contiguous, lengths (n,) int64 or None; in the dtype of x, float64 for logarithms, with a graph only where
    `differentiable`."""

    def diagonal(
        self, x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, differentiable: bool
    ) -> Tensor:
        """k(X_i, X_i) (n,), or its logarithm."""
        ...

    def diagonal_with_gradient(
        self, x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
    ) -> tuple[Tensor, Tensor]:
        """k(X_i, X_i) (n,), or its logarithm, and its gradient in the points (n, length, channels)."""
        ...

    def diagonal_with_scale_gradient(
        self, x: Tensor, lengths: Tensor | None, theta: Tensor, settings: KernelSettings, log: bool
    ) -> tuple[Tensor, Tensor]:
        """k (n,), or log k, of the paths scaled by theta (d,), and its gradient in log theta (n, d)."""
        ...

    def gram(self, pairs: Pairs, differentiable: bool) -> Tensor:
        """k(X_i, Y_j) (n, m), or with norms k(X_i, Y_j) exp(-h_i - h'_j)."""
        ...

    def signature(self, x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
        """S(X_i) (n, M), with a graph if x requires a gradient."""
        ...

    def extend(self, start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
        """The signature (n, M) after increments (n, steps, channels), from start (n, M) over prefix-closed words."""
        ...

    def logsignature(self, signature: Tensor, basis: LogBasis, threads: int) -> Tensor:
        """Coordinates (n, L) of the logarithm of signatures (n, M) of all words up to a depth, with a graph."""
        ...

    def pool_windows(self, series: ViewedSeries, path_scales: Tensor, thresholds: Tensor, out: PooledWindows) -> None:
        """Writes statistics over all windows to `out`. A row of it is contiguous; the rows need not be."""
        ...

    def window_signatures(self, series: ViewedSeries, path_scales: Tensor, chosen: Chosen) -> Tensor:
        """The normalised words (m, M) of chosen windows."""
        ...

    def window_path_lengths(self, series: ViewedSeries, chosen: Chosen) -> Tensor:
        """The lengths (m, groups) of the paths of chosen windows, before they are scaled."""
        ...

    def separating_thresholds(
        self, values: Tensor, count: int, distinct: float, clearance: float, threads: int
    ) -> Tensor:
        """Returns thresholds near the quantiles of every column: (m, M), finite -> (count, M), float64."""
        ...


def backend_for(x: Tensor, *others: Tensor | None, static: StaticKernel | None = None) -> Operations:
    """Returns the implementation for this tensor; errors where Triton cannot be used, or tangents would be dropped."""
    if core is not None and x.is_cpu and requested_backend != "triton":
        backend: Operations = native
    elif not uses_triton(x) or (static is not None and static.name not in TRITON_STATIC_KERNELS):
        return reference
    else:
        from siggpde.numerics.triton import operations as backend  # noqa: PLC0415 - imported only where it computes
    refuse_transforms(x, *others, *(static or ()))
    return backend


def uses_triton(x: Tensor) -> bool:
    """Whether Triton computes for this tensor; raises RuntimeError where it should but cannot."""
    if requested_backend == "reference" or not (x.is_cuda or (requested_backend == "triton" and x.is_cpu)):
        return False
    reason = triton.why_not_importable()
    if reason is None and x.is_cpu and not triton.interpreted():
        reason = "SIGGPDE_BACKEND=triton computes on CPU tensors only in Triton's interpreter, TRITON_INTERPRET=1"
    if reason is not None:
        raise RuntimeError(
            f"x is on {x.device}, where siggpde computes by Triton, which cannot be used: {reason}; "
            'pip install "triton>=3.5", or set SIGGPDE_BACKEND=reference for plain torch, which is slow'
        )
    return True


def installation() -> dict[str, Any]:
    """Returns a description of the installation as plain data: that of `environment`, and ``backends``, for each
    ``available`` and ``reason`` (None when available)."""
    reasons = {"native": core_error if core is None else None, "reference": None, "triton": triton.why_not()}
    backends = {name: {"available": reason is None, "reason": reason} for name, reason in reasons.items()}
    return environment() | {"backends": backends}


def environment() -> dict[str, Any]:
    """Returns ``versions``, ``machine`` and ``simd`` (the core's instruction set, or None) without importing Triton."""
    affinity = hasattr(os, "sched_getaffinity")
    return {
        "versions": {
            "siggpde": metadata.version("siggpde"),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
        "machine": {
            "architecture": platform.machine(),
            "processors": len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1,
            "threads": torch.get_num_threads(),
        },
        "simd": None if core is None else core.isa(),
    }
