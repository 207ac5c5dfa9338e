"""One cell of the leaderboard, in a process of its own: `python benchmarks/_leaderboard_cell.py CELL_JSON`.

A cell is a method on one split of one data set. Prints a JSON object: sizes, figures and CPU seconds, versions.
"""

from __future__ import annotations

import json
import math
import platform
import sys
from importlib import metadata
from typing import Any

import numpy as np

from siggpde.datasets import Dataset, load_dataset
from siggpde.io.data import cut
from siggpde_paper.compare import METHODS, Run, Split, judge, ours, resample, warm_up
from siggpde_paper.compare.splits import join

_PACKAGES = ("siggpde", "numpy", "scipy", "scikit-learn", "torch", "aeon", "numba")


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    """Figures of the cell; infinity is written as the text "inf", which JSON has and `float` reads."""
    data = load_dataset(cell["data"], download=False)
    task = cell["task"]
    X = join(cut(data.X_train, data.lengths_train), cut(data.X_test, data.lengths_test))
    y = np.concatenate([data.y_train, data.y_test])
    split = chosen_split(data, y, task, cell)
    known = METHODS.get(cell["method"])
    method = known if known is not None and cell["settings"] is None else ours(cell["method"], **cell["settings"])
    run = Run(seed=cell["seed"], jobs=1)
    warm_up(method, task, data.X_train.shape[1], run)
    figures = judge(method, task, X, y, split, run)
    lengths = np.concatenate([data.lengths_train, data.lengths_test])
    return {
        "n_train": len(split.train),
        "n_test": len(split.test),
        "channels": data.X_train.shape[1],
        "lengths": [int(lengths.min()), int(lengths.max())],
        "classes": len(np.unique(y)) if task == "classification" else None,
        **{name: value if math.isfinite(value) else str(value) for name, value in figures.items()},
        "versions": versions(),
    }


def chosen_split(data: Dataset, y: np.ndarray, task: str, cell: dict[str, Any]) -> Split:
    """The archive's split, or a resample of all series of its sizes, or of the cell's limits if these are less."""
    n_train, n_test = len(data.y_train), len(data.y_test)
    if cell["split"] == "archive":
        return Split(np.arange(n_train), np.arange(n_train, len(y)))
    sizes = min(n_train, cell["max_train"]), min(n_test, cell["max_test"])
    return resample(y, *sizes, cell["seed"], stratify=task == "classification")


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1])), allow_nan=False))
