"""From scores to probabilities: a softmax with a temperature fitted to series that were left out.

    p(c) = (1 - lapse) softmax(T scores)_c + lapse / C,    lapse = 1 / (n + 2),

for n training series. The prior of T and the lapse are those that the link of `SigGPClassifier` has, so that a method
which was right about all left-out series does not claim to be right for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from siggpde.gp.bounded_search import minimize_bounded

RIDGE_CENTRE = math.log(4.0)  # of log T, for scores of a regression on ±1
LOG_PROBABILITY_CENTRE = 0.0  # T = 1 leaves probabilities as they are
_SPREAD = 1.0
_LOGARITHMS = np.linspace(math.log(1 / 32), math.log(128), 65)


@dataclass(frozen=True)
class Link:
    """Temperature and lapse."""

    temperature: float
    lapse: float

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(n, C) from scores (n, C)."""
        classes = scores.shape[1]
        return (1 - self.lapse) * softmax(self.temperature * scores, axis=1) + self.lapse / classes


def lapse_of(series: int) -> float:
    """The share of labels that nothing can foresee, for a method that learned from so many series."""
    return 1.0 / (series + 2)


def loss(logarithm: float, scores: np.ndarray, y: np.ndarray, lapse: float, centre: float) -> float:
    """Minus the log posterior of log T: -sum log p(y), and the prior N(centre, 1)."""
    chances = Link(math.exp(logarithm), lapse).probabilities(scores)[np.arange(len(y)), y]
    return 0.5 * ((logarithm - centre) / _SPREAD) ** 2 - float(np.log(chances).sum())


def fit_link(scores: np.ndarray, y: np.ndarray, lapse: float, centre: float) -> Link:
    """The most probable temperature for scores (n, C) of left-out series and their classes y (n,), 0 to C - 1.

    The best of a grid over log T, refined between its neighbours: with a lapse the loss may have several minima.

    Examples:
        >>> scores = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, -1.0]])
        >>> link = fit_link(scores, np.array([0, 1, 0, 1]), lapse=1 / 6, centre=RIDGE_CENTRE)
        >>> bool(0.5 < link.temperature < 4)
        True
    """
    losses = [loss(at, scores, y, lapse, centre) for at in _LOGARITHMS]
    best = int(np.argmin(losses))
    ends = _LOGARITHMS[max(best - 1, 0)], _LOGARITHMS[min(best + 1, len(_LOGARITHMS) - 1)]
    found = minimize_bounded(lambda at: loss(at, scores, y, lapse, centre), float(ends[0]), float(ends[1]))
    return Link(math.exp(found), lapse)
