"""`siggpde info`: the installation, or a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import one_line_errors, print_json, print_tables, summary_table


def info(
    model: Annotated[Path | None, typer.Argument(help="A model folder to describe, not this installation.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print versions, the instruction set picked, threads, and which backends work and why one does not.

    With a MODEL, print what it was trained on, its settings, scores and versions.
    """
    with one_line_errors():
        if model is not None:
            from siggpde.cli.work.describe import model_summary, model_tables  # noqa: PLC0415 - torch takes long

            summary = model_summary(model)
            if as_json:
                print_json(summary)
            else:
                print_tables(*model_tables(summary, str(model)))
            return
        from siggpde.numerics.installation import installation  # noqa: PLC0415 - torch takes long

        installed = installation()
        if as_json:
            print_json(installed)
        else:
            print_tables(_installation_table(installed))


def _installation_table(installed: dict[str, Any]) -> Table:
    machine = installed["machine"]
    rows = [*installed["versions"].items()]
    rows += [("processor", f"{machine['architecture']}, {machine['processors']} usable")]
    rows += [("threads", machine["threads"]), ("SIMD", installed["simd"] or "none (no native core)")]
    for name, backend in installed["backends"].items():
        rows.append((f"{name} backend", "available" if backend["available"] else f"no: {backend['reason']}"))
    return summary_table("siggpde", rows)
