"""`siggpde report`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from siggpde.cli import options
from siggpde.cli.console import check_output_file, note, one_line_errors, print_json

SUFFIXES = (".html", ".htm")
DEFAULT_PAGE = "report.html"
_OTHER_PAGES = (".md", ".pdf", ".txt", ".xhtml")  # after --report these are refused as pages, not read as data


class WithReport(TyperCommand):
    """A command with an option --report whose file name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, name_page(args))


def name_page(arguments: list[str]) -> list[str]:
    """The arguments with a file name after each --report that no name of a page follows."""
    named = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        named.append(argument)
        if argument == "--report" and not _is_page(following):
            named.append(DEFAULT_PAGE)
    return named


def _is_page(argument: str) -> bool:
    name = argument.lower()
    return name.endswith(SUFFIXES) or (name.endswith(_OTHER_PAGES) and not Path(argument).exists())


@options.reads_data
def report(
    model: options.Model,
    data: options.Data,
    output: Annotated[Path, typer.Option(metavar="FILE.html", help="Where the page is written.")] = Path(DEFAULT_PAGE),
    title: Annotated[str | None, typer.Option(help="The title of the page; by default model and data.")] = None,
    explained: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Series to explain: so many most uncertain, surprising and novel ones."),
    ] = 2,
    labels: Annotated[
        bool, typer.Option("--labels/--no-labels", help="Whether DATA has labels, to judge the predictions by.")
    ] = True,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="What a series is part of, such as a person: judge every group."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Pages of one seed are the same.")] = 0,
    read_options: options.ReadOptions = options.NOT_GIVEN,
    device: options.Device = "cpu",
    jobs: options.Jobs = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a page about a model and DATA: the series, what was fitted, how good it is, what it rests on, and series to
    look at. It is one HTML file that needs nothing else.
    """
    with one_line_errors():
        check_output_file(output, force, SUFFIXES)
        from siggpde.cli.work.report import PageSettings, run_report  # noqa: PLC0415 - torch takes long to import

        settings = PageSettings(title, explained, seed)
        run_report(model, data, output, read_options.beside(groups), settings, labels=labels, device=device, jobs=jobs)
        if as_json:
            print_json({"report": str(output)})
        else:
            note(f"the report is in {output}")
