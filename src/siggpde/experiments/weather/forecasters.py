"""The forecasters of the weather experiment: climatology, logistic regression, and signature Gaussian processes.

Each is trained with windows x (n, channels, length) and whether rain followed, `wet` (n,), and predicts log-odds of
rain at the rate of rain of its training windows. `blocks` (n,) are numbers of blocks of time, such as weeks: all
forecasters choose their settings by predictions for blocks that were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from siggpde.ensemble.committee import Committee
from siggpde.experiments.weather.block_committee import fit_by_blocks, log_odds
from siggpde.paths import SeriesBatch

_STEPS = 2000


@dataclass(frozen=True)
class Forecaster:
    """`log_odds` maps windows to log-odds (n,); `settings` are those that were chosen, in plain values."""

    log_odds: Callable[[np.ndarray], np.ndarray]
    settings: dict[str, Any] = field(default_factory=dict)
    committee: Committee | None = None


def climatology(wet: np.ndarray) -> Forecaster:
    """The share of rain in training, for every window.

    Examples:
        >>> climatology(np.array([True, False, False, False])).log_odds(np.zeros((2, 7, 36))).round(3)
        array([-1.099, -1.099])
    """
    rainy = int(wet.sum())
    if not 0 < rainy < len(wet):
        raise ValueError(f"{rainy} of {len(wet)} training windows are wet; a forecaster needs both kinds")
    value = float(np.log(rainy / (len(wet) - rainy)))
    return Forecaster(lambda x: np.full(len(x), value), {"share": rainy / len(wet)})


def logistic(x: np.ndarray, wet: np.ndarray, blocks: np.ndarray, strengths: Sequence[float]) -> Forecaster:
    """Logistic regression on the standardised readings of the whole window; C is the best of the `strengths`."""
    flat = x.reshape(len(x), -1)
    scores = {}
    for strength in strengths:
        probabilities = np.empty(len(x))
        for train, left in LeaveOneGroupOut().split(flat, wet, blocks):
            probabilities[left] = _pipeline(strength).fit(flat[train], wet[train]).predict_proba(flat[left])[:, 1]
        scores[strength] = float(log_loss(wet, probabilities))
    best = min(scores, key=scores.__getitem__)
    model = _pipeline(best).fit(flat, wet)
    chosen = {"C": best, "left_out_nlpp": scores[best]}
    return Forecaster(lambda new: model.decision_function(new.reshape(len(new), -1)), chosen)


def signature_gp(x: np.ndarray, wet: np.ndarray, blocks: np.ndarray, settings: Mapping[str, Any]) -> Forecaster:
    """A committee of signature Gaussian processes, see `siggpde.experiments.weather.block_committee`."""
    committee = fit_by_blocks(as_batch(x), torch.from_numpy(wet.astype(np.int64)), blocks, settings)
    members = [
        {**member.settings, "left_out_nlpp": member.score, "weight": float(weight)}
        for member, weight in zip(committee.members, committee.weights, strict=True)
    ]
    chosen = {"members": members, "sharpness": committee.sharpness}
    return Forecaster(lambda new: log_odds(committee, as_batch(new)), chosen, committee)


def as_batch(x: np.ndarray) -> SeriesBatch:
    """Windows (n, channels, length) as a batch (n, length, channels)."""
    return SeriesBatch(torch.from_numpy(np.ascontiguousarray(x.swapaxes(1, 2))), None, None)


def _pipeline(strength: float) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_STEPS))
