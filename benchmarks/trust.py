"""Whether the defaults know what they do not know: novelty, false alarms, confidence far from the training series.

    python benchmarks/trust.py results.jsonl [--only corrupted,classes,false_alarms,related,windows,cost] [--resume]
    python benchmarks/trust.py --write docs/trust.md results.jsonl        # only the tables and the picture

- corrupted: archive splits, at most 1000 test series; the AUC of the score of `novelty` between these and the same
  series changed (`_corruptions.py`), and the mean of the largest class probability.
- classes: every class is left out of training once; the AUC between the test series of the others and of this one.
- false_alarms: resamples of train and test together, at most 250 to learn from: the share of test series with
  p <= 0.05, of alarms, the NLPP with and without caution.
- related: archive splits, at most 400 test series; training series twice, five times, five times with noise of 0.001 of
  a channel's spread: accuracy and NLPP beside those without copies.
- windows: archive splits; training series cut into windows of half their length that overlap by 0, 50 and 90 %, and the
  same without relatives, one of the windows of each series at random; judged on at most 800 windows of test series at
  the same places, and of those on windows that do not overlap.
- cost: CPU seconds of a fit with and without what novelty keeps, in turns, the median of five.

Records are appended to the file; the data come from SIGGPDE_DATA.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _corruptions import DIGITS, OTHERS, Series, corrupted
from _leaderboard_tables import write_between_markers
from _trust_tables import draw, render
from sklearn.metrics import roc_auc_score

from siggpde import SigGPClassifier
from siggpde.committee.novelty import NoveltyWarning
from siggpde.datasets import load_dataset
from siggpde_paper.compare.splits import resample

CORRUPTED = ("PenDigits", "Epilepsy", "UWaveGestureLibrary", "BasicMotions", "SelfRegulationSCP1", "FingerMovements")
CLASSES = ("UWaveGestureLibrary", "CharacterTrajectoriesHalf", "PenDigits")
RESAMPLED = (
    "FingerMovements", "SelfRegulationSCP1", "AsphaltObstacles", "PLAID", "CharacterTrajectoriesHalf", "PenDigits",
    "SpokenArabicDigits", "Crop", "UWaveGestureLibrary", "Epilepsy",
)  # fmt: skip
RELATED = (
    "GunPoint",
    "BasicMotions",
    "Epilepsy",
    "UWaveGestureLibrary",
    "FingerMovements",
    "CharacterTrajectoriesHalf",
)
MOST_TEST, TRAIN, MOST_RELATED = 1000, 250, 1600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.jsonl")
    parser.add_argument("--only", default="corrupted,classes,false_alarms,related,windows,cost")
    parser.add_argument("--seeds", type=int, default=3, help="resamples a data set")
    parser.add_argument("--resume", action="store_true", help="leave out what the file has")
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    if not options.write:
        warnings.simplefilter("ignore", NoveltyWarning)
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ training series are related")
        _run(options)
    records = [json.loads(line) for line in options.results.read_text().splitlines()]
    if options.write:
        write_between_markers(options.write, render(records))
        draw(records, options.write.parent / "trust.png")
    else:
        print(render(records))


def _run(options: argparse.Namespace) -> None:
    done = set()
    if options.resume and options.results.exists():
        done = {_key(json.loads(line)) for line in options.results.read_text().splitlines()}
    for part in options.only.split(","):
        for cell in _cells(part, options.seeds):
            if _key(cell) in done:
                continue
            for record in globals()[f"_{part}"](cell):
                with options.results.open("a") as file:
                    file.write(json.dumps(cell | record) + "\n")
                print(json.dumps(cell | record), flush=True)


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["part"], record["data"], record["seed"]


def _cells(part: str, seeds: int) -> Iterator[dict[str, Any]]:
    sets = {
        "corrupted": CORRUPTED,
        "classes": CLASSES,
        "false_alarms": RESAMPLED,
        "related": RELATED,
        "windows": RELATED,
    }
    sets["cost"] = ("UWaveGestureLibrary",)
    for data in sets[part]:
        for seed in range(seeds if part == "false_alarms" else 1):
            yield {"part": part, "data": data, "seed": seed}


def _series(x: np.ndarray, lengths: np.ndarray) -> Series:
    return [np.asarray(one[:, :length], dtype=float) for one, length in zip(x, lengths, strict=True)]


def _loaded(name: str) -> tuple[Series, np.ndarray, Series, np.ndarray]:
    """Train and test, of the latter at most 1000 at random."""
    data = load_dataset(name)
    test, y_test = _series(data.X_test, data.lengths_test), np.asarray(data.y_test)
    rows = np.random.default_rng(0).permutation(len(test))[:MOST_TEST]
    train = _series(data.X_train, data.lengths_train)
    return train, np.asarray(data.y_train), [test[row] for row in rows], y_test[rows]


def _auc(usual: np.ndarray, novel: np.ndarray) -> float:
    return float(roc_auc_score(np.r_[np.zeros(len(usual)), np.ones(len(novel))], np.r_[usual, novel]))


def _corrupted(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    train, y, test, _ = _loaded(cell["data"])
    model = SigGPClassifier().fit(train, y)
    usual = model.novelty(test, return_score=True)[1]
    largest = float(np.unique(y, return_counts=True)[1].max() / len(y))
    sure = float(model.predict_proba(test).max(1).mean())
    yield {"kind": "test series", "sure": sure, "largest_class": largest}
    for kind in DIGITS if cell["data"] == "PenDigits" else OTHERS:
        changed = corrupted(kind, train, test)
        p, score = model.novelty(changed, return_score=True)
        sure = float(model.predict_proba(changed).max(1).mean())
        flagged = float((p <= 0.05).mean())
        yield {"kind": kind, "auc": _auc(usual, score), "sure": sure, "largest_class": largest, "flagged": flagged}


def _classes(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    train, y, test, y_test = _loaded(cell["data"])
    for label in np.unique(y):
        kept = [series for series, answer in zip(train, y, strict=True) if answer != label]
        model = SigGPClassifier().fit(kept, y[y != label])
        score = model.novelty(test, return_score=True)[1]
        yield {"kind": str(label), "auc": _auc(score[y_test != label], score[y_test == label])}


def _false_alarms(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    data = load_dataset(cell["data"])
    series = _series(data.X_train, data.lengths_train) + _series(data.X_test, data.lengths_test)
    labels = np.concatenate([data.y_train, data.y_test])
    size = min(TRAIN, len(series) * 3 // 4)
    split = resample(labels, size, min(MOST_TEST, len(series) - size), cell["seed"], stratify=True)
    model = SigGPClassifier(random_state=cell["seed"]).fit([series[row] for row in split.train], labels[split.train])
    test, y_test = [series[row] for row in split.test], labels[split.test]
    p, score = model.novelty(test, return_score=True)
    committee = model.committee_
    alarms = committee.novelty.alarms(torch.from_numpy(score))
    with_caution = -float(model.log_likelihood(test, y_test).mean())
    model.committee_ = replace(committee, novelty=None)
    without = -float(model.log_likelihood(test, y_test).mean())
    yield {
        "train": len(split.train), "test": len(test), "false": float((p <= 0.05).mean()),
        "alarms": int(alarms.sum()), "nlpp": with_caution, "nlpp_without": without,
    }  # fmt: skip


def _related(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    train, y, test, y_test = _loaded(cell["data"])
    test, y_test = test[:400], y_test[:400]
    random, spread = np.random.default_rng(0), np.nanstd(np.concatenate(train, axis=1), 1, keepdims=True)
    noisy = [x + 1e-3 * spread * random.standard_normal(x.shape) for _ in range(4) for x in train]
    made = {
        "alone": (train, y), "twice": (2 * train, np.tile(y, 2)), "five times": (5 * train, np.tile(y, 5)),
        "with noise": (train + noisy, np.tile(y, 5)),
    }  # fmt: skip
    for kind, (series, labels) in made.items():
        yield {"kind": kind, "n": len(series), **_judged(SigGPClassifier().fit(series, labels), test, y_test)}


def _judged(model: SigGPClassifier, new: Series, truth: np.ndarray) -> dict[str, Any]:
    hits = model.classes_[model.predict_proba(new).argmax(1)] == truth
    nlpp = -float(model.log_likelihood(new, truth).mean())
    return {"groups": model.n_groups_, "accuracy": float(hits.mean()), "nlpp": nlpp}


def _cut(series: Series, labels: np.ndarray, overlap: float) -> tuple[Series, np.ndarray, np.ndarray]:
    """Windows of half the length of every series, evenly from its start to its end, their labels and their series."""
    parts, owners = [], []
    for owner, one in enumerate(series):
        width = max(4, one.shape[1] // 2)
        rest = one.shape[1] - width
        starts = np.linspace(0, rest, 1 + round(rest / (width * (1 - overlap)))).astype(int)
        parts += [one[:, start : start + width] for start in starts]
        owners += [owner] * len(starts)
    return parts, labels[owners], np.array(owners)


def _windows(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    train, y, test, y_test = _loaded(cell["data"])
    random = np.random.default_rng(0)
    apart, of_apart, _ = _cut(test[:400], y_test[:400], 0.0)
    for overlap in (0.0, 0.5, 0.9):
        parts, labels, owners = _cut(train, y, overlap)
        new, truth, _ = _cut(test, y_test, overlap)
        some = random.permutation(len(new))[:800]
        new, truth = [new[row] for row in some], truth[some]
        order = random.permutation(len(parts))
        alone = np.sort(order[np.unique(owners[order], return_index=True)[1]])
        for kind, rows in (("all", np.arange(len(parts))), ("one of each", alone)):
            if len(rows) <= MOST_RELATED:
                model = SigGPClassifier().fit([parts[row] for row in rows], labels[rows])
                record = {"kind": f"{overlap:.0%}, {kind}", "n": len(rows), **_judged(model, new, truth)}
                yield record | {"apart": _judged(model, apart, of_apart)}


def _cost(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A fit with what novelty keeps, against one of which the facts of the series are taken away before."""
    from siggpde.committee import fit as fitting  # noqa: PLC0415

    train, y, _, _ = _loaded(cell["data"])
    fit_committee = fitting.fit_view_committee
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    import siggpde.estimators.training as method  # noqa: PLC0415

    def without_facts(batch: Any, *arguments: Any) -> Any:
        return fit_committee(replace(batch, facts=None), *arguments)

    for _ in range(6):
        for name, function in (("with", fit_committee), ("without", without_facts)):
            method.fit_view_committee = function
            started = time.process_time()
            SigGPClassifier().fit(train, y)
            seconds[name].append(time.process_time() - started)
    method.fit_view_committee = fit_committee
    yield {name: statistics.median(values[1:]) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
