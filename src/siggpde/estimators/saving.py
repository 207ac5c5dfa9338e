"""Estimators as folders: `estimator.save(path)`.

The folder has the tensors of every member, a manifest with everything else (format, settings, preparation, labels,
views or words, versions, the fingerprint of the training data) and a card for people.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from siggpde.committee.committee import Committee
from siggpde.estimators.settings import STORED_ATTRIBUTES
from siggpde.persistence import flatten_state, write_folder
from siggpde.report.card import model_card
from siggpde.series import PathOptions, Spectrogram


def save_estimator(estimator: Any, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Writes a fitted estimator; an older model in the folder stays whole until the new one is there."""
    estimator._check_fitted()
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("siggpde.estimators."):
        raise ValueError(f"{name} is not an estimator of siggpde itself, so its code cannot be saved")
    tensors, model = _stored(estimator.committee_)
    manifest = {
        "estimator": name,
        "parameters": {key: _plain(value) for key, value in estimator.get_params(deep=False).items()},
        "facts": {key: getattr(estimator, key) for key in STORED_ATTRIBUTES if hasattr(estimator, key)},
        "preparation": estimator.preparation_.state(),
        **model,
    }
    if hasattr(estimator, "classes_"):
        manifest["classes"] = {"dtype": estimator.classes_.dtype.str, "values": estimator.classes_.tolist()}
    write_folder(path, tensors, manifest, model_card(estimator, path), force=force)


def _stored(committee: Committee) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a committee, and its entries of the manifest."""
    state = committee.state()
    if committee.method == "views":
        plain, tensors = flatten_state(state, "committee")
        return tensors, {"committee": plain}
    tensors = state.pop("tensors")
    if "novelty" in state:
        state["novelty"], more = flatten_state(state["novelty"], "novelty")
        tensors |= more
    return tensors, state


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; None for a random generator, which has no such form.

    Of a view of the user's own, (name, transformer), only the name is written.
    """
    if isinstance(value, PathOptions | Spectrogram):
        return {type(value).__name__: asdict(value)}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[1], "transform"):
        return {"transformer": str(value[0])}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None
