"""What a counterfactual is to be predicted as: a class, or a number in an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class ClassGoal:
    """The class number `index`."""

    index: int

    def margin(self, predictions: np.ndarray) -> np.ndarray:
        """log p of the class less the largest of the others, (n,), from probabilities (n, classes): 0 or more where
        `predict` answers with the class, which of equally probable ones is the first."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(predictions, np.finfo(float).tiny))
        others = np.delete(logs, self.index, axis=1).max(axis=1)
        margin = logs[:, self.index] - others
        won = predictions.argmax(axis=1) == self.index
        return np.where(won, margin, np.minimum(margin, -np.finfo(float).tiny))

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Whether each is predicted so, (n,)."""
        return predictions.argmax(axis=1) == self.index

    def fitting(self, targets: Tensor) -> Tensor:
        """Which training series with these targets (n,) are of the class."""
        return targets == self.index


@dataclass(frozen=True)
class NumberGoal:
    """A number from `low` to `high`, in the units of y; `upwards`: the prediction is below them now."""

    low: float
    high: float
    upwards: bool
    shift: float
    scale: float

    def margin(self, predictions: np.ndarray) -> np.ndarray:
        """How far numbers (n,) are beyond the nearer end of the interval."""
        return predictions - self.low if self.upwards else self.high - predictions

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Whether each lies in the interval, (n,)."""
        return (predictions >= self.low) & (predictions <= self.high)

    def fitting(self, targets: Tensor) -> Tensor:
        """Which training series with these targets (n,), in the units of the committee, are beyond the nearer end."""
        numbers = self.shift + self.scale * targets
        return numbers >= self.low if self.upwards else numbers <= self.high


def class_goal(target: Any, classes: np.ndarray, probabilities: np.ndarray) -> ClassGoal:
    """The goal of the class `target` for a series with these `probabilities` (classes,); None is the runner-up."""
    labels = classes.tolist()
    if target is None:
        return ClassGoal(int(np.argsort(-probabilities, kind="stable")[1]))
    plain = target.item() if isinstance(target, np.generic) else target
    if np.ndim(plain) > 0 or plain not in labels or isinstance(plain, bool) != isinstance(labels[0], bool):
        raise ValueError(f"target must be one of the classes {labels}, got {target!r}")
    index = labels.index(plain)
    if index == int(probabilities.argmax()):
        raise ValueError(f"the series is predicted as {target!r} already; give another target, or None")
    return ClassGoal(index)


def number_goal(target: Any, prediction: float, shift: float, scale: float) -> NumberGoal:
    """The goal `target` of a predicted number: a pair (low, high), or one number that is to be reached."""
    if target is None:
        raise ValueError(
            "give a target: a number that the prediction is to reach, or a pair (low, high) to lie between"
        )
    try:
        ends = np.atleast_1d(np.asarray(target, dtype=np.float64)).tolist()
    except (TypeError, ValueError):
        ends = []
    if np.shape(ends) not in ((1,), (2,)) or not np.isfinite(ends).any() or np.isnan(ends).any() or ends[0] > ends[-1]:
        raise ValueError(f"target must be a number, or a pair of numbers (low, high), got {target!r}")
    if len(ends) == 1:
        ends = [ends[0], np.inf] if prediction < ends[0] else [-np.inf, ends[0]]
    low, high = ends
    if low <= prediction <= high:
        raise ValueError(f"the prediction, {prediction:.6g}, is within the target already; give another target")
    return NumberGoal(low, high, bool(prediction < low), shift, scale)


Goal = ClassGoal | NumberGoal
