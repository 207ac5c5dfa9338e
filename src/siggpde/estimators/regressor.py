"""SigGPRegressor: numbers from time series, with intervals that can be trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from siggpde.estimators.aeon_bases import TAGS, RegressorBase
from siggpde.estimators.regression import RegressorMethods
from siggpde.series import PathOptions, Spectrogram


class SigGPRegressor(RegressorMethods, RegressorBase):
    """Gaussian processes with the signature kernel for numbers that go with time series; the defaults need no tuning.

    X and all settings as for `SigGPClassifier`; there is no `class_weight`, and

    - `likelihood`: "auto" or "gaussian", in closed form. With method="paper", which trains all of them by Nadam, also
      "student_t" for outliers and "poisson" for counts.

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
