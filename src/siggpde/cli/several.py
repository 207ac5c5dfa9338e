"""One command run by several processes, as `torchrun` starts them: each has a part of the series, rank 0 speaks."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
import typer

from siggpde.distributed.ranks import Ranks, StoppedElsewhere, connect
from siggpde.io import SeriesData, from_frame, read


@contextmanager
def several() -> Iterator[Ranks]:
    """The ranks of this command; all but rank 0 are silent, unless they fail themselves."""
    with connect() as ranks:
        if not ranks.leads:
            logging.getLogger("siggpde").setLevel(logging.WARNING)
        try:
            yield ranks
        except StoppedElsewhere as error:
            if ranks.leads:
                raise
            raise typer.Exit(1) from error


def threads_of(jobs: Any, ranks: Ranks) -> Any:
    """Threads for a rank, where -1 is one a core: those of a machine are shared by the ranks on it."""
    if jobs != -1 or ranks.alone:
        return jobs
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def read_rows(path: Path, kind: str, options: dict[str, Any], ranks: Ranks) -> SeriesData:
    """The part of a file's series that this rank has.

    Only these rows are read of .npy and, with one row a series, of .parquet; of other files all are, and some kept.
    """
    if ranks.alone:
        return read(path, **options)
    if kind == "npy":
        return rows_of(read(path, **{**options, "mmap": True}), ranks)
    if kind == "parquet" and options.get("series") is None and options.get("time") is None:
        table = pl.scan_parquet(path)
        start, stop = bounds(int(table.select(pl.len()).collect().item()), ranks)
        columns = {key: options.get(key) for key in ("target", "channels", "ignore")}
        return from_frame(table.slice(start, stop - start), name=path.stem, **columns)
    return rows_of(read(path, **options), ranks)


def rows_of(data: SeriesData, ranks: Ranks) -> SeriesData:
    """The part of the series that this rank has."""
    if ranks.alone:
        return data
    rows = slice(*bounds(len(data), ranks))
    return SeriesData(
        X=np.array(data.X[rows], dtype=np.float64) if isinstance(data.X, np.ndarray) else data.X[rows],
        y=None if data.y is None else data.y[rows],
        ids=None if data.ids is None else data.ids[rows],
        channel_names=data.channel_names,
        time_channel=data.time_channel,
        name=data.name,
    )


def bounds(total: int, ranks: Ranks) -> tuple[int, int]:
    """The first row of this rank and the one after its last, of so many."""
    if total < ranks.count:
        raise ValueError(f"there are {total} series for {ranks.count} ranks, but each needs one; start fewer ranks")
    return total * ranks.rank // ranks.count, total * (ranks.rank + 1) // ranks.count


def join_tables(table: pl.DataFrame, numbered: bool, ranks: Ranks) -> pl.DataFrame:
    """On rank 0 the rows of all ranks, one rank after the other; `numbered`: the ids are the numbers of the rows."""
    if ranks.alone:
        return table
    room = io.BytesIO()
    table.write_ipc(room)
    parts = ranks.gather_rows(torch.frombuffer(bytearray(room.getvalue()), dtype=torch.uint8))
    if not parts:
        return table
    whole = pl.concat([pl.read_ipc(part.numpy().tobytes()) for part in parts], how="vertical_relaxed")
    return whole.with_columns(id=pl.int_range(len(whole), dtype=pl.Int64)) if numbered else whole
