"""From DATA to series: a file with the options given and those a model remembers, or a data set by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from siggpde.cli.failures import WrongCall
from siggpde.cli.options import Reading
from siggpde.cli.several import read_rows, rows_of
from siggpde.datasets import Dataset, data_folders, find_dataset, load_dataset
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.io import NotStreamable, SeriesData, SeriesStream, stream
from siggpde.io.data import cut
from siggpde.io.formats import FORMATS

_TABLES = ("csv", "parquet")
_TABLE_OPTIONS = ("target", "series", "time", "channels", "ignore")
_TAKES = {
    "csv": (*_TABLE_OPTIONS, "separator"),
    "parquet": _TABLE_OPTIONS,
    "arff": ("target",),
    "npz": ("target",),
    "npy": ("target",),
    "ts": (),
}


def read_series(
    data: str,
    reading: Reading,
    part: str,
    remembered: dict[str, Any] | None = None,
    *,
    labels: bool = True,
    ranks: Ranks = ALONE,
) -> SeriesData:
    """The series of DATA; `part` is the one taken of train/test data, `remembered` what was said when fitting.

    Without `labels` the target is not read, and need not be there. With `ranks`, those that this rank has.
    """
    path = Path(data)
    if not _is_file(path, data, reading):
        return rows_of(_by_name(data, reading, reading.part or part), ranks)
    kind, options = _file_options(path, reading, remembered or {}, labels)
    if kind == "npz" and "part" not in options and _has_parts(path):
        options["part"] = part
    if kind == "npy":
        options["mmap"] = True  # they are converted piece by piece, and never are there twice
    options["format"] = kind or None
    return read_rows(path, kind, options, ranks)


def stream_series(data: str, reading: Reading, remembered: dict[str, Any]) -> SeriesStream:
    """The same series without labels, to be read block by block; `NotStreamable` where that cannot be."""
    path = Path(data)
    if not _is_file(path, data, reading):
        raise NotStreamable(f"{data} is a data set by name; only files are read block by block")
    kind, options = _file_options(path, reading, remembered, labels=False)
    if kind not in ("npy", "parquet"):
        raise NotStreamable(f"{data} is no .npy or .parquet file, and only these are read block by block")
    if "part" in options or "separator" in options:
        raise NotStreamable(f"{data} is read with options that streams have not")  # reading it as a whole says more
    return stream(path, **{key: value for key, value in options.items() if key != "format"}, format=kind)


def _file_options(path: Path, reading: Reading, remembered: dict[str, Any], labels: bool) -> tuple[str, dict[str, Any]]:
    """The format of a file, and the options to read it with: those given, and those remembered that it can have."""
    if path.is_dir():
        raise WrongCall(f"{path} is a folder; DATA is a file or the name of a data set")
    if not path.is_file():
        near = "" if path.parent.is_dir() else f", nor a folder {path.parent}"
        raise WrongCall(f"there is no file {path}{near}")
    kind = _kind(path, reading, remembered)
    options = {key: value for key, value in remembered.items() if key in _TAKES.get(kind, ())}
    if kind in _TABLES:
        columns = _columns(path, kind, reading.separator or options.get("separator") or ",")
        options = _present(options, columns) | reading.given()
        if not labels:
            options = _without_target(options, columns)
    else:
        options |= reading.given()
        if not labels and kind in ("npz", "npy"):
            options.pop("target", None)
    return kind, options


def to_remember(data: SeriesData, reading: Reading) -> dict[str, Any]:
    """What a model keeps, so that files of the same layout are read in the same way.

    Channels of a table with one row a point are kept by name: their order in another file does not matter.
    """
    kept = {key: value for key, value in reading.given().items() if key != "part"}
    if reading.series is not None:
        kept["channels"] = list(data.channel_names[0 if data.time_channel is None else 1 :])
    return kept


def _is_file(path: Path, data: str, reading: Reading) -> bool:
    return path.is_file() or path.name != data or path.suffix[1:].lower() in FORMATS or reading.format is not None


def _by_name(name: str, reading: Reading, part: str) -> SeriesData:
    meaningless = [key for key in reading.given() if key != "part"]
    if meaningless:
        raise WrongCall(f"--{meaningless[0]} has no meaning for a data set by name ({name}), only for files")
    found = _data_set(name)
    train = part == "train"
    return SeriesData(
        X=cut(found.X_train if train else found.X_test, found.lengths_train if train else found.lengths_test),
        y=found.y_train if train else found.y_test,
        channel_names=found.channel_names,
        name=found.name,
    )


def _data_set(name: str) -> Dataset:
    try:
        find_dataset(name)
    except FileNotFoundError:  # then it is downloaded, if it can be
        try:
            return load_dataset(name)
        except (FileNotFoundError, ValueError) as error:
            folders = ", ".join(map(str, data_folders()))
            raise WrongCall(
                f"{name!r} is neither a file nor a known data set: it is not in {folders}, and could not be downloaded "
                f"({error.__cause__ or error})"
            ) from error
    return load_dataset(name)


def _kind(path: Path, reading: Reading, remembered: dict[str, Any]) -> str:
    suffix = path.suffix.removeprefix(".").lower()
    return reading.format or (suffix if suffix in FORMATS else remembered.get("format") or "")


def _present(options: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """Columns that were left out of the training file need not be in this one."""
    if "ignore" not in options:
        return options
    return {**options, "ignore": [name for name in options["ignore"] if name in columns]}


def _without_target(options: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    options = dict(options)
    target = options.pop("target", None)
    if target in columns:
        options["ignore"] = [*(options.get("ignore") or []), target]
    return options


def _columns(path: Path, kind: str, separator: str) -> list[str]:
    """The names of a table's columns; none where it cannot be read, which reading it will say."""
    import polars  # noqa: PLC0415 - it takes a while, and other formats need none

    try:
        if kind == "csv":
            return polars.read_csv(path, n_rows=0, separator=separator, infer_schema=False).columns
        return list(polars.read_parquet_schema(path))
    except (polars.exceptions.PolarsError, OSError, ValueError):
        return []


def _has_parts(path: Path) -> bool:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return "X_train" in archive.files and "X" not in archive.files
    except Exception:  # reading it will say what is wrong
        return False
