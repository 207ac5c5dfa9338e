"""Counterfactuals beside the nearest unlike neighbour: `SIGGPDE_DATA=folder python benchmarks/counterfactual.py`.

For test series of each data set, the counterfactual of the runner-up and, as the plain alternative, the nearest
training series of that class in place of the whole series. Columns, medians over the series unless said otherwise:

- valid: the share that the model predicts as the target, asked anew; of the neighbours too.
- plausible: the share with a p-value of novelty above 0.05 (of the series themselves: `as they are`).
- changed: the share of the values that is changed; of the neighbour, all of them.
- size: the mean of |change| / spread of the channel over all values; and as a part of that of the neighbour.
- seconds: of CPU, the mean.

Splits are drawn anew: training and test series are put together and divided at random, in the proportions of the
archive.
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np

from siggpde import SigGPClassifier
from siggpde.committee.novelty import NoveltyWarning
from siggpde.datasets import load_dataset


class Case(NamedTuple):
    valid: bool
    unlike_valid: bool
    p: float
    own_p: float
    share: float
    size: float
    unlike_size: float
    seconds: float


def cases(name: str, series: int, splits: int) -> list[Case]:
    data = load_dataset(name)
    X = np.concatenate([data.X_train, data.X_test]).astype(np.float64)
    y = np.concatenate([data.y_train, data.y_test])
    results = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(X))
        train, test = order[: len(data.X_train)], order[len(data.X_train) :][:series]
        model = SigGPClassifier().fit(X[train], y[train])
        results += [case(model, X[train], y[train], x) for x in X[test]]
    return results


def case(model: SigGPClassifier, X: np.ndarray, y: np.ndarray, x: np.ndarray) -> Case:
    started = time.process_time()
    result = model.counterfactual(x)
    seconds = time.process_time() - started
    unlike = X[y == result.target]
    distance = (np.abs(unlike - x) / X.std(axis=(0, 2))[:, None]).mean(axis=(1, 2))
    nearest = unlike[distance.argmin()]
    after, other = model.predict(np.stack([result.series, nearest]))
    p, p_before = model.novelty(np.stack([result.series, x]))
    size = float(distance.min())
    return Case(after == result.target, other == result.target, p, p_before, result.share, result.size, size, seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["GunPoint", "BasicMotions", "UWaveGestureLibrary"])
    parser.add_argument("--series", type=int, default=10, help="of each split")
    parser.add_argument("--splits", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", NoveltyWarning)
    header = (
        "data set",
        "series",
        "valid (neighbour)",
        "plausible (as they are)",
        "changed",
        "size",
        "of the neighbour's",
        "seconds",
    )
    print("| " + " | ".join(header) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.names:
        results = cases(name, given.series, given.splits)
        columns = {field: np.array([getattr(one, field) for one in results], dtype=float) for field in Case._fields}
        ratio = columns["size"] / columns["unlike_size"]
        print(
            f"| {name} | {len(results)} | {columns['valid'].mean():.0%} ({columns['unlike_valid'].mean():.0%}) "
            f"| {(columns['p'] > 0.05).mean():.0%} ({(columns['own_p'] > 0.05).mean():.0%}) "
            f"| {np.median(columns['share']):.0%} | {np.median(columns['size']):.2f} | {np.median(ratio):.0%} "
            f"| {columns['seconds'].mean():.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
