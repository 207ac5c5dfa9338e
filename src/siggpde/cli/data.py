"""The series of the argument DATA: of a file, with the options given and those a model remembers, or of a data set."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from siggpde.cli.console import WrongCall
from siggpde.cli.options import ReadOptions
from siggpde.cli.panics import panics_held_back
from siggpde.cli.plausible import check_plausible, check_training, what_is_streamed, what_was_read
from siggpde.cli.processes import read_shard, shard_of
from siggpde.datasets import Dataset, data_folders, find_dataset, load_dataset
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.io import NotStreamable, SeriesData, SeriesStream, stream
from siggpde.io.arrays import is_split, open_members
from siggpde.io.data import cut, groups_by_time
from siggpde.io.formats import (
    FOR_TRAINING,
    FORMATS,
    READ_OPTIONS,
    STREAM_OPTIONS,
    TABLE_OPTIONS,
    ColumnRoles,
    check_file,
    check_options,
    suffix_of,
)

log = logging.getLogger(__name__)


def read_series(
    data: str,
    read_options: ReadOptions,
    part: str,
    remembered: dict[str, Any] | None = None,
    *,
    labels: bool = True,
    training: bool = False,
    ranks: Ranks = ALONE,
) -> SeriesData:
    """Reads the series of DATA, with `ranks` only those of this rank.

    - `part`: "train" or "test", the one read of data with both unless --part says otherwise.
    - `remembered`: the options that the file of the fit was read with.
    - `labels`: without them the target is not read, and need not be there.
    - `training`: read groups and weights, which others do without, and refuse what nothing can be learned from.
    """
    path = Path(data)
    remembered = remembered or {}
    if not _is_file(path, data, read_options):
        series = shard_of(_read_dataset(data, read_options, read_options.part or part), ranks)
    else:
        _check_is_file(path)
        log.debug("reading %s", path)
        kind = _format(path, read_options, remembered)
        if kind == "csv":
            series = shard_of(_read_csv(path, read_options, remembered, labels, training), ranks)
        else:
            options = _file_options(path, kind, read_options, remembered, labels, training)
            if kind == "npz" and "part" not in options and _has_parts(path):
                options["part"] = part
            with panics_held_back() if kind == "parquet" else nullcontext():
                series = read_shard(path, kind, {**options, "format": kind or None}, ranks)
    if read_options.groups_by_time is not None:
        series = _grouped_by_time(series, read_options.groups_by_time)
    target = read_options.target or remembered.get("target")
    log.info("%s", what_was_read(series, target, ranks))
    if training and ranks.alone:  # on several ranks, a channel may have its values on another
        check_training(series)
    check_plausible(series)
    return series


def stream_series(data: str, read_options: ReadOptions, remembered: dict[str, Any]) -> SeriesStream:
    """The same series without labels, to be read block by block; `NotStreamable` where that is impossible."""
    path = Path(data)
    if not _is_file(path, data, read_options):
        raise NotStreamable(f"{data} is a data set by name; only files are read block by block")
    _check_is_file(path)
    kind = _format(path, read_options, remembered)
    if kind not in STREAM_OPTIONS:
        raise NotStreamable(f"{data} is no .npy or .parquet file, and only these are read block by block")
    options = _file_options(path, kind, read_options, remembered, labels=False, training=False)
    if "part" in options or "separator" in options:
        raise NotStreamable(f"{data} is read with options that streams have not")  # reading it as a whole says more
    with panics_held_back() if kind == "parquet" else nullcontext():
        series = stream(path, **{key: value for key, value in options.items() if key != "format"}, format=kind)
    log.info("%s", what_is_streamed(series))
    return series


def has_test_part(data: str, read_options: ReadOptions) -> bool:
    """Whether DATA has test series beside those that were read for training."""
    path = Path(data)
    if read_options.part is not None:
        return False
    if not _is_file(path, data, read_options):
        return True
    return _format(path, read_options, {}) == "npz" and _has_parts(path)


def _grouped_by_time(series: SeriesData, span: str) -> SeriesData:
    try:
        return replace(series, groups=groups_by_time(series, span))
    except ValueError as error:
        raise WrongCall(f"--groups-by-time: {error}") from error


def _read_csv(
    path: Path, read_options: ReadOptions, remembered: dict[str, Any], labels: bool, training: bool
) -> SeriesData:
    """Reads a ``.csv`` file, which is opened once: options depend on its columns, which come with it."""
    from siggpde.io.frames import open_csv  # noqa: PLC0415 - polars takes long to import

    check_options("csv", {key: value for key, value in read_options.given().items() if key != "format"})
    check_file(path)
    separator = remembered.get("separator") if read_options.separator is None else read_options.separator
    with open_csv(path, separator) as table:
        options = _table_options("csv", table.columns, read_options, remembered, labels, training)
        return table.series(ColumnRoles(**{key: options.get(key) for key in TABLE_OPTIONS}))


def _file_options(
    path: Path, kind: str, read_options: ReadOptions, remembered: dict[str, Any], labels: bool, training: bool
) -> dict[str, Any]:
    """The options to read a file with: those given, and those remembered that its format takes."""
    if kind == "parquet":
        return _table_options(kind, _parquet_columns(path), read_options, remembered, labels, training)
    options = {key: value for key, value in remembered.items() if key in READ_OPTIONS.get(kind, ())}
    options |= read_options.given()
    if kind in ("npz", "npy"):
        for key in _unread(labels, training):
            options.pop(key, None)
    return options


def _unread(labels: bool, training: bool) -> tuple[str, ...]:
    """The options whose columns are left out."""
    return (*(() if labels else ("target",)), *(() if training else FOR_TRAINING))


def _table_options(
    kind: str, columns: list[str], read_options: ReadOptions, remembered: dict[str, Any], labels: bool, training: bool
) -> dict[str, Any]:
    """The options to read a table with: those given, and those remembered, as far as it has the columns."""
    options = {key: value for key, value in remembered.items() if key in READ_OPTIONS[kind]}
    if "ignore" in options:  # columns left out when fitting need not be in this file, nor ids
        options["ignore"] = [name for name in options["ignore"] if name in columns]
    if options.get("id") not in columns or read_options.series is not None:
        options.pop("id", None)
    options |= read_options.given()
    for key in _unread(labels, training):
        column = options.pop(key, None)
        if column in columns:
            options["ignore"] = [*(options.get("ignore") or []), column]
    return options


def options_to_remember(data: SeriesData, read_options: ReadOptions) -> dict[str, Any]:
    """The options that a model keeps, so that files of the same layout are read in the same way.

    Channels of a table in long form are kept by name: another file may have them in another order.
    """
    options = {key: value for key, value in read_options.given().items() if key != "part"}
    if read_options.series is not None:
        options["channels"] = list(data.channel_names[0 if data.time_channel is None else 1 :])
    if read_options.groups_by_time is not None:
        options["groups_by_time"] = read_options.groups_by_time
    return options


def _is_file(path: Path, data: str, read_options: ReadOptions) -> bool:
    """Whether DATA means a file, existing or not, rather than the name of a data set."""
    return path.is_file() or path.name != data or suffix_of(path) in FORMATS or read_options.format is not None


def _check_is_file(path: Path) -> None:
    if path.is_dir():
        raise WrongCall(f"{path} is a folder; DATA is a file or the name of a data set")
    if not path.is_file():
        near = "" if path.parent.is_dir() else f", nor a folder {path.parent}"
        raise WrongCall(f"there is no file {path}{near}")


def _format(path: Path, read_options: ReadOptions, remembered: dict[str, Any]) -> str:
    suffix = suffix_of(path)
    return read_options.format or (suffix if suffix in FORMATS else remembered.get("format") or "")


def _parquet_columns(path: Path) -> list[str]:
    """The names of its columns; none where it cannot be read, for reading it then raises an error that says why."""
    from siggpde.io.frames import schema_of  # noqa: PLC0415 - polars takes long to import

    try:
        return list(schema_of(path))
    except (OSError, ValueError):
        return []


def _has_parts(path: Path) -> bool:
    """Whether an ``.npz`` file has train and test series; false where it cannot be read, for reading it says why."""
    try:
        with open_members(path) as members:
            return is_split(members)
    except ValueError:
        return False


def _read_dataset(name: str, read_options: ReadOptions, part: str) -> SeriesData:
    meaningless = [key for key in read_options.given() if key != "part"]
    if meaningless:
        raise WrongCall(
            f"--{meaningless[0].replace('_', '-')} has no meaning for a data set by name ({name}), only for files"
        )
    dataset = _load_dataset(name)
    train = part == "train"
    return SeriesData(
        X=cut(dataset.X_train, dataset.lengths_train) if train else cut(dataset.X_test, dataset.lengths_test),
        y=dataset.y_train if train else dataset.y_test,
        channel_names=dataset.channel_names,
        name=dataset.name,
    )


def _load_dataset(name: str) -> Dataset:
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
