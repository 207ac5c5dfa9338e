"""What `siggpde predict` does."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from siggpde.cli.console import Interrupted, WrongCall, note, resume_command
from siggpde.cli.data import read_series, stream_series
from siggpde.cli.options import ReadOptions
from siggpde.cli.processes import gather_table, threads_per_rank
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.estimators.restoring import Predictor, load_predictor
from siggpde.io import NotStreamable, SeriesData, SeriesStream
from siggpde.io.predictions import BlockFolder, OnError, predict_blocks, prediction_table, unlike_in, without_reasons


def run_predict(
    model: Path,
    data: str,
    read_options: ReadOptions,
    level: float,
    ranks: Ranks = ALONE,
    device: str = "cpu",
    jobs: int | None = None,
    on_error: OnError = "fail",
    costs: Path | None = None,
    reject_cost: float | None = None,
) -> tuple[pl.DataFrame, str | None]:
    """One row a series: id, prediction, then a probability a class, or std, lower and upper, and novelty; of all ranks
    on rank 0. And a line about series that are unlike all training series, if there are some."""
    with ranks.together():
        estimator = open_model(model, device, jobs)
        estimator.n_jobs = threads_per_rank(estimator.n_jobs, ranks)
        series = series_for(estimator, data, read_options, labels=False, ranks=ranks)
        if ranks.leads:
            _say_if_too_old(model, estimator)
        table = prediction_table(estimator, series, level, on_error, True)
        if costs is not None or reject_cost is not None:
            from siggpde.cli.work.decisions import with_decisions  # noqa: PLC0415 - other predictions need none

            table = with_decisions(table, estimator, costs, reject_cost)
    whole = gather_table(table, series.ids is None, ranks)
    return without_reasons(whole), unlike_in(whole)


def run_predict_stream(
    model: Path,
    data: str,
    output: Path,
    read_options: ReadOptions,
    level: float,
    *,
    on_error: OnError,
    resume: bool,
    force: bool,
    device: str,
    jobs: int | None,
) -> tuple[int, int, str | None] | None:
    """Predicts into a .parquet file block by block; returns how many, how many of them could not be predicted, and a
    line about series that are unlike all training series, if there are some.

    None if DATA must be read as a whole.
    """
    blocks = BlockFolder.of(output)
    if blocks.exists() and not resume and not force:
        raise WrongCall(
            f"{blocks.folder} holds predictions that were interrupted; --resume goes on, --force starts anew"
        )
    estimator = open_model(model, device, jobs)
    try:
        series = stream_series(data, read_options, getattr(estimator, "reading_", {}))
    except NotStreamable as error:
        if resume:
            raise WrongCall(f"--resume cannot be: {error}") from error
        return None
    check_layout(estimator, data, series)
    _say_if_too_old(model, estimator)
    try:
        count, unlike = predict_blocks(
            estimator, series, output, level=level, on_error=on_error, resume=resume, force=force or resume
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; what was predicted is in {blocks.folder}. To go on: {resume_command()}"
        ) from None
    return count, skipped(pl.scan_parquet(output)), unlike


def skipped(table: pl.DataFrame | pl.LazyFrame) -> int:
    """How many series of a table of predictions could not be predicted."""
    lazy = table.lazy()
    if "error" not in lazy.collect_schema():
        return 0
    return int(lazy.select(pl.col("error").is_not_null().sum()).collect().item())


def _say_if_too_old(model: Path, estimator: Predictor) -> None:
    if estimator.committee_.novelty is None:
        note(
            f"{model} was fitted by an earlier version of siggpde and cannot tell how new a series is: there is no "
            "column novelty; fit the model again to have it"
        )


def open_model(path: Path, device: str, jobs: int | None) -> Predictor:
    """Loads the model onto the device, with `jobs` threads, by default those it was fitted with."""
    if jobs is not None and jobs < 1 and jobs != -1:
        raise WrongCall(f"--jobs must be a positive number, or -1 for one a core; got {jobs}")
    estimator = load_predictor(path, device)
    if jobs is not None:
        estimator.n_jobs = jobs
    return estimator


def series_for(
    estimator: Predictor, data: str, read_options: ReadOptions, *, labels: bool, ranks: Ranks = ALONE
) -> SeriesData:
    """The series of DATA, read with the options that the model remembers, and checked to have its channels."""
    remembered = getattr(estimator, "reading_", {})
    series = read_series(data, read_options, "test", remembered, labels=labels, ranks=ranks)
    check_layout(estimator, data, series)
    return series


def check_layout(estimator: Predictor, data: str, series: SeriesData | SeriesStream) -> None:
    """Raises ValueError where the series have other channels than those of the fit."""
    names = tuple(series.channel_names)
    if len(names) != estimator.n_channels_:
        wanted = ", ".join(estimator.channel_names_)
        raise ValueError(
            f"{data} has {len(names)} channels ({', '.join(names)}), but the model was fitted with "
            f"{estimator.n_channels_} ({wanted})"
        )
    if (series.time_channel is None) != (estimator.time_channel is None):
        has = (
            "no time stamps, but the model was" if series.time_channel is None else "time stamps, but the model was not"
        )
        raise ValueError(f"{data} is read with {has} fitted with them; give the --time of the fit")


def table_bytes(table: pl.DataFrame, suffix: str) -> bytes:
    """The content of a file with this suffix that holds the table; in JSON it is a list of rows."""
    if suffix == ".csv":
        return table.write_csv().encode()
    if suffix == ".json":
        return (table.write_json() + "\n").encode()
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()
