"""Coverage and size of prediction sets beside split conformal on half of the series, on resamples of real data sets.

    pip install crepes                                    # for the column of split conformal
    python benchmarks/prediction_sets.py results.jsonl    # half an hour on one busy core
    python benchmarks/prediction_sets.py results.jsonl --write docs/prediction-sets.md   # only the tables

`ours`: sets or intervals of a fit to all the series to learn from. `split`: a fit to half of them, and crepes with the
same scores on the other half. Both have a level of 90 %. Records that are in the file already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from _leaderboard_tables import write_between_markers

from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.committee.conformal import adaptive_scores, training_shares
from siggpde.datasets import load_dataset
from siggpde.io.data import cut
from siggpde_paper.compare import resample
from siggpde_paper.compare.splits import join, take

CLASSES = ("PenDigits", "Epilepsy", "UWaveGestureLibrary", "Crop", "FingerMovements")
NUMBERS = ("Covid3Month", "Tecator")
LEVEL = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--resamples", type=int, default=10)
    parser.add_argument("--max-train", type=int, default=200)
    parser.add_argument("--max-test", type=int, default=400)
    parser.add_argument("--datasets", default=",".join([*CLASSES, *NUMBERS]))
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    if not options.write:
        run(options)
    text = tables(read(options.results))
    if options.write:
        write_between_markers(options.write, text)
    else:
        print(f"\n{text}")


def run(options: argparse.Namespace) -> None:
    done = {(record["data"], record["seed"]) for record in read(options.results)}
    names = options.datasets.split(",")
    for seed in range(options.resamples):  # all data sets once, then all again
        for name in names:
            if (name, seed) in done:
                continue
            started = time.perf_counter()
            record = {"data": name, "seed": seed, **measured(name, seed, options.max_train, options.max_test)}
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{name} {seed}: {time.perf_counter() - started:.0f} s", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def measured(name: str, seed: int, max_train: int, max_test: int) -> dict[str, Any]:
    data = load_dataset(name, download=False)
    X = join(cut(data.X_train, data.lengths_train), cut(data.X_test, data.lengths_test))
    y = np.concatenate([data.y_train, data.y_test])
    n_train = min(max_train, len(y) // 2)
    classes = name in CLASSES
    split = resample(y, n_train, max_test, seed, stratify=classes)
    half = resample(y[split.train], n_train // 2, n_train, seed, stratify=classes)
    train, test = take(X, split.train), take(X, split.test)
    judge = class_figures if classes else number_figures
    fit: Callable[[Any], Any] = lambda rows: (SigGPClassifier if classes else SigGPRegressor)().fit(  # noqa: E731
        take(train, rows), y[split.train][rows]
    )
    whole, part = fit(np.arange(n_train)), fit(half.train)
    figures = judge(whole, part, take(train, half.test), y[split.train][half.test], test, y[split.test])
    return {"n_train": n_train, "n_test": len(split.test), **figures}


def class_figures(whole: Any, part: Any, held: Any, held_y: np.ndarray, test: Any, y: np.ndarray) -> dict[str, Any]:
    truth = np.searchsorted(whole.classes_, y)
    figures: dict[str, Any] = {"classes": len(whole.classes_), "accuracy": float(whole.score(test, y))}
    for name, settings in (("never empty", {}), ("random", {"allow_empty": True}), ("by class", {"by_class": True})):
        figures[f"ours {name}"] = _judged(whole.predict_set(test, LEVEL, **settings), truth)
    for name, randomised in (("never empty", False), ("random", True)):
        sets = split_sets(part, held, np.searchsorted(part.classes_, held_y), test, randomised)
        figures[f"split {name}"] = _judged(sets, truth)
    return figures


def split_sets(part: Any, held: Any, held_y: np.ndarray, test: Any, randomised: bool) -> np.ndarray:
    """Sets of split conformal by crepes, without smoothing, which randomised scores need no more."""
    from crepes import ConformalClassifier  # noqa: PLC0415 - the other figures need none

    chances, new = (torch.from_numpy(part.predict_proba(X)) for X in (held, test))
    scores_of_truth = adaptive_scores(chances, training_shares(len(chances), randomised)).numpy()[
        np.arange(len(held_y)), held_y
    ]
    random = torch.rand(len(new), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = adaptive_scores(new, random if randomised else torch.zeros_like(random)).numpy()
    p = ConformalClassifier().fit(scores_of_truth).predict_p(scores, smoothing=False)
    sets = p > 1 - LEVEL + 1e-9
    if not randomised:
        sets[np.arange(len(sets)), new.numpy().argmax(axis=1)] = True
    return sets


def _judged(sets: np.ndarray, truth: np.ndarray) -> list[float]:
    return [float(sets[np.arange(len(truth)), truth].mean()), float(sets.sum(axis=1).mean())]


def number_figures(whole: Any, part: Any, held: Any, held_y: np.ndarray, test: Any, y: np.ndarray) -> dict[str, Any]:
    from crepes import ConformalRegressor  # noqa: PLC0415

    figures: dict[str, Any] = {}
    for method in ("bayes", "conformal"):
        figures[f"ours {method}"] = _within(whole.predict_interval(test, LEVEL, method), y)
    (mean, sigma), (new, new_sigma) = (part.predict(X, return_std=True) for X in (held, test))
    split = ConformalRegressor().fit(held_y - mean, sigmas=sigma)
    figures["split conformal"] = _within(split.predict_int(new, sigmas=new_sigma, confidence=LEVEL), y)
    return figures


def _within(ends: np.ndarray, y: np.ndarray) -> list[float]:
    return [float(((ends[:, 0] <= y) & (y <= ends[:, 1])).mean()), float((ends[:, 1] - ends[:, 0]).mean())]


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: of every data set coverage in per cent and size (or width), means over the resamples."""
    by_set: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_set[record["data"]].append(record)
    classes = [name for name in CLASSES if name in by_set]
    numbers = [name for name in NUMBERS if name in by_set]
    ways = ["ours never empty", "split never empty", "ours random", "split random", "ours by class"]
    return "\n\n".join(
        [
            _table(classes, by_set, ways, "accuracy, %"),
            _table(numbers, by_set, ["ours bayes", "ours conformal", "split conformal"], None),
        ]
    )


def _table(names: list[str], by_set: dict[str, list[dict[str, Any]]], ways: list[str], first: str | None) -> str:
    head = ["data set", "series", "resamples", *([first] if first else []), *ways]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    means: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name in names:
        records = by_set[name]
        row = [name, str(records[0]["n_train"]), str(len(records))]
        row += [f"{100 * fmean(record['accuracy'] for record in records):.1f}"] if first else []
        for way in ways:
            pair = fmean(record[way][0] for record in records), fmean(record[way][1] for record in records)
            means[way].append(pair)
            row.append(f"{100 * pair[0]:.1f} / {pair[1]:.3g}")
        lines.append(f"| {' | '.join(row)} |")
    if first:
        mean = [f"{100 * fmean(p[0] for p in means[way]):.1f} / {fmean(p[1] for p in means[way]):.3g}" for way in ways]
        lines.append(f"| mean | | | | {' | '.join(mean)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
