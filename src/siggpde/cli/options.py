"""Options of several commands, above all how DATA is read; `--config` takes options from a file."""

from __future__ import annotations

import csv
import functools
import inspect
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer

from siggpde.cli.console import WrongCall, one_line_errors, set_up_logging
from siggpde.utils.times import TimeAs

Duplicates = Literal["error", "first", "last", "mean"]
Format = Literal["ts", "arff", "npz", "npy", "csv", "parquet"]
_NOT_IN_FILES = ("config", "data", "verbose", "help")
_GROUPS = "The group of each series, such as a person; groups are left out as a whole."
_SPANS = "Group series by the span of time in which they begin: 1d, 12h, 30min, 1w, ..."
_FACTS = "What is known beside the series, such as age: numbers, and text for categories."
Task = Literal["auto", "classification", "regression"]
TASK = "classification, regression, or auto: by the targets."
_TIMES = "Tell time stamps as dates or as the time elapsed since the start of a series; auto: as the data suggest."
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more, on stderr.")]
_ROW_A_POINT, _ROW_A_SERIES = "Tables with one row per point: ", "Tables with one row per series: "
_SERIES = f"{_ROW_A_POINT}the column that identifies the series. Without it, a row is a series."
_IDS = f"{_ROW_A_SERIES}ids, which are written next to the predictions."
_DUPLICATES = "Which value to keep of rows of a series with the same time; by default they are an error."
_PART = "What to read if DATA has both parts; by default train for fit and compare, otherwise test."


def option(help: str, metavar: str | None = None, name: str | None = None, **more: Any) -> Any:
    """Returns an option of a command, to be used in `Annotated`; without `name` it is called as its parameter."""
    return typer.Option(*([] if name is None else [name]), metavar=metavar, help=help, **more)


def argument(help: str, metavar: str) -> Any:
    """Returns an argument of a command, to be used in `Annotated`."""
    return typer.Argument(metavar=metavar, help=help)


_reading = functools.partial(option, rich_help_panel="How DATA is read")

Data = Annotated[str, argument("A file (.csv, .parquet, .ts, .arff, .npz, .npy) or a data set's name.", "DATA")]
Model = Annotated[Path, argument("A model folder, written by siggpde fit.", "MODEL")]
Groups = Annotated[str | None, _reading(_GROUPS, "COLUMN")]
GroupsByTime = Annotated[str | None, _reading(_SPANS, "SPAN")]
Facts = Annotated[str | None, _reading(_FACTS, "A,B")]
SampleWeight = Annotated[str | None, _reading("The weight of each series in the fit.", "COLUMN")]
Seed = Annotated[int, option("Two runs with the same seed give the same results.", "N", min=0)]
Device = Annotated[str, option("Where to compute: cpu, cuda, cuda:1, ...")]
Jobs = Annotated[int | None, option("Threads; -1 is one per core. The default is that of the fit.", "N")]
Force = Annotated[bool, option("Overwrite existing files.", name="--force")]
TimesAs = Annotated[TimeAs, option(_TIMES, name="--time-as")]
AsJson = Annotated[bool, option("Print JSON.", name="--json")]


