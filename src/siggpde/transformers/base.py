"""The base of all transformers: X in any layout becomes a batch, and features a table with names. Classes list
`SeriesTransformer` before `TransformerBase`, set `_tags` to `TAGS`, and have `_learn`, `_features` and
`_feature_names`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from siggpde.estimators.base import TAGS as _ESTIMATOR_TAGS
from siggpde.estimators.settings import DTYPES, channel_attributes, check_batch, threads
from siggpde.series import Preparation, SeriesBatch

if TYPE_CHECKING:
    TransformerBase = BaseEstimator
else:
    try:
        from aeon.transformations.collection.base import BaseCollectionTransformer as TransformerBase
    except ImportError:
        TransformerBase = BaseEstimator


TAGS: dict[str, Any] = {
    **{name: value for name, value in _ESTIMATOR_TAGS.items() if name != "algorithm_type"},
    "output_data_type": "Tabular",
    "removes_unequal_length": True,
    "removes_missing_values": True,
}


class SeriesTransformer(TransformerMixin):
    """`fit`, `transform` and `get_feature_names_out` of every transformer, a `TransformerMixin` for `set_output`."""

    channel_names: Any
    dtype: str
    n_jobs: int | None

    preparation_: Preparation
    n_channels_: int
    channel_names_: tuple[str, ...]

    def _learn(self, batch: SeriesBatch) -> dict[str, Any]:
        """Checks the settings and returns the attributes learned from the training series, by name."""
        raise NotImplementedError

    def _features(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        """Returns the features (n, features) of prepared series in a dtype."""
        raise NotImplementedError

    def _feature_names(self, channels: tuple[str, ...]) -> Sequence[str]:
        """Returns the names of the features, given those of the prepared channels."""
        raise NotImplementedError

    def _preparation(self) -> Preparation:
        """Returns how X becomes a batch: by default gaps are filled and no points are averaged."""
        return Preparation(max_points=None)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learns from the training series X; y is ignored. Returns the transformer itself."""
        self._fitted_batch(X)
        return self

    def transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Returns the features (n_cases, n_features) of the series X; y is ignored."""
        self._check_fitted()
        with threads(self.n_jobs, length_hint(X)):
            batch = self.preparation_(X)
            check_batch(batch)
        return self._table(X, batch)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns `fit(X).transform(X)`; X is read once."""
        return self._table(X, self._fitted_batch(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Returns the names (n_features,) of the columns of `transform`.

        `input_features`, if given, are names of the channels instead of the setting `channel_names`.
        """
        self._check_fitted()
        names = self.channel_names_
        if input_features is not None:
            # scikit-learn takes a 2-D X for a table and passes a name for each of its columns; these are time points.
            if len(input_features) == self.n_channels_:
                names = tuple(map(str, input_features))
            elif len(input_features) != getattr(self, "n_features_in_", None):
                raise ValueError(
                    f"input_features should have length equal to the number of channels, {self.n_channels_}, "
                    f"got {len(input_features)}"
                )
        return np.asarray(self._feature_names(self.preparation_.names(names)), dtype=object)

    def _check_fitted(self) -> None:
        if not hasattr(self, "preparation_"):
            raise NotFittedError(f"this {type(self).__name__} has not been fitted yet; call fit first")

    def _fitted_batch(self, X: Any) -> SeriesBatch:
        """Fits, and returns the batch of X; after an error the transformer is as it was."""
        self._dtype_of(X)
        preparation = self._preparation()
        with threads(self.n_jobs, length_hint(X)):
            batch = preparation.fit_transform(X)
            check_batch(batch)
            assert preparation.raw_channels is not None
            attributes = channel_attributes(X, preparation.raw_channels, self.channel_names)
            attributes |= self._learn(batch)
        vars(self).pop("n_features_in_", None)  # not every X has them
        vars(self).update(
            {**attributes, "preparation_": preparation}, **({"is_fitted": True} if hasattr(self, "is_fitted") else {})
        )
        return batch

    def _table(self, X: Any, batch: SeriesBatch) -> np.ndarray:
        dtype = self._dtype_of(X)
        with threads(self.n_jobs, len(batch)), torch.no_grad():
            return self._features(batch, dtype).cpu().numpy()

    def _dtype_of(self, X: Any) -> torch.dtype:
        """Returns the dtype of the features of X."""
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {self.dtype!r}")
        parts = X if isinstance(X, list | tuple) else [X]
        single = len(parts) and all(str(getattr(part, "dtype", "")).endswith("float32") for part in parts)
        return DTYPES[self.dtype] or (torch.float32 if single else torch.float64)

    _fit, _transform = fit, transform  # as the base class of aeon calls them

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "preparation_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"] if self.dtype == "auto" else []
        return tags
