"""`siggpde predict`, `evaluate` and `explain`: their options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.failures import WrongCall, failures, note
from siggpde.cli.tables import as_json as json_text
from siggpde.cli.tables import check_free, print_json, print_table, write_bytes


def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .csv, .parquet or .json file; without it CSV is printed.")
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="SHARE", help="Regression: how often intervals hold the number.")
    ] = 0.9,
    target: options.Target = None,
    series: options.Series = None,
    time: options.Time = None,
    channels: options.Channels = None,
    ignore: options.Ignore = None,
    separator: options.Separator = None,
    part: options.PartOption = None,
    form: options.FormatOption = None,
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
    """Predict new series: a class and its probabilities, or a number and its interval.

    DATA is read as it was for the fit, unless options say otherwise. It needs no labels; those it has are not read.
    From .npy or .parquet to .parquet, series are read, predicted and written block by block, however many there are.
    """
    with failures():
        if not 0 < level < 1:
            raise WrongCall(f"--level must be between 0 and 1, such as 0.9; got {level:g}")
        if output is not None and os.environ.get("RANK", "0") == "0":  # other ranks write nothing
            check_free(output, force, (".csv", ".parquet", ".json"))
        reading = options.Reading.of(target, series, time, channels, ignore, separator, part, form)
        streamed = output is not None and output.suffix.lower() == ".parquet" and not as_json
        if resume and not streamed:
            raise WrongCall("--resume is for predictions that go to a .parquet file; name it with --output")
        from siggpde.cli.predicting import (  # noqa: PLC0415 - torch takes long to import
            run_predict,
            run_predict_stream,
            table_bytes,
        )
        from siggpde.cli.several import several  # noqa: PLC0415

        with several() as ranks:
            if resume and not ranks.alone:
                raise WrongCall("--resume is for one process; several predict their parts and join them at the end")
            if output is not None and streamed and ranks.alone:
                count = run_predict_stream(
                    model, data, output, reading, level, resume=resume, force=force, device=device, jobs=jobs
                )
                if count is not None:
                    note(f"{count} predictions are in {output}")
                    return
            table = run_predict(model, data, reading, level, ranks, device, jobs)
        if not ranks.leads:
            return
        if output is not None:
            write_bytes(output, table_bytes(table, output.suffix.lower()))
            note(f"{len(table)} predictions are in {output}")
        if as_json or output is None:
            typer.echo(table_bytes(table, ".json" if as_json else ".csv").decode(), nl=False)


def evaluate(
    model: options.Model,
    data: options.Data,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the figures there as well.")] = None,
    target: options.Target = None,
    series: options.Series = None,
    time: options.Time = None,
    channels: options.Channels = None,
    ignore: options.Ignore = None,
    separator: options.Separator = None,
    part: options.PartOption = None,
    form: options.FormatOption = None,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge a model on labelled series: how often it is right, and whether its probabilities are honest."""
    with failures():
        if output is not None:
            check_free(output, force, (".json",))
        reading = options.Reading.of(target, series, time, channels, ignore, separator, part, form)
        from siggpde.cli.evaluating import metric_tables, run_evaluate  # noqa: PLC0415 - torch takes long to import

        facts = run_evaluate(model, data, reading, device, jobs)
        if output is not None:
            write_bytes(output, (json_text(facts) + "\n").encode())
            note(f"the figures are in {output}")
        if as_json:
            print_json(facts)
        else:
            print_table(*metric_tables(facts))


def explain(
    model: options.Model,
    data: options.Data,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many words to show.")] = 10,
    number: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Explain the prediction of this series, counted from 0.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw it as well.")] = None,
    target: options.Target = None,
    series: options.Series = None,
    time: options.Time = None,
    channels: options.Channels = None,
    ignore: options.Ignore = None,
    separator: options.Separator = None,
    part: options.PartOption = None,
    form: options.FormatOption = None,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what predictions rest on: words, the channels that move one after the other, and single channels.

    With --number, what speaks for and against the prediction of one series, compared with the others of DATA.
    """
    with failures():
        if plot is not None:
            check_free(plot, force, (".png",), "--plot")
        reading = options.Reading.of(target, series, time, channels, ignore, separator, part, form)
        from siggpde.cli.explaining import explanation_tables, run_explain  # noqa: PLC0415 - torch takes long to import

        found = run_explain(model, data, reading, top, number, draw=plot is not None, device=device, jobs=jobs)
        if plot is not None:
            write_bytes(plot, found.picture)
            note(f"the picture is in {plot}")
        if as_json:
            print_json(found.facts)
        else:
            print_table(*explanation_tables(found.facts))
