"""What `siggpde fit` does."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.checkpoints import Checkpoint
from siggpde.cli.describing import data_rows, estimator_facts, member_table
from siggpde.cli.failures import Interrupted, WrongCall, again
from siggpde.cli.options import Reading
from siggpde.cli.reading import read_series, to_remember
from siggpde.cli.several import threads_of
from siggpde.cli.tables import fact_table
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import all_labels
from siggpde.estimators import SigGPClassifier, SigGPRegressor
from siggpde.estimators.fitting import CLASSIFIERS, REGRESSORS
from siggpde.io import SeriesData
from siggpde.persistence.folder import MANIFEST, check_writable

log = logging.getLogger(__name__)


def run_fit(
    data: str,
    output: Path,
    reading: Reading,
    task: str,
    settings: dict[str, Any],
    *,
    resume: bool,
    force: bool,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Reads, fits, saves; what was fitted as plain facts. Each rank reads its part; rank 0 keeps what is written."""
    checkpoint = Checkpoint.of(output)
    with ranks.together():
        if ranks.leads:
            _check_start(output, checkpoint, resume, force)
        found = read_series(data, reading, "train", ranks=ranks)
        if found.y is None:
            raise WrongCall(f"{data} says no labels; name where they are with --target")
    if task == "auto":
        classes, places = all_labels(found.y, ranks)
        task = ranks.broadcast(lambda: choose_task(classes[places], settings["likelihood"]))
    log.info("%s: %s%s", task, _shown(found), "" if ranks.alone else f" (rank 0 of {ranks.count})")
    estimator = make_estimator(task, found, settings)
    with checkpoint.kept(fresh=not resume) if ranks.leads else nullcontext():
        try:
            threads = threads_of(settings["n_jobs"], ranks)
            estimator.set_params(checkpoint=str(checkpoint.folder), resume=resume, verbose=1, n_jobs=threads)
            estimator.fit(found.X, found.y, ranks=ranks)
            # Settings of this run, not of the model.
            estimator.set_params(checkpoint=None, resume=False, verbose=0, n_jobs=settings["n_jobs"])
            estimator.reading_ = to_remember(found, reading)  # pyright: ignore[reportAttributeAccessIssue]
            with ranks.together():
                if ranks.leads:
                    estimator.save(output, force=force)
        except KeyboardInterrupt:
            raise Interrupted(_how_to_go_on(checkpoint, ranks)) from None
    if ranks.leads:
        checkpoint.remove()
    return {"data": found.name, **estimator_facts(estimator), "output": os.fspath(output)}


def summary_tables(facts: dict[str, Any]) -> list[Table]:
    """What was fitted, for people."""
    rows: list[tuple[str, Any]] = [
        ("data", facts["data"]),
        ("task", f"{facts['task']}, {facts['likelihood']}"),
        *data_rows(facts),
        ("seconds", f"{facts['seconds']:.1f}"),
        ("saved in", facts["output"]),
    ]
    return [fact_table("siggpde fit", rows), member_table(facts)]


def _check_start(output: Path, checkpoint: Checkpoint, resume: bool, force: bool) -> None:
    check_output(output, force)
    if checkpoint.exists() and not resume and not force:
        raise WrongCall(f"{checkpoint.folder} holds a fit that was interrupted; --resume goes on, --force starts anew")
    if resume and not checkpoint.exists():
        log.info("there is no checkpoint %s, so the fit starts from the beginning", checkpoint.folder)


def check_output(output: Path, force: bool) -> None:
    """Before any work: the model can be saved there."""
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
    """Classes for strings, bools and integers, a regression for numbers with fractions; or as the likelihood says."""
    if y.dtype.kind not in "fiu":
        return "classification"
    if likelihood != "auto":
        return "regression" if likelihood in REGRESSORS else "classification"
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
    known = CLASSIFIERS if task == "classification" else REGRESSORS
    if settings["likelihood"] not in known:
        raise WrongCall(f"--likelihood {settings['likelihood']} is not for a {task}; take one of {', '.join(known)}")
    common = {**settings, "time_channel": data.time_channel, "channel_names": list(data.channel_names)}
    if task == "classification":
        return SigGPClassifier(**common)
    if common.pop("class_weight") is not None:
        raise WrongCall("--class-weight is for classes, but the task is a regression; leave it out")
    return SigGPRegressor(**common)


def _shown(data: SeriesData) -> str:
    return repr(data).removeprefix("SeriesData(").removesuffix(")")


def _how_to_go_on(checkpoint: Checkpoint, ranks: Ranks) -> str:
    if not checkpoint.exists():
        return "interrupted before there was anything to keep"
    if not ranks.alone:
        return f"interrupted; what was reached is in {checkpoint.folder}. To go on: the same command with --resume"
    return f"interrupted; what was reached is in {checkpoint.folder}. To go on: {again()}"
