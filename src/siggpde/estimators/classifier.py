"""SigGPClassifier: classes of time series with calibrated probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from siggpde.estimators.aeon_bases import TAGS, ClassifierBase
from siggpde.estimators.classification import ClassifierMethods
from siggpde.series import PathOptions, Spectrogram


class SigGPClassifier(ClassifierMethods, ClassifierBase):
    """Gaussian processes with the signature kernel for classes of time series; the defaults need no tuning.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps. `fit` compares path transforms, scales and words by exact leave-one-out,
    trains the best of each kind and averages their probabilities.

    - `method`: "views" for the above; "paper" for SigGPDE as published: one model with the untruncated kernel, which is
      solved by its PDE, the first `n_features` words as inducing variables, and three phases of Nadam. It inverts and
      factorises nothing, and takes minutes rather than seconds.
    - `likelihood`: "auto" or "least_squares", in closed form. With method="paper" "softmax", "robustmax" or, for two
      classes, "bernoulli"; "auto" is then "robustmax", or "bernoulli" for two classes.
    - `views`: "auto" for all ways of looking at series, or a list of some of "linear", "path", "kernel", "lifted",
      "windows" and "spectrum", and of pairs (name, transformer): a transformer of your own with `fit` and `transform`,
      from series (n_cases, n_channels, n_timepoints) to features (n_cases, n_features). "auto" may be in the list too.
    - `members`: how many models are averaged at most; "auto" is eight, or five where all series then fit a small model,
      and one with method="paper".
    - `n_features`: at most so many signature features a model; "auto" is 2000, or 500 with method="paper", which takes
      just so many.
    - `transforms`: "auto", or `siggpde.series.PathOptions` (or a dictionary of its fields) to fix how paths are made.
    - `time_channel`: the channel of X that holds time stamps, which views of paths and kernels follow; "windows" and
      "spectrum" go by the order of points alone, so resample series whose steps differ much if rates within windows
      matter. `mask`: one channel more for each, which tells where it was observed; `max_points`: longer series are
      averaged down to so many points (None: never); `spectrogram`: a `siggpde.series.Spectrogram` (or a dictionary) for
      audio; `channel_names`: for explanations.
    - `class_weight`: None, "balanced", or a dictionary from label to weight.
    - `max_iter`: iterations of a phase of method="paper"; "auto" is 5000. `time_limit`: seconds, about, after which the
      best so far is taken.
    - `random_state`: None is 0, so that runs repeat. `n_jobs`: threads; -1 takes all cores, None torch's number.
    - `verbose`: 0 is silent; 1 tells how long a long fit takes and shows progress, in lines where there is no terminal.
    - `device`: where to compute, such as "cuda"; "auto" is the device of X where it is a tensor, else the CPU. `dtype`:
      of method="paper", "float64", "float32", or "auto": "float32" for very many series only.
    - `checkpoint`: with method="paper", a folder where the state of the fit is kept; with `resume=True` a fit goes on
      from there. Fits of method="views", which take seconds to minutes, keep none and start anew.
    - `cache_dir`: with method="paper", a folder where signatures are kept, so that the next fit of the same series
      need not compute them; method="views" keeps none.
    - `keep_series`: whether the fitted model may contain training series, the landmarks that its kernels compare with.
      False fits views with finite features only and keeps weights of these; where directions of the variance are too
      many for a model of 50 MB, those that tell least are left out, and variances are a little larger. Models of
      method="paper" never contain series.

    After `fit`: `classes_`, `n_classes_`, `n_channels_`, `channel_names_`, `length_range_`, `committee_` and
    `preparation_`.

    Examples:
        >>> from siggpde import SigGPClassifier
        >>> from siggpde.datasets import load_pendigits
        >>> digits = load_pendigits()
        >>> classifier = SigGPClassifier(n_features=200, members=1).fit(digits.X_train[:300], digits.y_train[:300])
        >>> classifier.predict_proba(digits.X_test[:5]).shape
        (5, 10)
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
        class_weight: Mapping[Any, float] | str | None = None,
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
        self.class_weight = class_weight
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
