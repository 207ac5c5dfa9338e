"""What `siggpde compare` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.console import WrongCall, column_table
from siggpde.cli.data import options_to_remember, read_series
from siggpde.cli.options import NOT_GIVEN, ReadOptions
from siggpde.cli.work.fit import choose_task
from siggpde.estimators.targets import as_classes
from siggpde.io import SeriesData
from siggpde.utils.progress import Progress
from siggpde_paper.compare import Method, Run, Split, choose_methods, cross_validation, judge, spread, warm_up
from siggpde_paper.compare.methods import CLASS_FIGURES, COSTS, METHODS, NUMBER_FIGURES
from siggpde_paper.compare.splits import at_most, join

log = logging.getLogger(__name__)

_HEADINGS = {
    "accuracy": "accuracy %",
    "nlpp": "NLPP",
    "brier": "Brier",
    "ece": "ECE",
    "rmse": "RMSE",
    "mae": "MAE",
    "nlpd": "NLPD",
    "coverage": "in 90 %",
    "cpu_fit": "fit s",
    "cpu_predict": "predict s",
}
_PERCENT = ("accuracy", "coverage")
_WITH_ERROR = ("accuracy", "nlpp", "rmse", "nlpd")


@dataclass(frozen=True)
class Protocol:
    """Splits and seeds: a test file or folds, repeats, limits of series (None: all)."""

    test: str | None = None
    folds: int = 3
    repeats: int = 1
    max_train: int | None = None
    max_test: int | None = None
    seed: int = 0
    jobs: int = 1


def run_compare(
    data: str, read_options: ReadOptions, task: str, names: Sequence[str] | None, protocol: Protocol
) -> dict[str, Any]:
    """Figures of every method on every split, with means and standard errors, as plain values."""
    _check_names(names)
    series = read_series(data, read_options, "train", training=True)
    if series.y is None:
        raise WrongCall(f"{data} says no labels; name where they are with --target")
    task = choose_task(series.y) if task == "auto" else task
    ready, missing = _methods(names, task)
    X, y, n_train = _joined(series, read_options, protocol.test, task)
    splits = _splits(y, n_train, task, protocol, series.groups)
    for package in dict.fromkeys(method.package for method in missing):
        names_left = ", ".join(method.name for method in missing if method.package == package)
        log.warning("left out, for they need %s (pip install %s): %s", package, package, names_left)
    runs = [(Run(protocol.seed + repeat, protocol.jobs, series.time_channel), split) for repeat, split in splits]
    with _quiet(), Progress(None) as bar:
        bar.start("compare", len(ready) * len(runs))
        found = [_judged(method, task, X, y, runs, bar, series.groups) for method in ready]
    return {
        "data": series.name,
        "task": task,
        "series": len(y),
        "groups": None if series.groups is None else len(np.unique(series.groups)),
        "test": protocol.test,
        "splits": [{"train": len(split.train), "test": len(split.test), "seed": run.seed} for run, split in runs],
        "methods": found,
        "not_installed": [{"name": method.name, "package": method.package} for method in missing],
    }


def compare_tables(found: dict[str, Any]) -> list[Table]:
    """One table: methods by rows; ± is the standard error of the mean over splits, seconds are those of the CPU."""
    names = (*(CLASS_FIGURES if found["task"] == "classification" else NUMBER_FIGURES), *COSTS)
    splits = found["splits"]
    sizes = f"{_range([split['train'] for split in splits])} series, judged on {_range([s['test'] for s in splits])}"
    times = f"; means of {len(splits)} splits, ± standard error" if len(splits) > 1 else ""
    whole = "" if found["groups"] is None else f" of other groups ({found['groups']} in all)"
    title = f"{found['data']}, {found['task']}: learned from {sizes}{whole}{times}"
    rows = []
    for entry in found["methods"]:
        if "failed" in entry:
            rows.append([entry["name"], "failed", *[""] * (len(names) - 1)])
        else:
            rows.append([entry["name"], *(_cell(name, entry["mean"], entry["standard_error"]) for name in names)])
    return [column_table(title, ["method", *(_HEADINGS[name] for name in names)], rows)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Fits are not logged one by one, unless --verbose asks for all there is."""
    library = logging.getLogger("siggpde")
    level = library.level
    if level == logging.INFO:
        library.setLevel(logging.WARNING)
    try:
        yield
    finally:
        library.setLevel(level)


