"""Options of several commands, above all how DATA is read; `--config` takes options from a file."""

from __future__ import annotations

import csv
import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from siggpde.cli.console import WrongCall, one_line_errors, set_up_logging


class Part(StrEnum):
    train = "train"
    test = "test"


class Format(StrEnum):
    ts = "ts"
    arff = "arff"
    npz = "npz"
    npy = "npy"
    csv = "csv"
    parquet = "parquet"


def _verbose(wanted: bool) -> bool:
    if wanted:
        set_up_logging(True)
    return wanted


_NOT_IN_FILES = ("config", "data", "verbose", "help")
_reading = functools.partial(typer.Option, rich_help_panel="How DATA is read")

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file (.csv, .parquet, .ts, .arff, .npz, .npy) or a data set's name.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, written by siggpde fit.")]
Groups = Annotated[
    str | None,
    _reading(metavar="COLUMN", help="The group of each series, such as a person; whole groups are left out."),
]
GroupsByTime = Annotated[
    str | None, _reading(metavar="SPAN", help="Groups by the --time of the first point: 1d, 12h, 30min, 1w, ...")
]
SampleWeight = Annotated[str | None, _reading(metavar="COLUMN", help="The weight of each series in the fit.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Two runs with the same seed give the same results.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ...")]
Jobs = Annotated[
    int | None, typer.Option(metavar="N", help="Threads; -1 is one per core. The default is that of the fit.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", callback=_verbose, help="Log more, on stderr.")]

_READ_PARAMETERS: dict[str, Any] = {
    "target": Annotated[str | None, _reading(metavar="COLUMN", help="The labels, or the numbers to predict.")],
    "series": Annotated[
        str | None,
        _reading(
            metavar="COLUMN",
            help="Tables with one row per point: the column that identifies the series. Without it, a row is a series.",
        ),
    ],
    "id": Annotated[
        str | None,
        _reading(
            metavar="COLUMN",
            help="Tables with one row per series: the column of ids, which are written next to the predictions.",
        ),
    ],
    "time": Annotated[
        str | None, _reading(metavar="COLUMN", help="Tables with one row per point: times, as numbers or dates.")
    ],
    "channels": Annotated[
        str | None, _reading(metavar="A,B", help="Tables: the columns to read; by default all columns of numbers.")
    ],
    "ignore": Annotated[str | None, _reading(metavar="A,B", help="Tables: the columns to leave out.")],
    "separator": Annotated[
        str | None, _reading(metavar="MARK", help="CSV: the mark between cells; by default it is guessed.")
    ],
    "part": Annotated[
        Part | None, _reading(help="For data with both parts; by default fit and compare read train, others test.")
    ],
    "format": Annotated[
        Format | None, _reading(metavar="SUFFIX", help="The format, if the suffix does not say it: csv, ...")
    ],
}


@dataclass(frozen=True)
class ReadOptions:
    """How DATA is read; None for an option that was not given."""

    target: str | None = None
    series: str | None = None
    id: str | None = None
    time: str | None = None
    channels: list[str] | None = None
    ignore: list[str] | None = None
    separator: str | None = None
    part: str | None = None
    format: str | None = None
    groups: str | None = None
    sample_weight: str | None = None
    groups_by_time: str | None = None

    @staticmethod
    def from_command_line(values: dict[str, Any]) -> ReadOptions:
        """Returns the options from the values of the parameters that `reads_data` adds to a command."""
        texts = {name: None if value is None else str(value) for name, value in values.items()}
        lists = {name: split_names(texts[name], f"--{name}") for name in ("channels", "ignore")}
        return ReadOptions(**{**texts, **lists})

    def given(self) -> dict[str, Any]:
        """Returns the options of reading that were given; groups by time are computed after reading."""
        return {key: value for key, value in asdict(self).items() if value is not None and key != "groups_by_time"}

    def with_groups(
        self, groups: str | None, groups_by_time: str | None = None, sample_weight: str | None = None
    ) -> ReadOptions:
        """Returns the options with those of groups and weights of series."""
        if groups is not None and groups_by_time is not None:
            raise WrongCall("--groups and --groups-by-time exclude each other; leave out one of them")
        return replace(self, groups=groups, groups_by_time=groups_by_time, sample_weight=sample_weight)


NOT_GIVEN = ReadOptions()


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command with a parameter `read_options`: on the command line it has the options of `ReadOptions`.

    Typer takes the options of a command from its signature, so in that of the decorated command parameters for these
    options replace `read_options`. Expected errors are printed as one line.
    """
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "read_options":
            kind = Parameter.POSITIONAL_OR_KEYWORD
            parameters += [
                Parameter(name, kind, default=None, annotation=annotation)
                for name, annotation in _READ_PARAMETERS.items()
            ]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def decorated(**values: Any) -> None:
        with one_line_errors():
            read_options = ReadOptions.from_command_line({name: values.pop(name) for name in _READ_PARAMETERS})
            command(read_options=read_options, **values)

    vars(decorated)["__signature__"] = inspect.Signature(parameters)
    decorated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return decorated


def split_names(text: str | None, option: str) -> list[str] | None:
    """Returns names separated by commas; a name with a comma in it must be in double quotes.

    Examples
    --------
    >>> split_names('x, y,"a,b"', "--channels")
    ['x', 'y', 'a,b']
    """
    if text is None:
        return None
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not names or "" in names:
        raise WrongCall(f"{option} takes names with commas between them, such as x,y; got {text!r}")
    return names


def join_names(names: list[str]) -> str:
    """Returns the text that `split_names` splits."""
    return ",".join(f'"{name}"' if "," in name else name for name in names)


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Makes the entries of a TOML file the defaults of the command, which converts and checks them as its options."""
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
    parameters = {_key(parameter.name): parameter for parameter in ctx.command.params}
    parameters = {key: parameter for key, parameter in parameters.items() if key not in _NOT_IN_FILES}
    defaults, unknown = {}, []
    for key, value in entries.items():
        parameter = parameters.get(key.replace("_", "-"))
        if parameter is None:
            unknown.append(key)
        else:
            defaults[parameter.name] = _value(value, bool(getattr(parameter, "is_flag", False)), f"{path}: {key}")
    if unknown:
        known = ", ".join(sorted(parameters))
        raise typer.BadParameter(f"{path} has unknown keys: {', '.join(unknown)}; known are {known}")
    return defaults


def _key(parameter: str | None) -> str:
    """Returns the name of an option in a file, which is that on the command line."""
    return (parameter or "").removeprefix("as_").replace("_", "-")


def _value(value: Any, flag: bool, source: str) -> Any:
    """Returns the value as it is written on the command line; typer.BadParameter for a wrong type."""
    if flag != isinstance(value, bool):
        wanted = "true or false" if flag else "a number or a text"
        raise typer.BadParameter(f"{source} must be {wanted}; got {value!r}")
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return join_names(value)
    if not isinstance(value, bool | int | float | str):
        raise typer.BadParameter(f"{source} must be a number, a text or a list of names; got {value!r}")
    return value if flag else str(value)
