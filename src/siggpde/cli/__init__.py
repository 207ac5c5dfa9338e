"""The command line: results on stdout, logs on stderr; exit code 0 is success, 1 a failure, 2 a wrong call.

Nothing here imports torch or scikit-learn: what a command does is in a module of its own, imported when it is called.
"""

import os
from importlib import metadata
from typing import Annotated

import typer

from siggpde.cli.about import demo, info
from siggpde.cli.commands import evaluate, explain, predict
from siggpde.cli.failures import WrongCall, failures, set_up_logs
from siggpde.cli.fit_command import fit
from siggpde.cli.reproduce_command import reproduce

app = typer.Typer(
    help="Predict from time series, and say how sure you are, with signature-kernel Gaussian processes.",
    no_args_is_help=True,
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
    set_up_logs(verbose)
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if started > 1 and ctx.invoked_subcommand not in ("fit", "predict"):
        with failures():
            raise WrongCall(f"{ctx.invoked_subcommand} is for one process, but there are {started}; leave out torchrun")


app.command(epilog="Example: siggpde fit pendigits --output digits --time-limit 5 --n-features 100")(fit)
app.command(epilog="Example: siggpde predict digits pendigits --output digits.csv")(predict)
app.command(epilog="Example: siggpde evaluate digits pendigits")(evaluate)
app.command(epilog="Example: siggpde explain digits pendigits --top 5")(explain)
app.command(epilog="Example: siggpde info --json")(info)
app.command(epilog="Example: siggpde reproduce complexity --quick --output complexity")(reproduce)
app.command(epilog="Example: siggpde demo --output results")(demo)
