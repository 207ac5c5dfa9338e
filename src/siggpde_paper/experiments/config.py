"""Settings of the experiments: TOML files beside this module, or the user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "configs"


def load_config(name: str, *, quick: bool = False, path: Path | None = None) -> dict[str, Any]:
    """The settings of an experiment, from its own file or from `path`; with `quick` those of its table [quick] on top.

    Examples:
        >>> load_config("pendigits")["inducing"]
        500
    """
    source = _FOLDER / f"{name}.toml" if path is None else path
    try:
        config = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileNotFoundError(f"{source} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ValueError(f"{source} is no TOML file: {error}") from error
    changes = config.pop("quick", {})
    if not isinstance(changes, dict):
        raise ValueError(f"{source}: quick must be a table, [quick], got {changes!r}")
    return merged(config, changes) if quick else config


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The settings with some changed, table by table.

    Examples:
        >>> merged({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 5}})
        {'a': 1, 'b': {'c': 5, 'd': 3}}
    """
    result = dict(config)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result
