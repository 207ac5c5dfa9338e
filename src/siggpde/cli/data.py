"""The arguments MODEL and DATA: series of a file, with options given and remembered, or of a data set; their checks."""

from __future__ import annotations

import logging
import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.cli.console import WrongCall, panics_held_back
from siggpde.cli.options import ModelCall, ReadOptions
from siggpde.cli.processes import read_shard, shard_of
from siggpde.datasets import data_folders, find_dataset, load_dataset
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.estimators.loading import Predictor, load_predictor
from siggpde.io import NotStreamable, SeriesData, SeriesStream, stream
from siggpde.io.arrays import is_split, open_members
from siggpde.io.data import cut, default_names, groups_by_time
from siggpde.io.formats import (
    FOR_TRAINING,
    FORMATS,
    READ_OPTIONS,
    STREAM_OPTIONS,
    TABLE_OPTIONS,
    ColumnRoles,
    check_file,
    check_options,
    shortened,
    suffix_of,
)
from siggpde.io.frames import damage_reported, open_csv
from siggpde.io.tables import point_groups
from siggpde.utils.files import is_model_folder

log = logging.getLogger(__name__)

_LARGEST = 1e150  # the square of a larger number overflows
_FAR = 1e6  # times the spread of the middle half of the values
_SHOWN = 10
_NAMES_KEPT = 100  # of the columns of a wide table, by which others are known
_SAMPLE = 2**18  # values by which the spread of channels is judged


def read_series(
    data: str,
    read_options: ReadOptions,
    part: str,
    remembered: dict[str, Any] | None = None,
    *,
    labels: bool = True,
    training: bool = False,
    groups: bool = False,
    ranks: Ranks = ALONE,
) -> SeriesData:
    """Reads the series of DATA, with `ranks` only those of this rank, of the `part` "train" or "test" unless --part is
    given; `remembered` are the options of the fit, without `labels` the target may be missing, and `training` reads
    groups and weights and refuses series from which nothing can be learned; `groups` reads those of a table."""
    path, remembered = Path(data), remembered or {}
    kind = _file_format(path, data, read_options, remembered)
    if kind is None:
        series = shard_of(_read_dataset(data, read_options, read_options.part or part), ranks)
    else:
        log.debug("reading %s", path)
        read = FOR_TRAINING if training else ["groups"] if groups and kind in ("csv", "parquet") else []
        unread = [*([] if labels else ["target"]), *(option for option in FOR_TRAINING if option not in read)]
        merged = partial(_merged_options, kind, read_options, remembered, unread)
        if kind == "csv":
            check_options("csv", {key: value for key, value in read_options.given().items() if key != "format"})
            separator = remembered.get("separator") if read_options.separator is None else read_options.separator
            with open_csv(path, separator) as table:  # once, for options depend on the names of its columns
                options = merged(table.columns)
                series = shard_of(table.series(ColumnRoles(**{key: options.get(key) for key in TABLE_OPTIONS})), ranks)
        else:
            options = merged(_parquet_columns(path) if kind == "parquet" else None)
            if kind == "npz" and "part" not in options and _has_parts(path):
                options["part"] = part
            with panics_held_back(kind):
                series = read_shard(path, kind, {**options, "format": kind or None}, ranks)
    if read_options.groups_by_time is not None:
        try:
            series = replace(series, groups=groups_by_time(series, read_options.groups_by_time))
        except ValueError as error:
            raise WrongCall(f"--groups-by-time: {error}") from error
    target = read_options.target or remembered.get("target")
    log.info("%s", describe_series(series, target, ranks))
    check_values(series, training=training and ranks.alone)  # a channel may have all its values on another rank
    return series


def stream_series(data: str, read_options: ReadOptions, remembered: dict[str, Any]) -> SeriesStream:
    """Opens DATA to be read block by block, without labels; raises `NotStreamable` where that is impossible."""
    path = Path(data)
    kind = _file_format(path, data, read_options, remembered)
    if kind is None:
        raise NotStreamable(f"{data} is a data set by name; only files are read block by block")
    if kind not in STREAM_OPTIONS:
        raise NotStreamable(f"{data} is no .npy or .parquet file, and only these are read block by block")
    columns = _parquet_columns(path) if kind == "parquet" else None
    options = _merged_options(kind, read_options, remembered, ["target", *FOR_TRAINING], columns)
    if "part" in options or "separator" in options:
        raise NotStreamable(f"{data} is read with options that streams do not have")  # reading it whole tells which
    with panics_held_back(kind):
        series = stream(path, **{key: value for key, value in options.items() if key != "format"}, format=kind)
    log.info("reading %d series block by block, %s, up to %d points", len(series), _channels(series), series.points)
    return series


