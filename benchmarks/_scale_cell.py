"""One cell of the scale benchmark, in a process of its own: `python benchmarks/_scale_cell.py OPTIONS_JSON`.

Prints a JSON object: seconds, wall and CPU, of every stage, and the peak of memory above what imports take.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _cases import raw_paths
from _memory import _peak, _reset_peak

from siggpde import signature, signature_kernel_diag, words

_LENGTH, _CLASSES = 46, 24
_BLOCK = 2**16


def like_crop(path: Path, n: int, seed: int = 0) -> tuple[np.ndarray, str]:
    """`n` series of Crop's training set, drawn with noise of a tenth of the spread, in a .npy file; labels, a name.

    Where the data set is not there, curves of 24 classes of the same length take its place.
    """
    from siggpde.datasets import load_dataset  # noqa: PLC0415 - not every cell needs it

    generator = np.random.default_rng(seed)
    try:
        crop = load_dataset("Crop")
        curves, labels, name = crop.X_train[:, 0].astype(np.float32), crop.y_train, "Crop"
    except (FileNotFoundError, ValueError):
        curves = generator.normal(size=(7200, _LENGTH)).cumsum(axis=1).astype(np.float32) * 0.3
        labels = np.arange(7200) % _CLASSES
        curves += generator.normal(size=(_CLASSES, _LENGTH)).cumsum(axis=1)[labels]
        name = "curves"
    rows = generator.integers(len(curves), size=n)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, curves.shape[1]))
    for start in range(0, n, _BLOCK):
        block = rows[start : start + _BLOCK]
        noise = generator.standard_normal((len(block), curves.shape[1]), dtype=np.float32)
        file[start : start + _BLOCK] = curves[block] + np.float32(0.1 * curves.std()) * noise
    file.flush()
    return labels[rows], name


def random_walks(n: int, length: int, channels: int = 2, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Random walks (n, channels, length) that turn one way or another, and their classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(n) % classes
    angle = np.linspace(0, 6, length) * (labels[:, None] + 1) + generator.normal(size=(n, 1))
    rough = generator.normal(size=(n, channels, length)).cumsum(axis=2) / length**0.5
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.5 * rough, labels


def by_length(kind: str, n: int, points: int, threads: int) -> dict[str, Any]:
    """A fit with defaults, signatures, or k(X, X) with its gradient, of series of so many points."""
    torch.set_num_threads(threads)
    if kind.startswith("fit"):
        from siggpde import SigGPClassifier  # noqa: PLC0415 - it takes seconds to import

        x, labels = random_walks(n, points)
        settings = {} if kind == "fit" else {"max_points": None}
        base = _reset_peak()
        seconds = clocked(lambda: SigGPClassifier(n_jobs=threads, **settings).fit(x, labels))
        peak = _peak() - base
    else:
        paths = raw_paths("smooth", (n, points, 2)) / 2
        call = {"signature": _signature, "kernel": _kernel, "gradient": _gradient}[kind]
        call(paths[:2, :8])
        base = _reset_peak()
        seconds = clocked(lambda: call(paths))
        peak = _peak() - base
        seconds = min(seconds, *(clocked(lambda: call(paths)) for _ in range(2)))
    return {"wall": seconds[0], "cpu": seconds[1], "peak": peak}


def _signature(paths: torch.Tensor) -> None:
    signature(paths, words=words(2, 500))


def _kernel(paths: torch.Tensor) -> None:
    signature_kernel_diag(paths)


def _gradient(paths: torch.Tensor) -> None:
    paths = paths.clone().requires_grad_()
    torch.autograd.grad(signature_kernel_diag(paths).sum(), paths)


def clocked(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    print(json.dumps(by_length(**json.loads(sys.argv[1]))))
