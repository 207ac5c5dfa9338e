"""`siggpde compare`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import WrongCall, check_output_file, column_table, print_result, write_json
from siggpde.cli.fit import choose_task
from siggpde.cli.options import ReadOptions

if TYPE_CHECKING:
    import numpy as np

    from siggpde.io import SeriesData

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
_split = partial(options.option, rich_help_panel="Training and test series")
_TEST = "Judge on these series, not on folds; they are read with the options of DATA."
_METHODS = "siggpde, minirocket, ...; by default all that are installed."


@options.command
def compare(
    data: options.Data,
    test: Annotated[str | None, _split(_TEST, "DATA")] = None,
    folds: Annotated[int | None, _split("Cross-validation with N folds; by default 3.", "N", min=2)] = None,
    repeats: Annotated[int, _split("Repeat N times, with other folds and seeds.", "N", min=1)] = 1,
    max_train: Annotated[int | None, _split("Learn from at most N series.", "N", min=2)] = None,
    max_test: Annotated[int | None, _split("Judge on at most N series.", "N", min=1)] = None,
    methods: Annotated[str | None, options.option(_METHODS, "A,B")] = None,
    task: Annotated[options.Task, options.option(options.TASK, "NAME")] = "auto",
    seed: options.Seed = 0,
    jobs: Annotated[int, options.option("Threads; -1 is one per core.", "N")] = 1,
    output: Annotated[Path | None, options.option("Write the results to this file as well.", "FILE.json")] = None,
    *,
    read_options: ReadOptions,
    groups: options.Groups = None,
    groups_by_time: options.GroupsByTime = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare siggpde with other methods on your own labelled series: scores of predictions, and CPU seconds.

    All methods have default settings and the same splits. The methods of aeon need aeon
    (pip install aeon). A temperature, fitted to left-out series, turns their scores into probabilities.
    """
    if test is not None and folds is not None:
        raise WrongCall("--folds and --test exclude each other; leave out one of them")
    names = options.split_names(methods, "--methods")
    read_options = read_options.with_groups(groups, groups_by_time)
    check_output_file(output, force, (".json",), inputs=[test, *read_options.files(data)])
    import numpy as np

    from siggpde.cli.data import read_series, require_labels, with_constants_as_facts
    from siggpde.utils.progress import Progress
    from siggpde_paper.compare import Run, Split, at_most, choose_methods, cross_validation, judge_on_splits

    series = with_constants_as_facts(read_series(data, read_options, "train", training=True), read_options)
    if series.facts:
        log.warning("methods are compared without the facts beside the series: %s", ", ".join(series.facts))
    y = require_labels(data, series)
    kind = choose_task(y) if task == "auto" else task
    try:
        ready, missing = choose_methods(names, kind)
    except ValueError as error:
        raise WrongCall(f"--methods: {error}") from error
    X, y, n_train = _joined(series, y, read_options, test, kind)
    stratify, runs = kind == "classification", []
    for number in range(seed, seed + repeats):
        if test is None:
            splits = cross_validation(y, folds or 3, number, stratify=stratify, groups=series.groups)
        else:
            splits = [Split(np.arange(n_train), np.arange(n_train, len(y)))]
        run = Run(number, jobs, series.time_channel)
        runs += [(run, at_most(split, y, max_train, max_test, number, stratify=stratify)) for split in splits]
    if not runs:
        unit = "group" if series.groups is not None else "series"
        raise ValueError(f"every class has one {unit} only; there is nothing to judge. Is the target the right one?")
    for package in dict.fromkeys(method.package for method in missing):
        left_out = ", ".join(method.name for method in missing if method.package == package)
        log.warning("without %s, which is not installed (pip install %s): left out %s", package, package, left_out)
    with _quiet(), Progress(None) as bar:
        bar.start("compare", len(ready) * len(runs))
        figures = [judge_on_splits(method, kind, X, y, runs, bar.step, series.groups) for method in ready]
    results = {
        "data": series.name,
        "task": kind,
        "series": len(y),
        "groups": None if series.groups is None else len(np.unique(series.groups)),
        "test": test,
        "splits": [{"train": len(split.train), "test": len(split.test), "seed": run.seed} for run, split in runs],
        "methods": figures,
        "not_installed": [{"name": method.name, "package": method.package} for method in missing],
    }
    write_json(output, results, "the results are")
    print_result(results, as_json, lambda: [_table(results)])


def _table(results: dict[str, Any]) -> Table:
    """Returns a table with a row a method; ± is the standard error of the mean over splits, seconds are of the CPU."""
    from siggpde_paper.compare.methods import CLASS_FIGURES, COSTS, NUMBER_FIGURES

    names = (*(CLASS_FIGURES if results["task"] == "classification" else NUMBER_FIGURES), *COSTS)
    splits = results["splits"]
    sizes = {}
    for part in ("train", "test"):
        ends = [split[part] for split in splits]
        sizes[part] = str(ends[0]) if min(ends) == max(ends) else f"{min(ends)} to {max(ends)}"
    times = f"; means of {len(splits)} splits, ± standard error" if len(splits) > 1 else ""
    whole = "" if results["groups"] is None else f" of other groups ({results['groups']} in all)"
    learned = f"learned from {sizes['train']} series, judged on {sizes['test']}"
    title = f"{results['data']}, {results['task']}: {learned}{whole}{times}"
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


def _joined(
    series: SeriesData, y: np.ndarray, read_options: ReadOptions, test: str | None, task: str
) -> tuple[Any, np.ndarray, int]:
    """Returns all series, first those of DATA, then those of --test, their labels, and the number of the first."""
    import numpy as np

    from siggpde.cli.data import options_to_remember, read_series, require_labels
    from siggpde.estimators.targets import as_classes
    from siggpde_paper.compare.splits import join

    if task == "regression":
        y = y.astype(float)
    if test is None:
        return series.X, y, len(series)
    other = read_series(test, ReadOptions(), "test", options_to_remember(series, read_options))
    labels = require_labels(test, other)
    if other.n_channels != series.n_channels:
        raise WrongCall(f"{test} has {other.n_channels} channels, but the series to learn from {series.n_channels}")
    labels = labels.astype(float) if task == "regression" else as_classes(labels, np.unique(y))
    return join(series.X, other.X), np.concatenate([y, labels]), len(series)


def _cell(name: str, means: dict[str, float], errors: dict[str, float | None]) -> str:
    from siggpde_paper.compare.methods import COSTS

    factor = 100 if name in _PERCENT else 1
    form = ".1f" if name in _PERCENT else ".3g" if name in ("rmse", "mae") else ".2f" if name in COSTS else ".3f"
    error = errors[name]
    shown = f"{factor * means[name]:{form}}"
    return shown if error is None or name not in _WITH_ERROR else f"{shown}±{factor * error:{form}}"
