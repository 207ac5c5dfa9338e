"""Series from tables of polars: in long form a row is a point, in wide form a row is a series, whose columns x_0, x_1,
.. y_0, y_1, .. are points of channels. Errors name the cell, and tables that are hardly meant so are refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.io.data import BadCell, SeriesData, cut, without_objects
from siggpde.io.formats import ColumnRoles, listed, shortened
from siggpde.utils.times import TimeFormat, offset_of, time_format

log = logging.getLogger(__name__)

_MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "?", "-")
_KEYS = {"target": "y", "groups": "groups", "sample_weight": "sample_weight"}  # options, and fields of `SeriesData`
_VALUE_NAMES = {"target": "label", "groups": "group", "sample_weight": "weight"}
_TIME_NAMES = re.compile(r"(?:.*[_ ])?(?:time|times|timestamp|date|datetime|day|hour|minute|second|t|ts|s|ms)", re.I)

_CELLS = 2**22  # of a wide table converted at a time
_NAMES_OF_POINTS = (  # x_0 or x.0, x0, and 0_x
    re.compile(r"(?P<channel>[^\W\d](?:.*\w)?)(?:_|(?<!\d)\.)(?P<point>\d{1,9})"),
    re.compile(r"(?P<channel>(?:[^\W\d](?:.*[^\W\d])?)?)(?P<point>\d{1,9})"),
    re.compile(r"(?P<point>\d{1,9})[_.](?P<channel>[^\W\d].*)"),
)
_UNNAMED = re.compile(r"|Unnamed: \d+|_duplicated_\d+|column_\d+|index|level_0")
_ID_NAMES = re.compile(r"(?:.*[_ .])?(?:id|ids|index|idx|key|nr|no|number|row|case|sample|uid|uuid)|.*Id|.*ID")
_MOST_TO_CHECK = 50
_DAY_OR_MONTH = r"^\s*(\d{1,2})[-/.]\d{1,2}[-/.]\d{4}"
_TRIED = 20  # cells of a column of text, to see whether it has dates
_FEWEST_IDS = 5
_SHOWN = 5  # of the series with duplicate times


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table or of a file still to be read: `cells` gives one by name, `rows` the first or all rows."""

    schema: Mapping[str, pl.DataType]
    roles: ColumnRoles
    source: str
    cells: Callable[[str], pl.Series]
    rows: Callable[[], pl.DataFrame]

    def __post_init__(self) -> None:
        self.roles.check(list(self.schema), self.source)

    def numbers(self) -> list[str]:
        """The columns of numbers without another role, and without row numbers; ValueError for a part of numbers."""
        names, taken = [], set(self.roles.taken)
        for name, dtype in self.schema.items():
            if name in taken:
                continue
            plain = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
            if plain or (dtype == pl.String and _is_number_text(self.cells(name), self.source)):
                names.append(name)
            else:
                log.info("%s: column %r holds no numbers and is left out", self.source, name)
        if not names:
            raise ValueError(
                f"{self.source}: there are no columns of numbers for channels; {listed(list(self.schema))}"
            )
        if len(names) > 1 and names[0] == next(iter(self.schema)) and _UNNAMED.fullmatch(names[0]):
            first = self.rows()[names[0]]
            if first.dtype.is_integer() and not first.null_count() and (first.diff(1, "drop") == 1).all():
                log.info("%s: the first column, %r, counts the rows and is left out", self.source, names[0])
                return names[1:]
        return names

    def wide(self) -> tuple[list[list[str]], tuple[str, ...]]:
        """The columns of every channel of a wide table, in the order of time, and the channels' names, none for one."""
        if self.roles.channels is not None:
            return self._named_grid(self.roles.channels), tuple(self.roles.channels)
        numbers, rows, source = self.numbers(), self.rows(), self.source
        groups = point_groups(numbers)
        inside = {column for columns in groups.values() for column in columns}
        rest = [column for column in numbers if column not in inside]
        if len(inside) < 3 or len(rest) > len(inside):
            _check_rows_are_series(rows, numbers, self.roles.taken, source)
            for column in dict.fromkeys([*numbers[:2], numbers[-1]] if len(numbers) > 1 else []):
                if _looks_like_ids(rows[column]):
                    raise ValueError(
                        f"{source}: column {column!r} looks like ids of the series, not like a point of them. Name it "
                        "with id=, which puts it next to the predictions, or leave it out with ignore=. If it is a "
                        "point, call the columns t_0, t_1, ...; if rows are points, name the column that tells series "
                        "apart with series="
                    )
            return [numbers], ()
        if rest:
            first = next(iter(groups.values()))
            what = "looks like ids of the series" if _looks_like_ids(rows[rest[0]]) else "is none of them"
            raise ValueError(
                f"{source}: points are in columns such as {first[0]!r} to {first[-1]!r}, but column {rest[0]!r} "
                f"{what}. Leave it out with ignore=, or name it with id= if it identifies the series, with target= if "
                "it is the label, or with facts= if it is known beside the series, such as an age"
            )
        lengths = {channel: len(columns) for channel, columns in groups.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{channel} has {length}" for channel, length in list(lengths.items())[:5])
            raise ValueError(
                f"{source}: the columns look like channels with unequal numbers of points: {shown}. Name the channels "
                "to read with channels=, or leave columns out with ignore="
            )
        return list(groups.values()), tuple(groups) if len(groups) > 1 else ()

    def _named_grid(self, channels: Sequence[str]) -> list[list[str]]:
        present = [column for column in self.schema if column not in self.roles.taken]
        grid = [_point_columns(channel, present, self.source) for channel in channels]
        for channel, names in zip(channels, grid, strict=True):
            if len(names) != len(grid[0]):
                raise ValueError(
                    f"{self.source}: channel {channel!r} has {len(names)} columns ({names[0]} to {names[-1]}), but "
                    f"{channels[0]!r} has {len(grid[0])}; every channel needs the same number"
                )
        return grid


def from_table(frame: pl.DataFrame, roles: ColumnRoles, name: str, source: str) -> SeriesData:
    """Returns the series of a table, in long form where `roles` has a column of series; errors call it `source`."""
    columns = TableColumns(frame.schema, roles, source, frame.get_column, lambda: frame)
    if roles.series is not None:
        return from_long(frame, list(roles.channels or columns.numbers()), roles, name, source)
    return from_grid(frame, *columns.wide(), roles, name, source)


def as_table(data: SeriesData, series: str, named: dict[str, str]) -> pl.DataFrame:
    """Returns series as a table in long form, with ids in the column `series` and values in the columns `named`."""
    columns = {_KEYS[option]: column for option, column in named.items() if getattr(data, _KEYS[option]) is not None}
    names = [series, *data.channel_names, *columns.values(), *(data.facts or ())]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(
            f"two columns would be called {repeated.pop()!r}; give others with series=, target=, groups= or "
            "sample_weight="
        )
    lengths = data.lengths
    ids = np.arange(len(data)) if data.ids is None else without_objects(data.ids, "ids")
    if len(set(ids.tolist())) < len(ids):
        raise ValueError("ids must all be different, for rows are put together by them")
    table: dict[str, Any] = {series: np.repeat(ids, lengths)}
    for index, name in enumerate(data.channel_names):
        table[name] = np.concatenate([np.asarray(one[index], dtype=np.float64) for one in data.X])
    clock = data.time_format
    if clock is not None and clock.dates and clock.unit == "s":
        stamps = pl.Series(np.round(table[data.channel_names[0]] * 1e6).astype("datetime64[us]"))
        table[data.channel_names[0]] = stamps if clock.zone is None else in_zone(stamps, clock.zone)
    for key, column in columns.items():
        table[column] = np.repeat(without_objects(getattr(data, key), key), lengths)
    table |= {name: np.repeat(np.asarray(values), lengths) for name, values in (data.facts or {}).items()}
    frame = pl.DataFrame({name: pl.Series(values) for name, values in table.items()}, nan_to_null=False)
    return frame.with_columns(frame[name].fill_nan(None) for name in data.channel_names if frame[name].dtype.is_float())


def in_zone(column: pl.Series, zone: str) -> pl.Series:
    """Returns dates in UTC in a time zone or an offset from UTC; they stay in UTC where polars does not know it."""
    column = column.dt.replace_time_zone("UTC")
    try:
        return column.dt.convert_time_zone(zone)
    except pl.exceptions.PolarsError:
        return column


def from_long(frame: pl.DataFrame, channels: list[str], roles: ColumnRoles, name: str, source: str) -> SeriesData:
    """Returns the series of a table with one row a point, in the order in which they first occur."""
    series, time = roles.series, roles.time
    assert series is not None
    check_ids(frame[series], source)
    ids = frame[series].unique(maintain_order=True)
    rows, numbered = pl.DataFrame({"id": frame[series]}), pl.DataFrame({"id": ids}).with_row_index("code")
    codes = rows.join(numbered, on="id", how="left", maintain_order="left")["code"].to_numpy().astype(np.int64)
    points = [as_numbers(frame[channel], source) for channel in channels]
    values: dict[str, Any] = {
        _KEYS[option]: _values_by_series(frame[column], codes, ids, _VALUE_NAMES[option], source)
        for option, column in roles.values.items()
    }
    facts = {fact: _values_by_series(frame[fact], codes, ids, "value", source, gaps=True) for fact in roles.facts or ()}
    if time is not None:
        channels, points = [time, *channels], [as_times(frame[time], source), *points]
    order = np.argsort(codes, kind="stable") if time is None else np.lexsort((points[0], codes))
    matrix, same = np.stack(points, axis=1)[order], np.diff(codes[order]) == 0
    for channel, numbers in zip(channels, matrix.T, strict=True) if time is None else ():
        if _TIME_NAMES.fullmatch(channel) and same.any() and (np.diff(numbers)[same] > 0).all():
            message = "%s: %r grows in every series but is read as a channel; is it the time (time=, --time)?"
            log.info(message, source, channel)
    if time is not None and (repeated := same & (np.diff(matrix[:, 0]) == 0)).any():
        rows = order[1:][repeated]
        if roles.duplicates in (None, "error"):
            raise ValueError(_repetitions(frame[time], ids, codes, np.sort(rows), source))
        have = "1 row has" if len(rows) == 1 else f"{len(rows)} rows have"
        log.info("%s: %s the same time as another of their series (%s)", source, have, roles.duplicates)
        starts = np.flatnonzero(np.concatenate([[True], ~repeated]))
        matrix, codes = _merged(matrix, starts, roles.duplicates), codes[order][starts]
    counts = np.bincount(codes)
    ends = np.cumsum(counts)
    known = None if time is None else _time_format(frame[time], matrix[ends - counts, 0], matrix[ends - 1, 0])
    pieces = np.split(matrix, ends[:-1])  # (n_timepoints, n_channels) a series
    x = np.stack(pieces).transpose(0, 2, 1).copy() if len(set(counts)) == 1 else [piece.T.copy() for piece in pieces]
    return SeriesData(
        X=x,
        ids=as_labels(ids, source),
        channel_names=tuple(channels),
        time_channel=None if time is None else 0,
        name=name,
        facts=facts or None,
        time_format=known,
        **values,
    )


def _repetitions(
    times: pl.Series, ids: pl.Series, codes: NDArray[np.int64], rows: NDArray[np.int64], source: str
) -> str:
    """Returns what is wrong with `rows` whose times other rows of their series have: how many there are, and where."""
    some, first = np.unique(codes[rows], return_index=True)
    where = [f"{ids[int(codes[row])]!r} at {times[int(row)]}" for row in rows[np.sort(first)]]
    one = len(rows) == 1
    return (
        f"{source}: {len(rows)} row{'' if one else 's'} of {len(codes)} {'has' if one else 'have'} the same time as "
        f"another of the series, in {len(some)} of {len(ids)} series: {shortened(where, _SHOWN)}. Say "
        "duplicates='first' or 'last' to keep the first or the last value of every channel, or 'mean' to average them"
    )


def _merged(matrix: NDArray[np.float64], starts: NDArray[np.int64], how: str) -> NDArray[np.float64]:
    """Returns one row (n_channels,) for all rows from one of `starts` to the next, of the values that are there."""
    known = ~np.isnan(matrix)
    if how == "mean":
        sums = np.add.reduceat(np.where(known, matrix, 0.0), starts)
        counts = np.add.reduceat(known.astype(np.int64), starts)
        merged = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        merged[:, 0] = matrix[starts, 0]  # times
        return merged
    rows, none = np.arange(len(matrix))[:, None], len(matrix) if how == "first" else -1
    pick = np.minimum if how == "first" else np.maximum
    picked = pick.reduceat(np.where(known, rows, none), starts)
    return np.where(picked == none, np.nan, np.take_along_axis(matrix, picked.clip(0, len(matrix) - 1), axis=0))


def check_ids(column: pl.Series, source: str, first: int = 0) -> None:
    """Raises ValueError for an empty cell in the column of series; `first` is the number of its first row."""
    if column.null_count():
        row = first + int(column.is_null().arg_max() or 0)
        wrong = (
            f" does not say which series it belongs to (column {column.name!r} is empty); fill it in, or delete the row"
        )
        raise BadCell(source, row, None, wrong)


def _values_by_series(
    column: pl.Series, codes: NDArray[np.int64], ids: pl.Series, meaning: str, source: str, *, gaps: bool = False
) -> NDArray[Any]:
    """Returns (n_series,) values, facts with `gaps`; cells of a series may be empty, but the others must agree."""
    if gaps:
        column = _fact_cells(column)
    elif column.dtype.is_float():
        column = column.fill_nan(None)
    pairs = pl.DataFrame({"code": codes, "label": column}).drop_nulls().unique(maintain_order=True)
    counts = np.bincount(pairs["code"].to_numpy(), minlength=len(ids))
    if (counts > 1).any():
        code = int(np.argmax(counts > 1))
        labels = pairs.filter(pl.col("code") == code)["label"].to_list()
        raise ValueError(
            f"{source}: series {ids[code]!r} has several {meaning}s in column {column.name!r}: {labels[0]!r}, "
            f"{labels[1]!r}; write the same in all of its rows"
        )
    if gaps:
        every = pl.DataFrame({"code": np.arange(len(ids))})
        return as_facts(every.join(pairs, on="code", how="left", maintain_order="left")["label"])
    if (counts == 0).any():
        raise ValueError(
            f"{source}: series {ids[int(np.argmin(counts))]!r} has no {meaning} in column {column.name!r}; fill it in, "
            "or delete the rows of this series"
        )
    return as_labels(pairs.sort("code")["label"], source)


def from_grid(
    frame: pl.DataFrame, grid: list[list[str]], channels: tuple[str, ...], roles: ColumnRoles, name: str, source: str
) -> SeriesData:
    """Returns the series of a wide table, by the columns of every channel; empty cells at the end make one shorter."""
    x = np.empty((len(frame), len(grid), len(grid[0])))
    lengths = np.zeros(len(frame), dtype=np.int64)
    step = max(4096, _CELLS // len(frame))
    for channel, names in enumerate(grid):
        for start in range(0, len(names), step):  # some at a time: no second copy of the whole table in memory
            points = as_matrix(frame, names[start : start + step], source)
            x[:, channel, start : start + step] = points
            ends = np.where(np.isnan(points), 0, np.arange(start + 1, start + points.shape[1] + 1))
            np.maximum(lengths, ends.max(axis=1), out=lengths)
    values: Any = {_KEYS[option]: as_labels(frame[column], source) for option, column in roles.values.items()}
    return SeriesData(
        X=cut(x, np.maximum(lengths, 1)),  # a row without values is a series of one point, which is missing
        ids=None if roles.id is None else as_labels(frame[roles.id], source),
        channel_names=channels,
        name=name,
        columns=() if channels else tuple(grid[0]),
        facts={fact: as_facts(frame[fact]) for fact in roles.facts} if roles.facts else None,
        **values,
    )


def _point_columns(channel: str, present: list[str], source: str) -> list[str]:
    """Returns the columns channel_0, channel_1, ... (or channel.0, channel0, 0_channel), from 0 or 1, no holes."""
    by_number: dict[int, str] = {}
    escaped = re.escape(channel)
    for pattern in (rf"{escaped}[_.](\d{{1,9}})", rf"{escaped}(\d{{1,9}})", rf"(\d{{1,9}})[_.]{escaped}"):
        for column in present:
            if match := re.fullmatch(pattern, column):
                number = int(match[1])
                if number in by_number:
                    raise ValueError(f"{source}: columns {by_number[number]!r} and {column!r} are both point {number}")
                by_number[number] = column
        if by_number:
            break
    if not by_number:
        raise ValueError(
            f"{source}: there are no columns {channel}_0, {channel}_1, ... for channel {channel!r}; "
            f"{listed(present)}. If every row is a point, not a series, name the series' column with series="
        )
    start = min(by_number)
    holes = set(range(start, start + len(by_number))) - set(by_number)
    if start > 1 or holes:
        missing = min(holes) if holes else 0
        raise ValueError(f"{source}: channel {channel!r} has no column for point {missing}; {listed(present)}")
    return [by_number[number] for number in sorted(by_number)]


def point_groups(names: list[str]) -> dict[str, list[str]]:
    """Returns names such as x_0, x.0, x0 or 0_x by channel, which have two points or more, from 0 or 1 on."""
    for pattern in _NAMES_OF_POINTS:
        matches: dict[str, dict[int, str]] = {}
        for name in names:
            if match := pattern.fullmatch(name):
                matches.setdefault(match["channel"], {}).setdefault(int(match["point"]), name)
        groups = {
            channel: [points[number] for number in sorted(points)]
            for channel, points in matches.items()
            if len(points) > 1 and min(points) < 2 and max(points) - min(points) == len(points) - 1
        }
        if groups:
            return groups
    return {}


def _looks_like_ids(column: pl.Series) -> bool:
    """Returns whether a column of whole numbers counts series, or is called an id and has no number twice."""
    whole = column.dtype.is_integer() or (
        column.dtype.is_float() and column.is_finite().all() and (column == column.round()).all()
    )
    if not whole or len(column) < _FEWEST_IDS or column.null_count():
        return False
    steps = column.cast(pl.Float64).diff(1, "drop")
    if (steps == 1).all():
        return True
    named = _ID_NAMES.fullmatch(column.name) is not None or _ID_NAMES.fullmatch(column.name.lower()) is not None
    return column.n_unique() == len(column) and (named or (column.dtype.is_integer() and bool((steps > 0).all())))


def _check_rows_are_series(frame: pl.DataFrame, numbers: list[str], taken: Sequence[str], source: str) -> None:
    """Raises ValueError for a table of few columns in which one grows again and again while another stays the same."""
    if len(numbers) > _MOST_TO_CHECK or len(frame) < 2 * _FEWEST_IDS:
        return
    left = set(taken)
    candidates = [column for column in frame.columns if column not in left][:_MOST_TO_CHECK]
    possible = list(_possible_times(frame, candidates, numbers))
    for series in candidates:
        kind = frame.schema[series]
        if not (kind.is_integer() or kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum)):
            continue
        different = frame[series].n_unique()
        if frame[series].null_count() or different < 2 or 2 * different > len(frame):
            continue
        for time, times in possible:
            steps = pl.DataFrame({"id": frame[series], "time": times}).select(pl.col("time").diff().over("id"))["time"]
            steps, dated = steps.drop_nulls(), time not in numbers  # dates may be there twice
            growing = (steps > 0).all() or (dated and (steps >= 0).all() and 2 * (steps > 0).sum() > len(steps))
            if time != series and len(steps) == len(frame) - different and growing:
                raise ValueError(
                    f"{source}: rows look like points, not like series: {time!r} grows while {series!r} stays the "
                    f"same. Say series={series!r}, time={time!r}; if every row is a series, leave {series!r} out with "
                    "ignore="
                )


def _possible_times(
    frame: pl.DataFrame, columns: Sequence[str], numbers: Sequence[str]
) -> Iterator[tuple[str, pl.Series]]:
    """Returns the columns that may be times, by name: numbers, dates, and text of which every cell is a date."""
    for column in columns:
        values = frame[column]
        if column in numbers and values.dtype.is_numeric():
            yield column, values.cast(pl.Float64)
            continue
        dates = _dates(values) if values.dtype == pl.String and column not in numbers else values
        if dates is not None and not dates.null_count() and dates.dtype in (pl.Date, pl.Datetime):
            yield column, dates.to_physical().cast(pl.Float64)


def _dates(column: pl.Series) -> pl.Series | None:
    """Returns the dates in a column of text, null where a cell is none, in the format of the first; or None."""
    text = column.str.strip_chars()
    for start in range(min(len(text), _TRIED)):  # the first cell may be the wrong one
        try:
            dates = text[start:].str.to_datetime(strict=False)
        except pl.exceptions.PolarsError:
            continue
        if dates.null_count() < len(dates):
            return pl.concat([pl.Series(column.name, [None] * start, dtype=dates.dtype), dates])
    return None


def _is_number_text(column: pl.Series, source: str) -> bool:
    """Returns whether all cells of text are numbers or missing; ValueError where it is so of some, or with commas."""
    numbers, wrong = _parsed(column)
    if not wrong.any():
        return True
    if numbers.null_count() < len(column) or column.str.contains(r"^\s*[+-]?\d+,\d+\s*$").fill_null(False).any():
        as_numbers(column, source)  # raises, naming the row
    return False


def as_numbers(column: pl.Series, source: str) -> NDArray[np.float64]:
    """Returns (n_rows,), float64, NaN for nulls and words for missing values; ValueError for other text."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    if dtype != pl.String:
        raise ValueError(f"{source}: column {column.name!r} is {dtype}, not numbers; leave it out with ignore=")
    values, wrong = _parsed(column)
    if wrong.any():
        row = wrong.arg_max() or 0
        comma = " (is its comma a decimal point?)" if "," in column[row] else ""
        fix = "Correct it, or leave the column out with ignore="
        raise BadCell(source, row, column.name, f": expected a number; got {column[row]!r}{comma}. {fix}")
    return values.fill_null(np.nan).to_numpy().astype(np.float64)


def as_matrix(frame: pl.DataFrame, names: list[str], source: str) -> NDArray[np.float64]:
    """Returns (n_rows, n_names), float64: `as_numbers` of several columns, at once where all are numbers."""
    chosen = frame.select(names)
    if all(dtype.is_numeric() for dtype in chosen.dtypes):
        return chosen.cast(pl.Float64).to_numpy().astype(np.float64, copy=False)
    return np.stack([as_numbers(chosen[name], source) for name in names], axis=1)


def as_times(column: pl.Series, source: str) -> NDArray[np.float64]:
    """Returns (n_rows,), float64: numbers, or dates and times in seconds since 1970 in UTC or since midnight."""
    times = _seconds(column, source).fill_null(np.nan)
    if (missing := ~times.is_finite()).any():
        row = missing.arg_max() or 0
        raise BadCell(source, row, column.name, f": expected a time; got {column[row]!r}")
    return times.to_numpy().astype(np.float64)


def _time_format(column: pl.Series, first: NDArray[np.float64], last: NDArray[np.float64]) -> TimeFormat:
    """Returns what times are, from their column and from the first and last of every series (n_series,) as numbers."""
    dtype = column.dtype
    if isinstance(dtype, pl.Duration) or dtype == pl.Time:
        return time_format(first, last, "s")
    if dtype.is_numeric() or (dtype == pl.String and not _parsed(column.drop_nulls().head(1))[1].any()):
        return time_format(first, last, column.name)
    zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    if dtype == pl.String:
        zone = offset_of(column.drop_nulls().str.strip_chars().unique().to_list())
    return time_format(first, last, dates=True, zone=zone)


def as_labels(column: pl.Series, source: str) -> NDArray[Any]:
    """Returns (n_rows,): bools, integers and floats as they are, all else as strings; ValueError for nulls."""
    missing = column.is_null() | (column.is_nan() if column.dtype.is_float() else False)
    if missing.any():
        raise BadCell(source, missing.arg_max() or 0, column.name, " has no value; every series needs one")
    if column.dtype == pl.Boolean or column.dtype.is_integer() or column.dtype.is_float():
        return column.to_numpy().copy()
    if column.dtype.is_decimal():
        return column.cast(pl.Float64).to_numpy().copy()
    return np.array(column.cast(pl.String).to_list(), dtype=str)


def as_facts(column: pl.Series) -> NDArray[Any]:
    """Returns (n_rows,): float64 with NaN for gaps where all cells are numbers, else text with None for gaps."""
    cells = _fact_cells(column)
    return np.array(cells.to_list(), dtype=object) if cells.dtype == pl.String else cells.fill_null(np.nan).to_numpy()


def _fact_cells(column: pl.Series) -> pl.Series:
    """Returns the cells as numbers where all are, else as text, with nulls for gaps."""
    if column.dtype == pl.String:
        numbers, wrong = _parsed(column)
        return column.str.strip_chars().set(numbers.is_null() & ~wrong, None) if wrong.any() else numbers
    plain = column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)
    return column.cast(pl.Float64).fill_nan(None) if plain else column.cast(pl.String)


def _parsed(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Returns the numbers of a column of text, null where there is none, and which cells are neither number nor gap."""
    text = column.str.strip_chars()
    missing = text.is_null() | text.str.to_lowercase().is_in(_MISSING_TEXTS).fill_null(False)
    values = text.set(missing, None).cast(pl.Float64, strict=False)
    return values, values.is_null() & ~missing


def _seconds(column: pl.Series, source: str) -> pl.Series:
    dtype = column.dtype
    if dtype.is_numeric():
        return column.cast(pl.Float64)
    if dtype == pl.String:
        values, wrong = _parsed(column)
        if not wrong.any():
            return values
        dates = None if 2 * wrong.sum() < len(column) else _dates(column)
        if dates is None and wrong.all():
            raise ValueError(
                f"{source}: column {column.name!r} is neither numbers nor dates such as 2020-01-31 or "
                f"2020-01-31 12:00:00; it starts with {column[0]!r}"
            )
        bad, kind = (wrong, "number") if dates is None else (dates.is_null(), "date")
        if dates is None or bad.any():
            row = bad.arg_max() or 0
            alike = f"; write all dates alike, as {column.filter(~bad)[0]!r}" if kind == "date" else ""
            wrong = f": expected a {kind}, as in other rows; got {column[row]!r}{alike}"
            raise BadCell(source, row, column.name, wrong)
        if (column.drop_nulls().str.extract(_DAY_OR_MONTH).cast(pl.Int64).fill_null(99) <= 12).all():
            log.warning(
                "%s: dates of column %r, such as %s, are read as day, month, year; where the month is first, write "
                "2020-01-31",
                *(source, column.name, column[0]),
            )
        column, dtype = dates, dates.dtype
    if dtype == pl.Date:
        return column.cast(pl.Int32).cast(pl.Float64) * 86400.0
    if isinstance(dtype, pl.Datetime | pl.Duration):
        return column.to_physical().cast(pl.Float64) / {"ms": 1e3, "us": 1e6, "ns": 1e9}[dtype.time_unit]
    if dtype == pl.Time:
        return column.to_physical().cast(pl.Float64) / 1e9
    raise ValueError(f"{source}: column {column.name!r} is {dtype}; a time must be a number or a date")