def _check_names(names: Sequence[str] | None) -> None:
    """Before anything is read: whether there are such methods."""
    unknown = [name for name in names or () if name not in METHODS]
    if unknown:
        raise WrongCall(f"--methods names {unknown[0]!r}; the methods are {', '.join(METHODS)}")


def _methods(names: Sequence[str] | None, task: str) -> tuple[list[Method], list[Method]]:
    try:
        return choose_methods(names, task)
    except ValueError as error:
        raise WrongCall(f"--methods: {error}") from error


def _joined(series: SeriesData, read_options: ReadOptions, test: str | None, task: str) -> tuple[Any, np.ndarray, int]:
    """All series, their labels, and how many of them are DATA's; those of --test come behind."""
    y = np.asarray(series.y)
    if task == "regression":
        y = y.astype(float)
    if test is None:
        return series.X, y, len(series)
    other = read_series(test, NOT_GIVEN, "test", options_to_remember(series, read_options))
    if other.y is None:
        raise WrongCall(f"{test} says no labels; name where they are with --target")
    if other.n_channels != series.n_channels:
        raise WrongCall(f"{test} has {other.n_channels} channels, but the series to learn from {series.n_channels}")
    labels = other.y.astype(float) if task == "regression" else as_classes(other.y, np.unique(y))
    return join(series.X, other.X), np.concatenate([y, labels]), len(series)


def _splits(
    y: np.ndarray, n_train: int, task: str, protocol: Protocol, groups: np.ndarray | None
) -> list[tuple[int, Split]]:
    """Splits with the numbers of their repeats."""
    stratify, splits = task == "classification", []
    for repeat in range(protocol.repeats):
        seed = protocol.seed + repeat
        if n_train < len(y):
            whole = [Split(np.arange(n_train), np.arange(n_train, len(y)))]
        else:
            whole = cross_validation(y, protocol.folds, seed, stratify=stratify, groups=groups)
        limits = protocol.max_train, protocol.max_test
        splits += [(repeat, at_most(split, y, *limits, seed, stratify=stratify)) for split in whole]
    if not splits:
        one = "group" if groups is not None else "series"
        raise ValueError(f"every class has one {one} only; there is nothing to judge. Is --target the right column?")
    return splits


def _judged(
    method: Method,
    task: str,
    X: Any,
    y: np.ndarray,
    runs: Sequence[tuple[Run, Split]],
    bar: Progress,
    groups: np.ndarray | None,
) -> dict[str, Any]:
    """The figures of one method. Where another method than ours fails, its entry says why."""
    entry: dict[str, Any] = {"name": method.name, "title": method.title}
    done = 0
    try:
        channels = len(X[0]) - (runs[0][0].time_channel is not None)
        warm_up(method, task, max(channels, 1), runs[0][0])
        figures = []
        for run, split in runs:
            figures.append(judge(method, task, X, y, split, run, groups))
            done += 1
            bar.step(method.name)
    except (ValueError, RuntimeError, ArithmeticError, ImportError, MemoryError) as error:
        if method.package is None:
            raise
        log.warning("%s failed: %s", method.name, error)
        bar.step(method.name, by=len(runs) - done)
        return entry | {"failed": str(error) or type(error).__name__}
    summaries = {name: spread(one[name] for one in figures) for name in figures[0]}
    return entry | {
        "mean": {name: mean for name, (mean, _) in summaries.items()},
        "standard_error": {name: error for name, (_, error) in summaries.items()},
        "splits": figures,
    }


def _cell(name: str, means: dict[str, float], errors: dict[str, float | None]) -> str:
    factor = 100 if name in _PERCENT else 1
    form = ".1f" if name in _PERCENT else ".3g" if name in ("rmse", "mae") else ".2f" if name in COSTS else ".3f"
    error = errors[name]
    shown = f"{factor * means[name]:{form}}"
    return shown if error is None or name not in _WITH_ERROR else f"{shown}±{factor * error:{form}}"


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
