"""What a classifier does: fit, updates, labels and probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard, all_labels
from siggpde.estimators.base import SeriesEstimator
from siggpde.estimators.decisions import check_level, least_cost
from siggpde.estimators.settings import or_of_data
from siggpde.estimators.targets import (
    check_labels,
    check_sample_info,
    class_attributes,
    class_indices,
    class_weights,
    label_column,
    warn_of_confined_classes,
)
from siggpde.gp import names_for
from siggpde.series import PathOptions, Spectrogram

if TYPE_CHECKING:
    from siggpde.committee.novelty import SeriesNovelty


class SeriesClassifier(SeriesEstimator):
    """`SigGPClassifier` without the bases of other libraries."""

    likelihoods = names_for("classification")

    classes_: np.ndarray
    n_classes_: int

    def __init__(
        self,
        *,
        method: str = "views",
        likelihood: str = "auto",
        views: Any = "auto",
        members: int | str = "auto",
        n_features: int | str = "auto",
        transforms: PathOptions | Mapping[str, Any] | str = "auto",
        time_channel: int | None = None,
        mask: bool = False,
        max_points: int | None = 1000,
        spectrogram: Spectrogram | Mapping[str, Any] | None = None,
        channel_names: Any = None,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        evaluate_every: int | str = "auto",
        validation: Any = "auto",
        theta: Any = "auto",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = 1,
        verbose: int = 0,
        device: str = "auto",
        dtype: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        keep_series: bool = True,
        related: str = "group",
        exact: int = 10_000,
    ) -> None:
        settings = dict(locals())
        del settings["self"], settings["class_weight"], settings["__class__"]
        super().__init__(**settings)
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        facts: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        ranks: Ranks = ALONE,
    ) -> Any:
        """Learns from series and their labels.

        Parameters
        ----------
        X : array (n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), list of arrays, or SeriesData
            A `siggpde.io.SeriesData` has all that follows too, names its channels, and says which of them is time.
        y : array (n_cases,)
            Labels: strings, integers or bools.
        facts : DataFrame, dict of columns or array (n_cases, n_facts), optional
            What is known beside the series, such as age and sex: numbers, and categories as text, with gaps. They are
            one more view, and predictions need them too.
        groups : array (n_cases,), optional
            What a series is part of: a person, a recording, a day. Everything that is decided on left-out series is
            then decided on left-out groups.
        sample_weight : array (n_cases,), optional
            What a series counts.
        ranks : Ranks, optional
            Those of `siggpde.connect`: each process passes its own series and labels; all of them then have the model
            of all the series, and rank 0 saves it.

        Returns
        -------
        self
        """
        y, facts, groups, sample_weight = or_of_data(X, y=y, facts=facts, groups=groups, sample_weight=sample_weight)
        with ranks.together():
            labels = check_labels(y)
        shard = Shard(ranks, len(labels))
        classes, indices = all_labels(labels, ranks)
        if len(classes) < 2:
            raise ValueError(f"y has only one class, {classes.tolist()[0]!r}; a classifier needs two or more")
        weights = None if self.class_weight is None else class_weights(self.class_weight, classes, indices)
        info, labels = check_sample_info(groups, sample_weight, shard), torch.from_numpy(indices)
        if info.groups is not None and ranks.leads:
            warn_of_confined_classes(classes, labels, info.groups)
        from siggpde.committee.conformal import left_out_figures  # noqa: PLC0415 - predictions need none
        from siggpde.estimators.training import trained_attributes  # noqa: PLC0415 - predictions need none

        attributes = trained_attributes(self, X, labels, info, shard, len(classes), weights, facts)
        counts = np.bincount(indices).tolist()
        left_out = left_out_figures(attributes["committee_"])
        attributes["summary_"] = {"labels": dict(zip(map(str, classes), counts, strict=True)), **left_out}
        self._set_fitted(attributes | class_attributes(classes))
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, *, facts: Any = None) -> Any:
        """Learns from more series of the same classes; the first call is `fit`.

        Views, landmarks, noise and link stay as they are. With method="views" the posterior is updated exactly in the
        span of the landmarks, with method="paper" by natural gradients. With `class_weight` a new series counts as much
        as one of its class did in `fit`.

        Parameters
        ----------
        X, y, facts : as for `fit`
        classes : array, optional
            All classes there will ever be, by scikit-learn's convention: it is only checked that y of the first call
            has them all.

        Returns
        -------
        self
        """
        (y,) = or_of_data(X, y=y)
        if not hasattr(self, "committee_"):
            if classes is not None:
                class_indices(check_labels(classes), np.unique(check_labels(y)), "classes")
            return self.fit(X, y, facts=facts)
        indices = self._known_targets(y)
        self._update(X, indices, facts)
        new = np.bincount(indices.numpy(), minlength=self.n_classes_).tolist()
        labels = self.summary_["labels"].items()
        self.summary_ = {"labels": {label: old + more for (label, old), more in zip(labels, new, strict=True)}}
        return self

    def predict(self, X: Any, *, costs: Any = None, reject_cost: float | None = None, facts: Any = None) -> np.ndarray:
        """Gives the most probable label of every series, or the decision of least expected cost.

        Parameters
        ----------
        X, facts : as for `fit`
        costs : array (n_classes, n_classes), optional
            costs[t, d] is the cost of deciding d where t is true, both in the order of `classes_`.
        reject_cost : float, optional
            Where every decision costs more than this on average (without `costs` a wrong one costs 1), the answer is
            "don't know", or None for labels that are no strings.

        Returns
        -------
        ndarray (n_cases,)
            Labels of the type that `fit` was given.
        """
        chances = self.predict_proba(X, facts=facts)
        if costs is None and reject_cost is None:
            return self.classes_[chances.argmax(axis=1)]
        return least_cost(chances, self.classes_, costs, reject_cost)

    def predict_proba(self, X: Any, return_std: bool = False, *, facts: Any = None) -> Any:
        """Gives the probabilities of the classes; a warning says how many series are unlike all training series.

        Parameters
        ----------
        X, facts : as for `fit`
        return_std : bool
            Whether the standard deviation of each probability over the latents is returned too: how uncertain it is.

        Returns
        -------
        probabilities : ndarray (n_cases, n_classes)
            Columns are in the order of `classes_`.
        std : ndarray (n_cases, n_classes)
            Only with `return_std`.
        """
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
            chances = prediction.probabilities().cpu().numpy()
            spread = prediction.probability_spread().cpu().numpy() if return_std else None
            self._warn(prediction.scores)
        return (chances, spread) if return_std else chances

    def predict_with_novelty(self, X: Any, *, facts: Any = None) -> tuple[np.ndarray, SeriesNovelty | None]:
        """Gives probabilities and how new the series are, from one look at them and without warnings.

        Parameters
        ----------
        X, facts : as for `predict`

        Returns
        -------
        probabilities : ndarray (n_cases, n_classes)
        novelty : SeriesNovelty or None
            Unlike those of the method `novelty`, its p-values are not joined to the training series.
        """
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
        return prediction.probabilities().cpu().numpy(), self._novelty(prediction.scores)

    def latent(self, X: Any, *, facts: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Gives mean and standard deviation of the latents, before the link.

        Parameters
        ----------
        X, facts : as for `predict`

        Returns
        -------
        mean, std : ndarray (n_cases, n_classes)
            The latents of two classes are f and -f.
        """
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            latents = self.committee_.latents(batch)
        return latents.mean.cpu().numpy(), latents.std.contiguous().cpu().numpy()

    def predict_set(
        self, X: Any, level: float = 0.9, *, by_class: bool = False, allow_empty: bool = False, facts: Any = None
    ) -> np.ndarray:
        """Gives sets of classes that hold the true one with a given probability, by left-out training series
        (`siggpde.committee.conformal`).

        Sets are made of the probabilities of `predict_proba`, with the same warning of series that are unlike all
        training series: of these no share is promised.

        Parameters
        ----------
        X, facts : as for `fit`
        level : float
            The probability.
        by_class : bool
            Whether the sets have this probability for the series of each class.
        allow_empty : bool
            Without it the most probable class is always in, and sets may hold the true class more often than they
            promise. With it coverage is as stated: chance, the same for the same series, decides at the border, and
            sets can be empty.

        Returns
        -------
        ndarray (n_cases, n_classes) of bool
            Columns are in the order of `classes_`.
        """
        from siggpde.committee.conformal import prediction_sets  # noqa: PLC0415 - other predictions need none

        level, committee = check_level(level), cast(Any, self.committee_)  # without left-out series it is refused
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            sets, scores = prediction_sets(committee, batch, level, by_class=by_class, allow_empty=allow_empty)
            self._warn(scores)
        return sets.cpu().numpy()

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.predict_proba(X)

    def _known_targets(self, y: Any) -> torch.Tensor:
        return class_indices(label_column(y), self.classes_)
