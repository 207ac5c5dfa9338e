"""SigGPClassifier and SigGPRegressor on the bases of aeon where it is installed, else scikit-learn's, which take a
second or two to import; `siggpde predict` takes the classes without them."""

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from siggpde.estimators.classifier import SeriesClassifier
from siggpde.estimators.regressor import SeriesRegressor

try:
    from aeon.classification.base import BaseClassifier  # pyright: ignore[reportAssignmentType]
    from aeon.regression.base import BaseRegressor  # pyright: ignore[reportAssignmentType]
except ImportError:

    class BaseClassifier(ClassifierMixin, BaseEstimator): ...

    class BaseRegressor(RegressorMixin, BaseEstimator): ...


class SigGPClassifier(SeriesClassifier, BaseClassifier):
    """Calibrated probabilities of classes of time series, by Gaussian processes; the defaults need no tuning.

    method="views" fits a committee. Views of the series (words of their signatures, signature kernels by their PDE,
    statistics of signatures over windows, the spectrum) give kernels between series and landmarks, which are all
    training series, or up to 1500 of them. Some thirty Gaussian processes, each with the mean of a few kernels, regress
    the classes in closed form, with noise and amplitude by exact leave-one-out. Up to eight of them are averaged with
    weights by their predictions of left-out series, to which the link from latents to probabilities is fitted too.

    method="paper" fits SigGPDE as published: one sparse variational Gaussian process with the untruncated signature
    kernel, the first `n_features` words as inducing variables, and three phases of Nadam. It inverts no matrix and
    takes minutes rather than seconds.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps.

    Parameters
    ----------
    method : {"views", "paper"}
        The model: the committee above, or SigGPDE as published.
    likelihood : {"auto", "least_squares", "softmax", "robustmax", "bernoulli"}
        With method="views" "auto" or "least_squares", the closed form. With method="paper" "robustmax", "softmax" or,
        for two classes, "bernoulli"; "auto" is then "robustmax", or "bernoulli" for two classes.
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
        How series become paths; a dictionary has fields of `PathOptions`. "auto" is several ways, each a view, or with
        method="paper" time and the channels, each of unit spread (`clock="points"`, no base point).
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
    class_weight : "balanced" or dict, optional
        What a series of each class counts: the same for all classes together, or a weight by label.
    max_iter : int or "auto"
        Iterations of each of the three phases of method="paper"; "auto" is 5000.
    batch_size : int or "auto"
        Series of a minibatch of method="paper"; "auto" is 50.
    learning_rate : float or "auto"
        The rate of Nadam, with method="paper"; "auto" is 0.001.
    evaluate_every : int or "auto"
        With method="paper", the iterations between two looks at the validation part, of which the best state is kept;
        "auto" is a twentieth of `max_iter`.
    validation : float, pair of lists of int or "auto"
        With method="paper", the share of the series that judges the hyperparameters, or the numbers of the series for
        training and for validation; "auto" is 0.2. With groups, the share is of whole groups.
    theta : float, list of float or "auto"
        With method="paper", the scales of the channels of the path, time first, that training starts from. "auto" are
        those of the paper's experiments, about 1 / sqrt(2 d) of d channels; a warning is logged if they are lowered
        because k(X, X) of a series would exceed e^10.
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
    related : {"group", "ignore", "error"}
        What `fit` without `groups` does with series that are equal, nearly equal or overlapping in time, if these are
        at least half of all: with "group" copies count once, each family is left out as one group, and a warning says
        so (method="views"). With "error" any of them, and with `groups` those of different groups, are refused.
    exact : int
        Of at most so many training series, all count for the members that gain by it (method="views"); of more, and for
        other members, landmarks stand for all. 0 is quickest.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The labels, sorted; columns of probabilities are in this order.
    n_classes_ : int
    committee_ : siggpde.committee.committee.Committee
        The fitted model, on standardised series.
    preparation_ : siggpde.series.Preparation
        How X becomes series without gaps.
    n_channels_ : int
    channel_names_ : tuple of str
        "channel 0" and so on unless `channel_names` was given.
    length_range_ : tuple of int
        Points of the shortest and of the longest series of `fit` and `partial_fit`.
    n_series_ : int
        Series of `fit` and `partial_fit`.
    n_groups_ : int or None
    facts_ : tuple of siggpde.views.facts.Fact
        Names, and levels of categories, of the facts of `fit`; empty without any.
    n_iter_ : int
        1 for the closed form.
    n_features_in_ : int
        Columns of X, where it was a 2-D array.
    tried_ : tuple of list
        Name, leave-one-out loss and weight of every candidate of method="views".
    summary_ : dict
        The number of series by label, and how well left-out series are predicted.
    fingerprint_ : str
        Hash of the training data.
    seconds_ : float
        Time that `fit` took.

    See Also
    --------
    SigGPRegressor : the same for numbers.

    Examples
    --------
    >>> from siggpde import SigGPClassifier
    >>> from siggpde.datasets import load_pendigits
    >>> digits = load_pendigits()
    >>> classifier = SigGPClassifier(n_features=200, members=1).fit(digits.X_train[:300], digits.y_train[:300])
    >>> classifier.predict_proba(digits.X_test[:5]).shape
    (5, 10)
    >>> classifier.score(digits.X_test[:200], digits.y_test[:200]) > 0.9
    True
    """


class SigGPRegressor(SeriesRegressor, BaseRegressor):
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
        Of "linear", "path", "kernel", "lifted", "windows", "spectrum" and pairs (name, transformer); see
        `SigGPClassifier`. "auto", alone or in the list, stands for all kinds.
    members, n_features, transforms, time_channel, mask, max_points, spectrogram, channel_names, max_iter : optional
    batch_size, learning_rate, evaluate_every, validation, theta : optional
    time_limit, random_state, n_jobs, verbose, device, dtype, checkpoint, resume, cache_dir, keep_series : optional
    related, exact : optional
        The parameters from `members` on are those of `SigGPClassifier`.

    Attributes
    ----------
    target_shift_, target_scale_ : float
        Mean and standard deviation of the targets of `fit`, by which they are standardised; 0 and 1 for counts.
    summary_ : dict
        Mean and standard deviation of the targets of `fit` and `partial_fit`, and the errors for left-out series.
    committee_, preparation_ : Committee, Preparation
    n_channels_, n_series_, n_groups_, n_iter_, n_features_in_ : int
    channel_names_, length_range_, tried_, facts_ : tuple
    fingerprint_, seconds_ : str, float
        The attributes from `committee_` on are those of `SigGPClassifier`.

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
