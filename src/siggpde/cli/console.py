"""Output of commands: tables and JSON on stdout, logs and one-line errors on stderr; exit codes and start-up."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import math
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from siggpde.io.formats import READ_OPTIONS
from siggpde.utils.files import check_replaceable, write_bytes

log = logging.getLogger("siggpde")

# Arguments in messages of the library that are options of the command line, which has no `reader` and `mmap`.
_ARGUMENTS = {option for options in READ_OPTIONS.values() for option in options} - {"reader", "mmap"}
_ARGUMENTS |= {"format", "likelihood", "members", "method", "device", "dtype", "checkpoint"}
_IN_PYTHON = re.compile(rf"(?<![\w.-])({'|'.join(sorted(_ARGUMENTS))})=(?=(['\[\w]?))")

_OBEYED = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")

_SWITCH = re.compile(r"\b(force|resume)=True\b")

_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}  # of every runtime, and of Intel's and LLVM's
_OF_THE_USER = (*_PASSIVE, "GOMP_SPINCOUNT", "KMP_LIBRARY")

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""


class WrongCall(Exception):
    """The command line itself is wrong: exit code 2."""


class Interrupted(Exception):
    """Ctrl-C: exit code 130; the message says what to do next."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Prints expected errors as one line on stderr, with --verbose the traceback; exits with 1, 2 or 130 (Ctrl-C)."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except (KeyboardInterrupt, Interrupted) as error:
        typer.echo(str(error) or "interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (WrongCall, FileExistsError) as error:
        typer.echo(f"Error: {printable(as_cli_options(str(error)))}", err=True)
        raise typer.Exit(2) from error
    except (OSError, ValueError, RuntimeError, ArithmeticError, ImportError, MemoryError) as error:
        log.debug("where it failed:", exc_info=True)
        words = printable(as_cli_options(str(error))) or type(error).__name__
        if isinstance(error, MemoryError):
            words = f"not enough memory: {words}; give fewer or shorter series at a time"
        typer.echo(f"Error: {words}", err=True)
        raise typer.Exit(1) from error


def as_cli_options(message: str) -> str:
    """Returns a message of the library on one line, with its arguments written as options of the command line.

    >>> as_cli_options("there is no column 'x' for target=;\\nleave it out with ignore=")
    "there is no column 'x' for --target; leave it out with --ignore"
    """
    message = _SWITCH.sub(r"--\1", " ".join(message.split()))
    return _IN_PYTHON.sub(lambda match: f"--{match[1]}" + (" " if match[2] else ""), message)


def resume_command() -> str:
    """Returns the command line of this process with --resume, to go on after an interruption."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    return f"{shlex.join(['siggpde', *arguments])} --resume"


def set_up_logging(verbose: bool) -> None:
    """Sends logs to stderr: in colours on a terminal, as plain lines elsewhere; warnings of Python are lines too."""
    on_terminal = sys.stderr.isatty()
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, show_time=False) if on_terminal else logging.StreamHandler()
    handler.addFilter(_made_printable)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    # In place of a function that prints a line of our code as well.
    warnings.showwarning = lambda message, *where, **more: log.warning("%s", as_cli_options(str(message)))


def printable(text: str) -> str:
    """Returns a text with signs that a terminal obeys, or that turn the direction of letters, written as escapes.

    >>> printable("\\x1b[31mred")
    '\\\\x1b[31mred'
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _made_printable(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    return True


def summary_table(title: str, *sections: Iterable[tuple[str, Any]]) -> Table:
    """Returns names and values in two columns, with a line between sections; "[red]" is text, not markup."""
    table = Table(title=Text(printable(title)), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for rows in sections:
        for name, value in rows:
            table.add_row(Text(printable(name)), Text(printable(str(value))))
        table.add_section()
    return table


def column_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, text_columns: int = 1) -> Table:
    """Returns a table with a header; the first `text_columns` columns are text, the others numbers."""
    table = Table(title=Text(printable(title)))
    for index, name in enumerate(header):
        table.add_column(Text(printable(name)), justify="left" if index < text_columns else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(value))) for value in row))
    return table


