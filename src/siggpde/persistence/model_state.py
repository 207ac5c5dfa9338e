"""A SignatureGP as tensors and settings, with the layouts of tensors, so that its predictions are bitwise the same."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.model import SignatureGP
from siggpde.numerics.words import Word, count_up_to
from siggpde.persistence.manifest import ModelFileError
from siggpde.persistence.model_schema import GP_SETTINGS, GP_TENSORS
from siggpde.persistence.nested import contiguous, with_order
from siggpde.persistence.schema import Place, check

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_BASIS = "features.basis"
_FIX = "save the model again"


def model_state(model: SignatureGP) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, which share the model's memory, and the settings (ready for JSON) for `model_from_state`."""
    kernel, features = model.kernel, model.features
    for module, kind in ((model, SignatureGP), (kernel, SignatureKernel), (features, OrthogonalSignatureFeatures)):
        if type(module) is not kind:
            raise ValueError(f"{type(module).__name__} is not {kind.__name__} itself, so its code cannot be saved")
    likelihood, kind = model.likelihood.settings(), type(model.likelihood)
    if not likelihood["name"]:
        raise ValueError(f"{kind.__name__} cannot be saved: it has no name; take one of siggpde.likelihoods")
    try:
        again = type(Likelihood.from_settings(likelihood))
    except ValueError as error:
        raise ValueError(f"the likelihood cannot be saved: {error}") from error
    if again is not kind:
        raise ValueError(f"{kind.__name__} cannot be saved: the name in its settings is that of {again.__name__}")
    tensors: dict[str, Tensor] = {}
    layouts: dict[str, list[int]] = {}
    for name, value in model.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ValueError(
                f"{name} of the model is not finite: it predicts nothing, so it is not saved; fit it again"
            )
        dtype = model.dtype if name.startswith("variational.") else torch.float64
        if value.is_floating_point() and value.dtype != dtype:  # converted by `.float()`: loading would not restore it
            raise ValueError(
                f"{name} is {value.dtype}, but in a model of {model.dtype} it is {dtype}; choose the type by "
                "SignatureGP(..., dtype=) and do not convert the model"
            )
        tensors[name], order = contiguous(value)
        if order is not None:
            layouts[name] = order
    for owner, words in (("features", features.words), ("kernel", kernel.words)):
        if words is not None:
            letters = [letter for word in words for letter in word]
            tensors[f"{owner}.words.letters"] = torch.tensor(letters, dtype=torch.int64)
            tensors[f"{owner}.words.lengths"] = torch.tensor([len(word) for word in words], dtype=torch.int64)
    settings = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "covariance": model.variational.covariance,
        "kernel": {
            "channels": int(kernel.channels),
            "normalized": kernel.normalized,
            "finite": kernel.finite,
            "depth": None if kernel.depth is None else int(kernel.depth),
            "tol": float(kernel.tol),
        },
        "features": {"order": features.order, "rank": None if features.rank is None else int(features.rank)},
        "likelihood": likelihood,
        "fixed": [name for name, parameter in model.named_parameters() if not parameter.requires_grad],
        "layouts": layouts,
    }
    return tensors, settings


def model_from_state(tensors: Mapping[str, Tensor], settings: Mapping[str, Any]) -> SignatureGP:
    """The model that `model_state` described. Tensors and settings that do not fit raise a `ModelFileError`."""
    try:
        return _build(tensors, settings)
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"the saved model lacks {error}; {_FIX}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise ModelFileError(f"the saved model does not fit together: {error}; {_FIX}") from error


def _build(saved: Mapping[str, Tensor], settings: Mapping[str, Any]) -> SignatureGP:
    check(GP_SETTINGS, settings, Place("settings"))
    check(GP_TENSORS, saved, Place("tensors"))
    copies = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in saved.items()}
    tensors = {name: with_order(value, settings["layouts"].get(name)) for name, value in copies.items()}
    dtype = _DTYPES[settings["dtype"]]
    kernel = _kernel(tensors, settings["kernel"])
    features = _features(tensors, settings["features"], kernel.channels)
    likelihood = Likelihood.from_settings(settings["likelihood"])
    # The shapes of q(u) first: a wrong size must not lead to a matrix of that size.
    size, covariance = (likelihood.latents, features.size), settings["covariance"]
    _check(tensors, "variational.mean", size, dtype)
    matrix = (features.size, features.size)
    roots = {"full": (likelihood.latents, *matrix), "shared": (1, *matrix), "diagonal": size}
    _check(tensors, "variational.root", roots[covariance], dtype)
    model = SignatureGP(kernel, features, likelihood, covariance=covariance, dtype=dtype)
    state, parameters = model.state_dict(), dict(model.named_parameters())
    extra = tensors.keys() - state.keys()
    if extra:
        raise ValueError(f"the model has no tensor {min(extra)}")
    for name, value in state.items():
        _check(tensors, name, tuple(value.shape), value.dtype)
        if name in parameters:
            parameters[name].data = tensors[name]
        elif name != _BASIS:
            value.copy_(tensors[name])
    for name in settings["fixed"]:
        parameters.pop(name).requires_grad_(False)
    for parameter in parameters.values():
        parameter.requires_grad_()
    return model


def _kernel(tensors: dict[str, Tensor], settings: Mapping[str, Any]) -> SignatureKernel:
    channels, depth = settings["channels"], settings["depth"]
    _check(tensors, "kernel.log_theta", (channels,), torch.float64)
    words = _take_words(tensors, "kernel") if settings["finite"] else None
    unlike = f"the words of the kernel are not those of depth {depth}"
    if depth is not None:
        longest = max(map(len, words or []), default=-1)
        if words is None or depth != longest or len(words) != count_up_to(channels, depth):
            raise ValueError(unlike)
    kernel = SignatureKernel(
        channels,
        normalized=settings["normalized"],
        depth=depth,
        words=words if depth is None else None,
        tol=settings["tol"],
    )
    if kernel.words != words:
        raise ValueError(unlike)
    return kernel


def _features(tensors: dict[str, Tensor], settings: Mapping[str, Any], channels: int) -> OrthogonalSignatureFeatures:
    chosen = _take_words(tensors, "features")
    features = OrthogonalSignatureFeatures(channels, len(chosen), settings["order"], chosen=chosen)
    features.rank = settings["rank"]
    basis = tensors.get(_BASIS)
    if basis is not None:
        _check(tensors, _BASIS, (len(chosen), max(1, basis.shape[1])), torch.float64)
    features.basis = basis
    return features


def _check(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if name not in tensors:
        raise ValueError(f"{name} is missing")
    value = tensors[name]
    if tuple(value.shape) != shape or value.dtype != dtype:
        raise ValueError(f"{name} must be {dtype} of shape {shape}, got {value.dtype} of {tuple(value.shape)}")


def _take_words(tensors: dict[str, Tensor], owner: str) -> list[Word]:
    """Removes the tensors of the words of `owner` ("kernel" or "features") and returns the words."""
    letters, lengths = (tensors.pop(f"{owner}.words.{key}") for key in ("letters", "lengths"))
    if bool((lengths > len(letters)).any()) or int(lengths.sum()) != len(letters):
        raise ValueError(f"the words of the {owner} have {len(letters)} letters, but their lengths say otherwise")
    return [tuple(word.tolist()) for word in letters.split(lengths.tolist())]
