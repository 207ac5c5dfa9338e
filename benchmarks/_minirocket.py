"""MiniRocket with probabilities: aeon's transform, a ridge classifier, and a temperature from out-of-fold scores."""

from __future__ import annotations

import numpy as np
from aeon.transformations.collection.convolution_based import MiniRocket
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from siggpde.datasets import Dataset

_LEAST_POINTS = 9
_MANY = 2000


def minirocket(data: Dataset, seed: int, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n_test, classes) and the classes."""
    length = max(_LEAST_POINTS, data.X_train.shape[2], data.X_test.shape[2])
    train, test = padded(data.X_train, data.lengths_train, length), padded(data.X_test, data.lengths_test, length)
    transform = MiniRocket(random_state=seed, n_jobs=jobs)
    features, others = np.asarray(transform.fit_transform(train)), np.asarray(transform.transform(test))
    classes, y = np.unique(data.y_train, return_inverse=True)
    held, scores = [], []
    for rest, out in splits(y, seed):
        held.append(y[out])
        scores.append(logits(ridge().fit(features[rest], y[rest]), features[out]))
    temperature = fitted_temperature(np.concatenate(scores), np.concatenate(held))
    return softmax(temperature * logits(ridge().fit(features, y), others), axis=1), classes


def splits(y: np.ndarray, seed: int):
    """Five folds; above 2000 series one fifth held out, for a ridge on so many takes a minute."""
    if len(y) > _MANY:
        return StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(y, y)
    return StratifiedKFold(min(5, int(np.bincount(y).min())), shuffle=True, random_state=seed).split(y, y)


def ridge():
    return make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)))


def logits(model, features: np.ndarray) -> np.ndarray:
    found = model.decision_function(features)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else found


def fitted_temperature(scores: np.ndarray, y: np.ndarray) -> float:
    def loss(logarithm: float) -> float:
        return -float(log_softmax(np.exp(logarithm) * scores, axis=1)[np.arange(len(y)), y].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 5), method="bounded").x))


def padded(x: np.ndarray, lengths: np.ndarray, length: int) -> np.ndarray:
    """Every series with its last point repeated up to `length`."""
    place = np.minimum(np.arange(length)[None, :], np.asarray(lengths)[:, None] - 1)
    return np.take_along_axis(x, np.broadcast_to(place[:, None, :], (len(x), x.shape[1], length)), axis=2)
