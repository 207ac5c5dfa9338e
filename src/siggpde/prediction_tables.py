"""Predictions as tables: one row a series, with its id; series that cannot be predicted may have rows too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.estimators.regressing import RegressorMethods
from siggpde.estimators.restoring import Predictor
from siggpde.estimators.trusting import unlike_line
from siggpde.io import SeriesData
from siggpde.io.data import errors_by_id, named

OnError = Literal["fail", "skip"]

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

_BAD_SERIES = (ValueError, ArithmeticError)
_UNLIKE = "unlike"


def prediction_table(
    estimator: Predictor, data: SeriesData, level: float = 0.9, on_error: OnError = "fail", reasons: bool = False
) -> pl.DataFrame:
    """One row a series: id, prediction, then a probability a class, or std, lower and upper; last `novelty`, the
    p-value of the series among the training series, unless the model is too old to have it.

    `on_error`: what a series does that cannot be predicted, such as one with an infinite value or without any.

    - "fail": it raises an error that names it by its id.
    - "skip": its row has empty cells, and in a last column `error` the reason, which is empty for all others.

    `reasons`: one column more, `unlike`: what is unusual about a series that is unlike all training series, empty for
    all others. `unlike_in` makes a line of it.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be 'fail' or 'skip'; got {on_error!r}")
    ids = np.arange(len(data)) if data.ids is None else data.ids
    everything = np.arange(len(data))
    if on_error == "fail":
        with errors_by_id(ids.tolist()):
            return _finished(_predicted(estimator, data.X, level), ids, reasons)
    try:
        errors: dict[int, str] = {}
        table = _predicted(estimator, data.X, level)
        good = everything
    except _BAD_SERIES:
        errors = dict(_unprepared(estimator, data.X))
        good = np.array([number for number in everything if number not in errors], dtype=np.int64)
        pieces = list(_pieces(estimator, data.X, good, level, errors))
        good = np.concatenate([numbers for numbers, _ in pieces]) if pieces else good[:0]
        table = pl.concat([piece for _, piece in pieces]) if pieces else _no_predictions(estimator)
    why = [named(errors[n], [ids[n]]) if n in errors else None for n in range(len(data))]
    rows = pl.DataFrame({"row": everything, "error": pl.Series(why, dtype=pl.String)})
    joined = rows.join(table.with_columns(row=pl.Series(good)), on="row", how="left", maintain_order="left")
    return _finished(joined.select(*table.columns, "error"), ids, reasons)


def unlike_in(table: pl.DataFrame | pl.LazyFrame) -> str | None:
    """One line about the series of a table with `reasons` that are unlike all training series; None without any."""
    rows = table.lazy()
    if _UNLIKE not in rows.collect_schema():
        return None
    unlike = rows.filter(pl.col(_UNLIKE).is_not_null())
    found = dict(unlike.group_by(_UNLIKE).len().collect().iter_rows())
    if not found:
        return None
    total, first = rows.select(pl.len()).collect().item(), unlike.select(pl.first("id")).collect().item()
    return unlike_line(total, first, found)


def without_reasons(table: Frame) -> Frame:
    """The table without the column of `reasons`."""
    return table.drop(_UNLIKE, strict=False)


def _finished(table: pl.DataFrame, ids: NDArray[Any], reasons: bool) -> pl.DataFrame:
    return _with_ids(table if reasons else without_reasons(table), ids)


def _predicted(estimator: Predictor, X: Any, level: float) -> pl.DataFrame:
    if isinstance(estimator, RegressorMethods):
        mean, std, interval, new = estimator.predict_with_newness(X, level)
        lower, upper = interval.T
        table = pl.DataFrame({"prediction": mean, "std": std, "lower": lower, "upper": upper})
    else:
        probabilities, new = estimator.predict_with_newness(X)
        table = _of_classes(estimator, probabilities)
    if new is None:
        return table
    return table.with_columns(pl.Series("novelty", new.p), pl.Series(_UNLIKE, new.unlike, dtype=pl.String))


def _of_classes(estimator: Any, probabilities: NDArray[np.float64]) -> pl.DataFrame:
    labels = pl.Series("prediction", estimator.classes_.tolist())
    columns = {
        f"p({label})": np.ascontiguousarray(column)
        for label, column in zip(labels.to_list(), probabilities.T, strict=True)
    }
    return pl.DataFrame({"prediction": labels.gather(probabilities.argmax(axis=1)), **columns})


def _no_predictions(estimator: Predictor) -> pl.DataFrame:
    """A table with the columns and types of predictions, without rows."""
    if isinstance(estimator, RegressorMethods):
        table = pl.DataFrame(schema=dict.fromkeys(("prediction", "std", "lower", "upper"), pl.Float64))
    else:
        table = _of_classes(estimator, np.empty((0, len(estimator.classes_))))
    if estimator.committee_.novelty is None:
        return table
    return table.with_columns(pl.Series("novelty", [], pl.Float64), pl.Series(_UNLIKE, [], pl.String))


def _with_ids(table: pl.DataFrame, ids: NDArray[Any]) -> pl.DataFrame:
    return table.select(pl.Series("id", ids.tolist()), pl.all())


def _unprepared(estimator: Predictor, X: Any) -> Iterator[tuple[int, str]]:
    """The numbers of the series that cannot be prepared on their own, and why: this is quick, predictions are not."""
    for number in range(len(X)):
        try:
            estimator.preparation_([np.asarray(X[number], dtype=np.float64)])
        except _BAD_SERIES as error:
            yield number, str(error)


def _pieces(
    estimator: Predictor, X: Any, numbers: NDArray[np.int64], level: float, errors: dict[int, str]
) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame]]:
    """Predictions of these series, together if that works, else of halves; what fails on its own goes to `errors`."""
    if not len(numbers):
        return
    chosen = X[numbers] if isinstance(X, np.ndarray) else [X[number] for number in numbers]
    try:
        yield numbers, _predicted(estimator, chosen, level)
    except _BAD_SERIES as error:
        if len(numbers) == 1:
            errors[int(numbers[0])] = str(error)
            return
        half = len(numbers) // 2
        yield from _pieces(estimator, X, numbers[:half], level, errors)
        yield from _pieces(estimator, X, numbers[half:], level, errors)
