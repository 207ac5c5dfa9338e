"""Estimators as folders: `estimator.save(path)`.

The folder has the tensors of every member, a manifest with everything else (format, settings, preparation, labels,
words, likelihoods, versions, the fingerprint of the training data) and a card for people.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from siggpde.estimators.paper_method import PAPER_MODEL
from siggpde.paths import PathOptions, Spectrogram
from siggpde.persistence import model_card, model_state, write_folder

STORED_ATTRIBUTES = (
    "channel_names_",
    "n_channels_",
    "length_range_",
    "fingerprint_",
    "n_series_",
    "n_iter_",
    "n_features_in_",
    "seconds_",
    "summary_",
    "reading_",
    "target_shift_",
    "target_scale_",
)


def save_estimator(estimator: Any, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Writes a fitted estimator; an older model in the folder stays whole until the new one is there."""
    estimator._check_fitted()
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("siggpde.estimators."):
        raise ValueError(f"{name} is not an estimator of siggpde itself, so its code cannot be saved")
    tensors: dict[str, torch.Tensor] = {"weights": estimator.committee_.weights}
    members = []
    for index, member in enumerate(estimator.committee_.members):
        model_tensors, settings = model_state(member.model)
        tensors |= {f"member{index}.{key}": value for key, value in model_tensors.items()}
        history = None if member.history is None else {"phases": member.history.phase_seconds}
        members.append(
            {
                "model": settings,
                "transform": member.transform.state(),
                "settings": member.settings,
                "score": member.score,
                "history": history,
            }
        )
    manifest = {
        "estimator": name,
        "parameters": {key: _plain(value) for key, value in estimator.get_params(deep=False).items()},
        "facts": {key: getattr(estimator, key) for key in STORED_ATTRIBUTES if hasattr(estimator, key)},
        "preparation": estimator.preparation_.state(),
        "members": members,
    }
    if estimator.committee_.recalibration is not None:
        manifest["recalibration"] = asdict(estimator.committee_.recalibration)
    manifest["sharpness"] = estimator.committee_.sharpness
    if hasattr(estimator, "classes_"):
        manifest["classes"] = {"dtype": estimator.classes_.dtype.str, "values": estimator.classes_.tolist()}
    write_folder(path, tensors, manifest, _card(estimator, path), force=force)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; None for a random generator, which has no such form."""
    if isinstance(value, PathOptions | Spectrogram):
        return {type(value).__name__: asdict(value)}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
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


def _card(estimator: Any, path: str | os.PathLike[str]) -> str:
    members = estimator.committee_.members
    first = members[0]
    summary = dict(getattr(estimator, "summary_", {}))
    shown = os.path.basename(os.fspath(path)) or "model"
    by_the_paper = first.settings.get("method") == "paper"
    settings = {
        "method": f"paper ({PAPER_MODEL})" if by_the_paper else "views",
        "likelihood": type(first.model.likelihood).__name__,
        "Models averaged": len(members),
        "Their weights": ", ".join(f"{weight:.2f}" for weight in estimator.committee_.weights.tolist()),
        "words": ", ".join(str(len(member.model.features.words)) for member in members),
        "directions": ", ".join(str(member.model.features.size) for member in members),
    }
    settings |= first.settings["options"]
    settings["path_length"] = first.settings.get("path_length")
    exact = first.model.likelihood.is_gaussian
    judged = f"{'Leave-one-out' if exact else 'Validation'} NLPP of the best member"
    scores = {"nlpp" if by_the_paper else judged: first.score, "seconds": getattr(estimator, "seconds_", None)}
    return model_card(
        {
            "title": f"{type(estimator).__name__}, {shown}",
            "kind": "classification" if hasattr(estimator, "classes_") else "regression",
            "data": {
                "series": estimator.n_series_,
                "channels": estimator.n_channels_,
                "channel_names": list(estimator.channel_names_),
                "lengths": tuple(estimator.length_range_),
                **summary,
            },
            "settings": settings,
            "scores": scores,
            "path": shown,
            "command": f"siggpde predict {shown} new-series.csv",
        }
    )
