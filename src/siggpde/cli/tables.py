"""Results on stdout: tables for people, JSON for programs, and files that appear whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from siggpde.cli.failures import WrongCall
from siggpde.files import atomic_write


def fact_table(title: str, *sections: Iterable[tuple[str, Any]]) -> Table:
    """Names and values in two columns, a line between sections. Labels such as "[red]" are no markup."""
    table = Table(title=Text(title), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for rows in sections:
        for name, value in rows:
            table.add_row(Text(name), Text(str(value)))
        table.add_section()
    return table


def column_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, texts: int = 1) -> Table:
    """A table with a header; the first `texts` columns are words, the others numbers."""
    table = Table(title=Text(title))
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="left" if place < texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    return table


def print_table(*tables: Table) -> None:
    """Tables under their titles, which may be longer than the tables are wide."""
    console = Console()
    for place, table in enumerate(tables):
        title, table.title = table.title, None
        if place:
            console.print()
        console.print(title, style="italic")
        console.print(table)


def fits_terminal(table: Table) -> bool:
    """Whether the table can be shown without breaking its cells."""
    return Console(width=10_000).measure(table).maximum <= Console().width


def as_json(facts: Any) -> str:
    """Text of plain values; what JSON has no number for, such as infinity, is null."""
    return json.dumps(_finite(facts), indent=2, ensure_ascii=False, allow_nan=False)


def print_json(facts: Any) -> None:
    typer.echo(as_json(facts))


def check_free(output: Path, force: bool, suffixes: Sequence[str], option: str = "--output") -> None:
    """Before any work: the file can be written, is not there yet (or may go), and its suffix says what to write."""
    if output.suffix.lower() not in suffixes:
        raise WrongCall(f"{option} must end in {', '.join(suffixes)}; got {output}")
    if output.is_dir():
        raise WrongCall(f"{output} is a folder; name a file")
    if not output.parent.is_dir():
        raise WrongCall(f"the folder {output.parent} of {output.name} does not exist; make it first")
    if output.exists() and not force:
        raise WrongCall(f"{output} exists; --force overwrites it")


def write_bytes(output: Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    with atomic_write(output) as file:
        file.write(content)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
