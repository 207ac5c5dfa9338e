"""`siggpde demo`: training on the data set inside the package."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from siggpde.cli.console import WrongCall, one_line_errors, print_tables, summary_table

log = logging.getLogger(__name__)


def demo(
    output: Annotated[
        Path | None, typer.Option(help="Folder for demo.json, report.html, report.md and model/.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite those of an earlier call.")] = False,
    series: Annotated[int | None, typer.Option(min=20, help="Train on so many series only.")] = None,
    seed: Annotated[int, typer.Option(help="Decides which series settings are tried on.")] = 0,
) -> None:
    """Train on the data set inside the package, and print accuracy, NLPP and times on its test set; with --output write
    the model and a report.

    Signatures and kernels of the data set are computed and checked first.
    """
    with one_line_errors():
        if output is not None and not force:
            for path in (output / name for name in ("demo.json", "report.html", "report.md", "model")):
                if path.exists():
                    raise WrongCall(f"{path} exists; --force overwrites it")
        from siggpde.experiments.demo_numerics import run_demo  # noqa: PLC0415 - torch takes long
        from siggpde.experiments.demo_training import train_demo, write_training  # noqa: PLC0415

        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
        page = None
        result = run_demo()
        training, model = train_demo(series, seed)
        result["training"] = training
        if output is not None:
            write_training(output, training, model)
            (output / "demo.json").write_text(json.dumps(result, indent=2) + "\n")
            page = _write_page(model, output)
        print_tables(_demo_table(result))
        if page is not None:
            log.info("model and figures are in %s", output)
            log.info("open the report in a browser: %s", page)


def _write_page(model: Any, output: Path) -> Path:
    """The report on the test series; returns its full path."""
    from siggpde.datasets import load_pendigits  # noqa: PLC0415 - numpy takes long to import

    data, page = load_pendigits(), output / "report.html"
    model.report(data.X_test, data.y_test, page, title="Handwritten digits (PenDigits)", target="digit", force=True)
    return page.resolve()


def _demo_table(result: dict[str, Any]) -> Table:
    data, signature = result["data"], result["signature"]
    diagonal, gram, checks = result["kernel_diagonal"], result["gram"], result["checks"]
    tail, relative_tail = checks["smallest_tail"], checks["smallest_relative_tail"]
    eigenvalue, relative_eigenvalue = checks["smallest_eigenvalue"], checks["smallest_relative_eigenvalue"]
    trained = result["training"]
    used, seconds = trained["data"], trained["seconds"]
    return summary_table(
        "siggpde demo",
        [
            ("data", f"{data['name']}: {data['series']} series, {data['points']} points, {data['channels']} channels"),
            (f"signatures, depth {signature['depth']}", _step(signature, "series")),
            ("k(X, X)", _step(diagonal, "series")),
            ("Gram matrix", _step(gram, "pairs")),
        ],
        [
            ("range of k(X, X)", f"{diagonal['smallest']:.4g} to {diagonal['largest']:.4g}"),
            ("smallest k(X, X) - |S_M|²", f"{tail:.3g} (relative to k: {relative_tail:.1e})"),
            ("smallest eigenvalue of Gram", f"{eigenvalue:.3g} (relative to the largest: {relative_eigenvalue:.1e})"),
        ],
        [
            ("trained on", f"{used['train']} series, tested on {used['test']} of other writers"),
            ("accuracy", f"{100 * trained['accuracy']:.2f} %"),
            ("NLPP", f"{trained['nlpp']:.4f}"),
            ("unlike all training series", f"{trained['unlike']} of the {used['test']}"),
            ("time", f"{seconds['training']:.1f} s for training, {seconds['prediction']:.2f} s for prediction"),
        ],
    )


def _step(step: dict[str, Any], unit: str) -> str:
    shape = " x ".join(map(str, step["shape"]))
    return f"{shape} in {step['seconds'] * 1e3:.1f} ms, {step['per_second']:,.0f} {unit} a second"
