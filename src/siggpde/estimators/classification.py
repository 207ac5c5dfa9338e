"""What a classifier does: fit, updates, labels and probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard, all_labels
from siggpde.estimators.base import SeriesEstimator
from siggpde.estimators.targets import (
    check_beside,
    check_labels,
    class_indices,
    class_weights,
    warn_of_confined_classes,
)
from siggpde.gp import names_for

if TYPE_CHECKING:
    from siggpde.estimators.trusting import Newness


class ClassifierMethods(SeriesEstimator):
    """The methods of `SigGPClassifier`, without the base classes of other libraries, which take seconds to import."""

    likelihoods = names_for("classification")
    class_weight: Mapping[Any, float] | str | None
    classes_: np.ndarray
    n_classes_: int

    def fit(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, ranks: Ranks = ALONE) -> Any:
        """Learns from series X and their labels y (n_cases,): strings, integers or bools.

        `groups` (n_cases,) name what a series is part of: a person, a recording, a day. Everything that is decided on
        left-out series is then decided on left-out groups. `sample_weight` (n_cases,) says what a series counts.

        With `ranks` from `siggpde.connect`, each process passes its own series and labels; all of them then have the
        model of all the series, and rank 0 saves it.
        """
        with ranks.together():
            labels = check_labels(y)
        shard = Shard(ranks, len(labels))
        classes, indices = all_labels(labels, ranks)
        if len(classes) < 2:
            raise ValueError(f"y has only one class, {classes.tolist()[0]!r}; a classifier needs two or more")
        weights = class_weights(self.class_weight, classes, indices)
        beside, labels = check_beside(groups, sample_weight, shard), torch.from_numpy(indices)
        if beside.groups is not None and ranks.leads:
            warn_of_confined_classes(classes, labels, beside.groups)
        attributes = self._train(X, labels, beside, shard, len(classes), weights)
        counts = np.bincount(indices).tolist()
        attributes["summary_"] = {"labels": dict(zip(map(str, classes), counts, strict=True))}
        self._set_fitted(attributes | class_attributes(classes))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """Learns from more series of the same classes; the first call is `fit`.

        Views, landmarks, noise and link stay as they are; the posterior is updated with the new series, exactly in the
        span of the landmarks for the default likelihood, else by natural gradients, also after method="paper". With
        `class_weight` a new series counts as much as one of its class did in `fit`. `classes`, all there will ever be,
        is a parameter by scikit-learn's convention and only checked: the y of the first call has to have them all.
        """
        if not hasattr(self, "committee_"):
            if classes is not None:
                class_indices(check_labels(classes), np.unique(check_labels(y)), "classes")
            return self.fit(X, y)
        indices = class_indices(check_labels(y), self.classes_)
        self._update(X, indices)
        new = np.bincount(indices.numpy(), minlength=self.n_classes_).tolist()
        labels = self.summary_["labels"].items()
        self.summary_ = {"labels": {label: old + more for (label, old), more in zip(labels, new, strict=True)}}
        return self

    def predict(self, X: Any, *, costs: Any = None, reject_cost: float | None = None) -> np.ndarray:
        """The most probable label of every series, (n_cases,), of the type that `fit` was given.

        With `costs` (n_classes, n_classes) it is the decision of least expected cost: costs[t, d] is that of deciding d
        where t is true, both in the order of `classes_`. Where every decision costs more than `reject_cost` on average
        (without `costs` a wrong one costs 1), the answer is "don't know", or None for labels that are no strings.
        """
        chances = self.predict_proba(X)
        if costs is None and reject_cost is None:
            return self.classes_[chances.argmax(axis=1)]
        from siggpde.estimators.decisions import least_cost  # noqa: PLC0415 - other predictions need none

        return least_cost(chances, self.classes_, costs, reject_cost)

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Probabilities (n_cases, n_classes), columns in the order of `classes_`.

        With `return_std` also how uncertain each probability itself is, its standard deviation over the latents. A
        warning says how many series are unlike all training series (`novelty`).
        """
        batch = self._batch(X)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
            chances = prediction.probabilities().cpu().numpy()
            spread = prediction.probability_spread().cpu().numpy() if return_std else None
            self._warn(prediction.scores)
        return (chances, spread) if return_std else chances

    def predict_with_newness(self, X: Any) -> tuple[np.ndarray, Newness | None]:
        """Probabilities (n_cases, n_classes), and how new the series are, of one look at them; it warns of nothing.

        The p-values are not joined to the training series, as those of `novelty` are: that would take a second look.
        """
        batch = self._batch(X)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
        return prediction.probabilities().cpu().numpy(), self._newness(prediction.scores)

    def is_fitted_to(self, X: Any, y: Any) -> bool:
        """Whether X and y are the very series and labels of `fit`, in the same order."""
        self._check_fitted()
        return self._is_fitted_to(X, class_indices(check_labels(y), self.classes_))

    def latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the latents, two (n_cases, n_classes); of two classes they are f and -f."""
        batch = self._batch(X)
        with self._threads(batch):
            latents = self.committee_.latents(batch)
        return latents.mean.cpu().numpy(), latents.std.contiguous().cpu().numpy()

    def predict_set(
        self, X: Any, level: float = 0.9, *, by_class: bool = False, allow_empty: bool = False
    ) -> np.ndarray:
        """Sets that hold the true class with probability `level`: bools (n_cases, n_classes), columns as in `classes_`.

        They come from left-out training series (`committee.conformal`). With `by_class` each class keeps the level for
        series of its own. Without `allow_empty` the most probable class is always in, and sets may hold more than they
        promise; with it coverage is as stated: chance decides at the border, always the same for the same series, and
        sets can be empty.
        """
        from siggpde.estimators.decisions import check_level, sets_of  # noqa: PLC0415 - other predictions need none

        check_level(level)
        batch = self._batch(X)
        with self._threads(batch):
            return sets_of(self.committee_, batch, level, by_class=by_class, allow_empty=allow_empty)

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | X) of every series, (n_cases,); minus its mean is the NLPP."""
        self._check_fitted()
        return self._log_predictive(X, class_indices(check_labels(y), self.classes_))

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.predict_proba(X)

    def _known_targets(self, y: Any) -> torch.Tensor:
        return class_indices(check_labels(y), self.classes_)


def class_attributes(classes: np.ndarray) -> dict[str, Any]:
    """The attributes of a fitted classifier that follow from its classes."""
    dictionary = {label: index for index, label in enumerate(classes)}  # of aeon's classifiers
    return {"classes_": classes, "n_classes_": len(classes), "_class_dictionary": dictionary}
