"""`siggpde evaluate`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.console import as_json as json_text
from siggpde.cli.console import check_output_file, note, one_line_errors, print_json, print_tables, write_bytes
from siggpde.cli.report import SUFFIXES


@options.reads_data
def evaluate(
    model: options.Model,
    data: options.Data,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the figures there as well.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="[FILE.html]", help="Write a page about it as well, by default report.html.")
    ] = None,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge a model on labelled series: how often it is right, and whether its probabilities are honest."""
    with one_line_errors():
        if output is not None:
            check_output_file(output, force, (".json",))
        if report is not None:
            check_output_file(report, force, SUFFIXES, "--report")
        from siggpde.cli.work.evaluate import metric_tables, run_evaluate  # noqa: PLC0415 - torch takes long to import

        metrics = run_evaluate(model, data, read_options, device, jobs, report)
        if report is not None:
            note(f"the report is in {report}")
        if output is not None:
            write_bytes(output, (json_text(metrics) + "\n").encode())
            note(f"the figures are in {output}")
        if as_json:
            print_json(metrics)
        else:
            print_tables(*metric_tables(metrics))
            if metrics["left_out"] is not None:
                note(metrics["left_out"])
