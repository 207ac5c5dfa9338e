"""The demonstration: signatures and signature kernels of the data set inside the package."""

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import siggpde
from siggpde.datasets import Dataset, load_pendigits

log = logging.getLogger(__name__)

DEPTH = 5
GRAM_SIZE = 200


def run_demo() -> dict[str, Any]:
    """Compute features and kernels of PenDigits; return shapes, seconds and checks as plain data.

    The checks are facts that must hold. With S_M the signature truncated at depth 5, k(X,X) is the squared length of
    the whole signature, so the tail k(X,X) - |S_M|² is never negative; and a Gram matrix has no negative eigenvalue.
    Both hold up to rounding, which is why each is also given relative to the size of k.
    """
    data = load_pendigits()
    x = as_paths(data)
    log.info("%s as paths: %d series, %d points, %d channels (time first)", data.name, *x.shape)
    features, signature_seconds = _timed(lambda: siggpde.signature(x, depth=DEPTH))
    diagonal, diagonal_seconds = _timed(lambda: siggpde.signature_kernel_diag(x))
    gram, gram_seconds = _timed(lambda: siggpde.signature_kernel(x[:GRAM_SIZE]))
    tail = diagonal - features.square().sum(dim=1)
    eigenvalues = torch.linalg.eigvalsh(gram)
    return {
        "data": {"name": data.name, "series": x.shape[0], "points": x.shape[1], "channels": x.shape[2]},
        "signature": _timing(features, signature_seconds, len(x)) | {"depth": DEPTH},
        "kernel_diagonal": _timing(diagonal, diagonal_seconds, len(x))
        | {"smallest": diagonal.min().item(), "largest": diagonal.max().item()},
        "gram": _timing(gram, gram_seconds, gram.numel()),
        "checks": {
            "smallest_tail": tail.min().item(),
            "smallest_relative_tail": (tail / diagonal).min().item(),
            "smallest_eigenvalue": eigenvalues[0].item(),
            "smallest_relative_eigenvalue": (eigenvalues[0] / eigenvalues[-1]).item(),
        },
    }


def as_paths(data: Dataset) -> Tensor:
    """Training series as float64 paths (n, length, 1 + channels): time first, every channel of zero mean, unit spread.

    The result is divided by the square root of the number of channels, so that a point has length about one.
    """
    series = torch.from_numpy(np.swapaxes(data.X_train, 1, 2).astype(np.float64))
    n, length, _ = series.shape
    times = torch.linspace(0.0, 1.0, length, dtype=series.dtype).expand(n, length).unsqueeze(-1)
    paths = torch.cat([times, series], dim=-1)
    mean, spread = paths.mean(dim=(0, 1)), paths.std(dim=(0, 1))
    return (paths - mean) / spread / paths.shape[-1] ** 0.5


def _timed(compute: Callable[[], Tensor]) -> tuple[Tensor, float]:
    start = time.perf_counter()
    result = compute()
    return result, time.perf_counter() - start


def _timing(result: Tensor, seconds: float, count: int) -> dict[str, Any]:
    return {"shape": list(result.shape), "seconds": seconds, "per_second": count / seconds}
