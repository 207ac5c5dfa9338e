"""`write`: series to ``.npz`` and ``.ts`` files and to tables in long form."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from siggpde.files import atomic_write
from siggpde.io.data import SeriesData, pad
from siggpde.io.formats import WRITE_FORMATS


def write(
    path: str | os.PathLike[str],
    data: SeriesData,
    *,
    format: str | None = None,
    force: bool = False,
    series: str = "series",
    target: str = "target",
    groups: str = "group",
    sample_weight: str = "weight",
) -> None:
    """Write series to a ``.npz``, ``.csv``, ``.parquet`` or ``.ts`` file, atomically.

    An existing file is replaced only with `force`. What comes back by `read`:

    - ``.npz``: everything.
    - ``.csv``, ``.parquet``: everything when read with ``series="series"``, with ``target="target"`` if there are
      labels, ``groups="group"`` and ``sample_weight="weight"`` if there are groups and weights, and with ``time=`` the
      name of the time channel if there is one; the options here give these columns other names. Series without ids
      get numbers. Cells of ``.csv`` have no types: labels and ids that look like numbers come back as such.
    - ``.ts``: series, time stamps, labels and the name. Labels that are not floats are classes, which come back as
      strings; floats are targets. The format cannot hold names of channels, ids, groups and weights.

    Examples:
        >>> import tempfile, pathlib
        >>> from siggpde.io import read
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.npz"
        >>> write(file, SeriesData([np.ones((1, 3)), np.ones((1, 2))], y=np.array([True, False])))
        >>> read(file)
        SeriesData('series': 2 series, 1 channels, lengths 2 to 3, labels)
    """
    path = Path(path)
    if not isinstance(data, SeriesData):
        raise ValueError(f"expected SeriesData, as `read` gives it; got {type(data).__name__}")
    kind = (path.suffix if format is None else format).removeprefix(".").lower()
    if kind not in WRITE_FORMATS:
        known = ", ".join(f".{name}" for name in WRITE_FORMATS)
        raise ValueError(f"series are written as {known}; got {path.name if format is None else format!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; choose another name, or force=True to replace it")
    if not len(data) or not data.lengths.all():
        raise ValueError("there must be at least one series, and every series needs at least one point")
    with atomic_write(path) as file:
        if kind == "npz":
            _write_npz(file, data)
        elif kind == "ts":
            _write_ts(file, data)
        else:
            _write_table(file, data, kind, series, {"y": target, "groups": groups, "sample_weight": sample_weight})


def _write_npz(file: BinaryIO, data: SeriesData) -> None:
    members: dict[str, Any] = {"channel_names": np.array(data.channel_names), "name": np.array(data.name)}
    if isinstance(data.X, list):
        members["X"], members["lengths"] = pad(data.X)
    else:
        members["X"] = data.X
    if data.time_channel is not None:
        members["time_channel"] = np.array(data.time_channel)
    for key in ("y", "ids", "groups", "sample_weight"):
        values = getattr(data, key)
        if values is not None:
            members[key] = _without_objects(values, key)
    np.savez_compressed(file, **members)


def _write_table(file: BinaryIO, data: SeriesData, kind: str, series: str, named: dict[str, str]) -> None:
    import polars as pl  # noqa: PLC0415  takes a while to import, and other formats need none

    columns = {key: column for key, column in named.items() if getattr(data, key) is not None}
    names = [series, *data.channel_names, *columns.values()]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(
            f"two columns would be called {repeated.pop()!r}; give others with series=, target=, groups= or "
            "sample_weight="
        )
    lengths = data.lengths
    ids = np.arange(len(data)) if data.ids is None else _without_objects(data.ids, "ids")
    if len(set(ids.tolist())) < len(ids):
        raise ValueError("ids must all be different, for rows are put together by them")
    table: dict[str, Any] = {series: np.repeat(ids, lengths)}
    for index, name in enumerate(data.channel_names):
        table[name] = np.concatenate([np.asarray(one[index], dtype=np.float64) for one in data.X])
    for key, column in columns.items():
        table[column] = np.repeat(_without_objects(getattr(data, key), key), lengths)
    frame = pl.DataFrame({name: pl.Series(values) for name, values in table.items()}, nan_to_null=False)
    frame = frame.with_columns(pl.col(list(data.channel_names)).fill_nan(None))
    if kind == "csv":
        frame.write_csv(file)
    else:
        frame.write_parquet(file)


def _write_ts(file: BinaryIO, data: SeriesData) -> None:
    stamped = data.time_channel is not None
    channels = data.n_channels - stamped
    if channels == 0:
        raise ValueError("a .ts file needs at least one channel besides time")
    lengths, equal = data.lengths, len(set(data.lengths.tolist())) == 1
    missing = any(np.isnan(np.asarray(one, dtype=np.float64)).any() for one in data.X)
    labels = None if data.y is None else [_label(label, index) for index, label in enumerate(data.y.tolist())]
    text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
    head = [f"@problemName {' '.join(data.name.split()) or 'series'}", f"@timeStamps {_yes(stamped)}"]
    head += [f"@missing {_yes(missing)}", f"@univariate {_yes(channels == 1)}"]
    head += [f"@dimension {channels}"] * (channels > 1)
    head += [f"@equalLength {_yes(equal)}"] + [f"@seriesLength {lengths[0]}"] * equal
    if labels is None:
        head.append("@classLabel false")
    elif data.y is not None and data.y.dtype.kind == "f":
        head.append("@targetLabel true")
    else:
        head.append(f"@classLabel true {' '.join(sorted(set(labels)))}")
    text.write("\n".join([*head, "@data"]) + "\n")
    for index, one in enumerate(data.X):
        rows = np.asarray(one, dtype=np.float64).tolist()
        if stamped:
            _check_times(rows[0], index)
            pieces = [
                ",".join(f"({time!r},{_number(value)})" for time, value in zip(rows[0], row, strict=True))
                for row in rows[1:]
            ]
        else:
            pieces = [",".join(map(_number, row)) for row in rows]
        text.write(":".join(pieces + ([] if labels is None else [labels[index]])) + "\n")
    text.detach()


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def _check_times(times: list[float], index: int) -> None:
    steps = np.diff(times)
    if not np.isfinite(times).all() or (steps <= 0).any():
        raise ValueError(f"the times of series {index} must be finite and grow")


def _label(label: Any, index: int) -> str:
    text = str(label)
    if not text or ":" in text or text[0] in "#%@(" or len(text.split()) != 1 or text.strip() != text:
        raise ValueError(
            f"label {text!r} of series {index} cannot be written to a .ts file, where labels are words without spaces "
            "and colons; write .npz, .csv or .parquet, or rename it"
        )
    return text


def _without_objects(values: np.ndarray, key: str) -> np.ndarray:
    """The labels or ids with strings instead of objects, which could only be saved by pickle."""
    values = np.asarray(values)
    if values.dtype.kind == "O":
        if not all(isinstance(value, str) for value in values):
            raise ValueError(
                f"{key} holds objects that are not strings; convert it, for example with {key}.astype(str)"
            )
        return values.astype(str)
    return values
