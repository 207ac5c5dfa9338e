"""Calibration of class probabilities: how often the most probable class is right, by its probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.metrics.inputs import checked_classes


@dataclass(frozen=True)
class CalibrationBins:
    """Series by the probability of their most probable class: bins (edges[i], edges[i + 1]], each (bins,).

    `confidence` is the mean probability and `accuracy` the share that is right, both NaN where `count` is 0.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def calibration_bins(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> CalibrationBins:
    """The most probable class of every series and how often it is right, in `bins` equally wide bins."""
    truth, p, _ = checked_classes(y, probabilities, classes)
    return top_class_bins(truth, p, bins)


def top_class_bins(truth: np.ndarray, p: np.ndarray, bins: int) -> CalibrationBins:
    """The bins for true classes 0..C-1 (n,) and probabilities (n, C).

    scikit-learn's calibration_curve is for two classes, and its bins include their lower ends instead of the upper.
    """
    if not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins must be a whole number of at least 1, got {bins!r}")
    top, correct = p.max(axis=1), p.argmax(axis=1) == truth
    edges = np.linspace(0, 1, bins + 1)
    index = np.searchsorted(edges[1:-1], top, side="left")
    count = np.bincount(index, minlength=bins)
    confidence = _mean(np.bincount(index, top, bins), count)
    return CalibrationBins(edges, count, confidence, _mean(np.bincount(index, correct, bins), count))


def expected_calibration_error(bins: CalibrationBins) -> float:
    """The mean over all series of |confidence - accuracy| of their bins."""
    filled = bins.count > 0
    gap = np.abs(bins.confidence - bins.accuracy)[filled] * bins.count[filled]
    return float(gap.sum() / bins.count.sum())


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(len(total), math.nan), where=count > 0)
