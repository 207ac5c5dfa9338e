"""`siggpde predict`: its options."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.console import WrongCall, caution, check_output_file, note, one_line_errors, write_bytes
from siggpde.cli.imports import without_collections


class OnErrorOption(StrEnum):
    fail = "fail"
    skip = "skip"


@options.reads_data
def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .csv, .parquet or .json file; without it CSV is printed.")
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="SHARE", help="Regression: how often intervals hold the number.")
    ] = 0.9,
    on_error: Annotated[
        OnErrorOption,
        typer.Option(
            "--on-error",
            metavar="fail|skip",
            help="A series that cannot be predicted stops the command, or has an empty row with the reason.",
        ),
    ] = OnErrorOption.fail,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Classification: costs of decisions (columns) by true class (rows)."),
    ] = None,
    reject_cost: Annotated[
        float | None,
        typer.Option(metavar="COST", help="Classification: don't know where every decision costs more on average."),
    ] = None,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with predictions that were interrupted (.npy or .parquet to .parquet)."),
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Predict new series: a class and its probabilities, or a number and its interval; and how new each series is.

    DATA is read as it was for the fit, unless options say otherwise. It needs no labels; those it has are not read.
    From .npy or .parquet to .parquet, series are read, predicted and written block by block, however many there are.
    """
    with one_line_errors():
        if not 0 < level < 1:
            raise WrongCall(f"--level must be between 0 and 1, such as 0.9; got {level:g}")
        if output is not None and os.environ.get("RANK", "0") == "0":  # other ranks write nothing
            check_output_file(output, force, (".csv", ".parquet", ".json"))
        by_cost = costs is not None or reject_cost is not None
        streamed = output is not None and output.suffix.lower() == ".parquet" and not as_json and not by_cost
        if resume and by_cost:
            raise WrongCall("--resume is for predictions block by block, which --costs and --reject-cost are not")
        if resume and not streamed:
            raise WrongCall("--resume is for predictions that go to a .parquet file; name it with --output")
        with without_collections():
            from siggpde.cli.processes import connected_ranks  # noqa: PLC0415 - torch takes long to import
            from siggpde.cli.work import predict as work  # noqa: PLC0415

        with connected_ranks() as ranks:
            if resume and not ranks.alone:
                raise WrongCall("--resume is for one process; several predict their parts and join them at the end")
            if output is not None and streamed and ranks.alone:
                counts = work.run_predict_stream(
                    model,
                    data,
                    output,
                    read_options,
                    level,
                    on_error=on_error.value,
                    resume=resume,
                    force=force,
                    device=device,
                    jobs=jobs,
                )
                if counts is not None:
                    _say_how_many(*counts, output)
                    return
            table, unlike = work.run_predict(
                model, data, read_options, level, ranks, device, jobs, on_error.value, costs, reject_cost
            )
        if not ranks.leads:
            return
        if output is not None:
            write_bytes(output, work.table_bytes(table, output.suffix.lower()))
        counts = len(table), work.skipped(table), unlike
        if as_json or output is None:
            typer.echo(work.table_bytes(table, ".json" if as_json else ".csv").decode(), nl=False)
        _say_how_many(*counts, output)


def _say_how_many(count: int, skipped: int, unlike: str | None, output: Path | None) -> None:
    """Says where the predictions are, which of them tell little, and how many series had none; exit code 1 if none had
    one."""
    if output is not None:
        note(f"{count - skipped} predictions are in {output}")
    if unlike is not None:
        caution(unlike)
    if skipped:
        note(f"{skipped} of {count} series could not be predicted; the column error says why")
    if skipped == count:
        raise typer.Exit(1)
