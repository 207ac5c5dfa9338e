"""What a regressor does: fit, updates, numbers, intervals and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.estimators.base import SeriesEstimator
from siggpde.estimators.decisions import check_level
from siggpde.estimators.settings import or_of_data
from siggpde.estimators.targets import check_numbers, check_sample_info
from siggpde.gp import names_for
from siggpde.utils.times import TimeAs

if TYPE_CHECKING:
    from siggpde.committee.novelty import SeriesNovelty
    from siggpde.explain import Importances, SeriesExplanation


class SeriesRegressor(SeriesEstimator):
    """`SigGPRegressor` without the bases of other libraries."""

    likelihoods = names_for("regression")

    target_shift_: float
    target_scale_: float

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
        """Learns from series and their targets.

        Parameters
        ----------
        X : array (n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), list of arrays, or SeriesData
            As for `SigGPClassifier.fit`.
        y : array (n_cases,)
            Finite numbers; whole numbers from 0 for likelihood="poisson".
        facts, groups, sample_weight, ranks : optional
            As for `SigGPClassifier.fit`.

        Returns
        -------
        self
        """
        y, facts, groups, sample_weight = or_of_data(X, y=y, facts=facts, groups=groups, sample_weight=sample_weight)
        with ranks.together():
            local = self._targets(y)
        shard, targets = Shard(ranks, len(local)), ranks.all_gather_rows(local)
        mean, spread = float(targets.mean()), float(targets.std(correction=0))
        counts = self.likelihood == "poisson"
        # Standardised, because the prior has mean 0 and the noise is searched on a grid: any unit and offset fit alike.
        shift, scale = (0.0, 1.0) if counts else (mean, spread if spread > 1e-12 * abs(mean) else 1.0)
        info = check_sample_info(groups, sample_weight, shard)
        from siggpde.committee.conformal import left_out_figures  # noqa: PLC0415 - predictions need none
        from siggpde.estimators.training import trained_attributes  # noqa: PLC0415 - predictions need none

        attributes = trained_attributes(self, X, (targets - shift) / scale, info, shard, facts=facts)
        attributes |= {"target_shift_": shift, "target_scale_": scale}
        left_out = left_out_figures(attributes["committee_"], scale)
        attributes["summary_"] = {"target_mean": mean, "target_spread": spread, **left_out}
        self._set_fitted(attributes)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, facts: Any = None) -> Any:
        """Learns from more series; the first call is `fit`. Views, landmarks and noise stay as they are.

        Parameters
        ----------
        X, y, facts : as for `fit`

        Returns
        -------
        self
        """
        (y,) = or_of_data(X, y=y)
        if not hasattr(self, "committee_"):
            return self.fit(X, y, facts=facts)
        targets, old = self._targets(y), self.summary_
        self._update(X, (targets - self.target_shift_) / self.target_scale_, facts)
        share = len(targets) / self.n_series_
        gap = float(targets.mean()) - old["target_mean"]
        spread = (1 - share) * old["target_spread"] ** 2 + share * float(targets.var(correction=0))
        self.summary_ = {
            "target_mean": old["target_mean"] + share * gap,
            "target_spread": (spread + share * (1 - share) * gap**2) ** 0.5,
        }
        return self

    def predict(self, X: Any, return_std: bool = False, *, facts: Any = None) -> Any:
        """Gives the expected target of every series; a warning says how many are unlike all training series.

        Parameters
        ----------
        X, facts : as for `fit`
        return_std : bool
            Whether the standard deviation of y, noise included, is returned too.

        Returns
        -------
        mean : ndarray (n_cases,)
        std : ndarray (n_cases,)
            Only with `return_std`.
        """
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
            moments = prediction.mean_and_variance()
            self._warn(prediction.scores)
        mean, std = self._in_units(*moments)
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9, method: str = "bayes", *, facts: Any = None) -> np.ndarray:
        """Gives intervals that hold y with a given probability.

        Parameters
        ----------
        X, facts : as for `fit`
        level : float
            The probability.
        method : {"bayes", "conformal"}
            "bayes" takes the quantiles of the predictive distribution. "conformal" is jackknife+ on left-out training
            series (`siggpde.committee.conformal`), with infinite ends where these are too few for the level.

        Returns
        -------
        ndarray (n_cases, 2)
            Lower and upper ends.
        """
        level = check_level(level)
        if method not in ("bayes", "conformal"):
            raise ValueError(f"method must be 'bayes' or 'conformal', got {method!r}")
        if method == "bayes":
            return self.predict_quantiles(X, [(1 - level) / 2, (1 + level) / 2], facts=facts)
        from siggpde.committee.conformal import conformal_intervals  # noqa: PLC0415 - other intervals need none

        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            ends = conformal_intervals(cast(Any, self.committee_), batch, level).cpu().numpy()
        return self.target_shift_ + self.target_scale_ * ends

    def predict_quantiles(self, X: Any, quantiles: Sequence[float], *, facts: Any = None) -> np.ndarray:
        """Gives quantiles of y.

        Parameters
        ----------
        X, facts : as for `fit`
        quantiles : sequence of float
            Probabilities with which y is below the quantiles.

        Returns
        -------
        ndarray (n_cases, quantiles)
        """
        levels = np.asarray(quantiles)
        if levels.ndim != 1 or levels.dtype.kind != "f" or not len(levels) or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles must be a list of numbers between 0 and 1, at least one, got {quantiles!r}")
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
            values = prediction.quantiles(levels.tolist())
            self._warn(prediction.scores)
        return (self.target_shift_ + self.target_scale_ * values).cpu().numpy()

    def predict_with_novelty(
        self, X: Any, level: float = 0.9, *, facts: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, SeriesNovelty | None]:
        """Gives means, intervals and how new the series are, from one look at them and without warnings.

        Parameters
        ----------
        X, facts : as for `predict`
        level : float
            The probability of an interval.

        Returns
        -------
        mean, std : ndarray (n_cases,)
        intervals : ndarray (n_cases, 2)
        novelty : SeriesNovelty or None
            Unlike those of the method `novelty`, its p-values are not joined to the training series.
        """
        batch = self._batch(X, facts=facts)
        ends = [(1 - level) / 2, (1 + level) / 2]
        with self._threads(batch):
            prediction = self.committee_.predict(batch)
            moments, values = prediction.mean_and_variance(), prediction.quantiles(ends)
        interval = (self.target_shift_ + self.target_scale_ * values).cpu().numpy()
        return *self._in_units(*moments), interval, self._novelty(prediction.scores)

    def latent(self, X: Any, *, facts: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Gives mean and standard deviation of the latent, which is the expected target, in units of y.

        For likelihood="poisson" the latent is the logarithm of the rate.

        Parameters
        ----------
        X, facts : as for `predict`

        Returns
        -------
        mean, std : ndarray (n_cases,)
        """
        batch = self._batch(X, facts=facts)
        with self._threads(batch):
            latents = self.committee_.latents(batch)
        mean, spread = (part[:, 0].cpu().numpy() for part in (latents.mean, latents.std))
        return self.target_shift_ + self.target_scale_ * mean, self.target_scale_ * spread

    def log_likelihood(self, X: Any, y: Any, *, facts: Any = None) -> np.ndarray:
        return super().log_likelihood(X, y, facts=facts) - math.log(self.target_scale_)

    def importance(
        self, X: Any, top: int = 10, y: Any = None, *, regions: int = 10, facts: Any = None, time_as: TimeAs = "auto"
    ) -> Importances:
        importances = super().importance(X, top, y, regions=regions, facts=facts, time_as=time_as)
        return importances.in_units(self.target_scale_)

    def explain(self, X: Any, top: int = 10, background: Any = None, **settings: Any) -> list[SeriesExplanation]:
        explanations = super().explain(X, top, background, **settings)
        return [explanation.in_units(self.target_scale_, self.target_shift_) for explanation in explanations]

    def _in_units(self, mean: Tensor, variance: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y in its units."""
        scaled = self.target_shift_ + self.target_scale_ * mean
        return scaled.cpu().numpy(), (self.target_scale_ * variance.sqrt()).cpu().numpy()

    def _known_targets(self, y: Any) -> Tensor:
        return (self._targets(y) - self.target_shift_) / self.target_scale_

    def _targets(self, y: Any) -> Tensor:
        return check_numbers(y, counts=self.likelihood == "poisson")
