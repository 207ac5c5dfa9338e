"""Models as tensors and settings: predictions after the round trip are bitwise the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.refusals import assert_refused
from helpers.small_models import QUIET, disturb, labels, same_state, series, small_gp, targets, whole_gp
from siggpde.gp.features import OrthogonalSignatureFeatures, principal_directions
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.model import SignatureGP
from siggpde.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, RobustMax, Softmax, StudentT, from_gpytorch
from siggpde.persistence import ModelFileError, model_from_state, model_state, read_folder, write_folder
from siggpde.training import NaturalGradients, PaperSchedule, fit

X = series(25, length=7)
LIKELIHOODS: dict[str, Any] = {
    "gaussian": lambda: Gaussian(0.1 + 0.2),
    "student-t": lambda: StudentT(0.3, 5.0, learn_df=True),
    "softmax": lambda: Softmax(3, points=16, predict_points=64, seed=3),
    "weighted softmax": lambda: Softmax(3, class_weight=[0.1, 1 / 3, 7.0]),
    "robustmax": lambda: RobustMax(3, eps=0.01),
    "bernoulli": lambda: Bernoulli(link="logit", class_weight=[1.0, 0.3]),
    "poisson": lambda: Poisson(0.5),
}
KERNELS: dict[str, dict[str, Any]] = {
    "untruncated": {"theta": [0.3, 0.7], "tol": 1e-7},
    "depth": {"depth": 3, "theta": 0.37, "amplitude": 3.3},
    "all its words": {"words": [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)], "normalized": True},
    "words": {"words": [(), (0,), (1,), (1, 0), (0, 0), (0, 1), (1, 1), (1, 1, 0)], "theta": 0.9},
    "normalized": {"normalized": True, "theta": 0.8},
}


def round_trip(model: SignatureGP, folder: Path) -> SignatureGP:
    """Through the files."""
    tensors, settings = model_state(model)
    write_folder(folder, tensors, {"model": settings}, "")
    tensors, metadata = read_folder(folder)
    return model_from_state(tensors, metadata["model"])


def targets_for(likelihood: Likelihood) -> Tensor:
    if isinstance(likelihood, Poisson):
        return torch.arange(len(X)) % 5
    if isinstance(likelihood, Gaussian | StudentT):
        return targets(X)
    return labels(X, 2 if isinstance(likelihood, Bernoulli) else 3)


def bits(value: Any) -> list[bytes]:
    tensors = value if isinstance(value, tuple) else (value,)
    return [tensor.contiguous().numpy().tobytes() for tensor in tensors]


def assert_same_model(one: SignatureGP, other: SignatureGP) -> None:
    y = targets_for(one.likelihood)
    assert bits(one.predict_f(X)) == bits(other.predict_f(X))
    assert bits(one.predict_f(X[:1])) == bits(other.predict_f(X[:1]))  # BLAS has other ways for one row
    assert bits(one.predict_f(X, full_cov=True)) == bits(other.predict_f(X, full_cov=True))
    assert bits(one.predict(X)) == bits(other.predict(X))
    assert bits(one.log_predictive(X, y)) == bits(other.log_predictive(X, y))
    assert bits(one.elbo(X, y).detach()) == bits(other.elbo(X, y).detach())
    assert same_state(one, other)
    assert repr(one) == repr(other)
    assert one.dtype == other.dtype and one.variational.covariance == other.variational.covariance
    left, right = dict(one.named_parameters()), dict(other.named_parameters())
    assert {name: p.requires_grad for name, p in left.items()} == {name: p.requires_grad for name, p in right.items()}
    for name in ("channels", "depth", "words", "normalized", "tol", "finite"):
        assert getattr(one.kernel, name) == getattr(other.kernel, name), name
    for name in ("channels", "order", "rank", "words", "size"):
        assert getattr(one.features, name) == getattr(other.features, name), name
    assert one.likelihood.settings() == other.likelihood.settings()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_likelihood(tmp_path: Path, likelihood: str, covariance: str, dtype: torch.dtype):
    model = disturb(small_gp(LIKELIHOODS[likelihood](), theta=0.55, covariance=covariance, dtype=dtype))
    with torch.no_grad():
        for parameter in model.likelihood.parameters():
            parameter.mul_(1.1)  # no longer the logarithm of any number's exponential
    assert_same_model(model, round_trip(model, tmp_path / "m"))


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(tmp_path: Path, kernel: str, dtype: torch.dtype, rank: int | None):
    model = small_gp(Softmax(3), 7, rank=rank, dtype=dtype, **KERNELS[kernel])
    if rank is not None:
        seen = model.features(model.kernel, X[:5]).features.detach()
        model.features.rotate(None)
        model.features.rotate(principal_directions(model.project(X[:5]).features.detach(), 3))  # fewer than rank
        assert seen.shape[1] == rank and model.features.size == 3
        model.reset_variational()
    assert_same_model(disturb(model), round_trip(model, tmp_path / "m"))


def test_a_matrix_that_lies_by_columns_does_so_again(tmp_path: Path):
    model = small_gp(Softmax(3), 63, theta=0.8)
    basis = principal_directions(model.project(X).features.detach(), 20)  # fewer series than words: by columns
    assert not basis.is_contiguous()
    model.features.rotate(basis)
    model.reset_variational()
    disturb(model)
    with torch.no_grad():
        model.variational.root.data = model.variational.root.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    again = round_trip(model, tmp_path / "m")
    assert again.features.basis is not None and again.features.basis.stride() == basis.stride()
    assert again.variational.root.stride() == model.variational.root.stride()
    assert_same_model(model, again)
    model.features.basis = torch.cat([basis, basis], dim=1)[:, :20]  # neither by rows nor by columns
    assert torch.equal(round_trip(model, tmp_path / "n").features.basis, basis)


@pytest.mark.parametrize("schedule", [NaturalGradients(max_iter=3, inner=2), PaperSchedule(iterations=4, batch=8)])
@pytest.mark.parametrize("case", ["energy", "rank", "more words than series", "whole"])
def test_right_after_training(tmp_path: Path, case: str, schedule: Any):
    model = {
        "energy": lambda: small_gp(Softmax(3), 7, theta=0.6, order="energy"),
        "rank": lambda: small_gp(Softmax(3), 15, theta=0.6, order="energy", rank=5, dtype=torch.float32),
        "more words than series": lambda: small_gp(Softmax(3), 63, theta=0.6, normalized=True),
        "whole": lambda: whole_gp(3, Softmax(3)),
    }[case]()
    fit(model, (X, labels(X, 3)), schedule, **QUIET)
    again = round_trip(model, tmp_path / "m")
    assert_same_model(model, again)
    for one in (model, again):  # and training may go on
        fit(one, (X, labels(X, 3)), NaturalGradients(max_iter=2), **QUIET)
    assert same_state(model, again)


def test_what_is_fixed_stays_fixed(tmp_path: Path):
    model = small_gp(StudentT(learn_df=True))
    model.kernel.log_theta.requires_grad_(False)
    model.variational.root.requires_grad_(False)
    again = round_trip(model, tmp_path / "m")
    fixed = {name for name, parameter in again.named_parameters() if not parameter.requires_grad}
    assert fixed == {"kernel.log_theta", "variational.root"}
    assert_same_model(model, again)


def test_states_are_small_unshared_and_give_parameters():
    model = small_gp(Gaussian(0.1), 4000, covariance="diagonal")
    tensors, settings = model_state(model)
    assert tensors["features.words.lengths"].shape == (4000,)
    assert len(tensors["features.words.letters"]) == sum(map(len, model.features.words))
    assert len(json.dumps(settings)) < 500
    assert model_from_state(tensors, settings).features.words == model.features.words
    tensors, settings = model_state(disturb(small_gp()))
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    before, text = {name: tensor.clone() for name, tensor in tensors.items()}, json.dumps(settings)
    model = model_from_state(tensors, settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert all(torch.equal(tensors[name], before[name]) for name in before) and json.dumps(settings) == text
    model = model_from_state(*model_state(small_gp()))
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())
    model.elbo(X, targets(X)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


class Custom(Gaussian):
    """Without a name of its own."""


class Bare(Likelihood):
    pass


def test_what_cannot_be_saved_says_so():
    gpytorch: Any = pytest.importorskip("gpytorch")
    beta, message = gpytorch.likelihoods.BetaLikelihood(), "BetaLikelihood cannot be .*; use a likelihood of siggpde"
    assert_refused(message, model_state, small_gp(from_gpytorch(beta)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small_gp(Custom()), "Custom cannot be saved: the name in its settings is that of Gaussian"),
        (lambda: small_gp(Bare()), "Bare cannot be saved: it has no name"),
        (lambda: small_gp().float(), "log_theta is torch.float32, but in a model of torch.float64 it is torch.float64"),
        (lambda: _with(small_gp(), "variational.mean", float("nan")), r"variational\.mean of the model is not finite"),
        (lambda: _with(small_gp(), "likelihood.log_noise", -800.0), "likelihood cannot be saved: noise, a variance"),
        (lambda: _subclass("kernel"), "Special is not SignatureKernel itself, so its code cannot be saved"),
        (lambda: _subclass("features"), "Special is not OrthogonalSignatureFeatures itself"),
    ],
)
def test_models_that_would_not_come_back_are_refused(make: Any, message: str):
    assert_refused(message, model_state, make())


def _with(model: SignatureGP, name: str, value: float) -> SignatureGP:
    with torch.no_grad():
        dict(model.named_parameters())[name].fill_(value)
    return model


def _subclass(part: str) -> SignatureGP:
    model = small_gp()
    kind: Any = type(getattr(model, part))
    getattr(model, part).__class__ = type("Special", (kind,), {})
    return model


def _state(**options: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, settings = model_state(disturb(small_gp(Softmax(3), 7, depth=2, rank=4, **options)))
    return tensors, json.loads(json.dumps(settings))


@pytest.mark.parametrize("name", sorted(_state()[0]))
def test_no_tensor_may_be_missing_or_of_another_shape_or_type(name: str):
    tensors, settings = _state()
    value = tensors.pop(name)
    assert_refused(r"save the model again", model_from_state, tensors, settings, error=ModelFileError)
    wrong = [value[None], value.to(torch.uint8), torch.cat([value.reshape(-1)] * 2), value.reshape(-1)[:0]]
    if value.is_floating_point():
        wrong += [value.half(), value * float("nan"), value / 0.0]
    for bad in wrong:
        with pytest.raises(ModelFileError, match="does not fit together"):
            model_from_state({**tensors, name: bad}, settings)
    model_from_state({**tensors, name: value}, settings)


@pytest.mark.parametrize(
    "path",
    ["dtype", "covariance", "kernel", "features", "likelihood", "fixed", "layouts"]
    + [f"kernel.{name}" for name in ("channels", "normalized", "finite", "depth", "tol")]
    + ["features.order", "features.rank", "likelihood.name", "likelihood.classes"],
)
def test_no_setting_may_be_missing_or_strange(path: str):
    tensors, settings = _state()
    *above, last = path.split(".")
    holder = settings[above[0]] if above else settings
    value = holder.pop(last)
    with pytest.raises(ModelFileError):
        model_from_state(tensors, settings)
    for strange in ("nonsense", -1, 10**30, 2.5, [1], {"a": 1}):
        if strange == {"layouts": {"a": 1}, "features.rank": 10**30}.get(path):
            continue  # of no consequence
        holder[last] = strange
        with pytest.raises(ModelFileError):
            model_from_state(tensors, settings)
    holder[last] = value
    model_from_state(tensors, settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, s: t.update(extra=torch.zeros(1)), "tensors has the field 'extra', which is not known here"),
        (lambda t, s: s["likelihood"].update(name="magic"), "name must be one of softmax, .* got 'magic'"),
        (lambda t, s: s["likelihood"].update(colour=3), "likelihood has the field 'colour'"),
        (lambda t, s: s["likelihood"].update(classes=4), r"variational.mean must be torch.float64 of shape \(4, 4\)"),
        (lambda t, s: s["kernel"].update(depth=3), "the words of the kernel are not those of depth 3"),
        (lambda t, s: s["kernel"].update(channels=3), r"kernel.log_theta must be torch.float64 of shape \(3,\)"),
        (lambda t, s: s["fixed"].append("nobody"), "lacks 'nobody'"),
        (lambda t, s: s["layouts"].update({"features.basis": [0, 0]}), r"layout \[0, 0\] is given for a tensor of 2"),
        (lambda t, s: s["layouts"].update({"features.basis": [1, 0]}), "features.basis must be"),
        (lambda t, s: t["features.words.letters"].fill_(5), "with 2 channels letters go from 0 to 1"),
        (lambda t, s: t["features.words.letters"].fill_(0), "comes more than once"),
        (lambda t, s: t["features.words.lengths"].fill_(1), "their lengths say otherwise"),
        (lambda t, s: t["features.words.lengths"].fill_(-1), "words.lengths must have .* from 0"),
        (lambda t, s: t["kernel.words.letters"].copy_(t["kernel.words.letters"].flip(0)), "are not those of depth 2"),
        (lambda t, s: s["kernel"].update(depth=None, finite=False), "the model has no tensor kernel.words"),
        (lambda t, s: s.update(dtype="float16"), "dtype must be one of float32, float64, got 'float16'"),
        (lambda t, s: s["features"].update(rank=0), "features.rank must be an integer from 1 .*, got 0"),
    ],
)
def test_parts_that_do_not_fit_are_named(change: Any, message: str):
    tensors, settings = _state()
    change(tensors, settings)
    assert_refused(message, model_from_state, tensors, settings, error=ModelFileError)


def test_features_must_be_words_of_the_kernel():
    kernel = SignatureKernel(2, words=[(), (0,), (1,)])
    model = SignatureGP(kernel, OrthogonalSignatureFeatures(2, 3), Gaussian(0.1))
    tensors, settings = model_state(model)
    tensors["features.words.letters"] = torch.tensor([0, 1, 1])
    tensors["features.words.lengths"] = torch.tensor([0, 1, 2])
    with pytest.raises(ModelFileError, match="the features use words that the kernel leaves out"):
        model_from_state(tensors, settings)
