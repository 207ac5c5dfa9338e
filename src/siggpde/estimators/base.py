"""What the classifier and the regressor have in common: settings, checks, the way from X to a batch."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from siggpde import _inputs
from siggpde.estimators._bases import AEON
from siggpde.estimators.committee import Committee
from siggpde.estimators.fitting import FitSettings, fingerprint, fit_committee
from siggpde.paths import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.training.absorb import absorb

DTYPES = {"auto": None, "float32": torch.float32, "float64": torch.float64}


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

    committee_: Committee
    preparation_: Preparation
    channel_names_: tuple[str, ...]
    n_channels_: int
    length_range_: tuple[int, int]
    fingerprint_: str
    n_series_: int
    seconds_: float
    summary_: dict[str, Any]

    def _train(self, X: Any, y: Tensor, classes: int | None, class_weight: tuple[float, ...] | None) -> None:
        started = time.perf_counter()
        settings = self._settings(class_weight)
        preparation = self._preparation()
        with self._threads():
            preparation.fit(X)
            batch = preparation(X)
            if len(y) != len(batch):
                raise ValueError(f"X has {len(batch)} series but y has {len(y)} targets; give one target a series")
            if len(y) < 2:
                raise ValueError("one series is not enough to learn from (n_samples=1); give two or more")
            self._note(X, preparation, batch)
            self.fingerprint_ = fingerprint(batch, y)
            self.committee_ = fit_committee(batch, y, classes, settings)
        self.preparation_ = preparation
        self.n_series_ = len(batch)
        self.seconds_ = time.perf_counter() - started

    def _absorb(self, X: Any, y: Tensor) -> None:
        """Both the whole committee or none of it takes the new series in."""
        batch = self._batch(X)
        if len(y) != len(batch):
            raise ValueError(f"X has {len(batch)} series but y has {len(y)} targets; give one target a series")
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
        self.n_series_ += len(batch)

    def _batch(self, X: Any) -> SeriesBatch:
        """X as the members of the committee want it, checked against what `fit` saw."""
        self._check_fitted()
        return self.preparation_(X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "committee_"):
            raise NotFittedError(f"this {type(self).__name__} has not been fitted yet; call fit first")

    def _settings(self, class_weight: tuple[float, ...] | None) -> FitSettings:
        if self.likelihood not in self.likelihoods:
            names = ", ".join(map(repr, self.likelihoods))
            raise ValueError(f"likelihood must be one of {names}, got {self.likelihood!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {self.dtype!r}")
        members = None if self.members == "auto" else _at_least("members", self.members, 1)
        limit = self.time_limit
        if limit is not None and not (isinstance(limit, int | float) and limit > 0):
            raise ValueError(f"time_limit must be a positive number of seconds or None, got {limit!r}")
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs the folder to go on from: give checkpoint=")
        self._check_device()
        return FitSettings(
            likelihood=self.likelihood,
            members=members,
            n_features=_at_least("n_features", self.n_features, 2),
            options=_as_options(self.transforms),
            class_weight=class_weight,
            max_iter=_at_least("max_iter", self.max_iter, 1),
            time_limit=limit,
            seed=seed_of(self.random_state),
            dtype=DTYPES[self.dtype],
            progress=None if self.verbose else False,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            resume=bool(self.resume),
        )

    def _check_device(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {self.device!r}")
        if self.device == "cuda":
            why = "torch sees no CUDA device" if not torch.cuda.is_available() else "this version computes on the CPU"
            raise ValueError(f"device='cuda' cannot be used: {why}; take device='auto' or 'cpu'")

    def _preparation(self) -> Preparation:
        spectrogram = self.spectrogram
        if isinstance(spectrogram, Mapping):
            spectrogram = Spectrogram(**spectrogram)
        return Preparation(
            time_channel=self.time_channel, mask=self.mask, max_points=self.max_points, spectrogram=spectrogram
        )

    def _note(self, X: Any, preparation: Preparation, batch: SeriesBatch) -> None:
        """Facts of the training series that users ask for and that models are saved with."""
        assert preparation.raw_channels is not None
        self.n_channels_ = preparation.raw_channels
        names = self.channel_names
        if names is None:
            names = [f"channel {i}" for i in range(self.n_channels_)]
        if len(names) != self.n_channels_:
            raise ValueError(f"channel_names has {len(names)} names, but the series have {self.n_channels_} channels")
        self.channel_names_ = tuple(map(str, names))
        counts = batch.counts()
        self.length_range_ = (int(counts.min()), int(counts.max()))
        if isinstance(X, np.ndarray) and X.ndim == 2:
            self.n_features_in_ = X.shape[1]

    def _mark_fitted(self) -> None:
        """Last of all, as aeon's conventions have it; `n_iter_` as scikit-learn's."""
        members = self.committee_.members
        self.n_iter_ = max([1, *(len(m.history.records) for m in members if m.history is not None)])
        if AEON:
            self.is_fitted = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    @contextlib.contextmanager
    def _threads(self) -> Iterator[None]:
        """As many threads as `n_jobs` says, and as many as before afterwards."""
        before = torch.get_num_threads()
        torch.set_num_threads(_inputs.thread_count(self.n_jobs))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the estimator as a folder, to be read by `siggpde.load`; `force` replaces a model that is there."""
        from siggpde.estimators.saving import save_estimator  # noqa: PLC0415 - it knows the estimators

        save_estimator(self, path, force=force)


def seed_of(random_state: Any) -> int:
    """A seed: 0 for None (runs are reproducible unless told otherwise), or one drawn from a generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state must be None, an integer from 0 or a numpy generator, got {random_state!r}")


def _at_least(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def _as_options(transforms: PathOptions | Mapping[str, Any] | str) -> PathOptions | None:
    if isinstance(transforms, PathOptions):
        return transforms
    if isinstance(transforms, Mapping):
        return PathOptions(**transforms)
    if transforms != "auto":
        raise ValueError(f"transforms must be 'auto', a PathOptions or a dictionary of its fields, got {transforms!r}")
    return None
