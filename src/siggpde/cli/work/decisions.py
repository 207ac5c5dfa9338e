"""`siggpde predict --costs FILE.csv --reject-cost C`: decisions of least expected cost in place of likeliest classes.

The file has a row for each true class and a column for each decision, by name and in any order:

    true,healthy,ill
    healthy,0,1
    ill,20,0
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from siggpde.cli.console import WrongCall
from siggpde.estimators.classification import ClassifierMethods
from siggpde.estimators.decisions import least_cost
from siggpde.estimators.restoring import Predictor


def with_decisions(
    table: pl.DataFrame, estimator: Predictor, costs: Path | None, reject_cost: float | None
) -> pl.DataFrame:
    """The table of predictions with decisions in its column `prediction`; null where labels are no text and none is
    taken."""
    if not isinstance(estimator, ClassifierMethods):
        raise WrongCall("--costs and --reject-cost are for classes, and the model predicts numbers")
    classes = estimator.classes_
    matrix = None if costs is None else read_costs(costs, [str(label) for label in classes.tolist()])
    chances = np.stack([table[f"p({label})"].to_numpy() for label in classes.tolist()], axis=1)
    known = table["prediction"].is_not_null().to_numpy()  # what could not be predicted stays empty
    decided = np.full(len(table), None, dtype=object)
    decided[known] = least_cost(chances[known], classes, matrix, reject_cost)
    return table.with_columns(pl.Series("prediction", decided.tolist(), dtype=table.schema["prediction"]))


def read_costs(path: Path, classes: list[str]) -> np.ndarray:
    """The costs (classes, classes) in a file, rows and columns in the order of the classes."""
    if not path.is_file():
        raise WrongCall(f"there is no file {path} for --costs")
    table = pl.read_csv(path, infer_schema=False)
    rows = [label or "" for label in table.to_series(0).to_list()] if table.width else []
    for what, found in (("rows", rows), ("columns", table.columns[1:])):
        if sorted(found) != sorted(classes):
            raise ValueError(
                f"{path} must have {what} for the classes {', '.join(classes)}, each once; it has {', '.join(found)}"
            )
    try:
        numbers = table.select(pl.col(classes).cast(pl.Float64, strict=True)).to_numpy()
    except pl.exceptions.InvalidOperationError as error:
        raise ValueError(f"{path} must have numbers only: {str(error).splitlines()[0]}") from None
    return numbers[[rows.index(label) for label in classes]]
