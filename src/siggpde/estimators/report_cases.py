"""Series that a report draws: some of every class, and those that are most uncertain, surprising and novel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from siggpde.estimators.report_judging import Predicted
from siggpde.report import Case, Drawn
from siggpde.report.content import Judgement
from siggpde.series import SeriesBatch
from siggpde.series.batch import collect
from siggpde.series.statistics import OF_SERIES

_FRAMES, _LINES = 8, 4


def rows_of_X(X: Any, rows: Sequence[int]) -> Any:
    """Some of the series of X, in its own layout."""
    if isinstance(X, torch.Tensor):
        return X[torch.as_tensor(list(rows))]
    return X[np.asarray(rows, dtype=int)] if isinstance(X, np.ndarray) else [X[row] for row in rows]


def examples(estimator: Any, X: Any, y: list[Any] | None, names: Sequence[str], seed: int) -> list[Drawn]:
    """A few series as they were handed in: of the most frequent classes, or from the smallest to the largest number."""
    generator = np.random.default_rng(seed)
    if y is None:
        rows: list[int] = generator.permutation(len(names))[:_FRAMES].tolist()
    elif isinstance(y[0], float):
        order = np.argsort(y, kind="stable")
        rows = order[np.linspace(0, len(y) - 1, min(_FRAMES, len(y))).astype(int)].tolist()
    else:
        shuffled = generator.permutation(len(y)).tolist()
        common = [label for label, _ in Counter(y).most_common(_FRAMES)]
        common = sorted(common, key=lambda label: (str(type(label)), label))
        rows = [row for label in common for row in [i for i in shuffled if y[i] == label][:_LINES]]
    raw = collect(rows_of_X(X, rows))
    time = estimator.preparation_.time_channel
    drawn = []
    for place, (row, count) in enumerate(zip(rows, raw.counts().tolist(), strict=True)):
        values, times = raw.values[place, :count].T.numpy(), None
        if time is not None:
            times = values[time]
            values = np.delete(values, time % len(values), axis=0)
        drawn.append(Drawn(row, names[row], values, times, None if y is None else y[row]))
    return drawn


def choose(
    predicted: Predicted, judged: Judgement | None, training: bool, each: int
) -> tuple[dict[int, list[str]], dict[int, float]]:
    """The series to explain with the reasons, and the losses that are known, both by their rows.

    Series are named for the first reason that they are found for; every reason finds `each` of its own, if it can.
    """
    why: dict[int, list[str]] = {}
    losses: dict[int, float] = {}
    known = judged is not None and judged.rows is not None
    if not training:
        _add(why, np.argsort(-predicted.doubt(), kind="stable"), "most uncertain", each)
    if judged is not None and judged.rows is not None:
        losses = dict(zip(judged.rows.tolist(), judged.loss.tolist(), strict=True))
        if training:
            of_record = Predicted(getattr(judged, "p", None), None, getattr(judged, "std", None), None, None)
            _add(why, judged.rows[np.argsort(-of_record.doubt(), kind="stable")], "most uncertain", each)
        _add(why, judged.rows[np.argsort(-judged.loss, kind="stable")], "most surprising", each)
    if training and not known:
        _add(why, np.argsort(-predicted.doubt(), kind="stable"), "most uncertain", each)
    if predicted.scores is not None and not training:
        _add(why, np.argsort(-predicted.scores.score.numpy(), kind="stable"), "most novel", each)
    return why, losses


def _add(why: dict[int, list[str]], order: np.ndarray, reason: str, each: int) -> None:
    """The first of an order that are not there yet, and the reason of those before them."""
    new = 0
    for row in order.tolist()[: 3 * each]:
        if new == each:
            break
        new += row not in why
        why.setdefault(row, []).append(reason)


def cases(
    estimator: Any,
    X: Any,
    y: list[Any] | None,
    names: Sequence[str],
    predicted: Predicted,
    why: dict[int, list[str]],
    losses: dict[int, float],
    seed: int,
) -> list[Case]:
    """The chosen series with their explanations."""
    if not why:
        return []
    rows = list(why)
    some = rows_of_X(X, rows)
    found = estimator.explain(some, top=5, random_state=seed)
    batch = estimator.preparation_(some)
    p = None
    unusual: list[str] = []
    if predicted.scores is not None:
        novelty = estimator.committee_.novelty
        p = novelty.p_values(predicted.scores.score).numpy()
        picked = type(predicted.scores)(*(part[rows] for part in predicted.scores))
        unusual = picked.reasons(estimator._value_names())
    made = []
    for place, row in enumerate(rows):
        values, times = as_seen(batch, place)
        target = None if y is None else y[row]
        made.append(
            Case(
                Drawn(row, names[row], values, times, target),
                tuple(why[row]),
                found[place],
                losses.get(row),
                None if p is None else float(p[row]),
                unusual[place] if unusual else None,
            )
        )
    return made


def as_seen(batch: SeriesBatch, row: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (channels, points) and times (points,) of a series as the model sees it: gaps filled, and averaged if it
    was long; times are those of X, or points of X if there are fewer than X had, or None."""
    count = int(batch.counts()[row])
    values = batch.values[row, :count].T.cpu().numpy()
    if batch.times is not None:
        return values, batch.times[row, :count].cpu().numpy()
    raw = count if batch.facts is None else int(batch.facts[row, -len(OF_SERIES)])
    if raw <= count:
        return values, None
    return values, (np.arange(count) + 0.5) * raw / count - 0.5
