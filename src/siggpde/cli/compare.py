"""`siggpde compare`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import (
    WrongCall,
    check_output_file,
    column_table,
    print_json,
    print_tables,
    write_bytes,
)
from siggpde.cli.console import as_json as json_text
from siggpde.cli.fit import Task, choose_task
from siggpde.cli.options import NOT_GIVEN, ReadOptions

if TYPE_CHECKING:
    import numpy as np

    from siggpde.io import SeriesData
    from siggpde.utils.progress import Progress
    from siggpde_paper.compare import Method, Run, Split

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
_SPLITS = "Training and test series"


@options.reads_data
def compare(
    data: options.Data,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Judge on these series instead of folds; read with the options of DATA.",
            rich_help_panel=_SPLITS,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, help="Cross-validation with so many folds; by default 3.", rich_help_panel=_SPLITS
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Repeat with other folds and seeds.", rich_help_panel=_SPLITS),
    ] = 1,
    max_train: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Learn from at most so many series.", rich_help_panel=_SPLITS),
    ] = None,
    max_test: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Judge on at most so many series.", rich_help_panel=_SPLITS),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="siggpde, minirocket, ..; by default all that are installed.")
    ] = None,
    task: Annotated[
        Task, typer.Option(metavar="NAME", help="classification, regression, or auto: by the targets.")
    ] = Task.auto,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Runs of one seed are the same.")] = 0,
    jobs: Annotated[int, typer.Option(metavar="N", help="Threads; -1 is one a core.")] = 1,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the figures there as well.")] = None,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    groups: options.Groups = None,
    groups_by_time: options.GroupsByTime = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare siggpde with other methods on your own labelled series: figures of predictions, and CPU seconds.

    All methods have default settings and the same splits. The methods of aeon need aeon (pip install aeon); their
    scores become probabilities by a temperature that is fitted to left-out series.
    """
    if output is not None:
        check_output_file(output, force, (".json",))
    if test is not None and folds is not None:
        raise WrongCall("--folds and --test exclude each other; leave out one of them")
    protocol = Protocol(test, folds or 3, repeats, max_train, max_test, seed, jobs)
    names = options.split_names(methods, "--methods")
    results = _compare(data, read_options.with_groups(groups, groups_by_time), task.value, names, protocol)
    if output is not None:
        write_bytes(output, (json_text(results) + "\n").encode())
        log.info("the figures are in %s", output)
    if as_json:
        print_json(results)
    else:
        print_tables(_table(results))


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


def _compare(
    data: str, read_options: ReadOptions, task: str, names: Sequence[str] | None, protocol: Protocol
) -> dict[str, Any]:
    """Returns the figures of every method on every split, with means and standard errors, as plain values."""
    import numpy as np

    from siggpde.cli.data import read_series
    from siggpde.utils.progress import Progress
    from siggpde_paper.compare import Run, choose_methods
    from siggpde_paper.compare.methods import METHODS

    unknown = [name for name in names or () if name not in METHODS]
    if unknown:
        raise WrongCall(f"--methods names {unknown[0]!r}; the methods are {', '.join(METHODS)}")
    series = read_series(data, read_options, "train", training=True)
    if series.y is None:
        raise WrongCall(f"{data} has no labels; name them with --target")
    task = choose_task(series.y) if task == "auto" else task
    try:
        ready, missing = choose_methods(names, task)
    except ValueError as error:
        raise WrongCall(f"--methods: {error}") from error
    X, y, n_train = _joined(series, read_options, protocol.test, task)
    splits = _splits(y, n_train, task, protocol, series.groups)
    for package in dict.fromkeys(method.package for method in missing):
        left_out = ", ".join(method.name for method in missing if method.package == package)
        log.warning("without %s, which is not installed (pip install %s): left out %s", package, package, left_out)
    runs = [(Run(protocol.seed + repeat, protocol.jobs, series.time_channel), split) for repeat, split in splits]
    with _quiet(), Progress(None) as bar:
        bar.start("compare", len(ready) * len(runs))
        figures = [_judged(method, task, X, y, runs, bar, series.groups) for method in ready]
    return {
        "data": series.name,
        "task": task,
        "series": len(y),
        "groups": None if series.groups is None else len(np.unique(series.groups)),
        "test": protocol.test,
        "splits": [{"train": len(split.train), "test": len(split.test), "seed": run.seed} for run, split in runs],
        "methods": figures,
        "not_installed": [{"name": method.name, "package": method.package} for method in missing],
    }


