"""The command line: results on stdout, logs on stderr; exit code 0 is success, 1 a failure, 2 a wrong call."""

import json
import logging
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from siggpde._demo import run_demo
from siggpde._info import installation
from siggpde._train_demo import train_demo, write_training

app = typer.Typer(
    help="Predict from time series, and say how sure you are, with signature-kernel Gaussian processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

log = logging.getLogger(__name__)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"siggpde {metadata.version('siggpde')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more, on stderr.")] = False,
) -> None:
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)
    logging.getLogger("siggpde").setLevel(logging.DEBUG if verbose else logging.INFO)


@app.command(epilog="Example: siggpde info --json")
def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print versions, the instruction set picked, threads, and which backends work and why one does not."""
    facts = installation()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    table = _table("siggpde")
    for name, version in facts["versions"].items():
        table.add_row(name, version)
    machine = facts["machine"]
    table.add_row("processor", f"{machine['architecture']}, {machine['processors']} usable")
    table.add_row("threads", str(machine["threads"]))
    table.add_row("SIMD", facts["simd"] or "none (no native core)")
    for name, backend in facts["backends"].items():
        table.add_row(f"{name} backend", "available" if backend["available"] else f"no: {backend['reason']}")
    Console().print(table)


@app.command(epilog="Example: siggpde demo --output results")
def demo(
    output: Annotated[Path | None, typer.Option(help="Folder for demo.json, report.md and model.pt.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier demo.json.")] = False,
    series: Annotated[int | None, typer.Option(min=20, help="Train on so many series only.")] = None,
    seed: Annotated[int, typer.Option(help="Decides the validation part and the batches.")] = 0,
) -> None:
    """Train on the data set inside the package, and print accuracy, NLPP and times on its test set.

    Signatures and kernels of the data set are computed and checked first.
    """
    target = None if output is None else output / "demo.json"
    if target is not None and target.exists() and not force:
        raise typer.BadParameter(f"{target} exists; --force overwrites it", param_hint="--output")
    try:
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
        result = run_demo()
        facts, model = train_demo(series, seed)
        result["training"] = facts
        if target is not None:
            write_training(target.parent, facts, model)
            target.write_text(json.dumps(result, indent=2) + "\n")
            log.info("model and report written to %s", target.parent)
    except (OSError, ValueError, RuntimeError, ArithmeticError) as error:
        log.error("%s", error)
        raise typer.Exit(1) from error
    Console().print(_demo_table(result))


def _demo_table(result: dict[str, Any]) -> Table:
    data, signature = result["data"], result["signature"]
    diagonal, gram, checks = result["kernel_diagonal"], result["gram"], result["checks"]
    table = _table("siggpde demo")
    table.add_row(
        "data", f"{data['name']}: {data['series']} series, {data['points']} points, {data['channels']} channels"
    )
    table.add_row(f"signatures, depth {signature['depth']}", _work(signature, "series"))
    table.add_row("k(X, X)", _work(diagonal, "series"))
    table.add_row("Gram matrix", _work(gram, "pairs"))
    table.add_section()
    table.add_row("range of k(X, X)", f"{diagonal['smallest']:.4g} to {diagonal['largest']:.4g}")
    tail, relative_tail = checks["smallest_tail"], checks["smallest_relative_tail"]
    table.add_row("smallest k(X, X) - |S_M|²", f"{tail:.3g} (relative to k: {relative_tail:.1e})")
    eigenvalue, relative_eigenvalue = checks["smallest_eigenvalue"], checks["smallest_relative_eigenvalue"]
    table.add_row(
        "smallest eigenvalue of Gram", f"{eigenvalue:.3g} (relative to the largest: {relative_eigenvalue:.1e})"
    )
    table.add_section()
    trained = result["training"]
    data, seconds = trained["data"], trained["seconds"]
    table.add_row("trained on", f"{data['train']} series, judged on {data['test']} of other writers")
    table.add_row("accuracy", f"{100 * trained['accuracy']:.2f} %")
    table.add_row("NLPP", f"{trained['nlpp']:.4f}")
    table.add_row("time", f"{seconds['training']:.1f} s for training, {seconds['prediction']:.2f} s for prediction")
    return table


def _work(step: dict[str, Any], unit: str) -> str:
    shape = " x ".join(map(str, step["shape"]))
    return f"{shape} in {step['seconds'] * 1e3:.1f} ms, {step['per_second']:,.0f} {unit} a second"


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table
