"""`--config file.toml`: options from a file, under those of the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer

from siggpde.cli.options import join_names

_NOT_IN_FILES = ("config", "data", "verbose", "help")
_RENAMED = {"format": "form", "json": "as_json"}


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Makes the entries of the file the defaults of the command, which converts and checks them like its options."""
    if path is None or ctx.resilient_parsing:
        return path
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise typer.BadParameter(f"{path} is no TOML file: {error}") from error
    table = entries.pop("fit", {})
    if not isinstance(table, dict):
        raise typer.BadParameter(f"{path}: fit must be a table, [fit]")
    ctx.default_map = {**(ctx.default_map or {}), **_defaults(ctx, {**entries, **table}, path)}
    return path


def _defaults(ctx: typer.Context, entries: dict[str, Any], path: Path) -> dict[str, Any]:
    parameters = {parameter.name: parameter for parameter in ctx.command.params if parameter.name not in _NOT_IN_FILES}
    defaults, unknown = {}, []
    for key, value in entries.items():
        plain = key.replace("-", "_")
        name = _RENAMED.get(plain, plain)
        if name not in parameters or plain in _RENAMED.values():
            unknown.append(key)
            continue
        defaults[name] = _value(value, bool(getattr(parameters[name], "is_flag", False)), f"{path}: {key}")
    if unknown:
        back = {name: key for key, name in _RENAMED.items()}
        known = ", ".join(sorted(back.get(name, name).replace("_", "-") for name in parameters if name))
        raise typer.BadParameter(f"{path} has unknown keys: {', '.join(unknown)}; known are {known}")
    return defaults


def _value(value: Any, flag: bool, source: str) -> Any:
    """The value as it would be written on the command line; typer.BadParameter for a wrong type."""
    if flag != isinstance(value, bool):
        wanted = "true or false" if flag else "a number or a text"
        raise typer.BadParameter(f"{source} must be {wanted}; got {value!r}")
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return join_names(value)
    if not isinstance(value, bool | int | float | str):
        raise typer.BadParameter(f"{source} must be a number, a text or a list of names; got {value!r}")
    return value if flag else str(value)
