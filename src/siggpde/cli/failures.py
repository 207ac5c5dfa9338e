"""How commands end when they cannot do what they are asked: one line on stderr, and the exit code."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.logging import RichHandler

log = logging.getLogger("siggpde")

_OPTIONS = "target|series|time|channels|ignore|separator|part|format|likelihood|members|device|dtype|checkpoint"
_IN_PYTHON = re.compile(rf"(?<![\w.-])({_OPTIONS})=(?=(['\[\w]?))")


class WrongCall(Exception):
    """The command line itself is wrong: exit code 2."""


class Interrupted(Exception):
    """Ctrl-C, with what to do next: exit code 1."""


@contextmanager
def failures() -> Iterator[None]:
    """Errors of users, data and files become one line; a traceback only with --verbose. Defects stay defects."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(1) from None
    except Interrupted as error:
        _say(str(error))
        raise typer.Exit(1) from None
    except WrongCall as error:
        _say(f"Error: {in_options(str(error))}")
        raise typer.Exit(2) from error
    except (OSError, ValueError, RuntimeError, ArithmeticError, ImportError, MemoryError) as error:
        log.debug("where it failed:", exc_info=True)
        _say(f"Error: {in_options(str(error)) or type(error).__name__}")
        raise typer.Exit(1) from error


def in_options(message: str) -> str:
    """A message of the library on one line, with its arguments as the options they are here.

    Examples:
        >>> in_options("there is no column 'x' for target=;\\nleave it out with ignore=")
        "there is no column 'x' for --target; leave it out with --ignore"
    """
    return _IN_PYTHON.sub(lambda found: f"--{found[1]}" + (" " if found[2] else ""), " ".join(message.split()))


def again() -> str:
    """This command, to be given once more to go on with what was interrupted."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return f"{shlex.join(['siggpde', *words])} --resume"


def note(message: str) -> None:
    """A line about what is going on, on stderr."""
    log.info("%s", message)


def set_up_logs(verbose: bool) -> None:
    """Logs go to stderr, in colours on a terminal and plain lines elsewhere."""
    on_terminal = sys.stderr.isatty()
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, show_time=False) if on_terminal else logging.StreamHandler()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)


def _say(line: str) -> None:
    typer.echo(line, err=True)
