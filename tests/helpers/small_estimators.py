"""Estimators that fit in a tenth of a second, and series that are easy to tell apart."""

from pathlib import Path
from typing import Any

import numpy as np

import siggpde
from siggpde import SigGPClassifier, SigGPRegressor

SMALL: dict[str, Any] = {"n_features": 20, "members": 1, "transforms": {}, "max_iter": 3}


def classifier(**settings: Any) -> SigGPClassifier:
    return SigGPClassifier(**{**SMALL, **settings})


def regressor(**settings: Any) -> SigGPRegressor:
    return SigGPRegressor(**{**SMALL, **settings})


def estimator(kind: str, **settings: Any) -> Any:
    return classifier(**settings) if kind == "classifier" else regressor(**settings)


def random_walks(n: int = 24, channels: int = 2, length: int = 10, seed: int = 0) -> np.ndarray:
    """Random walks (n, channels, length)."""
    return np.random.default_rng(seed).normal(size=(n, channels, length)).cumsum(axis=2)


def rising(n: int = 24, classes: int = 2, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Walks of one channel that rise by a class's own slope, and the classes 0, 1, .. in turn."""
    labels = np.arange(n) % classes
    slopes = np.linspace(-1, 1, classes)[labels]
    return slopes[:, None, None] * np.arange(12) + noise * random_walks(n, 1, 12, seed), labels


def outputs(fitted: Any, X: Any) -> np.ndarray:
    """Everything that an estimator predicts, in columns."""
    if isinstance(fitted, SigGPClassifier):
        return fitted.predict_proba(X)
    mean, spread = fitted.predict(X, return_std=True)
    return np.column_stack([mean, spread, fitted.predict_quantiles(X, [0.1, 0.9])])


def reloaded(fitted: Any, folder: Path) -> Any:
    """The estimator, saved and loaded again."""
    fitted.save(folder)
    return siggpde.load(folder)
