"""`siggpde info` and `siggpde demo`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from siggpde.cli.failures import WrongCall, failures
from siggpde.cli.tables import fact_table, print_json, print_table

log = logging.getLogger(__name__)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def info(
    model: Annotated[Path | None, typer.Argument(help="A model folder to describe, not this installation.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print versions, the instruction set picked, threads, and which backends work and why one does not.

    With a MODEL, print what it was trained on, its settings, scores and versions.
    """
    with failures():
        if model is not None:
            from siggpde.cli.describing import describe_model, model_tables  # noqa: PLC0415 - torch takes long

            facts = describe_model(model)
            if as_json:
                print_json(facts)
            else:
                print_table(*model_tables(facts, str(model)))
            return
        from siggpde.installation import installation  # noqa: PLC0415 - torch takes long

        facts = installation()
        if as_json:
            print_json(facts)
        else:
            print_table(_installation_table(facts))


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder for demo.json, report.md and model/.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite those of an earlier call.")] = False,
    series: Annotated[int | None, typer.Option(min=20, help="Train on so many series only.")] = None,
    seed: Annotated[int, typer.Option(help="Decides which series settings are tried on.")] = 0,
) -> None:
    """Train on the data set inside the package, and print accuracy, NLPP and times on its test set.

    Signatures and kernels of the data set are computed and checked first.
    """
    with failures():
        if output is not None and not force:
            for there in (output / name for name in ("demo.json", "report.md", "model")):
                if there.exists():
                    raise WrongCall(f"{there} exists; --force overwrites it")
        from siggpde.experiments.demo_numerics import run_demo  # noqa: PLC0415 - torch takes long
        from siggpde.experiments.demo_training import train_demo, write_training  # noqa: PLC0415

        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
        result = run_demo()
        facts, model = train_demo(series, seed)
        result["training"] = facts
        if output is not None:
            write_training(output, facts, model)
            (output / "demo.json").write_text(json.dumps(result, indent=2) + "\n")
            log.info("model and report written to %s", output)
        print_table(_demo_table(result))


def _installation_table(facts: dict[str, Any]) -> Table:
    machine = facts["machine"]
    rows = [*facts["versions"].items()]
    rows += [("processor", f"{machine['architecture']}, {machine['processors']} usable")]
    rows += [("threads", machine["threads"]), ("SIMD", facts["simd"] or "none (no native core)")]
    for name, backend in facts["backends"].items():
        rows.append((f"{name} backend", "available" if backend["available"] else f"no: {backend['reason']}"))
    return fact_table("siggpde", rows)


def _demo_table(result: dict[str, Any]) -> Table:
    data, signature = result["data"], result["signature"]
    diagonal, gram, checks = result["kernel_diagonal"], result["gram"], result["checks"]
    tail, relative_tail = checks["smallest_tail"], checks["smallest_relative_tail"]
    eigenvalue, relative_eigenvalue = checks["smallest_eigenvalue"], checks["smallest_relative_eigenvalue"]
    trained = result["training"]
    used, seconds = trained["data"], trained["seconds"]
    return fact_table(
        "siggpde demo",
        [
            ("data", f"{data['name']}: {data['series']} series, {data['points']} points, {data['channels']} channels"),
            (f"signatures, depth {signature['depth']}", _work(signature, "series")),
            ("k(X, X)", _work(diagonal, "series")),
            ("Gram matrix", _work(gram, "pairs")),
        ],
        [
            ("range of k(X, X)", f"{diagonal['smallest']:.4g} to {diagonal['largest']:.4g}"),
            ("smallest k(X, X) - |S_M|²", f"{tail:.3g} (relative to k: {relative_tail:.1e})"),
            ("smallest eigenvalue of Gram", f"{eigenvalue:.3g} (relative to the largest: {relative_eigenvalue:.1e})"),
        ],
        [
            ("trained on", f"{used['train']} series, judged on {used['test']} of other writers"),
            ("accuracy", f"{100 * trained['accuracy']:.2f} %"),
            ("NLPP", f"{trained['nlpp']:.4f}"),
            ("time", f"{seconds['training']:.1f} s for training, {seconds['prediction']:.2f} s for prediction"),
        ],
    )


def _work(step: dict[str, Any], unit: str) -> str:
    shape = " x ".join(map(str, step["shape"]))
    return f"{shape} in {step['seconds'] * 1e3:.1f} ms, {step['per_second']:,.0f} {unit} a second"
