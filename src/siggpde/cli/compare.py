"""`siggpde compare`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.console import (
    WrongCall,
    check_output_file,
    note,
    one_line_errors,
    print_json,
    print_tables,
    write_bytes,
)
from siggpde.cli.console import as_json as json_text
from siggpde.cli.fit import Task

_SPLITS = "What is learned and what is judged"


@options.reads_data
def compare(
    data: options.Data,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Judge on these series instead of folds; read as DATA is.", rich_help_panel=_SPLITS
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, help="Cross-validation with so many folds; by default 3.", rich_help_panel=_SPLITS
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="So many times, with other folds and seeds.", rich_help_panel=_SPLITS),
    ] = 1,
    max_train: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Learn from at most so many series.", rich_help_panel=_SPLITS),
    ] = None,
    max_test: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Judge on at most so many series.", rich_help_panel=_SPLITS),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="siggpde, minirocket, ..; by default all that are installed.")
    ] = None,
    task: Annotated[
        Task, typer.Option(metavar="NAME", help="classification, regression, or auto: by the targets.")
    ] = Task.auto,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Runs of one seed are the same.")] = 0,
    jobs: Annotated[int, typer.Option(metavar="N", help="Threads; -1 is one a core.")] = 1,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the figures there as well.")] = None,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    groups: options.Groups = None,
    groups_by_time: options.GroupsByTime = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare siggpde with other methods on your own labelled series: figures of predictions, and CPU seconds.

    All methods have default settings and the same splits. Those of aeon are there where it is installed (pip install
    aeon); their scores become probabilities by a temperature fitted to series that they did not learn from.
    """
    with one_line_errors():
        if output is not None:
            check_output_file(output, force, (".json",))
        if test is not None and folds is not None:
            raise WrongCall("--folds and --test exclude each other; leave out one of them")
        read_options = read_options.beside(groups, groups_by_time)
        names = options.split_names(methods, "--methods")
        from siggpde.cli.work.compare import Protocol, compare_tables, run_compare  # noqa: PLC0415 - torch takes long

        protocol = Protocol(test, folds or 3, repeats, max_train, max_test, seed, jobs)
        found = run_compare(data, read_options, task.value, names, protocol)
        if output is not None:
            write_bytes(output, (json_text(found) + "\n").encode())
            note(f"the figures are in {output}")
        if as_json:
            print_json(found)
        else:
            print_tables(*compare_tables(found))
