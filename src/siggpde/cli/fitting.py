"""What `siggpde fit` does."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.checkpoints import Checkpoint
from siggpde.cli.describing import data_rows, estimator_facts, member_table
from siggpde.cli.failures import Interrupted, WrongCall, again
from siggpde.cli.options import Reading
from siggpde.cli.reading import read_series, to_remember
from siggpde.cli.tables import fact_table
from siggpde.estimators import SigGPClassifier, SigGPRegressor
from siggpde.estimators.fitting import CLASSIFIERS, REGRESSORS
from siggpde.io import SeriesData
from siggpde.persistence.folder import MANIFEST, _check_free

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
) -> dict[str, Any]:
    """Reads, fits, saves; what was fitted as plain facts."""
    check_output(output, force)
    checkpoint = Checkpoint.of(output)
    if checkpoint.exists() and not resume and not force:
        raise WrongCall(f"{checkpoint.folder} holds a fit that was interrupted; --resume goes on, --force starts anew")
    found = read_series(data, reading, "train")
    if found.y is None:
        raise WrongCall(f"{data} says no labels; name where they are with --target")
    task = choose_task(found.y) if task == "auto" else task
    log.info("%s: %s", task, _shown(found))
    estimator = make_estimator(task, found, settings)
    if resume and not checkpoint.exists():
        log.info("there is no checkpoint %s, so the fit starts from the beginning", checkpoint.folder)
    with checkpoint.kept(fresh=not resume):
        try:
            estimator.set_params(checkpoint=str(checkpoint.folder), resume=resume, verbose=1)
            estimator.fit(found.X, found.y)
            # Settings of this run, not of the model.
            estimator.set_params(checkpoint=None, resume=False, verbose=0)
            estimator.reading_ = to_remember(found, reading)  # pyright: ignore[reportAttributeAccessIssue]
            estimator.save(output, force=force)
        except KeyboardInterrupt:
            raise Interrupted(_how_to_go_on(checkpoint)) from None
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
            _check_free(output, force=True)
        except FileExistsError as error:
            raise WrongCall(str(error)) from error


def choose_task(y: np.ndarray) -> str:
    """Classes for strings, bools and integers, a regression for numbers with fractions."""
    if y.dtype.kind not in "fiu":
        return "classification"
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


def _how_to_go_on(checkpoint: Checkpoint) -> str:
    if not checkpoint.exists():
        return "interrupted before there was anything to keep"
    return f"interrupted; what was reached is in {checkpoint.folder}. To go on: {again()}"
