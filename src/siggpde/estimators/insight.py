"""What a fitted estimator tells about itself and about series: what predictions rest on, and how new a series is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from siggpde.estimators.settings import at_least, seed_of
from siggpde.series import Preparation, SeriesBatch

if TYPE_CHECKING:
    from torch import Tensor

    from siggpde.committee.committee import Committee
    from siggpde.committee.novelty import Scores
    from siggpde.committee.view_committee import OfViews
    from siggpde.estimators.trusting import Newness
    from siggpde.explain import Counterfactual, Importances, PaperReading, SeriesExplanation


class Insight:
    """Explanations and novelty, for the base of the estimators, which has the rest."""

    committee_: Committee | OfViews
    preparation_: Preparation
    channel_names_: tuple[str, ...]

    if TYPE_CHECKING:

        def _check_fitted(self) -> None: ...

        def _batch(self, X: Any, targets: int | None = None) -> SeriesBatch: ...

        def _known_targets(self, y: Any) -> Tensor: ...

        def _threads(self, batch: SeriesBatch) -> AbstractContextManager[None]: ...

    def importance(self, X: Any, top: int = 10, y: Any = None, *, regions: int = 10) -> Importances:
        """What the predictions for the series X rest on: channels, time regions, window scales and words, for each
        class or for the number, with standard deviations and probabilities of signs
        (`siggpde.explain.global_importance`).

        A class is told apart from the others as the model predicts them or, with their targets y, as they are.
        """
        from siggpde.explain import global_importance  # noqa: PLC0415 - predictions need none

        top, regions = at_least("top", top, 1), at_least("regions", regions, 1)
        self._check_fitted()
        targets = None if y is None else self._known_targets(y)
        batch = self._batch(X, None if targets is None else len(targets))
        classes = getattr(self, "classes_", None)
        with self._threads(batch):
            return global_importance(
                self.committee_, batch, self._names(), top, classes=classes, targets=targets, regions=regions
            )

    def paper_reading(self, top: int = 10) -> PaperReading:
        """The weights of words as the paper reads them, of a model fitted with `method="paper"`
        (`siggpde.explain.paper_reading`)."""
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
    ) -> list[SeriesExplanation]:
        """Why each of the series X is predicted as it is (`siggpde.explain.explain_series`), and when and where the
        evidence is.

        A word is one term, whatever the windows in which it counts, and so are words that move together. With
        `background`, some training series, words and segments contribute by their difference from the mean over these.
        `segments` is the number of segments in time; 0 leaves them out, which is much faster for many series:
        contributions of segments and channels take about 500 predictions for every series. They are averages over
        `permutations` (`siggpde.explain.shapley`), drawn with `random_state`. Without `uncertainty` their standard
        deviations under the posterior are left out, which take most of the time where permutations are few.
        """
        from siggpde.explain import WalkSettings, explain_series  # noqa: PLC0415 - predictions need none

        top, segments, seed = at_least("top", top, 1), at_least("segments", segments, 0), seed_of(random_state)
        if permutations is not None:
            permutations = at_least("permutations", permutations, 4)
        walks = WalkSettings(segments, permutations, seed, uncertainty) if segments else None
        batch = self._batch(X)
        reference = None if background is None else self._other_batch("background", background)
        with self._threads(batch):
            labels = getattr(self, "classes_", None)
            return explain_series(
                self.committee_, batch, self._names(), labels, top, background=reference, walks=walks, group=True
            )

    def counterfactual(
        self, x: Any, target: Any = None, *, donors: Any = None, plausible: float = 0.05
    ) -> Counterfactual:
        """The smallest change of one stretch of the series x that turns the prediction into `target`
        (`siggpde.explain.counterfactual`).

        x is (n_channels, n_timepoints) or (1, n_channels, n_timepoints). `target` is a label, by default the runner-up;
        for numbers a pair (low, high), or one number that the prediction is to reach. New values come from training
        series that the model keeps, or from `donors`, series as for `predict`, which a model that keeps none needs.
        Changes with a p-value of `novelty` above `plausible`, or of that of x if it is less, are preferred.
        """
        from siggpde.estimators.counterfactuals import find_counterfactual  # noqa: PLC0415 - predictions need none

        self._check_fitted()
        return find_counterfactual(self, x, target, donors, plausible)

    def novelty(
        self, X: Any, *, by_class: bool = False, return_score: bool = False, return_reason: bool = False
    ) -> Any:
        """p-values (n_cases,), small for series that are unlike the training series (`siggpde.committee.novelty`).

        A new series of the same source has p <= a with a probability of about a. `by_class` compares with the training
        series of each class, (n_cases, n_classes), NaN for classes of fewer than 20. With `return_score` also the score
        behind p, which tells apart what is far beyond all training series, and with `return_reason` what is unusual:
        a fact such as "level of x" or "length", or "shape" for what kernels see. Several are returned as a tuple.
        """
        from siggpde.estimators import trusting  # noqa: PLC0415 - takes long to import

        self._check_fitted()
        trusting.novelty_of(self.committee_)
        batch = self._batch(X)
        with self._threads(batch):
            p, scores = trusting.p_values(self.committee_, batch, by_class)
        names = scores.reasons(self._value_names()) if return_reason else None
        return trusting.as_arrays(p, scores, names, return_score)

    def _other_batch(self, name: str, series: Any) -> SeriesBatch:
        """The batch of series that are given beside X; what is wrong with them is said of the argument `name`."""
        try:
            return self._batch(series)
        except ValueError as error:
            raise ValueError(f"{name} must be series as for predict: {error}") from None

    def _value_names(self) -> tuple[str, ...]:
        """The names of the channels but the time channel."""
        return Preparation(time_channel=self.preparation_.time_channel).names(self.channel_names_)

    def _warn(self, scores: Scores | None) -> None:
        """Warns where series that were predicted are unlike all training series."""
        if scores is not None:
            from siggpde.estimators.trusting import novelty_of, warn_of_novelty  # noqa: PLC0415 - takes long to import

            warn_of_novelty(novelty_of(self.committee_), scores, self._value_names())

    def _newness(self, scores: Scores | None) -> Newness | None:
        """How new the series with these scores are; None where the model does not know."""
        if scores is None:
            return None
        from siggpde.estimators.trusting import newness, novelty_of  # noqa: PLC0415 - takes long to import

        return newness(novelty_of(self.committee_), scores, self._value_names())

    def _names(self) -> tuple[str, ...]:
        return self.preparation_.names(self.channel_names_)
