"""The base of the classifier and the regressor: settings, training, updates, and X to a batch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.predictions import log_likelihoods
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.estimators.insight import Insight
from siggpde.estimators.settings import (
    channel_attributes,
    check_batch,
    data_fingerprint,
    input_device,
    series_in,
    threads,
    usable_device,
)
from siggpde.estimators.showing import Showing
from siggpde.series import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.series.batch import pad_to_longest

if TYPE_CHECKING:
    from siggpde.committee.committee import Committee
    from siggpde.committee.view_committee import OfViews
    from siggpde.estimators.targets import Beside


class SeriesEstimator(Insight, Showing):
    """What classifier and regressor share. Their constructors only store the settings; `fit` checks them."""

    likelihoods: ClassVar[tuple[str, ...]]

    method: str
    likelihood: str
    views: Any
    members: int | str
    n_features: int | str
    transforms: PathOptions | Mapping[str, Any] | str
    time_channel: int | None
    mask: bool
    max_points: int | None
    spectrogram: Spectrogram | Mapping[str, Any] | None
    channel_names: Any
    max_iter: int | str
    time_limit: float | None
    random_state: Any
    n_jobs: int | None
    verbose: int
    device: str
    dtype: str
    checkpoint: str | os.PathLike[str] | None
    resume: bool
    cache_dir: str | os.PathLike[str] | None
    keep_series: bool

    committee_: Committee | OfViews
    preparation_: Preparation
    channel_names_: tuple[str, ...]
    n_channels_: int
    length_range_: tuple[int, int]
    fingerprint_: str
    n_series_: int
    n_groups_: int | None
    seconds_: float
    summary_: dict[str, Any]
    tried_: tuple[list[Any], ...]

    def _train(
        self,
        X: Any,
        y: Tensor,
        beside: Beside,
        shard: Shard,
        classes: int | None = None,
        class_weight: tuple[float, ...] | None = None,
    ) -> dict[str, Any]:
        """The attributes of a fitted estimator, by name; the estimator itself is not changed.

        X are the series of this rank, y the targets of all ranks, and `beside` what else is known of all their series.
        """
        from siggpde.estimators.settings import fit_settings, preparation_of  # noqa: PLC0415 - predictions need none

        started = time.perf_counter()
        settings = fit_settings(self, classes, class_weight)
        with shard.ranks.together():
            own = input_device(X)
            device = own if isinstance(self.device, str) and self.device == "auto" else usable_device(self.device)
        shard.ranks.check_same("kind of device", device.type)
        preparation = preparation_of(self)
        with threads(self.n_jobs, len(y)):
            batch = preparation.fit_transform(X, ranks=shard.ranks)
            with shard.ranks.together():
                check_batch(batch, shard.size)
                if len(y) < 2:
                    raise ValueError("one series is not enough to learn from (n_samples=1); give two or more")
                assert preparation.raw_channels is not None
                attributes = channel_attributes(X, preparation.raw_channels, self.channel_names)
            batch = replace(pad_to_longest(batch, shard.ranks), first=shard.first)
            counts = batch.counts()
            minus_shortest, longest = shard.ranks.all_reduce_max(torch.stack([-counts.min(), counts.max()])).tolist()
            attributes["length_range_"] = (-minus_shortest, longest)
            attributes["fingerprint_"] = data_fingerprint(batch, y, shard)
            attributes["committee_"] = self._fit_method()(
                batch.to(device), y.to(device), classes, settings, beside.to(device), shard
            )
        tried = getattr(attributes["committee_"], "tried", ())
        return attributes | {
            "tried_": tuple(list(each) for each in tried),
            "preparation_": preparation,
            "n_series_": len(y),
            "n_groups_": None if beside.groups is None else int(beside.groups.max()) + 1,
            "seconds_": time.perf_counter() - started,
        }

    def _fit_method(self) -> Any:
        if self.method == "paper":
            from siggpde.estimators.paper_method import fit_by_the_paper  # noqa: PLC0415 - predictions need none

            return fit_by_the_paper
        from siggpde.estimators.views_method import fit_by_views  # noqa: PLC0415

        return fit_by_views

    def _set_fitted(self, attributes: Mapping[str, Any]) -> None:
        """Sets all attributes of a fit at once, so that an estimator never mixes those of two fits."""
        members = attributes["committee_"].members
        histories = [history for member in members if (history := getattr(member, "history", None)) is not None]
        steps = max([1, *(max(len(history.records), sum(history.steps.values())) for history in histories)])
        vars(self).pop("n_features_in_", None)  # not every X has them
        vars(self).update(
            {"n_iter_": steps, **attributes}, **({"is_fitted": True} if hasattr(self, "is_fitted") else {})
        )

    def _update(self, X: Any, y: Tensor) -> None:
        """Updates the posteriors of all members with new series; after an error all of them are as before."""
        batch = self._batch(X, len(y))
        from siggpde.estimators.updating import update_committee  # noqa: PLC0415 - predictions need none

        with self._threads(batch):
            update_committee(self.committee_, batch, y)
        counts, (shortest, longest) = batch.counts(), self.length_range_
        self.length_range_ = (min(shortest, int(counts.min())), max(longest, int(counts.max())))
        self.n_series_ += len(batch)

    def _is_fitted_to(self, X: Any, y: Tensor) -> bool:
        """Whether X and the targets y, as `fit` hands them on, are those of the fit, in the same order."""
        batch = self._batch(X, len(y))
        return data_fingerprint(batch, y, Shard(ALONE, len(y))) == getattr(self, "fingerprint_", None)

    def _log_predictive(self, X: Any, y: Tensor) -> np.ndarray:
        batch = self._batch(X, len(y))
        with self._threads(batch):
            return log_likelihoods(self.committee_, batch, y)

    def _batch(self, X: Any, targets: int | None = None) -> SeriesBatch:
        """X as a batch on the device of the committee, checked against `fit` and the number of targets."""
        self._check_fitted()
        input_device(X)  # warns where X has to be copied
        with threads(self.n_jobs, series_in(X)):
            batch = self.preparation_(X)
            check_batch(batch, targets)
        return batch.to(self.committee_.device)

    def _threads(self, batch: SeriesBatch) -> AbstractContextManager[None]:
        """The threads for a look at these series; the landmarks, of which there are at most `n_series_`, are looked at
        too."""
        return threads(self.n_jobs, max(len(batch), self.n_series_))

    def to(self, device: str | torch.device) -> Any:
        """Moves a fitted estimator to a device, such as "cuda" or "cpu", where it then predicts; returns itself."""
        self._check_fitted()
        self.committee_.to(usable_device(device))
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "committee_"):
            from sklearn.exceptions import NotFittedError  # noqa: PLC0415 - takes long to import

            raise NotFittedError(f"this {type(self).__name__} has not been fitted yet; call fit first")

    def _fit(self, X: Any, y: Any) -> Any:
        """What the `fit` of aeon's base classes calls."""
        return self.fit(X, y)  # pyright: ignore[reportAttributeAccessIssue]

    def _predict(self, X: Any) -> np.ndarray:
        """What the `predict` of aeon's base classes calls."""
        return self.predict(X)  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def get_metadata_routing(self) -> Any:
        """Which of `groups` and `sample_weight` scikit-learn passes on to `fit` (aeon's base classes refuse it)."""
        from sklearn.base import BaseEstimator  # noqa: PLC0415 - takes long to import

        return BaseEstimator.get_metadata_routing(self)  # pyright: ignore[reportArgumentType]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the estimator as a folder, to be read by `siggpde.load`; `force` replaces a model that is there."""
        from siggpde.estimators.saving import save_estimator  # noqa: PLC0415 - predictions need none

        save_estimator(self, path, force=force)