def require_labels(data: str, series: SeriesData) -> NDArray[Any]:
    """Returns the labels of the series of DATA; `WrongCall` where there are none."""
    if series.y is None:
        raise WrongCall(f"{data} has no labels; name them with --target")
    return series.y


def has_test_part(data: str, read_options: ReadOptions) -> bool:
    """Returns whether DATA has test series besides those that were read for training."""
    path = Path(data)
    kind = _file_format(path, data, read_options, {})
    return read_options.part is None and (kind is None or (kind == "npz" and _has_parts(path)))


def _merged_options(
    kind: str,
    read_options: ReadOptions,
    remembered: dict[str, Any],
    unread: Sequence[str],
    columns: list[str] | None = None,
) -> dict[str, Any]:
    """The options to read a file with: those given, and those remembered that its format and `columns` take."""
    options = {key: value for key, value in remembered.items() if key in READ_OPTIONS.get(kind, ())}
    if columns is not None:
        if "ignore" in options:  # columns left out when fitting need not be in this file, nor ids
            options["ignore"] = [name for name in options["ignore"] if name in columns]
        if options.get("id") not in columns or read_options.series is not None:
            options.pop("id", None)
        if options.get("groups") not in columns:
            options.pop("groups", None)
    options |= read_options.given()
    if kind == "npz":
        left_out = [options[key] for key in unread if options.get(key) is not None]
        options |= {"ignore": [*(options.get("ignore") or []), *left_out]} if left_out else {}
    for key in unread if columns is not None or kind in ("npz", "npy") else ():
        column = options.pop(key, None)
        if columns is not None and column in columns:
            options["ignore"] = [*(options.get("ignore") or []), column]
    return options


def with_constants_as_facts(data: SeriesData, read_options: ReadOptions, ranks: Ranks = ALONE) -> SeriesData:
    """Returns the series of a long table whose channels were not named with channels as facts that are constant within
    every series of all ranks, if not all are."""
    if read_options.series is None or read_options.channels is not None:
        return data
    first, names = 0 if data.time_channel is None else 1, data.channel_names
    long = [series[first:] for series in data.X if series.shape[1] > 1]
    spans = [np.fmax.reduce(one, axis=1) - np.fmin.reduce(one, axis=1) for one in long]
    varies = np.nan_to_num(np.fmax.reduce(spans)) > 0 if spans else np.zeros(len(names) - first, dtype=bool)
    varies = np.any(ranks.all_gather(varies.tolist()), axis=0)
    if varies.all() or not varies.any():
        return data
    constant, kept = first + np.flatnonzero(~varies), np.r_[:first, first + np.flatnonzero(varies)]
    log.info(
        "%s: the same at all points of a series, so read as facts beside it and not as channels; --channels says "
        "otherwise", ", ".join(names[index] for index in constant)
    )  # fmt: skip
    facts = {names[index]: np.array([np.fmax.reduce(series[index]) for series in data.X]) for index in constant}
    X = data.X[:, kept] if isinstance(data.X, np.ndarray) else [series[kept] for series in data.X]
    return replace(data, X=X, channel_names=tuple(names[i] for i in kept), facts={**(data.facts or {}), **facts})


def options_to_remember(data: SeriesData, read_options: ReadOptions) -> dict[str, Any]:
    """Returns the options that a model keeps, channels of long tables by name, for their order may differ."""
    options = {key: value for key, value in read_options.given().items() if key != "part"}
    if data.time_format is not None:
        options["time_format"] = data.time_format._asdict()
    if read_options.series is not None:
        options["channels"] = list(data.channel_names[0 if data.time_channel is None else 1 :])
    if data.columns:
        options["points"] = list(data.columns[:_NAMES_KEPT])
    if data.facts:
        options["facts"] = list(data.facts)
    if read_options.groups_by_time is not None:
        options["groups_by_time"] = read_options.groups_by_time
    return options


