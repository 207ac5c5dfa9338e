"""WindowSignatureTransformer: statistics of signatures over the windows of series, as a table of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from siggpde.estimators.settings import at_least, seed_of
from siggpde.numerics.window_view import Lift
from siggpde.series import SeriesBatch
from siggpde.transformers.base import TAGS, SeriesTransformer, TransformerBase
from siggpde.windows import WindowFeatures, WindowSettings
from siggpde.windows.names import feature_names


class WindowSignatureTransformer(SeriesTransformer, TransformerBase):
    """Thousands of features of every series: statistics, over its windows, of the signatures of the windows.

    A series is looked at as it is, by its increments, by its cumulated deviations from the mean and as a z-score;
    through windows of a few points that are 1, 2, 4, .. apart; with and without the position of the window. Of the
    words of the signatures of all windows, each signature divided by its norm, the features are mean, standard
    deviation, largest, smallest and the shares above quantiles of the training series, over the whole series and over
    its thirds. A linear model behind it makes a strong baseline; for uncertainty take `SigGPClassifier`.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps. What comes of a series depends on it and on the training series alone.

    - `lifts`: some of "x", "dx", "cum", "zn": the series, its increments, its cumulated deviations, its z-score.
    - `window`: points of a window; series with a median length below twice as many have shorter ones.
    - `max_dilations`: at most so many dilations, which are powers of two. `max_windows`: at most so many windows of a
      series at each. `max_channels`: with more than three channels, at most so many, drawn at random, for a dilation.
    - `thresholds`: so many quantiles of the training series there are shares above.
    - `channel_names`: for the names of features. `random_state`: None is 0, so that runs repeat.
    - `dtype`: of the features, "float32", "float64", or "auto" for that of X; computed they are in float64.
    - `n_jobs`: threads; -1 takes all cores, None torch's number.

    After `fit`: `features_`, the fitted `siggpde.windows.WindowFeatures`, which has the features by view and block;
    `n_channels_` and `channel_names_`.

    Examples:
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
