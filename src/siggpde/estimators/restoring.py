"""What can predict, from the folder of a saved estimator: `load_predictor(path)`. Loading executes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from siggpde.committee.committee import Committee, ViewCommittee
from siggpde.estimators.base import SeriesEstimator
from siggpde.estimators.classification import ClassifierMethods, class_attributes
from siggpde.estimators.regression import RegressorMethods
from siggpde.estimators.settings import STORED_ATTRIBUTES, usable_device
from siggpde.persistence import (
    ModelFileError,
    read_folder,
    restore_state,
)
from siggpde.persistence.estimator_schema import check_committee, check_estimator, check_novelty, check_words
from siggpde.persistence.nested import references
from siggpde.persistence.schema import Place, SchemaError
from siggpde.series import PathOptions, Preparation, Spectrogram
from siggpde.views.saved import check_transformers

Predictor = ClassifierMethods | RegressorMethods
T = TypeVar("T", bound=SeriesEstimator)
_SETTINGS: dict[str, type[PathOptions] | type[Spectrogram]] = {"PathOptions": PathOptions, "Spectrogram": Spectrogram}


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


def restored(
    path: str | os.PathLike[str],
    device: str | torch.device,
    transformers: Mapping[str, Any],
    kinds: Mapping[str, Callable[..., T]],
) -> T:
    """The estimator in a folder, on a device; `kinds` makes one of its settings, by the name of its class."""
    tensors, manifest = read_folder(path)
    if isinstance(views := manifest.get("committee"), dict) and views.get("kind") == "variational":
        raise ModelFileError(
            f"{os.fspath(path)} holds a model of method='views' with a likelihood without closed form, which this "
            "version does not have; fit it anew with method='paper', or with likelihood='auto'"
        )
    try:
        estimator = _restored(tensors, manifest, transformers, kinds)
    except ModelFileError:
        raise
    except SchemaError as error:
        raise ModelFileError(
            f"{os.fspath(path)} holds a model that cannot be right: {error}; it was changed, or written by another "
            "version: save it again with `estimator.save`"
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError) as error:
        raise ModelFileError(
            f"{os.fspath(path)} holds no estimator that this version can read "
            f"({type(error).__name__}: {error}); save it again with `estimator.save`"
        ) from error
    wanted = usable_device("cpu" if device == "auto" else device)
    return estimator if wanted == estimator.committee_.device else estimator.to(wanted)


def _restored(
    tensors: dict[str, torch.Tensor],
    manifest: Mapping[str, Any],
    transformers: Mapping[str, Any],
    kinds: Mapping[str, Callable[..., T]],
) -> T:
    name = manifest["estimator"]
    if not isinstance(name, str) or name not in kinds:
        raise ModelFileError(f"the model is a {name!r:.80}, which this version does not know; upgrade siggpde")
    place = check_estimator(manifest)
    parameters = {key: _from_plain(value, transformers) for key, value in manifest["parameters"].items()}
    estimator = kinds[name](**parameters)
    attributes = {
        key: tuple(v) if isinstance(v, list) else v for key, v in manifest["facts"].items() if key in STORED_ATTRIBUTES
    }
    if "committee" in manifest:
        committee = _views(tensors, manifest, transformers, place)
    else:
        committee = _paper_model(tensors, manifest, place)
    attributes["committee_"] = committee
    attributes["preparation_"] = Preparation.from_state(manifest["preparation"])
    if isinstance(estimator, ClassifierMethods):
        classes = np.array(manifest["classes"]["values"], dtype=np.dtype(manifest["classes"]["dtype"]))
        if committee.classes != len(classes):
            raise ModelFileError(f"there are {len(classes)} labels but other classes in the model")
        if len(set(classes.tolist())) != len(classes):
            raise ModelFileError("a label is there twice")
        attributes |= class_attributes(classes)
    elif committee.classes is not None:
        raise ModelFileError("the model is a regressor, but its committee is one of classes")
    estimator._set_fitted(attributes)
    return estimator


def _views(
    tensors: dict[str, torch.Tensor], manifest: Mapping[str, Any], transformers: Mapping[str, Any], place: Place
) -> ViewCommittee:
    plain = manifest["committee"]
    state = restore_state(plain, tensors)
    check_committee(state, manifest, place)
    unused = tensors.keys() - references(plain)
    if unused:
        raise SchemaError(f"the tensor {min(unused)!r:.80} belongs to no part of the model")
    try:
        check_transformers(state["blocks"], transformers)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    return ViewCommittee.from_state(state, transformers)


def _paper_model(tensors: dict[str, torch.Tensor], manifest: Mapping[str, Any], place: Place) -> Committee:
    from siggpde.estimators.paper_model import PaperModel  # noqa: PLC0415 - most models are of views

    (state, *_) = check_words(tensors, manifest, place)
    novelty = {}
    if "novelty" in manifest:
        novelty = {"novelty": restore_state(manifest["novelty"], tensors)}
        check_novelty(novelty["novelty"], place)
    return PaperModel.from_state({**manifest, **novelty}, state)


def _from_plain(value: Any, transformers: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_from_plain(item, transformers) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "pairs":
        return {_from_plain(key, transformers): _from_plain(item, transformers) for key, item in content}
    if kind == "transformer":
        return content, transformers.get(content)
    return float(content) if kind == "number" else _SETTINGS[kind](**content)
