"""The settings of an estimator, checked when `fit` is called: how a committee is fitted, and how X is prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from siggpde.estimators.fitting import FitSettings
from siggpde.estimators.paper_method import check_paper_settings
from siggpde.estimators.settings import (
    DEFAULT_FEATURES,
    DEFAULT_ITERATIONS,
    DTYPES,
    at_least,
    auto_or_at_least,
    from_fields,
    method_of,
    optional_folder,
    path_options,
    seed_of,
    time_limit,
)
from siggpde.estimators.views_method import chosen_views
from siggpde.gp.likelihood_names import LikelihoodName
from siggpde.series import Preparation, Spectrogram


def fit_settings(estimator: Any, classes: int | None, class_weight: tuple[float, ...] | None) -> FitSettings:
    """The settings of an estimator for this number of classes, None for numbers; a ValueError says which is wrong."""
    likelihood, dtype, members = estimator.likelihood, estimator.dtype, estimator.members
    if likelihood not in estimator.likelihoods:
        names = ", ".join(map(repr, estimator.likelihoods))
        raise ValueError(f"likelihood must be one of {names}, got {likelihood!r}")
    if likelihood == "bernoulli" and classes != 2:
        raise ValueError(f"likelihood='bernoulli' is for two classes, y has {classes}; take 'softmax'")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {dtype!r}")
    if estimator.resume and estimator.checkpoint is None:
        raise ValueError("resume=True needs the folder to go on from: give checkpoint=")
    if not isinstance(estimator.keep_series, bool | np.bool_):
        raise ValueError(f"keep_series must be True or False, got {estimator.keep_series!r}")
    keep_series = bool(estimator.keep_series)
    method = method_of(estimator.method)
    if method == "paper":
        check_paper_settings(likelihood, members)
    elif not LikelihoodName(likelihood).closed_form:
        raise ValueError(
            f"likelihood={likelihood!r} has no closed form, which method='views' needs: take method='paper', which "
            "trains it (as siggpde.SignatureGP with siggpde.fit does), or likelihood='auto'"
        )
    return FitSettings(
        likelihood=likelihood,
        members=None if isinstance(members, str) and members == "auto" else at_least("members", members, 1),
        n_features=auto_or_at_least("n_features", estimator.n_features, 2, DEFAULT_FEATURES[method]),
        options=path_options(estimator.transforms),
        class_weight=class_weight,
        max_iter=auto_or_at_least("max_iter", estimator.max_iter, 1, DEFAULT_ITERATIONS),
        time_limit=time_limit(estimator.time_limit),
        seed=seed_of(estimator.random_state),
        dtype=DTYPES[dtype],
        progress=None if estimator.verbose else False,
        checkpoint=optional_folder("checkpoint", estimator.checkpoint),
        resume=bool(estimator.resume),
        cache_dir=optional_folder("cache_dir", estimator.cache_dir),
        views=chosen_views(estimator.views, keep_series),
        keep_series=keep_series,
    )


def preparation_of(estimator: Any) -> Preparation:
    """How the estimator makes series of X, to be fitted."""
    spectrogram = estimator.spectrogram
    if isinstance(spectrogram, Mapping):
        spectrogram = from_fields("spectrogram", Spectrogram, spectrogram)
    return Preparation(
        time_channel=estimator.time_channel,
        mask=estimator.mask,
        max_points=estimator.max_points,
        spectrogram=spectrogram,
    )
