"""The base of the classifier and the regressor: settings, training, updates, explanations, and X to a batch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.ensemble.committee import Committee, Member
from siggpde.ensemble.updating import update_views
from siggpde.ensemble.variational_fitting import update_variational
from siggpde.ensemble.variational_views import VariationalViewCommittee
from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.ensemble.weight_space import WeightCommittee
from siggpde.estimators.aeon_bases import AEON
from siggpde.estimators.conventions import channel_attributes, check_batch, threads
from siggpde.estimators.device import input_device, usable_device
from siggpde.estimators.fitting import FitSettings, data_fingerprint
from siggpde.estimators.paper_method import check_paper_settings, fit_by_the_paper
from siggpde.estimators.saving import save_estimator
from siggpde.estimators.settings import (
    DEFAULT_FEATURES,
    DEFAULT_ITERATIONS,
    DTYPES,
    at_least,
    auto_or_at_least,
    from_fields,
    method_of,
    optional_folder,
    path_options,
    seed_of,
    time_limit,
)
from siggpde.estimators.views_method import chosen_views, fit_by_views
from siggpde.explain import Importances, SeriesExplanation, explain_series, global_importance
from siggpde.paths import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.paths.sharding import pad_to_longest
from siggpde.training.new_series import update_posterior

_WITHOUT_SERIES = (
    "partial_fit learns from more series by the landmarks, which keep_series=False left out of the model; fit one with "
    "keep_series=True"
)


class SeriesEstimator:
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

    committee_: Committee | ViewCommittee | WeightCommittee | VariationalViewCommittee
    preparation_: Preparation
    channel_names_: tuple[str, ...]
    n_channels_: int
    length_range_: tuple[int, int]
    fingerprint_: str
    n_series_: int
    seconds_: float
    summary_: dict[str, Any]

    def _train(
        self, X: Any, y: Tensor, classes: int | None, class_weight: tuple[float, ...] | None, shard: Shard
    ) -> dict[str, Any]:
        """The attributes of a fitted estimator, by name; the estimator itself is not changed.

        X are the series of this rank, y the targets of all ranks.
        """
        started = time.perf_counter()
        settings = self._settings(classes, class_weight)
        with shard.ranks.together():
            own = input_device(X)
            device = own if isinstance(self.device, str) and self.device == "auto" else usable_device(self.device)
        shard.ranks.check_same("kind of device", device.type)
        preparation = self._preparation()
        with threads(self.n_jobs):
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
            attributes["committee_"] = self._fit_method()(batch.to(device), y.to(device), classes, settings, shard)
        return attributes | {
            "preparation_": preparation, "n_series_": len(y), "seconds_": time.perf_counter() - started
        }  # fmt: skip

    def _fit_method(self) -> Any:
        return fit_by_the_paper if self.method == "paper" else fit_by_views

    def _set_fitted(self, attributes: Mapping[str, Any]) -> None:
        """Sets all attributes of a fit at once, so that an estimator never mixes those of two fits."""
        members = attributes["committee_"].members
        histories = [history for member in members if (history := getattr(member, "history", None)) is not None]
        steps = max([1, *(max(len(history.records), sum(history.steps.values())) for history in histories)])
        vars(self).pop("n_features_in_", None)  # not every X has them
        vars(self).update({"n_iter_": steps, **attributes}, **({"is_fitted": True} if AEON else {}))

    def _update(self, X: Any, y: Tensor) -> None:
        """Updates the posteriors of all members with new series; after an error all of them are as before."""
        batch = self._batch(X, len(y))
        if isinstance(self.committee_, ViewCommittee):
            with threads(self.n_jobs):
                update_views(self.committee_, batch, y.to(self.committee_.device))
        elif isinstance(self.committee_, VariationalViewCommittee):
            with threads(self.n_jobs):
                update_variational(self.committee_, batch, y.to(self.committee_.device))
        elif isinstance(self.committee_, Committee):
            self._update_models(self.committee_.members, batch, y)
        else:
            raise ValueError(_WITHOUT_SERIES)
        counts, (shortest, longest) = batch.counts(), self.length_range_
        self.length_range_ = (min(shortest, int(counts.min())), max(longest, int(counts.max())))
        self.n_series_ += len(batch)

    def _update_models(self, members: list[Member], batch: SeriesBatch, y: Tensor) -> None:
        before = [{k: v.clone() for k, v in m.model.state_dict().items()} for m in members]
        try:
            with threads(self.n_jobs):
                for member in members:
                    paths = member.paths(batch)
                    update_posterior(member.model, paths.values, y, lengths=paths.lengths)
        except BaseException:
            for member, state in zip(members, before, strict=True):
                member.model.load_state_dict(state)
            raise

    def importance(self, X: Any, top: int = 10) -> Importances:
        """Which words, features, channels and views the predictions for the series X rest on
        (`siggpde.explain.global_importance`)."""
        batch = self._batch(X)
        with threads(self.n_jobs):
            return global_importance(self.committee_, batch, self._names(), top)

    def explain(self, X: Any, top: int = 10, background: Any = None) -> list[SeriesExplanation]:
        """Why each of the series X is predicted as it is (`siggpde.explain.explain_series`).

        With `background`, some training series, words and features contribute by their difference from the mean over
        these.
        """
        batch = self._batch(X)
        reference = None if background is None else self._batch(background)
        with threads(self.n_jobs):
            labels = getattr(self, "classes_", None)
            return explain_series(self.committee_, batch, self._names(), labels, top, background=reference)

    def _names(self) -> tuple[str, ...]:
        return self.preparation_.names(self.channel_names_)

    def _log_predictive(self, X: Any, y: Tensor) -> np.ndarray:
        batch = self._batch(X, len(y))
        with threads(self.n_jobs):
            return self.committee_.log_predictive(batch, y).cpu().numpy()

    def _batch(self, X: Any, targets: int | None = None) -> SeriesBatch:
        """X as a batch on the device of the committee, checked against `fit` and the number of targets."""
        self._check_fitted()
        input_device(X)  # warns where X has to be copied
        batch = self.preparation_(X)
        check_batch(batch, targets)
        return batch.to(self.committee_.device)

    def to(self, device: str | torch.device) -> Any:
        """Moves a fitted estimator to a device, such as "cuda" or "cpu", where it then predicts; returns itself."""
        self._check_fitted()
        self.committee_.to(usable_device(device))
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "committee_"):
            raise NotFittedError(f"this {type(self).__name__} has not been fitted yet; call fit first")

    def _settings(self, classes: int | None, class_weight: tuple[float, ...] | None) -> FitSettings:
        if self.likelihood not in self.likelihoods:
            names = ", ".join(map(repr, self.likelihoods))
            raise ValueError(f"likelihood must be one of {names}, got {self.likelihood!r}")
        if self.likelihood == "bernoulli" and classes != 2:
            raise ValueError(f"likelihood='bernoulli' is for two classes, y has {classes}; take 'softmax'")
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {self.dtype!r}")
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs the folder to go on from: give checkpoint=")
        if not isinstance(self.keep_series, bool | np.bool_):
            raise ValueError(f"keep_series must be True or False, got {self.keep_series!r}")
        keep_series = bool(self.keep_series)
        method = method_of(self.method)
        if method == "paper":
            check_paper_settings(self.likelihood, self.members)
        return FitSettings(
            likelihood=self.likelihood,
            members=None
            if isinstance(self.members, str) and self.members == "auto"
            else at_least("members", self.members, 1),
            n_features=auto_or_at_least("n_features", self.n_features, 2, DEFAULT_FEATURES[method]),
            options=path_options(self.transforms),
            class_weight=class_weight,
            max_iter=auto_or_at_least("max_iter", self.max_iter, 1, DEFAULT_ITERATIONS[method]),
            time_limit=time_limit(self.time_limit),
            seed=seed_of(self.random_state),
            dtype=DTYPES[self.dtype],
            progress=None if self.verbose else False,
            checkpoint=optional_folder("checkpoint", self.checkpoint),
            resume=bool(self.resume),
            cache_dir=optional_folder("cache_dir", self.cache_dir),
            views=chosen_views(self.views, keep_series),
            keep_series=keep_series,
        )

    def _preparation(self) -> Preparation:
        spectrogram = self.spectrogram
        if isinstance(spectrogram, Mapping):
            spectrogram = from_fields("spectrogram", Spectrogram, spectrogram)
        return Preparation(
            time_channel=self.time_channel, mask=self.mask, max_points=self.max_points, spectrogram=spectrogram
        )

    def _fit(self, X: Any, y: Any) -> Any:
        """What the `fit` of aeon's base classes calls."""
        return self.fit(X, y)  # pyright: ignore[reportAttributeAccessIssue]

    def _predict(self, X: Any) -> np.ndarray:
        """What the `predict` of aeon's base classes calls."""
        return self.predict(X)  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the estimator as a folder, to be read by `siggpde.load`; `force` replaces a model that is there."""
        save_estimator(self, path, force=force)
