"""Estimators as folders: `estimator.save(path)` and `siggpde.load(path)`.

The folder has the tensors of every member, a manifest with everything else (format, settings, preparation, labels,
words, likelihoods, versions, the fingerprint of the training data) and a card for people. Loading executes nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from siggpde.ensemble.committee import Committee, Member
from siggpde.ensemble.recalibration import Recalibration
from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.paths import PathOptions, PathTransform, Preparation, Spectrogram
from siggpde.persistence import ModelFileError, model_card, model_from_state, model_state, read_folder, write_folder

Estimator = SigGPClassifier | SigGPRegressor
_KINDS: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}
_SETTINGS: dict[str, type[PathOptions] | type[Spectrogram]] = {"PathOptions": PathOptions, "Spectrogram": Spectrogram}
_FACTS = (
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
    if _KINDS.get(name) is not type(estimator):
        raise ValueError(f"{name} is not an estimator of siggpde itself, so its code cannot be saved")
    tensors: dict[str, torch.Tensor] = {"weights": estimator.committee_.weights}
    members = []
    for place, member in enumerate(estimator.committee_.members):
        own, settings = model_state(member.model)
        tensors |= {f"member{place}.{key}": value for key, value in own.items()}
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
    facts = {
        "estimator": name,
        "parameters": {key: _plain(value) for key, value in estimator.get_params(deep=False).items()},
        "facts": {key: getattr(estimator, key) for key in _FACTS if hasattr(estimator, key)},
        "preparation": estimator.preparation_.state(),
        "members": members,
    }
    if estimator.committee_.recalibration is not None:
        facts["recalibration"] = asdict(estimator.committee_.recalibration)
    facts["sharpness"] = estimator.committee_.sharpness
    if isinstance(estimator, SigGPClassifier):
        facts["classes"] = {"dtype": estimator.classes_.dtype.str, "values": estimator.classes_.tolist()}
    write_folder(path, tensors, facts, _card(estimator, path), force=force)


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Estimator:
    """The estimator saved in a folder, on a device; on the one it was on, predictions are bitwise those it made.

    Nothing in the folder is executed. A folder that is damaged, was changed, or was written by a newer version raises
    `siggpde.persistence.ModelFileError`.
    """
    tensors, facts = read_folder(path)
    try:
        estimator = _restored(tensors, facts)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(
            f"{os.fspath(path)} holds no estimator that this version can read "
            f"({type(error).__name__}: {error}); save it again with `estimator.save`"
        ) from error
    return estimator.to("cpu" if device == "auto" else device)


def _restored(tensors: dict[str, torch.Tensor], facts: Mapping[str, Any]) -> Estimator:
    name = facts["estimator"]
    if name not in _KINDS:
        raise ModelFileError(f"the model is a {name!r}, which this version does not know; upgrade siggpde")
    parameters = {key: _from_plain(value) for key, value in facts["parameters"].items()}
    estimator = _KINDS[name](**parameters)
    members = []
    for place, stored in enumerate(facts["members"]):
        prefix = f"member{place}."
        own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        model = model_from_state(own, stored["model"])
        transform = PathTransform.from_state(stored["transform"])
        members.append(Member(transform, model, dict(stored["settings"]), stored["score"]))
    weights = tensors["weights"]
    if len(members) == 0 or weights.shape != (len(members),):
        raise ModelFileError(f"there are {len(members)} members but weights of shape {tuple(weights.shape)}")
    recalibration = facts.get("recalibration")
    recalibration = None if recalibration is None else Recalibration(**recalibration)
    found = {key: tuple(v) if isinstance(v, list) else v for key, v in facts["facts"].items() if key in _FACTS}
    found["committee_"] = Committee(members, weights, recalibration, float(facts.get("sharpness", 1.0)))
    found["preparation_"] = Preparation.from_state(facts["preparation"])
    if isinstance(estimator, SigGPClassifier):
        classes = np.array(facts["classes"]["values"], dtype=np.dtype(facts["classes"]["dtype"]))
        if any(getattr(member.model.likelihood, "classes", None) != len(classes) for member in members):
            raise ModelFileError(f"there are {len(classes)} labels but other classes in the model")
        found |= {"classes_": classes, "n_classes_": len(classes)}
        found["_class_dictionary"] = {label: place for place, label in enumerate(classes)}
    estimator._become(found)
    return estimator


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; a random generator, which nothing but its own draws describes, as None."""
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


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "pairs":
        return {_from_plain(key): _from_plain(item) for key, item in content}
    return float(content) if kind == "number" else _SETTINGS[kind](**content)


def _card(estimator: Estimator, path: str | os.PathLike[str]) -> str:
    members = estimator.committee_.members
    first = members[0]
    summary = dict(getattr(estimator, "summary_", {}))
    shown = os.path.basename(os.fspath(path)) or "model"
    settings = {
        "likelihood": type(first.model.likelihood).__name__,
        "Models averaged": len(members),
        "Their weights": ", ".join(f"{weight:.2f}" for weight in estimator.committee_.weights.tolist()),
        "words": ", ".join(str(len(member.model.features.words)) for member in members),
        "directions": ", ".join(str(member.model.features.size) for member in members),
    }
    settings |= first.settings["options"]
    settings["path_length"] = first.settings["path_length"]
    exact = first.model.likelihood.is_gaussian
    scores = {
        f"{'Leave-one-out' if exact else 'Validation'} NLPP of the best member": first.score,
        "seconds": getattr(estimator, "seconds_", None),
    }
    return model_card(
        {
            "title": f"{type(estimator).__name__}, {shown}",
            "kind": "classification" if isinstance(estimator, SigGPClassifier) else "regression",
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
