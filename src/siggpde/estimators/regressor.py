"""SigGPRegressor: numbers from time series, with intervals that can be trusted."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.estimators.aeon_bases import TAGS, RegressorBase
from siggpde.estimators.base import SeriesEstimator
from siggpde.estimators.targets import check_numbers
from siggpde.explain import SeriesExplanation
from siggpde.gp.likelihood_names import names_for
from siggpde.paths import PathOptions, Spectrogram


class _RegressorMethods(SeriesEstimator):
    likelihoods = names_for("regression")

    target_shift_: float
    target_scale_: float

    def fit(self, X: Any, y: Any, *, ranks: Ranks = ALONE) -> Any:
        """Learns from series X and their targets y (n_cases,), finite numbers; `ranks` as for the classifier."""
        with ranks.together():
            local = self._targets(y)
        shard, targets = Shard(ranks, len(local)), ranks.all_gather_rows(local)
        mean, spread = float(targets.mean()), float(targets.std(correction=0))
        counts = self.likelihood == "poisson"
        # Standardised, because the prior has mean 0 and the noise is searched on a grid: any unit and offset fit alike.
        shift, scale = (0.0, 1.0) if counts else (mean, spread if spread > 1e-12 * abs(mean) else 1.0)
        attributes = self._train(X, (targets - shift) / scale, None, None, shard)
        attributes |= {"target_shift_": shift, "target_scale_": scale}
        attributes["summary_"] = {"target_mean": mean, "target_spread": spread}
        self._set_fitted(attributes)
        return self

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learns from more series; the first call is `fit`. Views, landmarks and noise stay as they are."""
        if not hasattr(self, "committee_"):
            return self.fit(X, y)
        targets, old = self._targets(y), self.summary_
        self._update(X, (targets - self.target_shift_) / self.target_scale_)
        share = len(targets) / self.n_series_
        gap = float(targets.mean()) - old["target_mean"]
        spread = (1 - share) * old["target_spread"] ** 2 + share * float(targets.var(correction=0))
        self.summary_ = {
            "target_mean": old["target_mean"] + share * gap,
            "target_spread": (spread + share * (1 - share) * gap**2) ** 0.5,
        }
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected target of every series, (n_cases,); with `return_std` also the standard deviation of y."""
        batch = self._batch(X)
        with self._threads(batch):
            mean, variance = self.committee_.mean_and_variance(batch)
        mean = (self.target_shift_ + self.target_scale_ * mean).cpu().numpy()
        return (mean, (self.target_scale_ * variance.sqrt()).cpu().numpy()) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Lower and upper ends, (n_cases, 2), of intervals that hold y with probability `level`."""
        if not isinstance(level, int | float | np.number) or not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.predict_quantiles(X, [(1 - level) / 2, (1 + level) / 2])

    def predict_quantiles(self, X: Any, quantiles: Sequence[float]) -> np.ndarray:
        """Quantiles of y, (n_cases, quantiles): y is below them with these probabilities."""
        levels = np.asarray(quantiles)
        if levels.ndim != 1 or levels.dtype.kind != "f" or not len(levels) or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles must be a list of numbers between 0 and 1, at least one, got {quantiles!r}")
        batch = self._batch(X)
        with self._threads(batch):
            values = self.committee_.quantiles(batch, levels.tolist())
        return (self.target_shift_ + self.target_scale_ * values).cpu().numpy()

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | X) of every series, (n_cases,); minus its mean is the NLPD."""
        self._check_fitted()
        targets = (self._targets(y) - self.target_shift_) / self.target_scale_
        return self._log_predictive(X, targets) - math.log(self.target_scale_)

    def explain(self, X: Any, top: int = 10, background: Any = None) -> list[SeriesExplanation]:
        explanations = super().explain(X, top, background)
        return [each.in_units(self.target_scale_, self.target_shift_) for each in explanations]

    def _targets(self, y: Any) -> Tensor:
        return check_numbers(y, counts=self.likelihood == "poisson")


class SigGPRegressor(_RegressorMethods, RegressorBase):
    """Gaussian processes with the signature kernel for numbers that go with time series; the defaults need no tuning.

    X and all settings as for `SigGPClassifier`; there is no `class_weight`, and

    - `likelihood`: "auto" or "gaussian", in closed form; "student_t" for outliers, "poisson" for counts. With
      method="paper" all of them are trained by Nadam.

    `predict(X, return_std=True)`, `predict_interval` and `predict_quantiles` say how sure it is.

    Examples:
        >>> import numpy as np
        >>> from siggpde import SigGPRegressor
        >>> series = np.random.default_rng(0).normal(size=(60, 1, 20)).cumsum(axis=2)
        >>> regressor = SigGPRegressor(n_features=100, members=1).fit(series, series[:, 0, -1])
        >>> regressor.predict_interval(series[:3], level=0.9).shape
        (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = TAGS

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
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"n_features": 20, "members": 1, "transforms": {}}
