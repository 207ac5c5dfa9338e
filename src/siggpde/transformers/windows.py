"""WindowSignatureTransformer: statistics of signatures over the windows of series, as a table of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from siggpde.estimators.settings import at_least, seed_of
from siggpde.numerics.windows import Lift
from siggpde.series import SeriesBatch
from siggpde.transformers.base import TAGS, SeriesTransformer, TransformerBase
from siggpde.views.window_features import WindowFeatures, WindowSettings, feature_names


class WindowSignatureTransformer(SeriesTransformer, TransformerBase):
    """Thousands of features of every series: statistics of the signatures of its windows.

    Windows of a few points, 1, 2, 4, .. apart, are cut from the series, its increments, its cumulated deviations from
    the mean and its z-score. The signature of each window, with and without the position of the window, is divided by
    its norm. The features are mean, standard deviation, maximum, minimum of its words, and shares above quantiles of
    the training series, over the whole series and over its thirds. A linear model on them is a strong baseline; for
    uncertainty take `SigGPClassifier`.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps. The features of a series depend on it and on the training series alone.

    Parameters
    ----------
    lifts : list of {"x", "dx", "cum", "zn"}
        The series, its increments, its cumulated deviations, its z-score.
    window : int
        Points of a window; fewer where the median length of the training series is below twice as many.
    max_dilations : int
        Largest number of dilations, which are powers of two.
    max_windows : int
        Largest number of windows of a series at a dilation.
    max_channels : int
        Largest number of channels at a dilation, drawn at random, where there are more than three channels.
    thresholds : int
        Number of quantiles of the training series.
    channel_names : list of str, optional
        Names of the channels, for names of features.
    random_state : int or RandomState, optional
        Seed of random channels; None is 0.
    dtype : {"float32", "float64", "auto"}
        Of the features, which are computed in float64; "auto" is that of X.
    n_jobs : int, optional
        Threads: -1 takes all cores, None torch's number.

    Attributes
    ----------
    features_ : siggpde.views.window_features.WindowFeatures
        The fitted features, by view and block.
    n_channels_ : int
    channel_names_ : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> from siggpde import WindowSignatureTransformer
    >>> X = np.random.default_rng(0).normal(size=(12, 1, 40)).cumsum(axis=2)
    >>> transformer = WindowSignatureTransformer(lifts=("x", "dx"), max_dilations=2)
    >>> transformer.fit_transform(X).shape
    (12, 4368)
    >>> transformer.get_feature_names_out()[0]
    'x dilation 1: mean of channel 0'
    """

    _tags: ClassVar[dict[str, Any]] = TAGS

    features_: WindowFeatures

    def __init__(
        self,
        *,
        lifts: Sequence[Lift] = get_args(Lift),
        window: int = 9,
        max_dilations: int = 8,
        max_windows: int = 128,
        max_channels: int = 12,
        thresholds: int = 5,
        channel_names: Any = None,
        random_state: Any = None,
        dtype: str = "float32",
        n_jobs: int | None = 1,
    ) -> None:
        self.lifts = lifts
        self.window = window
        self.max_dilations = max_dilations
        self.max_windows = max_windows
        self.max_channels = max_channels
        self.thresholds = thresholds
        self.channel_names = channel_names
        self.random_state = random_state
        self.dtype = dtype
        self.n_jobs = n_jobs
        super().__init__()

    def _learn(self, batch: SeriesBatch) -> dict[str, Any]:
        listed = isinstance(self.lifts, list | tuple)
        if not listed or not all(isinstance(lift, str) for lift in self.lifts):
            raise ValueError(f"lifts must be a list of some of {', '.join(get_args(Lift))}, got {self.lifts!r}")
        settings = WindowSettings(
            lifts=tuple(self.lifts),
            points=at_least("window", self.window, 3),
            max_dilations=at_least("max_dilations", self.max_dilations, 1),
            max_windows=at_least("max_windows", self.max_windows, 1),
            max_channels=at_least("max_channels", self.max_channels, 2),
            thresholds=at_least("thresholds", self.thresholds, 0),
            seed=seed_of(self.random_state),
        )
        return {"features_": WindowFeatures.fit(batch, settings)}

    def _features(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        return self.features_.transform(batch, dtype)

    def _feature_names(self, channels: tuple[str, ...]) -> Sequence[str]:
        return feature_names(self.features_, channels)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"lifts": ("x", "dx"), "max_dilations": 2, "max_windows": 10}
