"""`siggpde predict`."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from siggpde.cli import options
from siggpde.cli.console import Interrupted, WrongCall, check_output_file, import_quickly, printable, resume_command
from siggpde.utils.files import write_bytes

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from siggpde.estimators.loading import Predictor

log = logging.getLogger(__name__)


_ON_ERROR = "A series that cannot be predicted stops the command (fail), or has an empty row with the reason (skip)."
_OUTPUT = "A .csv, .parquet or .json file; without it CSV is printed."
_LEVEL = "Regression: the share of numbers that intervals should hold."
_COSTS = "Classification: costs of decisions (columns) by true class (rows)."
_REJECT_COST = "Classification: decide nothing where every decision would cost more."
_RESUME = "Continue interrupted predictions (.npy or .parquet to .parquet)."


@options.command
def predict(
    output: Annotated[Path | None, options.option(_OUTPUT, "FILE")] = None,
    level: Annotated[float, options.option(_LEVEL, "SHARE")] = 0.9,
    on_error: Annotated[Literal["fail", "skip"], options.option(_ON_ERROR, "fail|skip")] = "fail",
    costs: Annotated[Path | None, options.option(_COSTS, "FILE.csv")] = None,
    reject_cost: Annotated[float | None, options.option(_REJECT_COST, "COST")] = None,
    resume: Annotated[bool, options.option(_RESUME, name="--resume")] = False,
    *,
    call: options.ModelCall,
) -> None:
    """Predict new series: a class and its probabilities, or a number and its interval; and the novelty of each series.

    DATA is read with the options of the fit, unless others are given. It needs no labels; if it has some, they are not
    read. From .npy or .parquet to .parquet, any number of series are read, predicted and written block by block.
    """
    if not 0 < level < 1:
        raise WrongCall(f"--level must be between 0 and 1, such as 0.9; got {level:g}")
    if os.environ.get("RANK", "0") == "0":  # other ranks write nothing
        check_output_file(output, call.force, (".csv", ".parquet", ".json"), inputs=[costs, *call.inputs])
    by_cost = costs is not None or reject_cost is not None
    in_blocks = output is not None and output.suffix.lower() == ".parquet" and not call.as_json and not by_cost
    if resume and by_cost:
        raise WrongCall("--resume is for predictions block by block, which --costs and --reject-cost are not")
    if resume and not in_blocks:
        raise WrongCall("--resume is for predictions that go to a .parquet file; name it with --output")
    import_quickly("siggpde.cli.data", "siggpde.io.predictions")
    from siggpde.cli.data import open_model, series_for
    from siggpde.cli.processes import connected_ranks, gather_table, threads_per_rank
    from siggpde.io.predictions import prediction_table, unlike_in, without_reasons

    with connected_ranks() as ranks:
        if resume and not ranks.alone:
            raise WrongCall("--resume is for one process; several predict their parts and join them at the end")
        if in_blocks and ranks.alone:
            assert output is not None
            counts = _predict_blocks(call, output, level, on_error, resume)
            if counts is not None:
                _log_counts(*counts, output)
                return
        with ranks.together():
            estimator = open_model(call)
            estimator.n_jobs = threads_per_rank(estimator.n_jobs, ranks)
            series = series_for(estimator, call, labels=False, ranks=ranks)
            if ranks.leads:
                _log_if_too_old(call.model, estimator)
            table = prediction_table(estimator, series, level, on_error, True)
            if by_cost:
                table = _with_decisions(table, estimator, costs, reject_cost)
        table = gather_table(table, series.ids is None, ranks)
    if not ranks.leads:
        return
    unlike, table = unlike_in(table), without_reasons(table)
    if output is not None:
        write_bytes(output, _content(table, output.suffix.lower()))
    if call.as_json or output is None:
        text = _content(table, ".json" if call.as_json else ".csv").decode()
        typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
    if unlike is not None:
        log.warning("%s", unlike)
    _log_counts(len(table), _count_failures(table), output)


def _log_counts(count: int, failures: int, output: Path | None) -> None:
    """Logs how many series were predicted; exit code 1 if all failed."""
    if output is not None:
        log.info("%d predictions are in %s", count - failures, output)
    if failures:
        log.info("%d of %d series could not be predicted; the column error says why", failures, count)
    if failures == count:
        raise typer.Exit(1)


def _predict_blocks(
    call: options.ModelCall, output: Path, level: float, on_error: Literal["fail", "skip"], resume: bool
) -> tuple[int, int] | None:
    """Predicts blocks into a ``.parquet`` file; numbers of series and failures, or None if DATA is read whole."""
    import polars as pl

    from siggpde.cli.data import check_layout, open_model, stream_series
    from siggpde.committee.novelty import NoveltyWarning
    from siggpde.io import NotStreamable
    from siggpde.io.predictions import BlockFolder, predict_stream

    blocks = BlockFolder.of(output)
    estimator = open_model(call)
    try:
        series = stream_series(call.data, call.read_options, getattr(estimator, "reading_", {}))
    except NotStreamable as error:
        if resume:
            raise WrongCall(f"--resume is impossible: {error}") from error
        return None
    check_layout(estimator, call.data, series)
    _log_if_too_old(call.model, estimator)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", NoveltyWarning)  # which the command line logs
            count = predict_stream(
                estimator, series, output, level=level, on_error=on_error, resume=resume, force=call.force or resume
            )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; finished blocks are in {blocks.folder}. To go on: {resume_command()}"
        ) from None
    return count, _count_failures(pl.scan_parquet(output))


def _count_failures(table: pl.DataFrame | pl.LazyFrame) -> int:
    """Returns how many series of a table of predictions could not be predicted."""
    import polars as pl

    rows = table.lazy()
    if "error" not in rows.collect_schema():
        return 0
    return int(rows.select(pl.col("error").is_not_null().sum()).collect().item())


def _log_if_too_old(model: Path, estimator: Predictor) -> None:
    if estimator.committee_.novelty is None:
        log.info(
            "%s was fitted by an earlier version of siggpde that has no novelty: there is no column novelty; fit the "
            "model again to have it",
            model,
        )


def _content(table: pl.DataFrame, suffix: str) -> bytes:
    """Returns the content of a file with this suffix; in JSON it is a list of rows."""
    if suffix == ".csv":
        from siggpde.io.frames import spreadsheet_safe

        return spreadsheet_safe(table).write_csv().encode()
    if suffix == ".json":
        return (table.write_json() + "\n").encode()
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()


def _with_decisions(
    table: pl.DataFrame, estimator: Predictor, costs: Path | None, reject_cost: float | None
) -> pl.DataFrame:
    """Returns predictions with the decisions of least cost in the column `prediction`, empty for no decision."""
    import numpy as np
    import polars as pl

    from siggpde.estimators.classifier import SeriesClassifier
    from siggpde.estimators.decisions import least_cost

    if not isinstance(estimator, SeriesClassifier):
        raise WrongCall("--costs and --reject-cost are for classes, and the model predicts numbers")
    classes = estimator.classes_
    matrix = None if costs is None else _read_costs(costs, [str(label) for label in classes.tolist()])
    chances = np.stack([table[f"p({label})"].to_numpy() for label in classes.tolist()], axis=1)
    known = table["prediction"].is_not_null().to_numpy()  # failures stay empty
    decided = np.full(len(table), None, dtype=object)
    decided[known] = least_cost(chances[known], classes, matrix, reject_cost)
    return table.with_columns(pl.Series("prediction", decided.tolist(), dtype=table.schema["prediction"]))


def _read_costs(path: Path, classes: list[str]) -> np.ndarray:
    """Returns the costs (C, C) in a file, rows and columns in the order of the classes."""
    import polars as pl

    if not path.is_file():
        raise WrongCall(f"there is no file {path} for --costs")
    table = pl.read_csv(path, infer_schema=False)
    rows = [label or "" for label in table.to_series(0).to_list()] if table.width else []
    for what, labels in (("rows", rows), ("columns", table.columns[1:])):
        if sorted(labels) != sorted(classes):
            raise ValueError(
                f"{path} must have {what} for the classes {', '.join(classes)}, each once; it has {', '.join(labels)}"
            )
    try:
        numbers = table.select(pl.col(classes).cast(pl.Float64, strict=True)).to_numpy()
    except pl.exceptions.InvalidOperationError as error:
        raise ValueError(f"{path} must have numbers only: {str(error).splitlines()[0]}") from None
    return numbers[[rows.index(label) for label in classes]]
