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
    """The estimator saved in a folder, on a device; on the one it was on, predictions are bitwise those it made.

    Nothing in the folder is executed. A folder that is damaged, was changed, or was written by a newer version raises
    `siggpde.persistence.ModelFileError`. Transformers of your own (`views=[("rocket", transformer)]`) are not saved:
    `transformers` gives the fitted ones by the names of their views. The first prediction takes longer than the next.
    """
    from siggpde.estimators.siggp import SigGPClassifier, SigGPRegressor  # noqa: PLC0415 - the bases take long to import

    kinds: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}
    return restored(path, device, transformers or {}, kinds)


def load_predictor(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Predictor:
    """As `siggpde.load`, but what predicts and explains is no estimator of scikit-learn, which takes long to import."""
    kinds: dict[str, type[Predictor]] = {"SigGPClassifier": SeriesClassifier, "SigGPRegressor": SeriesRegressor}
    return restored(path, device, {}, kinds)
