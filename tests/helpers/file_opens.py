"""How often a file is opened."""

import builtins
import io
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest


def count_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A list that grows by `path` whenever Python opens the file, or polars does by its name."""
    opens: list[Path] = []

    def counting(function: Any) -> Any:
        def counted(file: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(file, str | os.PathLike) and Path(file) == path:
                opens.append(path)
            return function(file, *arguments, **options)

        return counted

    plain_open = counting(io.open)
    for module, name, function in [
        (builtins, "open", plain_open),
        (io, "open", plain_open),  # Path.open calls it
        (pl, "read_csv", counting(pl.read_csv)),
        (pl, "scan_csv", counting(pl.scan_csv)),
    ]:
        monkeypatch.setattr(module, name, function)
    return opens
