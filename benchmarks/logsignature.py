"""Time of the log-signature, value and value with gradient, ourselves against pysiglib, on one core in float64.

    python benchmarks/logsignature.py [--rounds N] [--float32]

Both have their coordinates prepared before. Times are the minimum over rounds in which both take turns; the ratio is
theirs over ours. Of pysiglib's gradients, by autograd and by its own reverse calls, the quicker one counts. "words" are
the coefficients of Lyndon words (pysiglib's method 1), "lyndon" the coordinates in the Lyndon basis (its method 2).
Before anything is timed both are checked to give the same numbers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys

import torch
from _table import by_turns
from torch import Tensor

from siggpde import logsignature

SHAPES = [(128, 100, 3, 4), (64, 50, 5, 4), (32, 200, 2, 6), (128, 64, 8, 3)]  # series, points, channels, depth
METHODS = {"words": 1, "lyndon": 2}


def calls(x: Tensor, depth: int, basis: str, gradient: bool) -> dict:
    """The calls to be timed, ours first, each of which returns what it computed."""
    import pysiglib  # noqa: PLC0415 - not everyone has it
    from pysiglib import torch_api  # noqa: PLC0415

    method = METHODS[basis]
    pysiglib.prepare_log_sig(x.shape[2], depth, method)
    if not gradient:
        return {
            "siggpde": lambda: logsignature(x, depth, basis=basis, n_jobs=1),  # pyright: ignore[reportArgumentType]
            "pysiglib": lambda: pysiglib.log_sig(x, depth, method=method, n_jobs=1),
        }
    size = logsignature(x[:1], depth).shape[1]
    cotangent = torch.randn(len(x), size, dtype=x.dtype, generator=torch.Generator().manual_seed(1))

    def reverse_calls() -> Tensor:
        signature = pysiglib.sig(x, depth, n_jobs=1)
        pysiglib.sig_to_log_sig(signature, x.shape[2], depth, method=method, n_jobs=1)
        bar = pysiglib.sig_to_log_sig_backprop(signature, cotangent, x.shape[2], depth, method=method, n_jobs=1)
        return pysiglib.sig_backprop(x, signature, bar, depth, n_jobs=1)

    return {
        "siggpde": slope(lambda leaf: logsignature(leaf, depth, basis=basis, n_jobs=1), x, cotangent),  # pyright: ignore
        "pysiglib": slope(lambda leaf: torch_api.log_sig(leaf, depth, method=method, n_jobs=1), x, cotangent),
        "pysiglib, reverse calls": reverse_calls,
    }


def slope(function, x: Tensor, cotangent: Tensor):
    leaf = x.clone().requires_grad_()
    return lambda: torch.autograd.grad(function(leaf), leaf, cotangent)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which both take turns")
    parser.add_argument("--float32", action="store_true", help="in float32 instead of float64")
    options = parser.parse_args()
    try:
        peer = f"pysiglib {importlib.metadata.version('pysiglib')}"
    except importlib.metadata.PackageNotFoundError:
        sys.exit("pysiglib is not installed; pip install pysiglib")
    torch.set_num_threads(1)
    dtype = torch.float32 if options.float32 else torch.float64
    print(f"{peer}, torch {torch.__version__}, {dtype}; load average {os.getloadavg()[0]:.1f}")
    print(f"{'series, points, channels, depth':32} {'basis':7} {'':10} {'ours µs':>9} {'theirs µs':>10} {'ratio':>6}")
    for n, length, channels, depth in SHAPES:
        random = torch.Generator().manual_seed(0)
        x = (torch.randn(n, length, channels, generator=random, dtype=torch.float64).cumsum(1) / length**0.5).to(dtype)
        for basis in METHODS:
            for gradient in (False, True):
                timed = calls(x, depth, basis, gradient)
                ours, *theirs = (call() for call in timed.values())
                gap = max(float((ours - other).abs().max() / other.abs().max()) for other in theirs)
                if gap > (1e-4 if options.float32 else 1e-10):
                    sys.exit(f"the results are {gap:.0e} apart")
                seconds = by_turns(timed, options.rounds)
                mine, *others = (1e6 * seconds[name] for name in timed)
                other = min(others)
                what = "+ gradient" if gradient else "value"
                shape = f"{n}, {length}, {channels}, {depth}"
                print(f"{shape:32} {basis:7} {what:10} {mine:9.0f} {other:10.0f} {other / mine:6.2f}", flush=True)


if __name__ == "__main__":
    main()
