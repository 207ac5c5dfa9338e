"""Commands run by several processes of `torchrun`: every rank has a shard of the series, and rank 0 prints."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
import typer

from siggpde.distributed.ranks import Ranks, StoppedElsewhere, connect
from siggpde.io import SeriesData, from_frame, read
from siggpde.io.formats import FOR_TRAINING
from siggpde.io.frames import damage_reported, scan_parquet


@contextmanager
def connected_ranks() -> Iterator[Ranks]:
    """Connects the processes of this command; ranks other than 0 log only warnings and their errors."""
    with connect() as ranks:
        if not ranks.leads:
            logging.getLogger("siggpde").setLevel(logging.WARNING)
        try:
            yield ranks
        except StoppedElsewhere as error:
            if ranks.leads:
                raise
            raise typer.Exit(1) from error


def threads_per_rank(jobs: Any, ranks: Ranks) -> Any:
    """Returns the threads of this rank: `jobs`, or for -1 (one a core) an equal share of the cores of its machine."""
    if jobs != -1 or ranks.alone:
        return jobs
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def read_shard(path: Path, kind: str, options: dict[str, Any], ranks: Ranks) -> SeriesData:
    """The series of this rank: read alone from ``.npy``, or ``.parquet`` with a row a series, else with all."""
    if kind == "parquet" and not ranks.alone and options.get("series") is None and options.get("time") is None:
        table, _, rows = scan_parquet(path)
        start, stop = shard_bounds(rows, ranks)
        with damage_reported(path):
            shard = table.slice(start, stop - start).collect()
        columns = {key: options.get(key) for key in ("target", "id", "channels", "ignore", "facts", *FOR_TRAINING)}
        return from_frame(shard, name=path.stem, **columns)
    if kind == "npy":
        options = {**options, "mmap": True}  # converted piece by piece, so that it is never in memory twice
    return shard_of(read(path, **options), ranks)


def shard_of(data: SeriesData, ranks: Ranks) -> SeriesData:
    """Returns the series of this rank, of all the series."""
    if ranks.alone:
        return data
    shard = data[slice(*shard_bounds(len(data), ranks))]
    return replace(shard, X=np.array(shard.X, dtype=np.float64)) if isinstance(shard.X, np.ndarray) else shard


def shard_bounds(total: int, ranks: Ranks) -> tuple[int, int]:
    """Returns (start, stop): this rank has the series start to stop - 1 of `total`."""
    if total < ranks.count:
        raise ValueError(f"there are {total} series for {ranks.count} ranks, but each needs one; start fewer ranks")
    return total * ranks.rank // ranks.count, total * (ranks.rank + 1) // ranks.count


def gather_table(table: pl.DataFrame, renumber: bool, ranks: Ranks) -> pl.DataFrame:
    """Returns on rank 0 the rows of all ranks in the order of ranks; `renumber` makes the ids row numbers."""
    if ranks.alone:
        return table
    buffer = io.BytesIO()
    table.write_ipc(buffer)
    gathered = ranks.gather_rows(torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8))
    if not gathered:
        return table
    whole = pl.concat([pl.read_ipc(content.numpy().tobytes()) for content in gathered], how="vertical_relaxed")
    return whole.with_columns(id=pl.int_range(len(whole), dtype=pl.Int64)) if renumber else whole
