"""The counterfactual of one series: what `counterfactual` of the estimators does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from siggpde.explain.counterfactual import (
    Canvas,
    Change,
    ClassGoal,
    Counterfactual,
    Donor,
    Goal,
    Search,
    class_goal,
    donors_of,
    kept_series,
    number_goal,
)
from siggpde.explain.terms import terms_of
from siggpde.series import SeriesBatch

_CHUNK = 2**21  # numbers of the series judged at a time


def find_counterfactual(
    estimator: Any, x: Any, target: Any, donors: Any, plausible: float, facts: Any = None, time_as: str = "auto"
) -> Counterfactual:
    """The smallest change of one stretch of `x`, with values of `donors`, that is predicted as `target`; facts stay."""
    if not 0 <= plausible < 1:
        raise ValueError(f"plausible must be a p-value, at least 0 and below 1, got {plausible!r}")
    preparation = estimator.preparation_
    if preparation.spectrogram is not None:
        raise ValueError(
            "a counterfactual changes the points of a series, but this model sees spectrograms, which cannot be turned "
            "back into points; fit a model without spectrogram to have one"
        )
    raw = _one_series(x, preparation.raw_channels)
    one = estimator._batch(raw[None], facts=facts)
    time_format = estimator._time_format(one, time_as)
    judge = _Judge(estimator, one.facts)
    before = judge.predictions(raw[None])[0]
    if hasattr(estimator, "classes_"):
        goal = class_goal(target, estimator.classes_, before)
    else:
        goal = number_goal(target, float(before), estimator.target_shift_, estimator.target_scale_)
    time = preparation.time_channel
    rows = [row for row in range(len(raw)) if time is None or row != time % len(raw)]
    finite = np.flatnonzero(np.isfinite(raw).any(axis=0))
    seen = one.values[0, : int(one.counts()[0]), : len(rows)].cpu().numpy()
    times = None if one.times is None else one.times[0, : len(seen)].cpu().numpy()
    given = _donors(estimator, donors, goal)
    cut = [Donor(donor.values[:, : len(rows)], donor.times) for donor in given]  # without the mask
    spread = terms_of(estimator.committee_).spread[: len(rows)].cpu().numpy()
    canvas = Canvas(raw, rows, seen, times, cut, spread, int(finite[-1]) + 1)
    canvas.sort_donors()
    enough = min(plausible, float(np.nextafter(judge.p_values(raw[None])[0], 0)))
    search = Search(canvas, goal, judge.predictions, judge.p_values, enough)
    result = _result(estimator, canvas, search.run().change, goal, before, judge)
    if one.times is None:
        return result
    if time_format is not None:
        time_format = time_format._replace(start=float(one.times[0, 0]))
    return replace(result, time_channel=preparation.time_channel, time_format=time_format)


class _Judge:
    """The real predictions and the real novelty of series (n, channels, points) as handed in."""

    def __init__(self, estimator: Any, facts: torch.Tensor | None) -> None:
        self.estimator, self.facts = estimator, facts

    def predictions(self, X: np.ndarray) -> np.ndarray:
        """Returns probabilities (n, classes), or numbers (n,), for series X."""
        return _in_parts(self._predictions, X)

    def p_values(self, X: np.ndarray) -> np.ndarray:
        """(n,); 1 where the model does not know them."""
        if self.estimator.committee_.novelty is None:
            return np.ones(len(X))
        return _in_parts(lambda some: self.estimator.novelty(self._batch(some)), X)

    def _batch(self, X: np.ndarray) -> SeriesBatch:
        batch = self.estimator._series(X)
        return replace(batch, facts=None if self.facts is None else self.facts.expand(len(batch), -1))

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        estimator = self.estimator
        batch = self._batch(X)
        with estimator._threads(batch):
            if hasattr(estimator, "classes_"):
                return estimator.committee_.probabilities(batch).cpu().numpy()
            return estimator._in_units(*estimator.committee_.mean_and_variance(batch))[0]


def _in_parts(judge: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> np.ndarray:
    rows = max(1, _CHUNK // X[0].size)
    return np.concatenate([judge(X[start : start + rows]) for start in range(0, len(X), rows)])


def _one_series(x: Any, channels: int) -> np.ndarray:
    """x as (channels, points), float64, a copy."""
    try:
        array = np.array(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"x must hold real numbers, one series (n_channels, n_timepoints), got {type(x).__name__}; missing values "
            "are NaN"
        ) from None
    if array.ndim == 3 and len(array) == 1:
        array = array[0]
    if array.ndim == 1 and channels == 1:
        array = array[None]
    if array.ndim != 2 or len(array) != channels:
        raise ValueError(
            f"x must be one series, (n_channels, n_timepoints) or (1, n_channels, n_timepoints), with the {channels} "
            f"channels of fit; got shape {np.shape(array)}"
        )
    return array


def _donors(estimator: Any, given: Any, goal: Goal) -> list[Donor]:
    if given is not None:
        return donors_of(estimator._other_batch("donors", given, facts=False))
    kept, targets = kept_series(estimator.committee_)
    if not kept:
        raise ValueError(
            "this model keeps no training series to take new values from; give some that are predicted as the target, "
            "counterfactual(x, target, donors=X)"
        )
    fitting = kept if targets is None else [kept[index] for index in goal.fitting(targets).nonzero()[:, 0].tolist()]
    if not fitting:
        raise ValueError("no training series is like the target; give series that are, counterfactual(.., donors=X)")
    return fitting


def _result(
    estimator: Any, canvas: Canvas, change: Change, goal: Goal, before: np.ndarray, judge: _Judge
) -> Counterfactual:
    """The change, predicted once more, alone."""
    (series,) = canvas.changed([change])
    after = judge.predictions(series[None])
    p = None if estimator.committee_.novelty is None else float(judge.p_values(series[None])[0])
    delta = canvas.delta(change)
    touched = np.flatnonzero((delta != 0).any(axis=0))
    ends = (touched[0], touched[-1]) if len(touched) else (canvas.limits(change)[0], canvas.limits(change)[1] - 1)
    names = estimator._value_names()
    time = estimator.preparation_.time_channel
    places = np.arange(canvas.points) if time is None else canvas.raw[time % len(canvas.raw)]
    optional = ("label", "probability_before", "probability_after", "mean_before", "mean_after")
    shown: dict[str, Any] = dict.fromkeys(optional)
    if isinstance(goal, ClassGoal):
        labels = estimator.classes_.tolist()
        shown |= {"label": labels[int(before.argmax())], "target": labels[goal.index]}
        shown |= {"probability_before": float(before[goal.index]), "probability_after": float(after[0, goal.index])}
    else:
        shown |= {"target": (goal.low, goal.high), "mean_before": float(before), "mean_after": float(after[0])}
    return Counterfactual(
        original=canvas.raw,
        series=series,
        start=float(places[ends[0]]),
        end=float(places[ends[1]]),
        channels=tuple(names[channel] for channel in range(len(names)) if (delta[channel] != 0).any()),
        p_value=p,
        size=canvas.size(change),
        share=float((delta != 0).sum() / max(1, canvas.observed.sum())),
        valid=bool(goal.reached(after)[0]),
        **shown,
    )
