"""Pages of the manual as programs: their code blocks, what these print, and the pictures that the pages show.

A page is Markdown. Its ``python`` blocks share one namespace, in order, as a reader would type them. In a tutorial
``bash`` blocks are run too, in the same folder, and a ``text`` block right after a block of code is what that code
prints.
"""

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path

from siggpde.datasets import find_dataset

BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL
)
PICTURE = re.compile(r"!\[[^\]]*\]\(pictures/([^)\s]+)\)")
DATA_SET = re.compile(r"(?:load|find)_dataset\(\"(\w+)\"")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code, the line of the page at which the code starts, and where in the text the
    block, with its fences, starts and ends."""

    language: str
    code: str
    line: int
    start: int
    end: int


class PageError(Exception):
    """A block of a page that does not run."""


def all_blocks(text: str) -> list[Block]:
    """The fenced blocks of a page that name their language, in order."""
    listed = []
    for match in BLOCK.finditer(text):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("code")) + 1
        listed.append(Block(match["language"], code, line, match.start(), match.end()))
    return listed


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """The ``python`` blocks of a page with the line at which each one's code starts."""
    for block in all_blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            yield block.line, block.code


def outputs(text: str) -> dict[Block, Block]:
    """The ``text`` block of every block of code that has one right after it, with nothing but blank lines between."""
    return {
        code: shown
        for code, shown in pairwise(all_blocks(text))
        if code.language in ("python", "bash") and shown.language == "text" and not text[code.end : shown.start].strip()
    }


def pictures(text: str) -> list[str]:
    """The names of the files in the folder `pictures` that a page shows."""
    return PICTURE.findall(text)


def missing_data(text: str) -> list[str]:
    """The data sets that a page asks for by name and that are in no folder of `siggpde.datasets`."""
    missing = []
    for name in dict.fromkeys(DATA_SET.findall(text)):
        try:
            find_dataset(name)
        except FileNotFoundError:
            missing.append(name)
    return missing


def run_python(code: str, namespace: dict[str, object], name: str, line: int = 1) -> str:
    """Runs a block in `namespace` and returns what it prints; PageError with the page `name` and the line at fault."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            # Blank lines in front make the line numbers of a traceback those of the page.
            exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)
    except Exception as error:
        raise PageError(f"{name}, block at line {line}, line {_line_of(error, name)}: {error!r}") from error
    return printed.getvalue()


def run_bash(code: str, name: str, line: int = 1) -> str:
    """Runs a block by bash in the current folder, with the commands of this environment, and returns its stdout."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = ["bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path, "COLUMNS": "110"})
    if done.returncode:
        raise PageError(f"{name}, block at line {line}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def run_page(text: str, name: str) -> dict[Block, str]:
    """Runs the code of a page in the current folder; what each block printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = {}
    for block in all_blocks(text):
        if block.language == "python":
            printed[block] = run_python(block.code, namespace, name, block.line)
        elif block.language == "bash":
            printed[block] = run_bash(block.code, name, block.line)
    return printed


def differences(shown: str, printed: str, tolerance: float = 0.02) -> list[str]:
    """Lines in which the output shown differs from that printed: in a word, or in a number by more than `tolerance`
    of its size or, for numbers below 1, by more than `tolerance` itself.

    Numbers may differ a little between machines and versions of torch.
    """
    expected, actual = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    if len(expected) != len(actual):
        return [f"{len(expected)} lines are shown, {len(actual)} printed:\n{printed}"]
    return [f"shown {a!r}, printed {b!r}" for a, b in zip(expected, actual, strict=True) if not _alike(a, b, tolerance)]


def _alike(a: str, b: str, tolerance: float) -> bool:
    if [part.split() for part in NUMBER.split(a)] != [part.split() for part in NUMBER.split(b)]:
        return False
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)), strict=True)
    return all(abs(x - y) <= tolerance * max(1.0, abs(x)) for x, y in pairs)


def _line_of(error: Exception, name: str) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return lines[-1] if lines else None
