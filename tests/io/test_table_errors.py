"""Tables that are not series, and what is said about them."""

from datetime import datetime

import pandas as pd
import polars as pl
import pytest

from helpers.io_data import LONG, NAN, WIDE
from siggpde.io import from_frame


def long(**changes) -> pl.DataFrame:
    return pl.DataFrame(LONG | changes, strict=False)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (long(), {"series": "id"}, "no column 'id' for series=; the 5 columns are who, day, x, y, kind"),
        (long(), {"series": "who", "time": "t"}, "no column 't' for time="),
        (long(), {"series": "who", "target": "label"}, "no column 'label' for target="),
        (long(), {"series": "who", "channels": ["x", "z"]}, "no column 'z' for channels="),
        (long(), {"series": "who", "ignore": ["z"]}, "no column 'z' for ignore="),
        (long(), {"series": "who", "channels": "x"}, "channels must be a list of names; got 'x'"),
        (long(), {"series": "who", "channels": []}, "channels must name at least one column"),
        (long(), {"series": "who", "channels": ["x", "x"]}, "column 'x' is asked for twice"),
        (long(), {"series": "who", "time": "day", "channels": ["day"]}, "column 'day' is asked for twice"),
        (long(), {"series": "who", "channels": ["kind"]}, "column 'kind', row 0: expected a number; got 'A'"),
        (long(), {"time": "day"}, "time='day' is for tables with one row a point"),
        (long(day=[1, 1, 1, 2, 1]), {"series": "who", "time": "day"}, "series 'ann' has time 1 twice"),
        (
            long(day=[datetime(2020, 1, 1 + i % 2) for i in range(5)]),
            {"series": "who", "time": "day"},
            "series 'ann' has time 2020-01-01 00:00:00 twice",
        ),
        (
            long(day=[1, 2, None, 3, 4]),
            {"series": "who", "time": "day"},
            "column 'day', row 2: expected a time; got None",
        ),
        (long(day=[1, 2, NAN, 3, 4]), {"series": "who", "time": "day"}, "row 2: expected a time; got nan"),
        (long(day=list("abcde")), {"series": "who", "time": "day"}, "neither numbers nor dates .* starts with 'a'"),
        (long(day=[True] * 5), {"series": "who", "time": "day"}, "column 'day' is Boolean; a time must be"),
        (long(kind=list("ABBBB")), {"series": "who", "target": "kind"}, "series 'ann' has several labels .*'A', 'B'"),
        (long(kind=["A", None, "A", None, None]), {"series": "who", "target": "kind"}, "series 'bob' has no label"),
        (long(who=["a", None, "a", "b", "b"]), {"series": "who"}, "row 1 does not say which series"),
        (long(x=["1", "2", "3", "four", "5"]), {"series": "who"}, "column 'x', row 3: expected a number; got 'four'"),
        (
            pl.DataFrame({"s": [1], "v": ["a"]}),
            {"series": "s"},
            "no columns of numbers for channels; the 2 columns are s, v",
        ),
        (
            pl.DataFrame({"s": [1], "v": [[1, 2]]}),
            {"series": "s", "channels": ["v"]},
            r"column 'v' is List\(Int64\), not numbers",
        ),
        (pl.DataFrame(WIDE), {"channels": ["z"]}, "no columns z_0, z_1, ... for channel 'z'"),
        (pl.DataFrame(WIDE).drop("x_1"), {"channels": ["x"]}, "channel 'x' has no column for point 1"),
        (pl.DataFrame(WIDE).drop("y_2"), {"channels": ["x", "y"]}, "'y' has 2 columns .y_0 to y_1., but 'x' has 3"),
        (pl.DataFrame({"x_0": [1], "x.0": [2]}), {"channels": ["x"]}, "'x_0' and 'x.0' are both point 0"),
        (pl.DataFrame({"x_2": [1], "x_3": [2]}), {"channels": ["x"]}, "no column for point 0"),
        (pl.DataFrame({"a": [1, 2], "k": ["u", None]}), {"target": "k"}, "column 'k', row 1 has no value"),
        (pl.DataFrame({"a": ["1", "x"], "b": [1, 2]}), {}, "column 'a', row 1: expected a number; got 'x'"),
        (pl.DataFrame({"a": ["1,5", "2,5"], "b": [1, 2]}), {}, "column 'a', row 0: expected a number; got '1,5'"),
        (pl.DataFrame({"a": []}), {}, "no rows"),
        ([[1, 2]], {}, "expected a DataFrame of polars or pandas; got list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "two columns of one name"),
    ],
)
def test_mistakes_are_explained(frame, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        from_frame(frame, **options)
