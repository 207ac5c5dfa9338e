"""SigGPRegressor: numbers from time series, with intervals that can be trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from siggpde.estimators.aeon_bases import TAGS, RegressorBase
from siggpde.estimators.regression import RegressorMethods
from siggpde.series import PathOptions, Spectrogram


class SigGPRegressor(RegressorMethods, RegressorBase):
    """Numbers that go with time series, with intervals, by Gaussian processes; the defaults need no tuning.

    method="views" fits a committee as that of `SigGPClassifier`: Gaussian processes on views of the series, in closed
    form, averaged with weights by their predictions of left-out series. Predictions are mixtures of the members' normal
    distributions, whose tails are recalibrated on left-out series too. method="paper" fits SigGPDE as published, with
    one of three likelihoods, trained by Nadam.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps.
    Targets are standardised for the fit, except counts; all results are in the units of y.

    Parameters
    ----------
    method : {"views", "paper"}
        The model: the committee above, or SigGPDE as published.
    likelihood : {"auto", "gaussian", "student_t", "poisson"}
        "auto" is "gaussian", which method="views" has in closed form. With method="paper" also "student_t" for
        outliers and "poisson" for counts.
    views : "auto" or list
        Kinds of views, of "linear", "path", "kernel", "lifted", "windows" and "spectrum", and pairs
        (name, transformer), where the transformer has `fit` and `transform` from series (n_cases, n_channels,
        n_timepoints) to features (n_cases, n_features). "auto", alone or in the list, stands for all kinds.
    members : int or "auto"
        Largest number of Gaussian processes that are averaged. "auto" is eight, or five where only then all series can
        be landmarks of a small model; method="paper" has one.
    n_features : int or "auto"
        With method="paper" the number of words, 500 for "auto". With method="views" a bound on the words of a view of
        paths, which are never more than 800.
    transforms : "auto", siggpde.series.PathOptions or dict
        How series become paths; a dictionary has fields of `PathOptions`. "auto" is several ways, each a view, or time
        and the channels with method="paper".
    time_channel : int, optional
        The channel of X that holds time stamps. Views of paths and kernels follow them; views of windows and of the
        spectrum go by the order of points, so resample series whose steps differ much.
    mask : bool
        Whether each channel gets another one, which is 1 where the channel was observed and 0 in gaps.
    max_points : int or None
        Longer series are averaged down to so many points; None leaves them as they are.
    spectrogram : siggpde.series.Spectrogram or dict, optional
        For audio: every channel is replaced by its spectrogram.
    channel_names : list of str, optional
        Names of the channels of X, for explanations.
    max_iter : int or "auto"
        Iterations of each of the three phases of method="paper"; "auto" is 5000.
    time_limit : float, optional
        Seconds that `fit` takes at most, about: views, landmarks and members, or the rest of the phases of
        method="paper", are left out for which there is no time.
    random_state : int, RandomState or Generator, optional
        Seed; None is 0, so that runs repeat.
    n_jobs : int or None
        Threads: -1 takes all cores, None torch's number.
    verbose : int
        0 is silent; 1 announces how long a long fit takes and shows progress.
    device : str
        Where to compute, such as "cuda"; "auto" is the device of X where it is a tensor, otherwise the CPU.
    dtype : {"auto", "float64", "float32"}
        Of method="paper"; "auto" is float32 for very many series only.
    checkpoint : path, optional
        With method="paper", the folder that keeps the state of a fit under way; method="views" keeps none.
    resume : bool
        Whether `fit` goes on from `checkpoint`. A fit of method="views" always starts from the beginning.
    cache_dir : path, optional
        With method="paper", the folder that keeps signatures for the next fit of the same series.
    keep_series : bool
        Whether the fitted model may contain training series, the landmarks. False leaves out the views "kernel" and
        "lifted", and variances may be a little larger. Models of method="paper" never contain series.

    Attributes
    ----------
    target_shift_, target_scale_ : float
        Mean and standard deviation of the targets of `fit`, by which they are standardised; 0 and 1 for counts.
    committee_ : siggpde.committee.committee.Committee
        The fitted model, on standardised series.
    preparation_ : siggpde.series.Preparation
        How X becomes series without gaps.
    n_channels_ : int
        Channels of X.
    channel_names_ : tuple of str
        Their names, "channel 0" and so on unless `channel_names` was given.
    length_range_ : tuple of int
        Points of the shortest and of the longest series of `fit` and `partial_fit`.
    n_series_ : int
        Series of `fit` and `partial_fit`.
    n_groups_ : int or None
        Groups of `fit`; None where none were given.
    n_iter_ : int
        Iterations; 1 for the closed form.
    n_features_in_ : int
        Columns of X, where it was a 2-D array.
    tried_ : tuple of list
        Name, leave-one-out loss and weight of every candidate of method="views".
    summary_ : dict
        Mean and standard deviation of the targets of `fit` and `partial_fit`.
    fingerprint_ : str
        Hash of the training data.
    seconds_ : float
        Time that `fit` took.

    See Also
    --------
    SigGPClassifier : the same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from siggpde import SigGPRegressor
    >>> series = np.random.default_rng(0).normal(size=(60, 1, 20)).cumsum(axis=2)
    >>> regressor = SigGPRegressor(n_features=100, members=1).fit(series, series[:, 0, -1])
    >>> mean, std = regressor.predict(series[:3], return_std=True)
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
