"""Time regions by name, in time stamps or points where all series have the same."""

from __future__ import annotations

from siggpde.explain.cuts import segments_of
from siggpde.explain.text import when
from siggpde.series import SeriesBatch
from siggpde.series.statistics import OF_SERIES


def region_names(batch: SeriesBatch, count: int) -> list[str]:
    """The names of `count` equal regions: time stamps or points, counted from 0, if these are the same for all series,
    else shares of their length."""
    lengths = batch.counts()
    length = int(lengths[0])
    alike = bool((lengths == length).all())
    if alike and batch.times is not None:
        alike = bool((batch.times == batch.times[0]).all())
    raw = length
    if batch.facts is not None and batch.times is None:
        before = batch.facts[:, -len(OF_SERIES)]
        alike = alike and bool((before == before[0]).all())
        raw = max(length, int(before[0]))
    if not alike:
        return [
            f"{100 * place / count:.0f} to {100 * (place + 1) / count:.0f} % of the series" for place in range(count)
        ]
    of_point = segments_of(length, count, batch.values.device)
    after = of_point.bincount().cumsum(0)
    before = (after - of_point.bincount()).tolist()
    if batch.times is not None:
        times = batch.times[0].tolist()
        return [f"time {when(times[start], times[end - 1])}" for start, end in zip(before, after.tolist(), strict=True)]
    limits = zip(before, after.tolist(), strict=True)
    return [
        f"points {start * raw // length} to {(end * raw + length - 1) // length - 1}"
        if end - start > 1 or raw > length
        else f"point {start}"
        for start, end in limits
    ]
