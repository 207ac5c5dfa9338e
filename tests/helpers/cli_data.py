"""Small files of series, and the command line on them, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from typer.testing import CliRunner

import siggpde
from siggpde.cli import app

FAST = ["--members", "1", "--n-features", "20", "--jobs", "1", "--time-limit", "0.4"]


def run(*arguments: Any) -> Any:
    """The result of a command, in this process; an exception that the command line should have caught is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeed(*arguments: Any) -> Any:
    """The result of a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def figures(*arguments: Any) -> Any:
    """What a command that must succeed prints as JSON."""
    return json.loads(succeed(*arguments, "--json").stdout)


def refuse(code: int, words: str, *arguments: Any) -> None:
    """Checks that a command ends with an exit code, and that its message has certain words and no traceback."""
    result = run(*arguments)
    assert result.exit_code == code and words in " ".join(result.stderr.split()), result.output
    assert "Traceback" not in result.stderr


def command(*arguments: Any) -> list[str]:
    """A command line with the interpreter, and the search for packages, of this process."""
    return [sys.executable, *["-S"] * sys.flags.no_site, "-m", "siggpde", *map(str, arguments)]


def start(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command as a user starts it."""
    kept: Any = {"capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(command(*arguments), **kept, check=False, env=os.environ | environment)


def long_table(count: int = 30, seed: int = 0, labels: Any = ("[red]", "blue"), length: int = 8) -> pl.DataFrame:
    """One row a point: x and y turn one way or the other, which the label says; `size` is a number to predict."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        place = number % len(labels)
        angle = np.linspace(0, 2, length) * (1 if place == 0 else -1) + 0.3 * generator.normal()
        radius = 1 + generator.random()
        for day, (x, y) in enumerate(zip(np.cos(angle), np.sin(angle), strict=True)):
            noise = 0.05 * generator.normal(size=2)
            rows.append(
                {
                    "who": f"w{number}",
                    "day": day + 0.1 * number,
                    "x": radius * x + noise[0],
                    "y": radius * y + noise[1],
                    "kind": labels[place],
                    "size": radius + 0.01 * number,
                }
            )
    return pl.DataFrame(rows)


def series_of(table: pl.DataFrame) -> np.ndarray:
    """The series (n, 3, length) of a table of `long_table`: time, x and y."""
    parts = table.partition_by("who", maintain_order=True)
    return np.stack([part.select("day", "x", "y").to_numpy().T for part in parts])


LONG = ["--series", "who", "--time", "day", "--channels", "x,y"]
UNTIMED = [*LONG, "--target", "kind", *FAST[:-2]]  # the same model on machines of every speed


def write(table: pl.DataFrame, path: Path) -> Path:
    table.write_csv(path)
    return path


def loaded(model: Path) -> Any:
    """The estimator in a folder, whichever it is."""
    return siggpde.load(model)


def weights(model: Path) -> bytes:
    """The bytes of the model's tensors: the same tensors have the same bytes."""
    (file,) = model.glob("weights-*.safetensors")
    return file.read_bytes()
