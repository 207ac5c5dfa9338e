"""Groups and weights of series: from tables, arrays and time stamps, and back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from siggpde.io import NotStreamable, SeriesData, from_frame, groups_by_time, read, stream, write

LONG = pl.DataFrame(
    {
        "walk": [0, 0, 1, 1, 2, 2],
        "day": [1, 2, 1, 2, 1, 2],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "who": ["ann", "ann", "bob", None, "ann", "ann"],
        "counts": [1.0, 1.0, 2.0, 2.0, 0.5, None],
        "kind": ["a", "a", "b", "b", "a", "a"],
    }
)
WIDE = pl.DataFrame(
    {"who": [7, 7, 8], "kind": ["a", "b", "a"], "counts": [1, 2, 3], "t_0": [1, 2, 3], "t_1": [3, 4, 5]}
)


@pytest.mark.parametrize("suffix", ["csv", "parquet", None])
def test_long_tables(tmp_path: Path, suffix: str | None):
    options = {"series": "walk", "time": "day", "target": "kind", "groups": "who", "sample_weight": "counts"}
    if suffix is None:
        data = from_frame(LONG, **options)
    else:
        getattr(LONG, f"write_{suffix}")(tmp_path / f"walks.{suffix}")
        data = read(tmp_path / f"walks.{suffix}", **options)
    assert data.channel_names == ("day", "x")
    assert data.groups is not None and data.groups.tolist() == ["ann", "bob", "ann"]
    assert data.sample_weight is not None and data.sample_weight.tolist() == [1, 2, 0.5]
    assert "labels, 2 groups" in repr(data)


def test_wide_tables():
    data = from_frame(WIDE, target="kind", groups="who", sample_weight="counts")
    assert data.n_channels == 1 and data.lengths.tolist() == [2, 2, 2]
    assert data.groups is not None and data.groups.tolist() == [7, 7, 8]
    assert from_frame(WIDE, target="kind", ignore=["who", "counts"]).groups is None
    # Without zeros in front, groups of a .csv would not be what they are called.
    with_zeros = WIDE.with_columns(who=pl.Series(["007", "007", "008"]))
    assert from_frame(with_zeros, target="kind", groups="who", ignore=["counts"]).groups[0] == "007"  # pyright: ignore


def test_groups_of_text_that_looks_like_numbers(tmp_path: Path):
    path = tmp_path / "wide.csv"
    path.write_text("who,t_0,t_1\n007,1,2\n008,2,3\n")
    assert read(path, groups="who").groups.tolist() == ["007", "008"]  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "nobody"}, "there is no column 'nobody' for groups="),
        ({"groups": "kind", "target": "kind"}, "column 'kind' is both target= and groups="),
        ({"groups": "day"}, "series 0 has several groups in column 'day': 1, 2"),
        ({"groups": "x", "channels": ["x"]}, "column 'x' is asked for twice"),
        ({"groups": "none"}, "series 0 has no group in column 'none'"),
        ({"sample_weight": "none"}, "series 0 has no weight in column 'none'"),
    ],
)
def test_errors_of_long_tables(options: dict, message: str):
    frame = LONG.with_columns(none=pl.lit(None, dtype=pl.String))
    with pytest.raises(ValueError, match=message):
        from_frame(frame, series="walk", **options)


def test_errors_of_wide_tables():
    with pytest.raises(ValueError, match="column 'who', row 1 has no value; every series needs one"):
        from_frame(WIDE.with_columns(who=pl.Series([7, None, 8])), target="kind", groups="who", ignore=["counts"])


def test_arrays(tmp_path: Path):
    x, who = np.arange(12.0).reshape(3, 1, 4), np.array(["ann", "bob", "ann"])
    np.savez(tmp_path / "some.npz", X=x, person=who, counts=np.array([1.0, 2, 3]))
    data = read(tmp_path / "some.npz", groups="person", sample_weight="counts")
    assert data.groups is not None and data.groups.tolist() == who.tolist()
    assert data.sample_weight is not None and data.sample_weight.tolist() == [1, 2, 3]
    assert read(tmp_path / "some.npz").groups is None
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "who.txt").write_text("ann\nbob\nann\n")
    assert read(tmp_path / "x.npy", groups="who.txt").groups.tolist() == who.tolist()  # pyright: ignore
    with pytest.raises(FileNotFoundError, match="groups 'nobody' not found"):
        read(tmp_path / "some.npz", groups="nobody")
    np.savez(tmp_path / "wrong.npz", X=x, person=who[:2])
    with pytest.raises(ValueError, match=r"groups must have shape \(3,\), one a series; got \(2,\)"):
        read(tmp_path / "wrong.npz", groups="person")
    both = {"X_train": x, "X_test": x, "y_train": who, "y_test": who}
    np.savez(tmp_path / "parts.npz", person=np.array([0, 1, 1]), **both)
    assert read(tmp_path / "parts.npz", part="train", groups="person").groups.tolist() == [0, 1, 1]  # pyright: ignore


def test_formats_without_groups(tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"groups='a' has no meaning for .ts files \(only for npz, npy, csv, parquet\)"
    ):
        read(tmp_path / "some.ts", groups="a")
    with pytest.raises(TypeError):
        stream(tmp_path / "some.parquet", groups="a")  # pyright: ignore[reportCallIssue]
    with pytest.raises(NotStreamable):
        stream(tmp_path / "some.csv")


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_written_and_read(tmp_path: Path, suffix: str):
    data = SeriesData(
        np.arange(12.0).reshape(3, 2, 2), groups=np.array(["u", "v", "u"]), sample_weight=np.array([1.5, 2, 1])
    )
    path = tmp_path / f"some.{suffix}"
    write(path, data)
    columns = {} if suffix == "npz" else {"series": "series", "groups": "group", "sample_weight": "weight"}
    again = read(path, **columns)
    assert np.array_equal(again.X, data.X) and again.channel_names == data.channel_names
    assert again.groups.tolist() == ["u", "v", "u"]  # pyright: ignore[reportOptionalMemberAccess]
    assert again.sample_weight.tolist() == [1.5, 2, 1]  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(ValueError, match="two columns would be called 'series'"):
        write(tmp_path / "twice.csv", data, groups="series")


def windows(starts: list[str]) -> SeriesData:
    seconds = np.array(starts, dtype="datetime64[s]").astype(float)
    times = seconds[:, None] + np.arange(3) * 600
    return SeriesData(np.stack([times, np.zeros_like(times)], axis=1), time_channel=0)


def test_spans_of_time():
    data = windows(["2024-01-07T23:50", "2024-01-08T00:00", "2024-01-08T11:59", "2024-01-08T12:00", "2024-01-14T23:00"])
    assert np.diff(groups_by_time(data, "1d")).tolist() == [1, 0, 0, 6]
    assert np.diff(groups_by_time(data, "12h")).tolist() == [1, 0, 1, 12]
    assert np.diff(groups_by_time(data, "1w")).tolist() == [1, 0, 0, 0]  # 8 January 2024 was a Monday
    assert np.diff(groups_by_time(data, "30 min")).tolist() == [1, 23, 1, 24 * 13 - 2]
    assert np.array_equal(groups_by_time(data, "86400"), groups_by_time(data, "1d"))
    assert np.array_equal(groups_by_time(data, "60s"), groups_by_time(data, "1min"))
    as_list = replace(data, X=list(data.X))
    assert np.array_equal(groups_by_time(as_list, "1d"), groups_by_time(data, "1d"))


@pytest.mark.parametrize("span", ["", "1y", "0d", "-1d", "day", "1d 2h", "nan", "inf"])
def test_spans_that_are_none(span: str):
    with pytest.raises(ValueError, match="a span of time is a number with one of the units s, min, h, d, w"):
        groups_by_time(windows(["2024-01-07"]), span)


def test_spans_need_times():
    with pytest.raises(ValueError, match="groups by time need time stamps; name the column of times with time="):
        groups_by_time(SeriesData(np.zeros((2, 1, 3))), "1d")
    data = windows(["2024-01-07", "2024-01-08"])
    data.X[1, 0, 0] = np.nan  # pyright: ignore
    with pytest.raises(ValueError, match="series 1 has no time at its first point"):
        groups_by_time(data, "1d")
