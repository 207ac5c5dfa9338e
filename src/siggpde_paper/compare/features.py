"""Tables of features by aeon's transforms, scaled as aeon's own classifiers do. Classes play no part in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

_CHUNK = 500  # series transformed at a time


class Features:
    """Transforms with scalers, side by side: series (n_cases, n_channels, n_timepoints) to a table (n_cases, p)."""

    def __init__(self, parts: Sequence[tuple[Any, Any]]) -> None:
        self.parts = parts

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        columns = []
        for transform, scaler in self.parts:
            table = np.asarray(transform.fit_transform(X))
            columns.append(table if scaler is None else scaler.fit_transform(table))
        return np.nan_to_num(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1), copy=False)

    def transform(self, X: np.ndarray) -> np.ndarray:
        columns = []
        for transform, scaler in self.parts:
            table = np.asarray(transform.transform(X))
            columns.append(table if scaler is None else scaler.transform(table))
        return np.nan_to_num(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1), copy=False)

    def by_chunks(self, X: np.ndarray, call: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """`call` on the table of X, a few hundred series at a time: tables may have tens of thousands of columns."""
        starts = range(0, len(X), _CHUNK)
        return np.concatenate([call(self.transform(X[start : start + _CHUNK])) for start in starts])


class SparseScaler:
    """Hydra's scaling of counts: roots, standardised by columns, with zeros left at zero."""

    def fit_transform(self, counts: np.ndarray) -> np.ndarray:
        roots = np.sqrt(np.maximum(counts, 0))
        self._mean = roots.mean(axis=0)
        self._scale = roots.std(axis=0, ddof=1) + (roots == 0).mean(axis=0, dtype=roots.dtype) ** 4 + 1e-8
        return self._scaled(roots)

    def transform(self, counts: np.ndarray) -> np.ndarray:
        return self._scaled(np.sqrt(np.maximum(counts, 0)))

    def _scaled(self, roots: np.ndarray) -> np.ndarray:
        return (roots - self._mean) * (roots != 0) / self._scale


def minirocket(seed: int, jobs: int) -> Features:
    from aeon.transformations.collection.convolution_based import MiniRocket  # noqa: PLC0415 - optional

    return Features([(MiniRocket(random_state=seed, n_jobs=jobs), StandardScaler(with_mean=False))])


def multirocket(seed: int, jobs: int) -> Features:
    from aeon.transformations.collection.convolution_based import MultiRocket  # noqa: PLC0415

    return Features([(MultiRocket(random_state=seed, n_jobs=jobs), StandardScaler())])


def multirocket_hydra(seed: int, jobs: int) -> Features:
    from aeon.transformations.collection.convolution_based import HydraTransformer  # noqa: PLC0415

    hydra = HydraTransformer(random_state=seed, n_jobs=jobs)
    return Features([(hydra, SparseScaler()), *multirocket(seed, jobs).parts])


def quant(_seed: int, _jobs: int) -> Features:
    from aeon.transformations.collection.interval_based import QUANTTransformer  # noqa: PLC0415

    return Features([(QUANTTransformer(), None)])
