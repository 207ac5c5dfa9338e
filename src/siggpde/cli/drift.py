"""`siggpde drift`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.console import one_line_errors, print_json, print_tables

Reference = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="Series of the source in question, such as those of the fit.")
]


@options.reads_data
def drift(
    reference: Reference,
    data: options.Data,
    permutations: Annotated[int, typer.Option(metavar="N", min=1, help="The smallest p-value is 1 / (N + 1).")] = 1000,
    max_series: Annotated[int, typer.Option(metavar="N", min=2, help="Draw so many of more series of a set.")] = 500,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Runs of one seed are the same.")] = 0,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Test whether the series of DATA come from the same source as those of REFERENCE; labels are not needed.

    Both are read with the same options. Of a data set by name, REFERENCE is its training and DATA its test part.
    """
    with one_line_errors():
        from siggpde.cli.work.drift import drift_table, run_drift  # noqa: PLC0415 - torch takes long to import

        found = run_drift(reference, data, read_options, permutations, max_series, seed)
        if as_json:
            print_json(found)
        else:
            print_tables(drift_table(found))
