"""Estimators as folders: the tensors of every member, a manifest with everything else, and a card for people."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from siggpde.committee.committee import Committee, ViewCommittee
from siggpde.estimators.settings import STORED_ATTRIBUTES, usable_device
from siggpde.estimators.targets import class_attributes
from siggpde.persistence import ModelFileError, flatten_state, read_folder, restore_state, write_folder
from siggpde.persistence.model_schema import check_model
from siggpde.persistence.nested import references
from siggpde.persistence.schema import SchemaError
from siggpde.series import PathOptions, Preparation, Spectrogram
from siggpde.views.facts import facts_of
from siggpde.views.kinds import check_transformers

if TYPE_CHECKING:
    from siggpde.estimators.base import SeriesEstimator

T = TypeVar("T", bound="SeriesEstimator")
_SETTINGS: dict[str, type[PathOptions] | type[Spectrogram]] = {"PathOptions": PathOptions, "Spectrogram": Spectrogram}


def save_estimator(estimator: Any, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Writes a fitted estimator; an older model in the folder stays whole until the new one is there."""
    from siggpde.report.card import model_card  # noqa: PLC0415 - loading needs none

    estimator._check_fitted()
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("siggpde.estimators."):
        raise ValueError(f"{name} is not an estimator of siggpde itself, so its code cannot be saved")
    committee: Committee = estimator.committee_
    model = committee.state()
    if committee.method == "views":
        plain, tensors = flatten_state(model, "committee")
        model = {"committee": plain}
    else:
        tensors = model.pop("tensors")
        if "novelty" in model:
            model["novelty"], more = flatten_state(model["novelty"], "novelty")
            tensors |= more
    known = {key for key, value in vars(estimator).items() if key != "facts_" or value}
    manifest = {
        "estimator": name,
        "parameters": {key: _to_plain(value) for key, value in estimator.get_params(deep=False).items()},
        "facts": {key: getattr(estimator, key) for key in STORED_ATTRIBUTES if key in known},
        "preparation": estimator.preparation_.state(),
        **model,
    }
    if hasattr(estimator, "classes_"):
        classes = estimator.classes_
        plain = classes.astype(np.int64) if classes.dtype.kind in "mM" else classes  # dates as numbers of their unit
        manifest["classes"] = {"dtype": classes.dtype.str, "values": plain.tolist()}
    write_folder(path, tensors, manifest, model_card(estimator, path), force=force)


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
    if isinstance(members := manifest.get("members"), list) and len(members) > 1:
        raise ModelFileError(
            f"{os.fspath(path)} averages {len(members)} models of words, which this version does not have; fit it anew"
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
    nested = {name: manifest[name] for name in ("committee", "novelty") if name in manifest}
    state = {**manifest, **restore_state(nested, tensors)}
    others = {name: tensors[name] for name in tensors.keys() - references(nested)}
    check_model(state, others)
    parameters = {key: _from_plain(value, transformers) for key, value in manifest["parameters"].items()}
    estimator = kinds[name](**parameters)
    attributes = {
        key: tuple(v) if isinstance(v, list) else v for key, v in manifest["facts"].items() if key in STORED_ATTRIBUTES
    }
    attributes["facts_"] = facts_of(attributes.get("facts_", ()))
    if "committee" in state:
        try:
            check_transformers(state["committee"]["blocks"], transformers)
        except ValueError as error:
            raise ModelFileError(str(error)) from error
        committee: Committee = ViewCommittee.from_state(state["committee"], transformers)
    else:
        from siggpde.estimators.paper_method import PaperModel  # noqa: PLC0415 - most models are of views

        of_member = {name.removeprefix("member0."): part for name, part in others.items() if name != "weights"}
        committee = PaperModel.from_state(state, of_member)
    attributes["committee_"] = committee
    attributes["preparation_"] = Preparation.from_state(manifest["preparation"])
    if "classes" in manifest:
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


def _to_plain(value: Any) -> Any:
    """A setting as JSON can hold it; None for a random generator, and of a user's own view only the name."""
    if isinstance(value, PathOptions | Spectrogram):
        return {type(value).__name__: asdict(value)}
    if isinstance(value, Mapping):
        return {"pairs": [[_to_plain(key), _to_plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[1], "transform"):
        return {"transformer": str(value[0])}
    if isinstance(value, np.generic):
        return _to_plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, list | tuple | np.ndarray):
        return [_to_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None


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
