"""Estimators from folders: `siggpde.load(path)`, and what predicts alone: `load_predictor(path)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from siggpde.estimators.classification import ClassifierMethods
from siggpde.estimators.persistence import restored
from siggpde.estimators.regression import RegressorMethods

if TYPE_CHECKING:
    from siggpde.estimators.classifier import SigGPClassifier
    from siggpde.estimators.regressor import SigGPRegressor

    Estimator = SigGPClassifier | SigGPRegressor
Predictor = ClassifierMethods | RegressorMethods


def load(
    path: str | os.PathLike[str], device: str | torch.device = "cpu", *, transformers: Mapping[str, Any] | None = None
) -> Estimator:
    """The estimator saved in a folder, on a device; on the one it was on, predictions are bitwise those it made.

    Nothing in the folder is executed. A folder that is damaged, was changed, or was written by a newer version raises
    `siggpde.persistence.ModelFileError`. Transformers of your own (`views=[("rocket", transformer)]`) are not saved
    with a model: `transformers` gives the fitted ones by the names of their views.

    The first prediction of a model takes longer than the next ones, for it looks at the landmark series first.
    """
    from siggpde.estimators.classifier import SigGPClassifier  # noqa: PLC0415 - scikit-learn takes long to import
    from siggpde.estimators.regressor import SigGPRegressor  # noqa: PLC0415

    kinds: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}
    return restored(path, device, transformers or {}, kinds)


def load_predictor(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Predictor:
    """As `siggpde.load`, but what predicts and explains is no estimator of scikit-learn, which takes long to import."""
    kinds = {"SigGPClassifier": ClassifierMethods, "SigGPRegressor": RegressorMethods}
    return restored(path, device, {}, {name: _with_settings(kind) for name, kind in kinds.items()})


def _with_settings(kind: Callable[[], Predictor]) -> Callable[..., Predictor]:
    def made(**settings: Any) -> Predictor:
        predictor = kind()
        vars(predictor).update(settings)
        return predictor

    return made
