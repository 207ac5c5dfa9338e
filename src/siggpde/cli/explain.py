"""`siggpde explain`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.console import check_output_file, note, one_line_errors, print_json, print_tables, write_bytes


@options.reads_data
def explain(
    model: options.Model,
    data: options.Data,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many words to show.")] = 10,
    number: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Explain the prediction of this series, counted from 0.")
    ] = None,
    counterfactual: Annotated[
        bool, typer.Option("--counterfactual", help="With --number: the smallest change that turns the prediction.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw it as well; with --number, on the series.")
    ] = None,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what predictions rest on: channels, time regions, scales of windows, words (channels that move one after the
    other) and views of the series, overall and for each class, with standard deviations.

    With --number, what speaks for and against the prediction of one series, compared with the others of DATA, and in
    which channels and stretches of time; with --counterfactual also which change of one stretch would make it the
    runner-up.
    """
    with one_line_errors():
        if plot is not None:
            check_output_file(plot, force, (".png",), "--plot")
        from siggpde.cli.work.explain import explanation_tables, run_explain  # noqa: PLC0415 - torch takes long to import
        from siggpde.cli.work.importance_tables import footnote  # noqa: PLC0415

        explanation = run_explain(
            model,
            data,
            read_options,
            top,
            number,
            counterfactual=counterfactual,
            draw=plot is not None,
            device=device,
            jobs=jobs,
        )
        if plot is not None:
            write_bytes(plot, explanation.picture)
            note(f"the picture is in {plot}")
        if as_json:
            print_json(explanation.values)
        else:
            print_tables(*explanation_tables(explanation.values))
            if "classes" in explanation.values:
                note(footnote(explanation.values))
