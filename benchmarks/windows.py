"""Time of pooled window signatures, ourselves against the same in torch, on one core.

    python benchmarks/windows.py [--rounds N] [--float32]

"torch" is the backend in plain torch, with `siggpde.signature` for the signatures of the windows: what is left is the
cost of making, storing and pooling all windows. "reference" is that backend as it is, on 32 of the series, for it takes
minutes otherwise. Views are those of the default settings, fitted once; times are of pooling all of them, the minimum
over rounds in which all take turns, and ratios are theirs over ours. "fit" is the time in which scales and thresholds
are learned from all the series.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import torch
from _table import OURS, by_turns
from torch import Tensor

from siggpde import signature
from siggpde.numerics import native, reference
from siggpde.numerics.backend import Operations
from siggpde.numerics.reference import equally_long, normalised_words, statistics, windows_of
from siggpde.numerics.windows import ViewedSeries, empty_pooled
from siggpde.series import SeriesBatch
from siggpde.views.window_features import WindowFeatures

SHAPES = [(250, 3, 315), (250, 1, 512), (250, 12, 100)]  # series, channels, points
FEW = 32


def pool_all(operations: Operations, features: WindowFeatures, x: Tensor) -> list[Tensor]:
    """The statistics of all views by a backend."""
    out = []
    for fitted in features.views:
        result = empty_pooled(len(x), fitted.view, len(fitted.thresholds), x)
        scale, path_scales, thresholds = numbers(features, fitted, x.dtype)
        operations.pool_windows(ViewedSeries(x, None, fitted.view, scale, 1), path_scales, thresholds, result)
        out += result
    return out


def pool_with_fast_signature(features: WindowFeatures, x: Tensor) -> list[Tensor]:
    """The statistics of all views in torch, but for the signatures."""
    out = []
    for fitted in features.views:
        scale, path_scales, thresholds = numbers(features, fitted, x.dtype)
        parts = []
        for _, series in equally_long(x, None, fitted.view):
            windows = windows_of(series, fitted.view, scale)
            words = normalised_words(windows, fitted.view, path_scales, signature)
            parts.append(statistics(words, thresholds))
        out += [torch.cat(some) for some in zip(*parts, strict=True)]
    return out


def pool_by_reference(features: WindowFeatures, x: Tensor) -> list[Tensor]:
    return pool_all(reference, features, x)


def numbers(features: WindowFeatures, fitted, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    scale = features.lift_scales[fitted.view.lift]
    return scale.to(dtype), fitted.path_scales.to(dtype), fitted.thresholds.to(dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which all take turns")
    parser.add_argument("--float32", action="store_true", help="in float32 instead of float64")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = torch.float32 if options.float32 else torch.float64
    print(f"torch {torch.__version__}, {dtype}; load average {os.getloadavg()[0]:.1f}")
    print("channels, points views features  fit s series  ours s theirs s ratio")
    for n, channels, length in SHAPES:
        random = torch.Generator().manual_seed(0)
        noise = torch.randn(n, length, channels, generator=random, dtype=torch.float64).cumsum(1)
        batch = SeriesBatch((noise - noise.mean((0, 1))) / noise.std((0, 1)))
        started = time.perf_counter()
        features = WindowFeatures.fit(batch)
        fit = time.perf_counter() - started
        everything = batch.values.to(dtype)
        head = f"{f'{channels}, {length}':16} {len(features.views):5} {sum(features.widths()):8} {fit:6.2f}"
        for name, x in (("torch", everything), ("reference", everything[:FEW].contiguous())):
            peer = pool_with_fast_signature if name == "torch" else pool_by_reference
            calls = {
                OURS: lambda f=features, x=x: pool_all(native, f, x),
                name: lambda f=features, x=x, p=peer: p(f, x),
            }
            mine, theirs = (call() for call in calls.values())
            gap = max(float((a[:, 0] - b[:, 0]).abs().max()) for a, b in zip(mine, theirs, strict=True))
            if gap > 1e-4:
                sys.exit(f"the means are {gap:.0e} apart")
            ours, other = by_turns(calls, options.rounds).values()
            print(f"{head} {len(x):6} {ours:7.4f} {other:8.2f} {other / ours:5.1f} {name}", flush=True)


if __name__ == "__main__":
    main()