def _table(results: dict[str, Any]) -> Table:
    """Returns a table with a row a method; ± is the standard error of the mean over splits, seconds are of the CPU."""
    from siggpde_paper.compare.methods import CLASS_FIGURES, COSTS, NUMBER_FIGURES

    names = (*(CLASS_FIGURES if results["task"] == "classification" else NUMBER_FIGURES), *COSTS)
    splits = results["splits"]
    sizes = f"{_range([split['train'] for split in splits])} series, judged on {_range([s['test'] for s in splits])}"
    times = f"; means of {len(splits)} splits, ± standard error" if len(splits) > 1 else ""
    whole = "" if results["groups"] is None else f" of other groups ({results['groups']} in all)"
    title = f"{results['data']}, {results['task']}: learned from {sizes}{whole}{times}"
    rows = []
    for entry in results["methods"]:
        if "failed" in entry:
            rows.append([entry["name"], "failed", *[""] * (len(names) - 1)])
        else:
            rows.append([entry["name"], *(_cell(name, entry["mean"], entry["standard_error"]) for name in names)])
    return column_table(title, ["method", *(_HEADINGS[name] for name in names)], rows)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps single fits out of the log, unless --verbose is given."""
    library = logging.getLogger("siggpde")
    level = library.level
    if level == logging.INFO:
        library.setLevel(logging.WARNING)
    try:
        yield
    finally:
        library.setLevel(level)


def _joined(series: SeriesData, read_options: ReadOptions, test: str | None, task: str) -> tuple[Any, np.ndarray, int]:
    """Returns all series, first those of DATA, then those of --test, their labels, and the number of the first."""
    import numpy as np

    from siggpde.cli.data import options_to_remember, read_series
    from siggpde.estimators.targets import as_classes
    from siggpde_paper.compare.splits import join

    y = np.asarray(series.y)
    if task == "regression":
        y = y.astype(float)
    if test is None:
        return series.X, y, len(series)
    other = read_series(test, NOT_GIVEN, "test", options_to_remember(series, read_options))
    if other.y is None:
        raise WrongCall(f"{test} has no labels; name them with --target")
    if other.n_channels != series.n_channels:
        raise WrongCall(f"{test} has {other.n_channels} channels, but the series to learn from {series.n_channels}")
    labels = other.y.astype(float) if task == "regression" else as_classes(other.y, np.unique(y))
    return join(series.X, other.X), np.concatenate([y, labels]), len(series)


def _splits(
    y: np.ndarray, n_train: int, task: str, protocol: Protocol, groups: np.ndarray | None
) -> list[tuple[int, Split]]:
    """Returns splits with the numbers of their repeats."""
    import numpy as np

    from siggpde_paper.compare import Split, cross_validation
    from siggpde_paper.compare.splits import at_most

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
        unit = "group" if groups is not None else "series"
        raise ValueError(f"every class has one {unit} only; there is nothing to judge. Is --target the right column?")
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
    """Returns the figures of one method; for a method of another package that fails, the reason."""
    from siggpde_paper.compare import judge, spread, warm_up

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
    summaries = {name: spread(split[name] for split in figures) for name in figures[0]}
    return entry | {
        "mean": {name: mean for name, (mean, _) in summaries.items()},
        "standard_error": {name: error for name, (_, error) in summaries.items()},
        "splits": figures,
    }


def _cell(name: str, means: dict[str, float], errors: dict[str, float | None]) -> str:
    from siggpde_paper.compare.methods import COSTS

    factor = 100 if name in _PERCENT else 1
    form = ".1f" if name in _PERCENT else ".3g" if name in ("rmse", "mae") else ".2f" if name in COSTS else ".3f"
    error = errors[name]
    shown = f"{factor * means[name]:{form}}"
    return shown if error is None or name not in _WITH_ERROR else f"{shown}±{factor * error:{form}}"


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
