"""Estimators from folders: `siggpde.load(path)`. Loading executes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.estimators.restoring import restored

Estimator = SigGPClassifier | SigGPRegressor
_KINDS: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}


def load(
    path: str | os.PathLike[str],
    device: str | torch.device = "cpu",
    *,
    transformers: Mapping[str, Any] | None = None,
) -> Estimator:
    """The estimator saved in a folder, on a device; on the one it was on, predictions are bitwise those it made.

    Nothing in the folder is executed. A folder that is damaged, was changed, or was written by a newer version raises
    `siggpde.persistence.ModelFileError`. Transformers of your own (`views=[("rocket", transformer)]`) are not saved
    with a model: `transformers` gives the fitted ones by the names of their views.

    The first prediction of a model takes longer than the next ones, for it looks at the landmark series first.
    """
    return restored(path, device, transformers or {}, _KINDS)