def percent(value: float | None) -> str:
    """Returns a share as it is in tables, "" for None."""
    return "" if value is None else f"{100 * value:.2f} %"


def number(value: float | None) -> str:
    """Returns a figure as it is in tables, "" for None."""
    return "" if value is None else f"{value:.4f}"


def print_tables(*tables: Table) -> None:
    """Prints tables, each below its title, which may be wider than the table."""
    console = Console()
    for index, table in enumerate(tables):
        title, table.title = table.title, None
        if index:
            console.print()
        console.print(title, style="italic")
        console.print(table)


def fits_terminal(table: Table) -> bool:
    """Returns whether the table can be shown without breaking its cells."""
    return Console(width=10_000).measure(table).maximum <= Console().width


def as_json(values: Any) -> str:
    """Returns JSON text of plain values; infinity and NaN, which JSON does not have, become null."""
    text = json.dumps(_without_nan(values), indent=2, ensure_ascii=False, allow_nan=False)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_result(values: Any, wanted_as_json: bool, tables: Callable[[], Iterable[Table]]) -> None:
    """Prints values as JSON, or the tables that show them."""
    if wanted_as_json:
        typer.echo(as_json(values))
    else:
        print_tables(*tables())


def check_output_file(
    output: Path | None,
    force: bool,
    suffixes: Sequence[str],
    option: str = "--output",
    inputs: Iterable[str | os.PathLike[str] | None] = (),
) -> None:
    """Refuses, before any work, an output file that is not wanted, is there (without --force), or is an input."""
    if output is None:
        return
    if output.suffix.lower() not in suffixes:
        raise WrongCall(f"{option} must end in {', '.join(suffixes)}; got {output}")
    if output.is_dir():
        raise WrongCall(f"{output} is a folder; name a file")
    if not output.parent.is_dir():
        raise WrongCall(f"the folder {output.parent} of {output.name} does not exist; make it first")
    check_replaceable(output, inputs)
    if output.exists() and not force:
        raise WrongCall(f"{output} exists; --force overwrites it")


def write_json(output: Path | None, values: Any, what: str) -> None:
    """Writes values as JSON, if there is an output file, and logs `what`, such as "the results are", and the file."""
    if output is not None:
        write_bytes(output, (as_json(values) + "\n").encode())
        log.info("%s in %s", what, output)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def panics_held_back(kind: str) -> Iterator[None]:
    """Holds back stderr, also of Rust, while ``.parquet`` is read: panics of polars become errors of one line."""
    stderr = None
    if kind == "parquet":
        with suppress(OSError):  # where there is no stderr at all
            stderr = os.dup(2)
    if stderr is None:
        yield
        return
    sys.stderr.flush()
    panicked = False
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except ValueError as error:
            panicked = type(error.__cause__).__name__ == "PanicException"
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            with suppress(OSError):
                os.write(2, b"" if panicked else held.read())


def import_quickly(*modules: str) -> None:
    """Imports modules without garbage collection, a third of the time of `import torch`, and freezes their objects."""
    enabled, first = gc.isenabled(), "torch" not in sys.modules
    gc.disable()
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        if first:
            gc.freeze()
        if enabled:
            gc.enable()


def wait_passively(environment: MutableMapping[str, str] = os.environ) -> None:
    """Lets waiting threads of OpenMP sleep, because spinning is slow on a busy machine, unless torch is loaded already
    or the user has set one of the variables.

    >>> environment = {"GOMP_SPINCOUNT": "1000"}
    >>> wait_passively(environment)
    >>> environment
    {'GOMP_SPINCOUNT': '1000'}
    """
    if "torch" not in sys.modules and not any(name in environment for name in _OF_THE_USER):
        environment.update(_PASSIVE)
