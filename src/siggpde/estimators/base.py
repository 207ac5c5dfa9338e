"""What the classifier and the regressor have in common: settings, checks, the way from X to a batch."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.ensemble.committee import Committee
from siggpde.estimators._bases import AEON
from siggpde.estimators.device import chosen_device, tell_copy, usable_device
from siggpde.estimators.fitting import FitSettings, data_fingerprint, fit_committee, padded_alike
from siggpde.estimators.saving import save_estimator
from siggpde.estimators.settings import (
    DTYPES,
    at_least,
    cache_folder,
    checkpoint_folder,
    from_fields,
    path_options,
    seed_of,
    time_limit,
)
from siggpde.explain import Importances, SeriesExplanation, explain_series, global_importance
from siggpde.numerics import inputs
from siggpde.paths import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.training.absorb import absorb

_LARGEST = 1e300


class SeriesEstimator:
    """Settings are stored by the constructor of the estimator proper and looked at by `fit` only."""

    likelihoods: ClassVar[tuple[str, ...]]

    likelihood: str
    members: int | str
    n_features: int
    transforms: PathOptions | Mapping[str, Any] | str
    time_channel: int | None
    mask: bool
    max_points: int | None
    spectrogram: Spectrogram | Mapping[str, Any] | None
    channel_names: Any
    max_iter: int
    time_limit: float | None
    random_state: Any
    n_jobs: int | None
    verbose: int
    device: str
    dtype: str
    checkpoint: str | os.PathLike[str] | None
    resume: bool
    cache_dir: str | os.PathLike[str] | None

    committee_: Committee
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
        """Everything that a fit finds, by the name of the attribute; nothing of the estimator changes here.

        X are the series of this rank, y the targets of all ranks.
        """
        started = time.perf_counter()
        settings = self._settings(classes, class_weight)
        with shard.ranks.together():
            device = chosen_device(self.device, X)
        shard.ranks.check_same("kind of device", device.type)
        preparation = self._preparation()
        tell_copy(X)
        with self._threads():
            preparation.fit(X, ranks=shard.ranks)
            with shard.ranks.together():
                batch = _in_range(preparation(X))
                _check_counts(batch, shard.size)
                if len(y) < 2:
                    raise ValueError("one series is not enough to learn from (n_samples=1); give two or more")
                found = self._facts(X, preparation)
            batch = padded_alike(batch, shard)
            counts = batch.counts()
            least, most = shard.ranks.all_reduce_max(torch.stack([-counts.min(), counts.max()])).tolist()
            found["length_range_"] = (-least, most)
            found["fingerprint_"] = data_fingerprint(batch, y, shard)
            found["committee_"] = fit_committee(batch.to(device), y.to(device), classes, settings, shard)
        found |= {"preparation_": preparation, "n_series_": len(y), "seconds_": time.perf_counter() - started}
        return found

    def _become(self, found: Mapping[str, Any]) -> None:
        """Takes over all that was found at once, so that an estimator is never half of one fit and half of another."""
        members = found["committee_"].members
        steps = max([1, *(len(m.history.records) for m in members if m.history is not None)])
        vars(self).pop("n_features_in_", None)  # not every X has them
        vars(self).update({"n_iter_": steps, **found}, **({"is_fitted": True} if AEON else {}))

    def _absorb(self, X: Any, y: Tensor) -> None:
        """The whole committee takes the new series in, or none of it."""
        batch = self._batch(X)
        _check_counts(batch, len(y))
        kept = [{k: v.clone() for k, v in m.model.state_dict().items()} for m in self.committee_.members]
        try:
            with self._threads():
                for member in self.committee_.members:
                    paths, lengths = member.paths(batch)
                    absorb(member.model, paths, y, lengths=lengths)
        except BaseException:
            for member, state in zip(self.committee_.members, kept, strict=True):
                member.model.load_state_dict(state)
            raise
        counts, (least, most) = batch.counts(), self.length_range_
        self.length_range_ = (min(least, int(counts.min())), max(most, int(counts.max())))
        self.n_series_ += len(batch)

    def importance(self, X: Any, top: int = 10) -> Importances:
        """Which words and channels the predictions for the series X rest on (`siggpde.explain.global_importance`)."""
        batch = self._batch(X)
        with self._threads():
            return global_importance(self.committee_, batch, self._names(), top)

    def explain(self, X: Any, top: int = 10, background: Any = None) -> list[SeriesExplanation]:
        """Why each of the series X is predicted as it is (`siggpde.explain.explain_series`).

        With `background`, some training series, words count by how far they are from their mean over these.
        """
        batch = self._batch(X)
        usual = None if background is None else self._batch(background)
        with self._threads():
            labels = getattr(self, "classes_", None)
            return explain_series(self.committee_, batch, self._names(), labels, top, background=usual)

    def _names(self) -> tuple[str, ...]:
        return self.preparation_.names(self.channel_names_)

    def _log_predictive(self, X: Any, y: Tensor) -> np.ndarray:
        batch = self._batch(X)
        _check_counts(batch, len(y))
        with self._threads():
            return self.committee_.log_predictive(batch, y).cpu().numpy()

    def _batch(self, X: Any) -> SeriesBatch:
        """X as the members of the committee want it and where they are, checked against what `fit` saw."""
        self._check_fitted()
        tell_copy(X)
        return _in_range(self.preparation_(X)).to(self.committee_.device)

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
        return FitSettings(
            likelihood=self.likelihood,
            members=None
            if isinstance(self.members, str) and self.members == "auto"
            else at_least("members", self.members, 1),
            n_features=at_least("n_features", self.n_features, 2),
            options=path_options(self.transforms),
            class_weight=class_weight,
            max_iter=at_least("max_iter", self.max_iter, 1),
            time_limit=time_limit(self.time_limit),
            seed=seed_of(self.random_state),
            dtype=DTYPES[self.dtype],
            progress=None if self.verbose else False,
            checkpoint=checkpoint_folder(self.checkpoint, bool(self.resume)),
            resume=bool(self.resume),
            cache_dir=cache_folder(self.cache_dir),
        )

    def _preparation(self) -> Preparation:
        spectrogram = self.spectrogram
        if isinstance(spectrogram, Mapping):
            spectrogram = from_fields("spectrogram", Spectrogram, spectrogram)
        return Preparation(
            time_channel=self.time_channel, mask=self.mask, max_points=self.max_points, spectrogram=spectrogram
        )

    def _facts(self, X: Any, preparation: Preparation) -> dict[str, Any]:
        """What users ask for of the training series, and what models are saved with."""
        channels = preparation.raw_channels
        assert channels is not None
        names = self.channel_names
        if names is None:
            names = [f"channel {i}" for i in range(channels)]
        if isinstance(names, str | bytes) or not hasattr(names, "__len__"):
            raise ValueError(f"channel_names must be a list of names, got {names!r}")
        if len(names) != channels:
            raise ValueError(f"channel_names has {len(names)} names, but the series have {channels} channels")
        found: dict[str, Any] = {"n_channels_": channels, "channel_names_": tuple(map(str, names))}
        if isinstance(X, np.ndarray) and X.ndim == 2:
            found["n_features_in_"] = X.shape[1]
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    @contextlib.contextmanager
    def _threads(self) -> Iterator[None]:
        """As many threads as `n_jobs` says, and as many as before afterwards."""
        before = torch.get_num_threads()
        n_jobs = int(self.n_jobs) if isinstance(self.n_jobs, np.integer) else self.n_jobs
        torch.set_num_threads(inputs.thread_count(n_jobs))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the estimator as a folder, to be read by `siggpde.load`; `force` replaces a model that is there."""
        save_estimator(self, path, force=force)


def _in_range(batch: SeriesBatch) -> SeriesBatch:
    """The same batch, if sums of its values can be."""
    least, most = batch.values.aminmax()
    if not (least >= -_LARGEST and most <= _LARGEST):
        series, point, channel = (batch.values.abs() > _LARGEST).nonzero()[0].tolist()
        raise ValueError(
            f"series {series} of X has {batch.values[series, point, channel].item():.3g} in channel {channel}, which "
            f"is too large for sums (the most is {_LARGEST:.0e}); rescale the channel, or put NaN where it is missing"
        )
    return batch


def _check_counts(batch: SeriesBatch, targets: int) -> None:
    if targets != len(batch):
        raise ValueError(f"X has {len(batch)} series but y has {targets} targets; give one target a series")
