"""What `siggpde predict` does."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl

from siggpde.cli.options import Reading
from siggpde.cli.reading import read_series
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.estimators.saving import Estimator, load
from siggpde.io import SeriesData


def run_predict(model: Path, data: str, reading: Reading, level: float) -> pl.DataFrame:
    """One row a series: id, prediction, then a probability a class, or std, lower and upper."""
    estimator = load(model)
    return prediction_table(estimator, series_for(estimator, data, reading, labels=False), level)


def series_for(estimator: Estimator, data: str, reading: Reading, *, labels: bool) -> SeriesData:
    """The series of DATA, read as the model remembers."""
    remembered = getattr(estimator, "reading_", {})
    found = read_series(data, reading, "test", remembered, labels=labels)
    names = tuple(found.channel_names)
    if len(names) != estimator.n_channels_:
        wanted = ", ".join(estimator.channel_names_)
        raise ValueError(
            f"{data} has {len(names)} channels ({', '.join(names)}), but the model was fitted with "
            f"{estimator.n_channels_} ({wanted})"
        )
    if (found.time_channel is None) != (estimator.time_channel is None):
        has = (
            "no time stamps, but the model was" if found.time_channel is None else "time stamps, but the model was not"
        )
        raise ValueError(f"{data} is read with {has} fitted with them; give the --time of the fit")
    return found


def prediction_table(estimator: Estimator, data: SeriesData, level: float) -> pl.DataFrame:
    ids = np.arange(len(data)) if data.ids is None else data.ids
    if isinstance(estimator, SigGPRegressor):
        mean, std = estimator.predict(data.X, return_std=True)
        lower, upper = estimator.predict_interval(data.X, level).T
        return pl.DataFrame({"id": ids.tolist(), "prediction": mean, "std": std, "lower": lower, "upper": upper})
    chances = estimator.predict_proba(data.X)
    labels = estimator.classes_.tolist()
    likeliest = [labels[place] for place in chances.argmax(axis=1).tolist()]
    columns = {f"p({label})": np.ascontiguousarray(chances[:, place]) for place, label in enumerate(labels)}
    return pl.DataFrame({"id": ids.tolist(), "prediction": likeliest, **columns})


def table_bytes(table: pl.DataFrame, suffix: str) -> bytes:
    """The table as a file of this suffix has it; JSON is a list of rows."""
    if suffix == ".csv":
        return table.write_csv().encode()
    if suffix == ".json":
        return (table.write_json() + "\n").encode()
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()
