"""Options that commands have in common, first of all those that say how DATA is read."""

from __future__ import annotations

import csv
import functools
import inspect
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


_READING = "How DATA is read"

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file (.csv, .parquet, .ts, .arff, .npz, .npy) or a data set's name.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, written by siggpde fit.")]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Where the labels or numbers to predict are.", rich_help_panel=_READING),
]
Series = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Tables with one row a point: the column that tells series apart. Without it, a row is a series.",
        rich_help_panel=_READING,
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Tables with one row a series: what the series are called, kept beside the predictions.",
        rich_help_panel=_READING,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Tables with one row a point: times, numbers or dates.", rich_help_panel=_READING
    ),
]
Channels = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Tables: the columns to read; by default all numbers.", rich_help_panel=_READING),
]
Ignore = Annotated[
    str | None, typer.Option(metavar="A,B", help="Tables: columns to leave out.", rich_help_panel=_READING)
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="MARK", help="CSV: what stands between cells, if not to be guessed.", rich_help_panel=_READING
    ),
]
PartOption = Annotated[
    Part | None,
    typer.Option("--part", help="Of data with both; by default fit and compare take train.", rich_help_panel=_READING),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", metavar="SUFFIX", help="Where the file's own does not tell: csv, ...", rich_help_panel=_READING
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="What a series is part of, such as a person: leave out whole groups, not series.",
        rich_help_panel=_READING,
    ),
]
GroupsByTime = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN",
        help="The same by the --time of the first point: 1d, 12h, 30min, 1w, ..",
        rich_help_panel=_READING,
    ),
]
SampleWeight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="What a series counts in the fit.", rich_help_panel=_READING),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ..")]
Jobs = Annotated[
    int | None, typer.Option(metavar="N", help="Threads; -1 is one a core. By default as the model was fitted.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", callback=_verbose, help="Log more, on stderr.")]


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
        """From the values of the parameters that `reads_data` adds to a command."""
        part, form = values["part"], values["form"]
        return ReadOptions(
            values["target"],
            values["series"],
            values["id"],
            values["time"],
            split_names(values["channels"], "--channels"),
            split_names(values["ignore"], "--ignore"),
            values["separator"],
            None if part is None else part.value,
            None if form is None else form.value,
        )

    def given(self) -> dict[str, Any]:
        """The options of reading that were given; groups by time are made of what was read."""
        return {key: value for key, value in asdict(self).items() if value is not None and key != "groups_by_time"}

    def beside(
        self, groups: str | None, groups_by_time: str | None = None, sample_weight: str | None = None
    ) -> ReadOptions:
        """The same with what a fit is told of every series beside its target."""
        if groups is not None and groups_by_time is not None:
            raise WrongCall("--groups and --groups-by-time exclude each other; leave out one of them")
        return replace(self, groups=groups, groups_by_time=groups_by_time, sample_weight=sample_weight)


NOT_GIVEN = ReadOptions()

_READ_PARAMETERS = {
    "target": Target,
    "series": Series,
    "id": Id,
    "time": Time,
    "channels": Channels,
    "ignore": Ignore,
    "separator": Separator,
    "part": PartOption,
    "form": FormatOption,
}


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command that has a parameter `read_options`: on the command line it has the options of `ReadOptions`.

    Typer makes the options of a command from its signature, so the decorated one has a signature in which a parameter
    for each of these options stands in place of `read_options`.
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
    """Names separated by commas; a name with a comma in it must be in double quotes.

    Examples:
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
    """The inverse of `split_names`."""
    return ",".join(f'"{name}"' if "," in name else name for name in names)
