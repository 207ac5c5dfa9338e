"""Estimators from folders: `siggpde.load(path)`. Loading executes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from siggpde.ensemble.committee import Committee, Member
from siggpde.ensemble.recalibration import Recalibration
from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.estimators.saving import STORED_ATTRIBUTES
from siggpde.paths import PathOptions, PathTransform, Preparation, Spectrogram
from siggpde.persistence import ModelFileError, model_from_state, read_folder

Estimator = SigGPClassifier | SigGPRegressor
_KINDS: dict[str, type[Estimator]] = {"SigGPClassifier": SigGPClassifier, "SigGPRegressor": SigGPRegressor}
_SETTINGS: dict[str, type[PathOptions] | type[Spectrogram]] = {"PathOptions": PathOptions, "Spectrogram": Spectrogram}


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
    found = {
        key: tuple(v) if isinstance(v, list) else v for key, v in facts["facts"].items() if key in STORED_ATTRIBUTES
    }
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


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "pairs":
        return {_from_plain(key): _from_plain(item) for key, item in content}
    return float(content) if kind == "number" else _SETTINGS[kind](**content)
