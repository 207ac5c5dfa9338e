"""What `siggpde fit` does."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.console import Interrupted, WrongCall, resume_command, summary_table
from siggpde.cli.data import options_to_remember, read_series
from siggpde.cli.options import ReadOptions
from siggpde.cli.processes import threads_per_rank
from siggpde.cli.work.checkpoint import Checkpoint
from siggpde.cli.work.describe import data_rows, estimator_summary, member_table
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import all_labels
from siggpde.estimators import SigGPClassifier, SigGPRegressor
from siggpde.gp.likelihood_names import names_for
from siggpde.io import SeriesData
from siggpde.io.data import errors_by_id
from siggpde.persistence.folder import MANIFEST, check_writable

log = logging.getLogger(__name__)


def run_fit(
    data: str,
    output: Path,
    read_options: ReadOptions,
    task: str,
    settings: dict[str, Any],
    *,
    resume: bool,
    force: bool,
    ranks: Ranks = ALONE,
    report: Path | None = None,
) -> dict[str, Any]:
    """Reads, fits and saves; returns a summary of the model. Every rank reads its own series; rank 0 writes.

    With `report` a page is written too, where there is one process: several have the series in parts.
    """
    if report is not None and not ranks.alone:
        raise WrongCall("--report is for one process; write the page afterwards, with siggpde report")
    checkpoint = Checkpoint.of(output)
    with ExitStack() as held:
        with ranks.together():
            if ranks.leads:
                check_model_folder(output, force)
                held.enter_context(checkpoint.held())
                check_model_folder(output, force)  # a fit that ended meanwhile may have written it
                _check_start(checkpoint, resume, force, settings["method"])
            series = read_series(data, read_options, "train", training=True, ranks=ranks)
            if series.y is None:
                raise WrongCall(f"{data} says no labels; name where they are with --target")
        if task == "auto":
            classes, codes = all_labels(series.y, ranks)
            task = ranks.broadcast(lambda: choose_task(classes[codes], settings["likelihood"]))
        log.info("%s", task)
        estimator = make_estimator(task, series, settings)
        if ranks.leads and not resume:
            checkpoint.remove()
        try:
            threads = threads_per_rank(settings["n_jobs"], ranks)
            kept = {"checkpoint": str(checkpoint.folder), "resume": resume} if settings["method"] == "paper" else {}
            estimator.set_params(**kept, verbose=1, n_jobs=threads)
            with errors_by_id(None if series.ids is None else series.ids.tolist()):
                estimator.fit(series.X, series.y, groups=series.groups, sample_weight=series.sample_weight, ranks=ranks)
            # Settings of this run, not of the model.
            estimator.set_params(checkpoint=None, resume=False, verbose=0, n_jobs=settings["n_jobs"])
            estimator.reading_ = options_to_remember(series, read_options)  # pyright: ignore[reportAttributeAccessIssue]
            with ranks.together():
                if ranks.leads:
                    estimator.save(output, force=force)
        except KeyboardInterrupt:
            raise Interrupted(_interruption_message(checkpoint, ranks)) from None
        if ranks.leads:
            checkpoint.remove()
    if report is not None:
        from siggpde.cli.work.report import run_fit_report  # noqa: PLC0415 - takes long to import

        run_fit_report(estimator, series, report, output, data, read_options)
    return {"data": series.name, **estimator_summary(estimator), "output": os.fspath(output)}


def fit_tables(summary: dict[str, Any]) -> list[Table]:
    """The summary of a fit as tables."""
    rows: list[tuple[str, Any]] = [
        ("data", summary["data"]),
        ("task", f"{summary['task']}, {summary['likelihood']}"),
        ("method", summary["method"]),
        *data_rows(summary),
        ("seconds", f"{summary['seconds']:.1f}"),
        ("saved in", summary["output"]),
    ]
    return [summary_table("siggpde fit", rows), member_table(summary)]


def _check_start(checkpoint: Checkpoint, resume: bool, force: bool, method: str) -> None:
    if checkpoint.exists() and not force and not (resume and method == "paper"):
        raise WrongCall(
            f"{checkpoint.folder} holds a fit of --method paper that was interrupted; --resume with that method goes "
            "on, --force starts anew"
        )
    if resume and method != "paper":
        log.info("there is nothing to go on from, --method %s keeps no checkpoint: the fit starts anew", method)
    elif resume and not checkpoint.exists():
        log.info("there is no checkpoint %s, so the fit starts from the beginning", checkpoint.folder)


def check_model_folder(output: Path, force: bool) -> None:
    """Checks, before any work, that the model can be saved there."""
    if output.name in ("", ".."):
        raise WrongCall(f"--output must name a folder for the model; got {output}")
    if os.path.lexists(output) and not output.is_dir():
        raise WrongCall(f"{output} is a file, not a model folder; choose another --output")
    if (output / MANIFEST).exists() and not force:
        raise WrongCall(f"{output} holds a model already; --force replaces it")
    if output.is_dir():
        try:
            check_writable(output, force=True)
        except FileExistsError as error:
            raise WrongCall(str(error)) from error


def choose_task(y: np.ndarray, likelihood: str = "auto") -> str:
    """Classification for strings, bools and integers, regression for fractions; for numbers a likelihood decides."""
    if y.dtype.kind not in "fiu":
        return "classification"
    if likelihood != "auto":
        return "regression" if likelihood in names_for("regression") else "classification"
    if y.dtype.kind == "f" and not (np.isfinite(y) & (y == np.round(y))).all():
        return "regression"
    distinct = len(np.unique(y))
    if 2 * distinct > len(y):
        raise WrongCall(
            f"the targets are integers with {distinct} different values in {len(y)} series, which looks like "
            "numbers to predict, not classes: say --task regression, or --task classification if they are classes"
        )
    return "classification"


def make_estimator(task: str, data: SeriesData, settings: dict[str, Any]) -> SigGPClassifier | SigGPRegressor:
    """The estimator for the task, with the time channel and the names of the data."""
    known = names_for("classification" if task == "classification" else "regression")
    if settings["likelihood"] not in known:
        raise WrongCall(f"--likelihood {settings['likelihood']} is not for a {task}; take one of {', '.join(known)}")
    common = {**settings, "time_channel": data.time_channel, "channel_names": list(data.channel_names)}
    if task == "classification":
        return SigGPClassifier(**common)
    if common.pop("class_weight") is not None:
        raise WrongCall("--class-weight is for classes, but the task is a regression; leave it out")
    return SigGPRegressor(**common)


def _interruption_message(checkpoint: Checkpoint, ranks: Ranks) -> str:
    if not checkpoint.exists():
        return "interrupted before there was anything to keep; to fit again, give the same command"
    if not ranks.alone:
        return f"interrupted; what was reached is in {checkpoint.folder}. To go on: the same command with --resume"
    return f"interrupted; what was reached is in {checkpoint.folder}. To go on: {resume_command()}"
