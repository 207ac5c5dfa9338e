"""What was understood of DATA, in one line; and what is hardly meant so: errors where a fit would learn nonsense."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.io import SeriesData, SeriesStream
from siggpde.io.data import default_names

log = logging.getLogger(__name__)

LARGEST = 1e150
"""The square of a larger number overflows."""

_FAR = 1e6  # times the spread of the middle half of the values
_SHOWN = 10
_SAMPLE = 2**18  # values by which the spread of channels is told
_BLOCK = 2**22  # values looked at together


def what_was_read(data: SeriesData, target: str | None, ranks: Ranks = ALONE) -> str:
    """One line, such as: read 40 series, 3 channels x, y, z, 61 to 182 points, label gesture."""
    lengths = data.lengths
    parts = [f"read {len(data)} series", _channels(data), _points(int(lengths.min()), int(lengths.max()))]
    if data.y is not None:
        parts.append(f"label {target}" if target is not None else "labelled")
    if data.groups is not None:
        parts.append(f"{len(np.unique(data.groups))} groups")
    if data.sample_weight is not None:
        parts.append("weights")
    return ", ".join(parts) + ("" if ranks.alone else f" (rank {ranks.rank} of {ranks.count})")


def what_is_streamed(data: SeriesStream) -> str:
    """The same for series that are still to be read, block by block."""
    return f"reading {len(data)} series block by block, {_channels(data)}, up to {data.points} points"


def check_plausible(data: SeriesData) -> None:
    """Warns of series of one point each, and of values far from all others, most often marks of missing values."""
    lengths = data.lengths
    if len(data) > 2 and np.median(lengths) == 1 and data.n_channels <= 2:
        log.warning(
            "most series have one point only; if rows of the table are points, name the column that tells series "
            "apart with --series"
        )
    extremes = _extremes(data)
    quarters = _quarters(data)
    for channel in _channels_of(data):
        least, greatest = extremes[:, channel]
        if np.isnan(least):
            log.warning("channel %s has not a single value", data.channel_names[channel])
            continue
        low, middle, high = quarters[:, channel]
        if high > low and max(greatest - middle, middle - least) > _FAR * (high - low):
            worst = greatest if greatest - middle >= middle - least else least
            log.warning(
                "channel %s has the value %g in %s, where half of its values are between %g and %g; if it marks a "
                "missing value, leave the cell empty",
                data.channel_names[channel],
                worst,
                _where(data, channel, worst),
                low,
                high,
            )


def check_training(data: SeriesData) -> None:
    """Raises ValueError for what nothing can be learned from: a channel without values, values beyond squaring."""
    extremes = _extremes(data)
    for channel in _channels_of(data):
        name, (least, greatest) = data.channel_names[channel], extremes[:, channel]
        if np.isnan(least):
            raise ValueError(
                f"channel {name} has not a single value, so nothing can be learned from it; leave it out with ignore=, "
                "or name the others with channels="
            )
        worst = greatest if greatest >= -least else least
        if not abs(worst) <= LARGEST:
            raise ValueError(
                f"channel {name} has the value {worst:g} in {_where(data, channel, worst)}, too large to be squared; "
                "leave the cell empty if the value is missing, or give the channel in other units"
            )


def _channels_of(data: SeriesData) -> range:
    """The channels but that of time."""
    return range(0 if data.time_channel is None else 1, data.n_channels)


def _extremes(data: SeriesData) -> NDArray[np.float64]:
    """(2, n_channels): the least and the greatest value of every channel, NaN where it has none."""
    found = np.full((2, data.n_channels), np.nan)
    step = max(1, _BLOCK // (data.n_channels * int(data.lengths.max()))) if isinstance(data.X, np.ndarray) else 1
    for start in range(0, len(data), step):  # of a file that is mapped, no more than a block is in memory
        block = data.X[start : start + step]
        values = np.asarray(block if isinstance(data.X, np.ndarray) else block[0][None], dtype=np.float64)
        found[0] = np.fmin(found[0], np.fmin.reduce(values, axis=(0, 2)))
        found[1] = np.fmax(found[1], np.fmax.reduce(values, axis=(0, 2)))
    return found


def _quarters(data: SeriesData) -> NDArray[np.float64]:
    """(3, n_channels): quartiles of every channel, by at most so many series that they have some 2^18 values."""
    wanted = max(1, _SAMPLE // (data.n_channels * int(data.lengths.max())))
    some = range(0, len(data), max(1, len(data) // wanted))
    found = np.full((3, data.n_channels), np.nan)
    for channel in _channels_of(data):
        values = np.concatenate([np.asarray(data.X[number][channel], dtype=np.float64) for number in some])
        finite = values[np.isfinite(values)]
        if len(finite):
            found[:, channel] = np.percentile(finite, [25, 50, 75])
    return found


def _where(data: SeriesData, channel: int, value: float) -> str:
    for number, series in enumerate(data.X):
        places = np.flatnonzero(series[channel] == value)
        if len(places):
            name = number if data.ids is None else data.ids[number]
            return f"series {name} at point {places[0]}"
    raise AssertionError("the value was in one of the series")


def _channels(data: SeriesData | SeriesStream) -> str:
    names = data.channel_names[0 if data.time_channel is None else 1 :]
    count = f"{len(names)} channel{'s' * (len(names) != 1)}"
    time = "" if data.time_channel is None else f", time {data.channel_names[0]}"
    if names == default_names(len(names)):
        return count + time
    return f"{count} {', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)}{time}"


def _points(shortest: int, longest: int) -> str:
    return f"{longest} point{'s' * (longest != 1)}" if shortest == longest else f"{shortest} to {longest} points"