@dataclass(frozen=True)
class ReadOptions:
    """How DATA is read; None for an option that was not given. The last four are options of few commands."""

    target: Annotated[str | None, _reading("The labels, or the numbers to predict.", "COLUMN")] = None
    series: Annotated[str | None, _reading(_SERIES, "COLUMN")] = None
    id: Annotated[str | None, _reading(_IDS, "COLUMN")] = None
    time: Annotated[str | None, _reading(f"{_ROW_A_POINT}times, as numbers or dates.", "COLUMN")] = None
    duplicates: Annotated[Duplicates | None, _reading(_DUPLICATES)] = None
    channels: Annotated[str | None, _reading("Tables: the columns to read; by default all numeric ones.", "A,B")] = None
    ignore: Annotated[str | None, _reading("Tables: the columns to leave out.", "A,B")] = None
    separator: Annotated[str | None, _reading("CSV: the mark between cells; by default it is guessed.", "MARK")] = None
    part: Annotated[Literal["train", "test"] | None, _reading(_PART)] = None
    format: Annotated[Format | None, _reading("The format, if the suffix does not say it: csv, ...", "SUFFIX")] = None
    facts: str | None = None
    groups: str | None = None
    sample_weight: str | None = None
    groups_by_time: str | None = None

    def given(self) -> dict[str, Any]:
        """Returns the options of reading that were given; groups by time are computed after reading."""
        names = {name: split_names(getattr(self, name), f"--{name}") for name in ("channels", "ignore", "facts")}
        options = {**vars(self), **names, "groups_by_time": None}
        return {key: value for key, value in options.items() if value is not None}

    def files(self, data: str) -> list[Path]:
        """Returns the paths that are read, if they are files: DATA, and labels, groups and weights of arrays."""
        named = [Path(name) for name in (self.target, self.groups, self.sample_weight) if name is not None]
        return [Path(data), *named, *(Path(data).parent / name for name in named)]

    def with_groups(
        self,
        groups: str | None,
        groups_by_time: str | None = None,
        sample_weight: str | None = None,
        facts: str | None = None,
    ) -> ReadOptions:
        """Returns the options with those of groups, weights and facts of series."""
        if groups is not None and groups_by_time is not None:
            raise WrongCall("--groups and --groups-by-time exclude each other; leave out one of them")
        return replace(self, groups=groups, groups_by_time=groups_by_time, sample_weight=sample_weight, facts=facts)


@dataclass(frozen=True)
class ModelCall:
    """MODEL and DATA of a command that uses a model, and the options that all these commands have."""

    model: Model
    data: Data
    read_options: ReadOptions
    device: Device = "cpu"
    jobs: Jobs = None
    force: Force = False
    as_json: AsJson = False

    @property
    def inputs(self) -> list[Path]:
        """The files and folders that are read, which no output may overwrite."""
        return [self.model, *([] if self.data is None else self.read_options.files(self.data))]


@dataclass(frozen=True, kw_only=True)
class CallOfModel(ModelCall):
    """The same of a command that may do without DATA."""

    data: Annotated[str | None, argument("Its series, as for fit; --paper needs none.", "DATA")] = None  # pyright: ignore[reportIncompatibleVariableOverride]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command, whose options may be fields of dataclasses; expected errors are printed as one line."""

    @functools.wraps(function)
    def decorated(verbose: bool, **values: Any) -> None:
        if verbose:
            set_up_logging(True)
        with one_line_errors():
            function(**_arguments(function, values))

    parameters = [*_options(function), Parameter("verbose", Parameter.KEYWORD_ONLY, default=False, annotation=Verbose)]
    vars(decorated)["__signature__"] = inspect.Signature(parameters)
    decorated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return decorated


def _options(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Returns the parameters of a function that are on the command line, also those that are fields of dataclasses."""
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if inspect.isclass(parameter.annotation) and is_dataclass(parameter.annotation):
            yield from _options(parameter.annotation)
        elif get_origin(parameter.annotation) is Annotated:
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY)


def _arguments(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a function, in dataclasses where it has them, from the values on the command line."""
    arguments = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if inspect.isclass(parameter.annotation) and is_dataclass(parameter.annotation):
            arguments[name] = parameter.annotation(**_arguments(parameter.annotation, values))
        elif name in values:
            arguments[name] = values[name]
    return arguments


def split_names(text: str | None, option: str) -> list[str] | None:
    """Returns names separated by commas; a name with a comma in it must be in double quotes.

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


def as_arguments(options: dict[str, Any]) -> list[str]:
    """Returns options, by their names in Python, as the words of a command line."""
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", join_names(value) if isinstance(value, list) else str(value)]
    return words


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
    keys = [(parameter.name or "").removeprefix("as_").replace("_", "-") for parameter in ctx.command.params]
    named = zip(keys, ctx.command.params, strict=True)
    parameters = {key: parameter for key, parameter in named if key not in _NOT_IN_FILES}
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
