"""Random series with gaps, ragged lengths and labels of every kind, and their comparison."""

from pathlib import Path
from typing import Any

import aeon
import numpy as np
from hypothesis import strategies as st

from siggpde.io import SeriesData

AEON = Path(str(aeon.__file__)).parent / "datasets" / "data"

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=6)

NAN = float("nan")
LONG = {
    "who": ["ann", "bob", "ann", "bob", "bob"],
    "day": [2, 1, 1, 3, 2],
    "x": [2.5, 10.0, 1.5, None, 20.0],
    "y": [7, 1, 6, 3, 2],
    "kind": ["A", "B", "A", "B", "B"],
}
WIDE = {
    "x_1": [2, 5, 8],
    "x_0": [1, 4, 7],
    "y_0": [1.5, None, 3.5],
    "kind": [True, False, True],
    "y_1": [4.5, 5.5, None],
    "x_2": [3, 6, None],
    "y_2": [7.5, None, None],
}


@st.composite
def series_data(draw: st.DrawFn, labels: str = "any", stamped: bool | None = None, ids: bool = True) -> SeriesData:
    """SeriesData of 1 to 4 series with 1 to 3 channels; `labels` is a kind, or any."""
    n, channels = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    ragged = draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n)) if ragged else [draw(st.integers(1, 5))] * n
    with_time = draw(st.booleans()) if stamped is None else stamped
    series = []
    for length in lengths:
        rows = draw(st.lists(st.lists(NUMBERS, min_size=length, max_size=length), min_size=channels, max_size=channels))
        if with_time:
            times = draw(st.lists(st.floats(-1e9, 1e9), min_size=length, max_size=length, unique=True))
            rows.insert(0, sorted(times))
        series.append(np.array(rows, dtype=np.float64))
    x = np.stack(series) if len(set(lengths)) == 1 else series
    names = ("when",) * with_time + tuple(f"c{i}" for i in range(channels))
    return SeriesData(
        X=x,
        y=draw(targets(n, labels)),
        ids=np.array(draw(st.lists(WORDS, min_size=n, max_size=n, unique=True))) if ids else None,
        channel_names=names,
        time_channel=0 if with_time else None,
        name="data",
    )


@st.composite
def targets(draw: st.DrawFn, n: int, kind: str) -> Any:
    kind = draw(st.sampled_from(["none", "text", "word", "int", "bool", "float"])) if kind == "any" else kind
    if kind == "none":
        return None
    one = {
        "text": TEXTS,
        "word": WORDS,
        "int": st.integers(-(2**63), 2**63 - 1),
        "bool": st.booleans(),
        "float": st.floats(allow_nan=False),
    }[kind]
    dtype = {"text": str, "word": str, "int": np.int64, "bool": bool, "float": np.float64}[kind]
    return np.array(draw(st.lists(one, min_size=n, max_size=n)), dtype=dtype)


def assert_equal(got: SeriesData, wanted: SeriesData, *, names: bool = True, ids: bool = True) -> None:
    """The same series, bit by bit but for the payload of NaN, the same labels of the same type, the same names."""
    assert isinstance(got.X, np.ndarray) == isinstance(wanted.X, np.ndarray)
    assert len(got.X) == len(wanted.X)
    for one, other in zip(got.X, wanted.X, strict=True):
        assert one.dtype == np.float64
        np.testing.assert_array_equal(one, other)
    assert got.time_channel == wanted.time_channel
    same_labels(got.y, wanted.y)
    if names:
        assert got.channel_names == wanted.channel_names
    if ids:
        same_labels(got.ids, wanted.ids)


def same_labels(got: Any, wanted: Any) -> None:
    if wanted is None:
        assert got is None
    else:
        assert got is not None and got.dtype.kind == np.asarray(wanted).dtype.kind
        assert got.tolist() == wanted.tolist()


def save(folder: Path, text: str | bytes, name: str = "file.ts") -> Path:
    """Write a file, and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same(x: Any, y: Any) -> None:
    """The same arrays, one after the other."""
    assert len(x) == len(y)
    for one, other in zip(x, y, strict=True):
        np.testing.assert_array_equal(one, other)
