"""Series of a file that is larger than memory, block by block.

``.npy`` files are mapped. ``.parquet`` files are read by rows: a row is a series, or, in long form, all rows of a
series stand together. Any block can be read without those before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.io.arrays import read_npy
from siggpde.io.data import NotStreamable, SeriesData
from siggpde.io.formats import (
    STREAM_OPTIONS,
    TWICE_IDENTIFIED,
    check_column_names,
    check_file,
    check_options,
    format_of,
)

_BLOCK_NUMBERS = 2**22  # float64 values in a block: 32 MB
_MULTIPLE = 1024


@dataclass(frozen=True)
class SeriesStream:
    """The series of a file; `blocks` reads them.

    - `total`: how many there are; `channel_names`, `time_channel` and `name` as in `SeriesData`.
    - `points`: how many points the longest has.
    - `identity`: name, size and time of change of the file, and the options it is read with.
    """

    name: str
    total: int
    points: int
    channel_names: tuple[str, ...]
    time_channel: int | None
    identity: dict[str, Any]
    _load: Callable[[int, int], SeriesData]

    def __len__(self) -> int:
        return self.total

    def block_size(self) -> int:
        """How many series make a block of some 32 MB: a multiple of 1024."""
        fitting = _BLOCK_NUMBERS // (self.points * len(self.channel_names))
        return _MULTIPLE * max(1, fitting // _MULTIPLE)

    def block(self, start: int, stop: int) -> SeriesData:
        """Series start to stop - 1; ids are those of the file, or the positions of the series in the file."""
        data = self._load(start, min(stop, self.total))
        return data if data.ids is not None else replace(data, ids=np.arange(start, start + len(data)))

    def blocks(self, size: int | None = None) -> Iterator[SeriesData]:
        """All series in order, `size` at a time."""
        size = self.block_size() if size is None else size
        for start in range(0, self.total, size):
            yield self.block(start, start + size)


def stream(
    path: str | os.PathLike[str],
    *,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    format: str | None = None,
) -> SeriesStream:
    """The series of a ``.npy`` or ``.parquet`` file, block by block; options as for `read`. Labels are not read.

    Raises `NotStreamable`, a ValueError, for other formats and for tables in long form whose rows are not in order.

    Examples:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "walks.npy"
        >>> np.save(file, np.arange(10.0).reshape(5, 2))
        >>> [block.ids.tolist() for block in stream(file).blocks(size=2)]
        [[0, 1], [2, 3], [4]]
    """
    path = Path(path)
    kind = format_of(path, format)
    if kind not in STREAM_OPTIONS:
        raise NotStreamable(f"{path} is a .{kind} file; only .npy and .parquet files are read block by block")
    check_file(path)
    options = {"series": series, "id": id, "time": time, "channels": channels, "ignore": ignore}
    check_options(kind, options, STREAM_OPTIONS)
    status = path.stat()
    identity = {"file": path.name, "bytes": status.st_size, "changed": status.st_mtime_ns, **options}
    if kind == "npy":
        return _array_stream(path, identity)
    from siggpde.io.table_streams import LongTableStream, WideTableStream  # noqa: PLC0415 - polars takes long to import

    channel_list, ignored = check_column_names(channels, "channels"), check_column_names(ignore, "ignore") or []
    if series is not None and id is not None:
        raise ValueError(TWICE_IDENTIFIED)
    if series is not None:
        table = LongTableStream(path, series, time, channel_list, ignored)
    elif time is None:
        table = WideTableStream(path, channel_list, ignored, id)
    else:
        raise ValueError(f"time={time!r} is for tables with one row a point; name the column of series with series=")
    first = table.load(0, 1)
    return SeriesStream(
        path.stem, table.total, table.points, first.channel_names, first.time_channel, identity, table.load
    )


def _array_stream(path: Path, identity: dict[str, Any]) -> SeriesStream:
    data = read_npy(path, mmap=True)
    assert isinstance(data.X, np.ndarray)
    x: NDArray[Any] = data.X

    def load(start: int, stop: int) -> SeriesData:
        return SeriesData(X=np.array(x[start:stop], dtype=np.float64), channel_names=data.channel_names, name=data.name)

    return SeriesStream(data.name, len(x), x.shape[2], data.channel_names, None, identity, load)