def _file_format(path: Path, data: str, read_options: ReadOptions, remembered: dict[str, Any]) -> str | None:
    """Returns the format of the file DATA, "" where no suffix or option tells it; None for the name of a data set."""
    if is_model_folder(path):
        raise WrongCall(f"{data} is a model, but series are wanted in its place: a file, or the name of a data set")
    suffix = suffix_of(path)
    if not (path.is_file() or path.name != data or suffix in FORMATS or read_options.format is not None):
        return None
    try:
        check_file(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise WrongCall(f"{error}; DATA is a file or the name of a data set") from error
    return read_options.format or (suffix if suffix in FORMATS else remembered.get("format", ""))


def _parquet_columns(path: Path) -> list[str]:
    """Returns the names of the columns; none for a damaged file, about which reading it raises an error."""
    with suppress(OSError, ValueError), damage_reported(path):
        return list(pl.read_parquet_schema(path))
    return []


def _has_parts(path: Path) -> bool:
    """Returns whether an ``.npz`` file is split; False for a damaged file, about which reading it raises an error."""
    with suppress(ValueError), open_members(path) as members:
        return is_split(members)
    return False


def _read_dataset(name: str, read_options: ReadOptions, part: str) -> SeriesData:
    meaningless = [key for key in read_options.given() if key != "part"]
    if meaningless:
        raise WrongCall(
            f"--{meaningless[0].replace('_', '-')} has no meaning for a data set by name ({name}), only for files"
        )
    try:
        dataset = load_dataset(name)
    except (FileNotFoundError, ValueError) as error:
        with suppress(FileNotFoundError):
            find_dataset(name)
            raise error  # its file is there, but is damaged
        folders = ", ".join(map(str, data_folders()))
        raise WrongCall(
            f"{name!r} is neither a file nor a known data set: it is not in {folders}, and could not be downloaded "
            f"({error.__cause__ or error})"
        ) from error
    train = part == "train"
    return SeriesData(
        X=cut(dataset.X_train, dataset.lengths_train) if train else cut(dataset.X_test, dataset.lengths_test),
        y=dataset.y_train if train else dataset.y_test,
        channel_names=dataset.channel_names,
        name=dataset.name,
    )


def describe_series(data: SeriesData, target: str | None, ranks: Ranks = ALONE) -> str:
    """Returns a line such as: read 40 series, 3 channels x, y, z, 61 to 182 points, label gesture."""
    shortest, longest = int(data.lengths.min()), int(data.lengths.max())
    points = f"{shortest} to {longest} points" if shortest < longest else f"{longest} point{'s' * (longest != 1)}"
    parts = [f"read {len(data)} series", _channels(data), points]
    if data.y is not None:
        parts.append(f"label {target}" if target is not None else "labelled")
    if data.facts:
        parts.append(f"facts {shortened(list(data.facts), _SHOWN)}")
    if data.groups is not None:
        parts.append(f"{len(np.unique(data.groups))} groups")
    if data.sample_weight is not None:
        parts.append("weights")
    return ", ".join(parts) + ("" if ranks.alone else f" (rank {ranks.rank} of {ranks.count})")


def check_values(data: SeriesData, *, training: bool) -> None:
    """Warns of series of one point and of values far from all others; for `training` refuses what cannot be learned."""
    if len(data) > 2 and np.median(data.lengths) == 1 and data.n_channels <= 2:
        log.warning(
            "most series have one point only; if rows of the table are points, name the column that identifies the "
            "series with --series"
        )
    blocks = [data.X] if isinstance(data.X, np.ndarray) else [series[None] for series in data.X]
    smallest, largest = (
        best.reduce([best.reduce(block, axis=(0, 2)) for block in blocks]).astype(float) for best in (np.fmin, np.fmax)
    )
    for channel in range(0 if data.time_channel is None else 1, data.n_channels):
        name, least, greatest = data.channel_names[channel], smallest[channel], largest[channel]

        def at(value: float, channel: int = channel, name: str = name) -> str:
            """The channel, its value, and where that is."""
            places = ((number, series[channel] == value) for number, series in enumerate(data.X))
            number, there = next((number, there) for number, there in places if there.any())
            series = number if data.ids is None else data.ids[number]
            return f"channel {name} has the value {value:g} in series {series} at point {np.argmax(there)}"

        if np.isnan(least):
            if training:
                raise ValueError(
                    f"channel {name} has no values to learn from; leave it out with ignore=, or name the others with "
                    "channels="
                )
            log.warning("channel %s has no values", name)
            continue
        if training and not max(greatest, -least) <= _LARGEST:
            worst = greatest if greatest >= -least else least
            raise ValueError(
                f"{at(worst)}, too large to be squared; leave the cell empty if the value is missing, or give the "
                "channel in other units"
            )
        low, middle, high = _quartiles(data, channel)
        worst = greatest if greatest - middle >= middle - least else least
        if high > low and abs(worst - middle) > _FAR * (high - low):
            log.warning(
                f"{at(worst)}, where half of its values are between {low:g} and {high:g}; if it marks a missing value, "
                "leave the cell empty"
            )


def _quartiles(data: SeriesData, channel: int) -> NDArray[np.float64]:
    """Returns the quartiles (3,) of a channel, from series with some 2^18 values in all; NaN where none are finite."""
    wanted = max(1, _SAMPLE // (data.n_channels * int(data.lengths.max())))
    some = range(0, len(data), max(1, len(data) // wanted))
    values = np.concatenate([np.asarray(data.X[number][channel], dtype=np.float64) for number in some])
    finite = values[np.isfinite(values)]
    return np.asarray(np.percentile(finite, [25, 50, 75]) if len(finite) else [np.nan] * 3, dtype=np.float64)


def _channels(data: SeriesData | SeriesStream) -> str:
    names = data.channel_names[0 if data.time_channel is None else 1 :]
    count = f"{len(names)} channel{'s' * (len(names) != 1)}"
    time = "" if data.time_channel is None else f", time {data.channel_names[0]}"
    return count + time if names == default_names(len(names)) else f"{count} {shortened(names, _SHOWN)}{time}"


def open_model(call: ModelCall) -> Predictor:
    """Loads the model onto the device of the call, with its number of threads or else that of the fit."""
    jobs = call.jobs
    if jobs is not None and jobs < 1 and jobs != -1:
        raise WrongCall(f"--jobs must be a positive number, or -1 for one a core; got {jobs}")
    estimator = load_predictor(call.model, call.device)
    if jobs is not None:
        estimator.n_jobs = jobs
    return estimator


def series_for(estimator: Predictor, call: ModelCall, *, labels: bool, **more: Any) -> SeriesData:
    """Reads the series of DATA with the options that the model remembers, as `read_series`; checks their channels."""
    remembered = getattr(estimator, "reading_", {})
    series = read_series(call.data, call.read_options, "test", remembered, labels=labels, **more)
    check_layout(estimator, call.data, series)
    if series.time_format is not None and "time_format" not in remembered:  # a model that knows numbers only
        estimator.reading_ = {**remembered, "time_format": series.time_format._asdict()}
    return series


def check_layout(estimator: Predictor, data: str, series: SeriesData | SeriesStream) -> None:
    """Raises ValueError where the series have other channels than those of the fit."""
    unnamed = default_names(len(series.channel_names), series.time_channel)
    first = 0 if series.time_channel is None else 1
    names, known = tuple(series.channel_names), tuple(estimator.channel_names_)
    if len(names) != len(known):
        raise ValueError(
            f"{data} has {len(names)} channels ({', '.join(names)}), but the model was fitted with {len(known)} "
            f"({', '.join(known)})"
        )
    if names[first:] != known[first:] and unnamed[first:] not in (names[first:], known[first:]):
        raise ValueError(
            f"{data} has the channels {', '.join(names[first:])}, but the model was fitted with "
            f"{', '.join(known[first:])}, in this order; name the columns to read with channels=, or rename them"
        )
    points = getattr(estimator, "reading_", {}).get("points") or []
    # Points of the same channel, by their names without numbers, or else by the names.
    stem, other = (set(point_groups(list(columns))) for columns in (points, series.columns))
    same = stem == other and (bool(stem) or all(map(operator.eq, points, series.columns)))
    if points and series.columns and not same:
        raise ValueError(
            f"{data} is read with the columns {shortened(series.columns, _SHOWN)} as points, but the model was fitted "
            f"with {shortened(points, _SHOWN)}; leave other columns out with ignore=, or rename them"
        )
    if (series.time_channel is None) != (estimator.preparation_.time_channel is None):
        no, was = ("no ", "was") if series.time_channel is None else ("", "was not")
        raise ValueError(
            f"{data} is read with {no}time stamps, but the model {was} fitted with them; give the --time of the fit"
        )
