"""Predictions as tables: one row a series, with its id; series that cannot be predicted may have rows too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.estimators.regressing import RegressorMethods
from siggpde.estimators.restoring import Predictor
from siggpde.io import SeriesData
from siggpde.io.series_errors import errors_by_id, named

OnError = Literal["fail", "skip"]

_BAD_SERIES = (ValueError, ArithmeticError)


def prediction_table(
    estimator: Predictor, data: SeriesData, level: float = 0.9, on_error: OnError = "fail"
) -> pl.DataFrame:
    """One row a series: id, prediction, then a probability a class, or std, lower and upper.

    `on_error`: what a series does that cannot be predicted, such as one with an infinite value or without any.

    - "fail": it raises an error that names it by its id.
    - "skip": its row has empty cells, and in a last column `error` the reason, which is empty for all others.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be 'fail' or 'skip'; got {on_error!r}")
    ids = np.arange(len(data)) if data.ids is None else data.ids
    everything = np.arange(len(data))
    if on_error == "fail":
        with errors_by_id(ids.tolist()):
            return _with_ids(_predicted(estimator, data.X, level), ids)
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
    reasons = [named(errors[n], [ids[n]]) if n in errors else None for n in range(len(data))]
    rows = pl.DataFrame({"row": everything, "error": pl.Series(reasons, dtype=pl.String)})
    joined = rows.join(table.with_columns(row=pl.Series(good)), on="row", how="left", maintain_order="left")
    return _with_ids(joined.select(*table.columns, "error"), ids)


def _predicted(estimator: Predictor, X: Any, level: float) -> pl.DataFrame:
    if isinstance(estimator, RegressorMethods):
        mean, std = estimator.predict(X, return_std=True)
        lower, upper = estimator.predict_interval(X, level).T
        return pl.DataFrame({"prediction": mean, "std": std, "lower": lower, "upper": upper})
    return _of_classes(estimator, estimator.predict_proba(X))


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
        return pl.DataFrame(schema=dict.fromkeys(("prediction", "std", "lower", "upper"), pl.Float64))
    return _of_classes(estimator, np.empty((0, len(estimator.classes_))))


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
