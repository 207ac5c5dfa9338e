"""How long `predict_proba` of one series takes, in milliseconds, beside aeon's MiniRocket and MultiRocket-Hydra.

    OMP_NUM_THREADS=1 python benchmarks/latency.py [--series 100 1000 5000] [--calls N] [--models FOLDER] [--only-ours]

Classifiers with default settings are fitted to noisy waves of 3 channels, 150 points and four classes. Then, in turns,
each predicts one series that it has not seen, and 100 of them: median and 99th percentile of one, median of 100. With
--models ours are kept in a folder and loaded from there. The first call after a fit or a load is shown too, for what
predictions need is prepared then, and how far probabilities are from those with kernels by the PDE to 1e-10.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import siggpde
from siggpde.views.kernels import KernelBlock

Predict = Callable[[np.ndarray], np.ndarray]


def waves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Series (n, 3, 150) of four classes, which differ in frequency and in how channels follow each other."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 4
    t = np.linspace(0, 1, 150)
    phase = (
        random.uniform(0, 2 * np.pi, (n, 1, 1))
        + np.array([0, 1, 2])[None, :, None] * (0.5 + 0.3 * (y % 2))[:, None, None]
    )
    frequency = (3 + y // 2)[:, None, None] * random.uniform(0.85, 1.15, (n, 1, 1))
    return np.sin(2 * np.pi * frequency * t + phase) + 0.7 * random.standard_normal((n, 3, 150)), y


def slow(model: Any, X: np.ndarray) -> np.ndarray:
    """Probabilities with kernels by the PDE to 1e-10."""
    committee = copy.copy(model.committee_)
    committee.blocks = [copy.copy(block) for block in committee.blocks]
    for block in committee.blocks:
        if isinstance(block, KernelBlock):
            block.precise = True
    return committee.probabilities(model._batch(X)).numpy()


def ours(X: np.ndarray, y: np.ndarray, folder: Path | None) -> Any:
    path = None if folder is None else folder / f"latency-{len(X)}"
    if path is not None and path.exists():
        return siggpde.load(path)
    model = siggpde.SigGPClassifier(random_state=0, n_jobs=1).fit(X, y)
    if path is None:
        return model
    model.save(path)
    return siggpde.load(path)


def peers(X: np.ndarray, y: np.ndarray) -> dict[str, Predict]:
    from aeon.classification.convolution_based import MiniRocketClassifier, MultiRocketHydraClassifier  # noqa: PLC0415

    classifiers = {"MiniRocket": MiniRocketClassifier, "MultiRocket-Hydra": MultiRocketHydraClassifier}
    return {name: made(random_state=0, n_jobs=1).fit(X, y).predict_proba for name, made in classifiers.items()}


def milliseconds(call: Predict, X: np.ndarray) -> float:
    start = time.perf_counter()
    call(X)
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only-ours", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    test, _ = waves(100, seed=1)
    print(f"load average {os.getloadavg()[0]:.1f}, {given.calls} calls")
    print("| series | classifier | first | one: median | 99 % | against MiniRocket | 100: median | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for n in given.series:
        X, y = waves(n, seed=0)
        model = ours(X, y, given.models)
        calls: dict[str, Predict] = {"siggpde": model.predict_proba}
        if not given.only_ours:
            calls |= peers(X, y)
        first = {name: milliseconds(call, test[:1]) for name, call in calls.items()}
        error = np.abs(model.predict_proba(test) - slow(model, test)).max()
        one: dict[str, list[float]] = {name: [] for name in calls}
        hundred: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(given.calls):
            for name, call in calls.items():
                one[name].append(milliseconds(call, test[number % 100][None]))
                if number < given.calls // 20:
                    hundred[name].append(milliseconds(call, test))
        least = np.median(one.get("MiniRocket", [np.nan]))
        for name in calls:
            median, late = np.quantile(one[name], [0.5, 0.99])
            of_hundred = np.median(hundred[name])
            shown = f"{error:.1e}" if name == "siggpde" else ""
            print(
                f"| {n} | {name} | {first[name]:.0f} | {median:.1f} | {late:.1f} | {median / least:.1f} "
                f"| {of_hundred:.0f} | {shown} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
