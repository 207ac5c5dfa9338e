"""Estimators from folders: `siggpde.load(path)`, and what predicts alone: `load_predictor(path)`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from siggpde.estimators.classifier import SeriesClassifier
from siggpde.estimators.persistence import restored
from siggpde.estimators.regressor import SeriesRegressor

if TYPE_CHECKING:
    from siggpde.estimators.siggp import SigGPClassifier, SigGPRegressor

    Estimator = SigGPClassifier | SigGPRegressor
Predictor = SeriesClassifier | SeriesRegressor


def load(
    path: str | os.PathLike[str], device: str | torch.device = "cpu", *, transformers: Mapping[str, Any] | None = None
) -> Estimator:
    """Loads the estimator saved in a folder; on the device it was on, it predicts bitwise what it did.

    Nothing in the folder is executed. The first prediction takes longer than the next.

    Parameters
    ----------
    path : path
        The folder that `estimator.save` wrote.
    device : str or torch.device
        Where the model is to compute.
    transformers : dict, optional
        The fitted transformers of your own views (`views=[("rocket", transformer)]`), by the names of the views: they
        are not saved.

    Returns
    -------
    SigGPClassifier or SigGPRegressor
        The fitted estimator.

    Raises
    ------
    siggpde.persistence.ModelFileError
        The folder is damaged, was changed, or was written by another format of siggpde.

    Examples
    --------
    >>> import numpy as np, siggpde, tempfile
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> X = np.arange(24.0).reshape(6, 1, 4) % 5
    >>> classifier = siggpde.SigGPClassifier().fit(X, list("ababab"))
    >>> _ = classifier.save(folder)
    >>> bool((siggpde.load(folder).predict_proba(X) == classifier.predict_proba(X)).all())
    True
    """
    from siggpde.estimators.siggp import SigGPClassifier, SigGPRegressor  # noqa: PLC0415 - the bases take long to import

    kinds: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}
    return restored(path, device, transformers or {}, kinds)


def load_predictor(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Predictor:
    """As `siggpde.load`, but what predicts and explains is no estimator of scikit-learn, which takes long to import."""
    kinds: dict[str, type[Predictor]] = {"SigGPClassifier": SeriesClassifier, "SigGPRegressor": SeriesRegressor}
    return restored(path, device, {}, kinds)
