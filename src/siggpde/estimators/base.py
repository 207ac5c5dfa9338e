"""The base of the classifier and the regressor: training, updates, X to a batch, explanations, novelty and reports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import length_hint
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.novelty import Scores, SeriesNovelty, warn_of_novelty
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.estimators.facts import facts_for
from siggpde.estimators.settings import (
    at_least,
    check_batch,
    check_channels,
    input_device,
    is_series_data,
    or_of_data,
    seed_of,
    threads,
    usable_device,
)
from siggpde.numerics.inputs import memory_named
from siggpde.series import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.series.batch import fingerprint
from siggpde.utils.times import TimeAs, TimeFormat, chosen_format
from siggpde.views.facts import Fact

if TYPE_CHECKING:
    from siggpde.committee.committee import Committee
    from siggpde.explain import Counterfactual, Importances, PaperReading, SeriesExplanation

TAGS: dict[str, Any] = {
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "feature",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:multithreading": True,
}
"""What aeon asks of an estimator."""


class SeriesEstimator:
    """The base of classifier and regressor, whose constructors only store the settings; `fit` checks them."""

    likelihoods: ClassVar[tuple[str, ...]]
    likelihood: str
    n_jobs: int | None
    _tags: ClassVar[dict[str, Any]] = TAGS

    committee_: Committee
    preparation_: Preparation
    channel_names_: tuple[str, ...]
    n_channels_: int
    length_range_: tuple[int, int]
    fingerprint_: str
    reading_: dict[str, Any]
    n_series_: int
    n_groups_: int | None
    seconds_: float
    summary_: dict[str, Any]
    tried_: tuple[list[Any], ...]
    facts_: tuple[Fact, ...]

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
        self.method = method
        self.likelihood = likelihood
        self.views = views
        self.members = members
        self.n_features = n_features
        self.transforms = transforms
        self.time_channel = time_channel
        self.mask = mask
        self.max_points = max_points
        self.spectrogram = spectrogram
        self.channel_names = channel_names
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.evaluate_every = evaluate_every
        self.validation = validation
        self.theta = theta
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.dtype = dtype
        self.checkpoint = checkpoint
        self.resume = resume
        self.cache_dir = cache_dir
        self.keep_series = keep_series
        self.related = related
        self.exact = exact
        super().__init__()

    def _known_targets(self, y: Any) -> Tensor:
        """Returns the targets y as the committee has them: indices of classes, or standardised numbers."""
        raise NotImplementedError

    def _set_fitted(self, attributes: Mapping[str, Any]) -> None:
        """Sets all attributes of a fit at once, so that an estimator never mixes those of two fits."""
        for name in ("n_features_in_", "facts_", "reading_"):  # not every X has them
            vars(self).pop(name, None)
        vars(self).update({"n_iter_": attributes["committee_"].iterations, **attributes})
        if hasattr(self, "is_fitted"):  # of aeon's base
            vars(self)["is_fitted"] = True

    def _update(self, X: Any, y: Tensor, facts: Any) -> None:
        """Updates the posteriors of all members with new series; after an error all of them are as before."""
        batch = self._batch(X, len(y), facts)
        with self._threads(batch):
            self.committee_.update(batch, y)
        counts, (shortest, longest) = batch.counts(), self.length_range_
        self.length_range_ = (min(shortest, int(counts.min())), max(longest, int(counts.max())))
        self.n_series_ += len(batch)

    def is_fitted_to(self, X: Any, y: Any, *, facts: Any = None) -> bool:
        """Says whether X and y are the very series and targets of `fit`, in the same order.

        Parameters
        ----------
        X, y, facts : as for `fit`

        Returns
        -------
        bool
        """
        self._check_fitted()
        targets = self._known_targets(y)
        digest = fingerprint(Shard(ALONE, len(targets)), self._batch(X, len(targets), facts), targets, None)
        return digest == getattr(self, "fingerprint_", None)

    def log_likelihood(self, X: Any, y: Any, *, facts: Any = None) -> np.ndarray:
        """Gives log p(y | X) of every series; minus its mean is the NLPP of classes, or the NLPD of numbers.

        Parameters
        ----------
        X, y, facts : as for `fit`

        Returns
        -------
        ndarray (n_cases,)
        """
        self._check_fitted()
        targets = self._known_targets(y)
        batch = self._batch(X, len(targets), facts)
        with self._threads(batch):
            return self.committee_.log_predictive(batch, targets).cpu().numpy()

    def _batch(self, X: Any, targets: int | None = None, facts: Any = None) -> SeriesBatch:
        """Returns X as a batch with facts on the committee's device, checked against `fit`; a batch stays as it is."""
        if isinstance(X, SeriesBatch):
            return X
        batch, (given,) = self._series(X, targets), or_of_data(X, facts=facts)
        if not self.facts_ and given is None:
            return batch
        return replace(batch, facts=facts_for(self.facts_, given, len(batch)).to(batch.values.device))

    def _series(self, X: Any, targets: int | None = None) -> SeriesBatch:
        """The same without facts."""
        self._check_fitted()
        if is_series_data(X):
            check_channels(self, X)
            X = X.X
        input_device(X)  # warns where X has to be copied
        with threads(self.n_jobs, length_hint(X)), memory_named(lambda: f"{length_hint(X)} series are to be read"):
            batch = self.preparation_(X)
            check_batch(batch, targets)
        return batch.to(self.committee_.device)

    @contextmanager
    def _threads(self, batch: SeriesBatch) -> Iterator[None]:
        """The threads for these series and the landmarks, of which there are at most `n_series_`."""
        n, points, channels = batch.values.shape

        def needs() -> str:
            landmarks = self.committee_.landmarks
            kept = "" if landmarks is None else f", in a model with {len(landmarks)} landmarks"
            return f"{n} series of {points} points and {channels} channels, {batch.values.nbytes / 1e9:.3g} GB{kept}"

        with threads(self.n_jobs, max(n, self.n_series_)), memory_named(needs):
            yield

    def to(self, device: str | torch.device) -> Any:
        """Moves a fitted estimator to a device, where it then predicts.

        Parameters
        ----------
        device : str or torch.device
            Such as "cuda" or "cpu".

        Returns
        -------
        self
        """
        self._check_fitted()
        self.committee_.to(usable_device(device))
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "committee_"):
            from sklearn.exceptions import NotFittedError  # noqa: PLC0415 - takes long to import

            raise NotFittedError(f"this {type(self).__name__} has not been fitted yet; call fit first")

    def _fit(self, X: Any, y: Any) -> Any:
        return self.fit(X, y)  # pyright: ignore[reportAttributeAccessIssue]

    def _predict(self, X: Any) -> np.ndarray:
        return self.predict(X)  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def get_metadata_routing(self) -> Any:
        """Which of `groups` and `sample_weight` scikit-learn passes on to `fit` (aeon's base classes refuse it)."""
        from sklearn.base import BaseEstimator  # noqa: PLC0415 - takes long to import

        return BaseEstimator.get_metadata_routing(self)  # pyright: ignore[reportArgumentType]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """The settings for aeon's checks of estimators."""
        return {"n_features": 20, "members": 1, "transforms": {}}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def importance(
        self, X: Any, top: int = 10, y: Any = None, *, regions: int = 10, facts: Any = None, time_as: TimeAs = "auto"
    ) -> Importances:
        """Says what the predictions for the series X rest on: channels, time regions, window scales and words, for each
        class or for the number, with standard deviations and probabilities of signs.

        Parameters
        ----------
        X, facts : as for `fit`
        top : int
            How many single features are listed.
        y : array (n_cases,), optional
            Targets of X, by which effects tell each class apart from the others; without them by predictions.
        regions : int
            Number of time regions.
        time_as : as for `explain`

        Returns
        -------
        siggpde.explain.Importances
        """
        from siggpde.explain import global_importance  # noqa: PLC0415 - predictions need none

        top, regions = at_least("top", top, 1), at_least("regions", regions, 1)
        self._check_fitted()
        targets = None if y is None else self._known_targets(y)
        batch = self._batch(X, None if targets is None else len(targets), facts)
        classes = getattr(self, "classes_", None)
        options: dict[str, Any] = {"classes": classes, "targets": targets, "regions": regions}
        options["time_format"] = self._time_format(batch, time_as)
        with self._threads(batch):
            return global_importance(self.committee_, batch, self._names(), top, **options)

    def _time_format(self, batch: SeriesBatch, time_as: str) -> TimeFormat | None:
        """Returns how time stamps of a batch are written, by what is known of those of `fit`; None without any."""
        if batch.times is None:
            if time_as != "auto":
                raise ValueError(f"time_as={time_as!r} is for time stamps, which the model has not; leave it out")
            return None
        known = (getattr(self, "reading_", None) or {}).get("time_format")
        times = batch.times[:, [0, -1]].cpu().numpy()
        return chosen_format(None if known is None else TimeFormat.of_state(known), times[:, 0], times[:, 1], time_as)

    def paper_reading(self, top: int = 10) -> PaperReading:
        """Gives the weights of words as the paper reads them, of a model fitted with `method="paper"`.

        Parameters
        ----------
        top : int
            How many words are listed.

        Returns
        -------
        siggpde.explain.PaperReading
        """
        from siggpde.explain import paper_reading  # noqa: PLC0415 - predictions need none

        self._check_fitted()
        return paper_reading(self.committee_, self._names(), at_least("top", top, 1), getattr(self, "classes_", None))

    def explain(
        self,
        X: Any,
        top: int = 10,
        background: Any = None,
        *,
        segments: int = 10,
        permutations: int | None = None,
        uncertainty: bool = True,
        random_state: Any = 0,
        facts: Any = None,
        y: Any = None,
        time_as: TimeAs = "auto",
    ) -> list[SeriesExplanation]:
        """Says why each of the series X is predicted as it is, and when and where the evidence is.

        A word is one term, whatever the windows in which it counts, and so are words that move together.

        Parameters
        ----------
        X : series, as for `fit`
        top : int
            How many terms are listed.
        background : series, optional
            Some training series: words and segments then contribute by their difference from the mean over these.
        segments : int
            Segments in time, which take about 500 predictions for every series; 0 leaves them out.
        permutations : int, optional
            Orders of segments and channels over which contributions are averaged (`siggpde.explain.shapley`).
        uncertainty : bool
            Whether contributions of segments have standard deviations, which take most of the time of few permutations.
        random_state : int, RandomState or Generator, optional
            Seed of the permutations.
        facts : as for `fit`
            Those of the background come with it, as a `SeriesData`.
        y : array (n_cases,), optional
            The true labels, where they are known: segments of a wrong answer are then compared with the truth, too.
        time_as : {"auto", "dates", "elapsed"}
            How time stamps are written: as dates, or as durations after the start of the series. "auto" takes durations
            where the series of the fit have different starts, and dates where they share a calendar.

        Returns
        -------
        list of siggpde.explain.SeriesExplanation
        """
        from siggpde.explain import PermutationSettings, explain_series  # noqa: PLC0415 - predictions need none

        top, segments, seed = at_least("top", top, 1), at_least("segments", segments, 0), seed_of(random_state)
        if permutations is not None:
            permutations = at_least("permutations", permutations, 4)
        settings = PermutationSettings(segments, permutations, seed, uncertainty) if segments else None
        batch = self._batch(X, facts=facts)
        time_format = self._time_format(batch, time_as)
        reference = None if background is None else self._other_batch("background", background)
        with self._threads(batch):
            labels = getattr(self, "classes_", None)
            truths = None if y is None or labels is None else self._known_targets(y)
            more: dict[str, Any] = {"background": reference, "walks": settings, "group": True, "truths": truths}
            explanations = explain_series(self.committee_, batch, self._names(), labels, top, **more)
        if not isinstance(X, SeriesBatch) and self.preparation_.spectrogram is None:
            readings = self.preparation_.readings(X.X if is_series_data(X) else X)
            explanations = [why.of_readings(*given) for why, given in zip(explanations, readings, strict=True)]
        return [explanation.in_time(time_format) for explanation in explanations]

    def counterfactual(
        self,
        x: Any,
        target: Any = None,
        *,
        donors: Any = None,
        plausible: float = 0.05,
        facts: Any = None,
        time_as: TimeAs = "auto",
    ) -> Counterfactual:
        """Finds the smallest change of one stretch of a series that turns the prediction.

        Parameters
        ----------
        x : array (n_channels, n_timepoints) or (1, n_channels, n_timepoints)
        target : label, number or pair of numbers, optional
            The label to predict, by default the runner-up; of numbers a pair (low, high), or one that is to be reached.
        donors : series, optional
            Series from which new values are taken, by default training series; a model that keeps none needs them.
        plausible : float
            Changes are preferred whose p-value of `novelty` is above this, or above that of x if it is less.
        facts : table, optional
            Those of x, one row; they stay as they are.
        time_as : as for `explain`

        Returns
        -------
        siggpde.explain.Counterfactual
        """
        from siggpde.estimators.counterfactuals import find_counterfactual  # noqa: PLC0415 - predictions need none

        self._check_fitted()
        (given,) = or_of_data(x, facts=facts)
        series = x.X if is_series_data(x) else x
        return find_counterfactual(self, series, target, donors, plausible, given, time_as)

    def novelty(
        self,
        X: Any,
        *,
        by_class: bool = False,
        return_score: bool = False,
        return_reason: bool = False,
        facts: Any = None,
    ) -> Any:
        """Tests whether series are unlike the training series.

        A new series from the source of the training series has p <= a with a probability of about a.

        Parameters
        ----------
        X, facts : as for `fit`
        by_class : bool
            Whether series are compared with the training series of each class.
        return_score, return_reason : bool
            Whether more is returned: the score behind p, which tells apart what is far beyond all training series, and
            what is unusual: a statistic such as "level of x" or "length", a fact, or "shape" for what kernels see.

        Returns
        -------
        p : ndarray (n_cases,) or (n_cases, n_classes)
            p-values; with `by_class` NaN for classes of fewer than 20 training series.
        score : ndarray (n_cases,)
        reason : ndarray (n_cases,) of str
        """
        self._check_fitted()
        novelty = self.committee_.novelty
        if novelty is None:
            raise ValueError(
                "this model cannot tell how new a series is; it was fitted by an earlier version of siggpde, which did "
                "not keep what that needs: fit the model again to have it"
            )
        if by_class and novelty.labels is None:
            raise ValueError("by_class=True is for classifiers; numbers have no classes")
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            p, scores = self.committee_.p_values(batch, by_class)
        results: list[Any] = [p.numpy()]
        if return_score:
            results.append(scores.score.numpy())
        if return_reason:
            results.append(np.array(scores.reasons(*self._described()), dtype=object))
        return tuple(results) if len(results) > 1 else results[0]

    def _other_batch(self, name: str, series: Any, *, facts: bool = True) -> SeriesBatch:
        """The batch of series that are given beside X; what is wrong with them is said of the argument `name`."""
        try:
            return self._batch(series) if facts else self._series(series)
        except ValueError as error:
            raise ValueError(f"{name} must be series as for predict: {error}") from None

    def _value_names(self) -> tuple[str, ...]:
        """The names of the channels but the time channel."""
        return Preparation(time_channel=self.preparation_.time_channel).names(self.channel_names_)

    def _described(self) -> tuple[tuple[str, ...], list[str]]:
        """The names of channels and of facts, by which novelty is described."""
        return self._value_names(), [fact.name for fact in self.facts_]

    def _warn(self, scores: Scores | None) -> None:
        """Warns where series that were predicted are unlike all training series."""
        known = self.committee_.novelty
        if scores is not None and known is not None and bool(known.alarms(scores.score).any()):
            warn_of_novelty(SeriesNovelty.of(known, scores, *self._described()).unlike)

    def _novelty(self, scores: Scores | None) -> SeriesNovelty | None:
        """Returns how new the series with these scores are; None where the model does not know."""
        if scores is None or self.committee_.novelty is None:
            return None
        return SeriesNovelty.of(self.committee_.novelty, scores, *self._described())

    def _names(self) -> tuple[str, ...]:
        return self.preparation_.names(self.channel_names_)

    def report(
        self,
        X: Any,
        y: Any = None,
        path: str | os.PathLike[str] = "report.html",
        *,
        facts: Any = None,
        groups: Any = None,
        ids: Sequence[Any] | None = None,
        title: str | None = None,
        target: str | None = None,
        explained: int = 2,
        random_state: Any = None,
        force: bool = False,
        time_as: TimeAs = "auto",
    ) -> str:
        """Writes a page about the model and the series X: one HTML file that needs nothing else.

        If X and y are those of `fit`, predictions of left-out series are judged.

        Parameters
        ----------
        X, facts : as for `fit`
        y : array (n_cases,), optional
            Targets, by which the page judges the predictions.
        path : path
            The file. An older report there is replaced, another file only with `force`.
        groups : array (n_cases,), optional
            Groups are judged one by one, and drawn as wholes for confidence intervals.
        ids, title, target : optional
            Names of the series (n_cases,), the title of the page, and what y is.
        explained : int
            How many series of each kind, the most uncertain, surprising and novel, have an explanation, which takes
            about 500 predictions for every series.
        random_state : int, RandomState or Generator, optional
            Seed of what is drawn where there is too much; the page is the same for the same seed.
        force : bool
            Whether a file at `path` that is no report is replaced.
        time_as : as for `explain`

        Returns
        -------
        str
            The path of the file.
        """
        from siggpde.report.gather import write_report  # noqa: PLC0415 - predictions need none

        self._check_fitted()
        named: dict[str, Any] = {"facts": facts, "groups": groups, "ids": ids, "title": title, "target": target}
        options: dict[str, Any] = {"explained": explained, "seed": seed_of(random_state), "time_as": time_as}
        return write_report(self, X, y, path, **named, **options, force=force)

    @property
    def _repr_html_(self) -> Any:
        """What notebooks call; a property, as scikit-learn's is."""
        return self._html

    def _html(self) -> str | None:
        """What notebooks show: scikit-learn's diagram before `fit`, after it a card of what was fitted on what."""
        if not hasattr(self, "committee_"):
            before = getattr(super(), "_repr_html_", None)
            return None if before is None else before()
        if _display() != "diagram":
            return None
        from siggpde.report.page import notebook_card  # noqa: PLC0415 - for notebooks only

        return notebook_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """The same, for notebooks that ask for several forms at once."""
        shown = {"text/plain": repr(self)}
        html = self._html() if _display() == "diagram" else None
        return shown if html is None else {**shown, "text/html": html}

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the estimator as a folder, which `siggpde.load` reads.

        Parameters
        ----------
        path : path
            The folder.
        force : bool
            Whether a model that is there is replaced.
        """
        from siggpde.estimators.persistence import save_estimator  # noqa: PLC0415 - predictions need none

        save_estimator(self, path, force=force)


def _display() -> str:
    """How scikit-learn is set to display estimators."""
    from sklearn import get_config  # noqa: PLC0415 - takes long to import

    return str(get_config()["display"])
