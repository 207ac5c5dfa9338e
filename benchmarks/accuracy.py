"""Accuracy and calibration of the estimators with their defaults, beside MiniRocket with a fitted temperature.

    python benchmarks/accuracy.py                       # every data set that is there, 1 seed
    python benchmarks/accuracy.py --only Epilepsy,GunPoint --seeds 5 --json accuracy.json

Data sets are looked for as `siggpde.datasets` does. MiniRocket is that of `siggpde.comparison`; `leaderboard.py` has
more methods, splits and figures. Tecator is also cross-validated: five repeats of five folds over all its series, for
the coverage of 90 % intervals.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.comparison import METHODS, Run
from siggpde.datasets import Dataset, load_dataset
from siggpde.io.data import cut
from siggpde.metrics import classification_metrics

# What the project has promised: accuracy in percent, or RMSE.
PROMISED = {
    "BasicMotions": 97.5,
    "Epilepsy": 95.0,
    "UWaveGestureLibrary": 90.0,
    "SpokenArabicDigits": 97.5,
    "PenDigits": 98.6,
    "FingerMovements": 58.0,
    "SelfRegulationSCP1": 86.0,
    "GunPoint": 93.0,
    "Tecator": 2.0,
}
OTHERS = ("CharacterTrajectoriesHalf", "PLAID", "AsphaltObstacles", "Crop", "Covid3Month")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join((*PROMISED, *OTHERS)), help="names, with commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only.split(","):
        try:
            data = load_dataset(name, download=False)
        except FileNotFoundError:
            print(f"{name} is not here", file=sys.stderr)
            continue
        regression = data.y_train.dtype.kind == "f"
        seeds = range(arguments.seeds)
        judge = judge_regression if regression else judge_classes
        rows.append(judge(data, seeds, arguments.jobs))
        print(line(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def judge_classes(data: Dataset, seeds: range, jobs: int) -> dict[str, Any]:
    """Mean over seeds, for the defaults and for MiniRocket."""
    ours, seconds, theirs = [], [], []
    for seed in seeds:
        started = time.perf_counter()
        model = SigGPClassifier(random_state=seed, n_jobs=jobs).fit(data.X_train, data.y_train)
        seconds.append(time.perf_counter() - started)
        ours.append(classification_metrics(data.y_test, model.predict_proba(data.X_test), model.classes_))
        peer = METHODS["minirocket"].make("classification", Run(seed, jobs))
        chances = peer.fit(cut(data.X_train, data.lengths_train), data.y_train).predict_proba(
            cut(data.X_test, data.lengths_test)
        )
        theirs.append(classification_metrics(data.y_test, chances, peer.classes_))
    return {
        "data": data.name,
        "accuracy": 100 * float(np.mean([m.accuracy for m in ours])),
        "nlpp": float(np.mean([m.nlpp for m in ours])),
        "ece": float(np.mean([m.ece for m in ours])),
        "seconds": float(np.max(seconds)),
        "minirocket accuracy": 100 * float(np.mean([m.accuracy for m in theirs])),
        "minirocket nlpp": float(np.mean([m.nlpp for m in theirs])),
        "promised": PROMISED.get(data.name),
    }


def judge_regression(data: Dataset, seeds: range, jobs: int) -> dict[str, Any]:
    errors, seconds = [], []
    for seed in seeds:
        started = time.perf_counter()
        model = SigGPRegressor(random_state=seed, n_jobs=jobs).fit(data.X_train, data.y_train)
        seconds.append(time.perf_counter() - started)
        errors.append(float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2))))
    found: dict[str, Any] = {"data": data.name, "rmse": float(np.mean(errors)), "seconds": float(np.max(seconds))}
    found["promised"] = PROMISED.get(data.name)
    if data.name == "Tecator":
        found |= cross_validated(data, jobs)
    return found


def cross_validated(data: Dataset, jobs: int, repeats: int = 5, folds: int = 5) -> dict[str, float]:
    """RMSE, and the share of targets inside their 90 % intervals, over all series of train and test."""
    x, y = np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test]).astype(float)
    inside, squares = [], []
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(y))
        for fold in range(folds):
            out = order[fold::folds]
            rest = np.setdiff1d(order, out)
            model = SigGPRegressor(random_state=repeat, n_jobs=jobs).fit(x[rest], y[rest])
            ends = model.predict_interval(x[out], level=0.9)
            inside.append((ends[:, 0] <= y[out]) & (y[out] <= ends[:, 1]))
            squares.append((model.predict(x[out]) - y[out]) ** 2)
    coverage = 100 * float(np.mean(np.concatenate(inside)))
    return {"coverage of 90 %": coverage, "cross-validated rmse": float(np.sqrt(np.mean(np.concatenate(squares))))}


def line(row: dict[str, Any]) -> str:
    facts = [f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, float)]
    return f"{row['data']}: " + ", ".join(facts)


if __name__ == "__main__":
    main()
