"""The command line: results on stdout, logs on stderr; exit code 0 is success, 1 a failure, 2 a wrong call, 130 Ctrl-C.
Commands import torch and numpy when they are called, so that help comes at once."""

import os
from importlib import metadata
from typing import Annotated

import typer

from siggpde.cli import compare, demo, drift, evaluate, explain, fit, info, predict, report, reproduce
from siggpde.cli.console import WrongCall, one_line_errors, set_up_logging, wait_passively

app = typer.Typer(
    help="Predict from time series, with calibrated probabilities, by Gaussian processes with signature kernels.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"siggpde {metadata.version('siggpde')}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more, on stderr.")] = False,
) -> None:
    set_up_logging(verbose)
    wait_passively()
    processes = int(os.environ.get("WORLD_SIZE") or 1)
    if processes > 1 and ctx.invoked_subcommand not in ("fit", "predict"):
        with one_line_errors():
            raise WrongCall(
                f"{ctx.invoked_subcommand} is for one process, but there are {processes}; leave out torchrun"
            )


app.command(
    cls=report.WithReport, epilog="Example: siggpde fit pendigits --output digits --time-limit 5 --n-features 100"
)(fit.fit)
app.command(epilog="Example: siggpde predict digits pendigits --output digits.csv")(predict.predict)
app.command(cls=report.WithReport, epilog="Example: siggpde evaluate digits pendigits")(evaluate.evaluate)
app.command(epilog="Example: siggpde compare pendigits --max-train 100 --max-test 500")(compare.compare)
app.command(epilog="Example: siggpde explain digits pendigits --top 5")(explain.explain)
app.command(epilog="Example: siggpde report digits pendigits --output digits.html --explained 1")(report.report)
app.command(epilog="Example: siggpde drift pendigits pendigits --max-series 200")(drift.drift)
app.command(epilog="Example: siggpde info --json")(info.info)
app.command(epilog="Example: siggpde reproduce complexity --quick --output complexity")(reproduce.reproduce)
app.command(epilog="Example: siggpde demo --output results")(demo.demo)
