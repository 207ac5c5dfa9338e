"""Models, training and estimators on another device than the CPU, which is a pretended one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from torch import Tensor

import siggpde
from helpers.interruptions import Interruption, interrupt
from helpers.pretend_device import DEVICE, PretendTensor, pretend_device
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, rising
from siggpde import SignatureGP, fit, likelihoods
from siggpde.committee.novelty import Novelty
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.training import Exact, NaturalGradients, PaperSchedule
from siggpde_paper.gpsig import gpsig

LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "softmax": lambda: likelihoods.Softmax(3),
    "robustmax": lambda: likelihoods.RobustMax(3),
    "weighted": lambda: likelihoods.Softmax(3, class_weight=[1.0, 2.0, 1.0]),
    "bernoulli": likelihoods.Bernoulli,
    "gaussian": lambda: likelihoods.Gaussian(0.1),
    "student_t": likelihoods.StudentT,
    "poisson": likelihoods.Poisson,
    "gpytorch": lambda: likelihoods.from_gpytorch(gpytorch.likelihoods.LaplaceLikelihood()),
}


def series(n: int = 54, length: int = 4, channels: int = 2, seed: int = 0) -> Tensor:
    steps = torch.randn(n, length, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return 0.4 * steps.cumsum(dim=1)


def targets(name: str, x: Tensor) -> Tensor:
    last = x[:, -1, 0]
    if name in ("softmax", "robustmax", "weighted"):
        return (last > -0.3).long() + (last > 0.3).long()
    return {"bernoulli": (last > 0).long(), "poisson": last.exp().round().long()}.get(name, last)


def build(name: str, **options: Any) -> SignatureGP:
    kernel = SignatureKernel(2, theta=0.7)
    return SignatureGP(kernel, OrthogonalSignatureFeatures(2, 12), LIKELIHOODS[name](), **options)


def on_cpu(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(on_cpu(part) for part in value)
    assert isinstance(value, PretendTensor)  # the result stays on the device
    return value.held


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(on_cpu(actual), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_model_predicts_on_its_device_what_it_does_on_the_cpu(name: str):
    x = series()
    y = targets(name, x)
    model = build(name)
    expected = model.elbo(x, y)
    expected.backward()
    slopes = {key: p.grad for key, p in model.named_parameters()}
    predicted, density = model.predict(x), model.log_predictive(x, y)
    model.zero_grad()
    with pretend_device() as copied:
        model.to(DEVICE)
        actual = model.elbo(x, y)
        actual.backward()
        close(actual.detach(), expected.detach())
        for key, p in model.named_parameters():
            if slopes[key] is not None:
                close(p.grad, slopes[key])
        close(model.predict(x), predicted)
        close(model.log_predictive(x, y), density)
        assert max(copied, default=0) <= 1  # single numbers, no data


SCHEDULES = {
    "natural": ("softmax", NaturalGradients(max_iter=2)),
    "joint not": ("softmax", NaturalGradients(max_iter=2, max_joint=10)),
    "paper": ("softmax", PaperSchedule(iterations=5, batch=20, evaluate_every=5)),
    "shared": ("weighted", NaturalGradients(max_iter=2)),
    "exact": ("gaussian", Exact()),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_training_on_a_device_takes_the_steps_of_the_cpu(case: str):
    name, schedule = SCHEDULES[case]
    x = series()
    y = targets(name, x)
    plain = build(name, covariance="shared" if case == "shared" else "full")
    other = build(name, covariance="shared" if case == "shared" else "full")
    expected = fit(plain, (x, y), schedule, progress=False)
    with pretend_device() as copied:
        other.to(DEVICE)
        actual = fit(other, (x, y), schedule, progress=False)
        for key, value in other.state_dict().items():
            close(value, plain.state_dict()[key])
        assert max(copied, default=0) < len(x)  # numbers, scales and energies of words, no data
    assert actual.elbo == pytest.approx(expected.elbo, rel=1e-7)


@pytest.mark.parametrize("first", ["cpu", "device"])
@pytest.mark.parametrize("case", ["natural", "paper"])
def test_a_fit_of_one_device_goes_on_on_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, first: str
):
    name, schedule = SCHEDULES[case]
    x = series()
    y = targets(name, x)
    settings: dict[str, Any] = {"progress": False, "checkpoint": tmp_path / "fit.pt", "checkpoint_every": 0.0}
    whole = build(name)
    fit(whole, (x, y), schedule, progress=False)
    places = [torch.device("cpu"), DEVICE] if first == "cpu" else [DEVICE, torch.device("cpu")]
    with pretend_device():
        with monkeypatch.context() as patch:
            interrupt(patch, "hyperparameters", 1)
            with pytest.raises(Interruption):
                fit(build(name).to(places[0]), (x, y), schedule, **settings)
        resumed = build(name).to(places[1])
        fit(resumed, (x, y), schedule, resume=True, **settings)
        for key, value in resumed.to("cpu").state_dict().items():
            torch.testing.assert_close(value, whole.state_dict()[key], rtol=1e-7, atol=1e-9)


def test_series_of_a_device_and_a_model_on_the_cpu_are_refused():
    with pretend_device() as copied:
        x = series().to(DEVICE)
        model, message = build("gaussian"), r"x is on meta, but the model on cpu; move it with model.to\('meta'\)"
        assert_refused(message, model.predict, x)
        assert_refused("x is on meta, but the model on cpu", fit, model, (x, torch.zeros(len(x))), progress=False)
        assert not copied


def test_the_pretended_device_refuses_what_a_gpu_refuses():
    with pretend_device() as copied:
        here, there = torch.arange(3.0), torch.arange(3.0).to(DEVICE)
        for mixed in (
            lambda: here + there,
            lambda: here[there.long()],
            lambda: there.index_put_((torch.tensor([0]),), here[:1]),
            lambda: torch.randn(2, device=DEVICE, generator=torch.Generator()),
        ):
            assert_refused("", mixed, error=RuntimeError)
        assert not copied
        assert there[torch.tensor([2])].tolist() == [2.0]
        assert (there + torch.tensor(1.0)).sum().item() == 6.0
        assert copied == [1, 1]


@pytest.mark.parametrize("ragged", [False, True])
def test_what_a_model_says_of_series_does_not_depend_on_where_they_come_from(ragged: bool):
    x = series()
    lengths = 2 + torch.arange(len(x)) % 3 if ragged else None
    model = build("softmax")
    expected = model.predict(x, lengths=lengths)
    joint = model.predict_f(x[:5], full_cov=True)[1]
    drawn = model.sample_f(x[:5], torch.Generator().manual_seed(1))
    with pretend_device():
        model.to(DEVICE)
        close(model.predict(x, lengths=lengths), expected)
        there = None if lengths is None else lengths.to(DEVICE)
        close(model.predict(x.to(DEVICE), lengths=there, chunk=7), expected)
        close(model.predict_f(x[:5], full_cov=True)[1], joint)
        actual = on_cpu(model.sample_f(x[:5], torch.Generator().manual_seed(1)))
    torch.testing.assert_close(actual, drawn, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["tensors", "sequences"])
def test_baselines_train_on_a_device(kind: Any):
    x = series()
    y = targets("softmax", x)
    schedule = PaperSchedule(iterations=3, batch=20, evaluate_every=3)
    plain = gpsig(x, y, likelihoods.Softmax(3), count=6, kind=kind)
    fit(plain, (x, y), schedule, progress=False)
    with pretend_device():
        other = gpsig(x.to(DEVICE), y, likelihoods.Softmax(3), count=6, kind=kind)
        fit(other, (x, y), schedule, progress=False)
        for key, value in other.state_dict().items():
            close(value, plain.state_dict()[key])


PATHS = {"views": ["linear", "path"], "members": 2}  # in float64 throughout
ESTIMATORS = [
    ("classifier", PATHS),
    pytest.param("classifier", {"method": "paper"}, marks=pytest.mark.slow),
    ("regressor", PATHS),
]


def noisy(kind: str) -> tuple[np.ndarray, np.ndarray]:
    X, labels = rising(20, noise=2.0)
    y = labels if kind == "classifier" else X[:, 0, -1] + np.random.default_rng(1).normal(scale=5.0, size=len(X))
    return X, y


def tensors_of(value: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """All tensors that an object holds, wherever they are in it, but for those of novelty, which is for the CPU."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from tensors_of(entry, seen)
    elif type(value).__module__.startswith(("siggpde", "torch.nn")) and not isinstance(value, Novelty):
        yield from tensors_of(vars(value), seen)


@pytest.mark.parametrize(("kind", "settings"), ESTIMATORS)
def test_an_estimator_computes_explains_and_is_saved_on_its_device(kind: str, settings: dict[str, Any], tmp_path: Path):
    X, y = noisy(kind)
    plain = estimator(kind, **settings).fit(X, y)
    expected = outputs(plain, X)
    with pretend_device():
        other = estimator(kind, device=str(DEVICE), **settings).fit(X, y)
        assert other.committee_.device == DEVICE
        members = other.committee_.members
        assert all(tensor.device == DEVICE for member in members for tensor in tensors_of(member) if tensor.dim())
        np.testing.assert_allclose(outputs(other, X), expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(other.log_likelihood(X, y), plain.log_likelihood(X, y), rtol=1e-6, atol=1e-8)
        explained, expected = other.explain(X[:2]), plain.explain(X[:2])
        assert [part.latent for part in explained] == pytest.approx([part.latent for part in expected])
        actual = [part.importance for part in other.importance(X)]
        assert actual == pytest.approx([part.importance for part in plain.importance(X)])
        other.partial_fit(X[:6], y[:6])
        other.save(tmp_path / "model")
        assert siggpde.load(tmp_path / "model", DEVICE).committee_.device == DEVICE
        actual = outputs(other, X)
        moved = outputs(other.to("cpu"), X)
        np.testing.assert_allclose(moved, actual, rtol=1e-6, atol=1e-8)
        assert all(tensor.device.type == "cpu" for tensor in tensors_of(other.committee_))
        np.testing.assert_allclose(outputs(other.to(DEVICE), X), actual, rtol=1e-6, atol=1e-8)
    back = siggpde.load(tmp_path / "model")
    assert back.committee_.device == torch.device("cpu")
    for estimated in (back, plain.partial_fit(X[:6], y[:6])):
        np.testing.assert_allclose(outputs(estimated, X), moved, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["classifier", pytest.param("regressor", marks=pytest.mark.slow)])
def test_all_views_compute_on_a_device(kind: str):
    """Kernels by the PDE are float32, and solved to a tolerance in ways of their own."""
    X, y = noisy(kind)
    settings: dict[str, Any] = {"transforms": "auto", "members": "auto"}
    plain = estimator(kind, **settings).fit(X, y)
    with pretend_device():
        other = estimator(kind, device=str(DEVICE), **settings).fit(X, y)
        np.testing.assert_allclose(outputs(other, X), outputs(plain, X), rtol=1e-5, atol=1e-5 * float(y.std()))
        there = outputs(plain, X)
        np.testing.assert_allclose(outputs(plain.to(DEVICE), X), there, rtol=1e-5, atol=1e-5 * float(y.std()))
        assert all(tensor.device == DEVICE for tensor in tensors_of(plain.committee_.members) if tensor.dim())
        plain.partial_fit(X[:6], y[:6])


def test_time_stamps_follow_an_estimator_from_device_to_device():
    X, y = rising(20)
    stamps = np.tile(np.linspace(0.0, 2.0, X.shape[2]) ** 2, (len(X), 1, 1))
    timed = np.concatenate([stamps, X], axis=1)
    expected = classifier(time_channel=0, views=["linear", "path"]).fit(timed, y).predict_proba(timed)
    with pretend_device():
        fitted = classifier(time_channel=0, views=["linear", "path"], device=DEVICE).fit(timed, y)
        np.testing.assert_allclose(fitted.predict_proba(timed), expected, rtol=1e-6, atol=1e-8)
        fitted.to("cpu")
    np.testing.assert_allclose(fitted.predict_proba(timed), expected, rtol=1e-6, atol=1e-8)


def test_auto_is_the_device_of_the_series_and_no_copy_is_silent(caplog: pytest.LogCaptureFixture):
    X, y = rising(20)
    with pretend_device():
        assert not caplog.messages
        fitted = classifier().fit(torch.from_numpy(X).to(DEVICE), y)
        assert "X is on meta and is copied to the CPU, where series are checked and filled" in caplog.messages
        assert fitted.committee_.device == DEVICE
        assert classifier().fit(X, y).committee_.device == torch.device("cpu")


@pytest.mark.parametrize("device", ["meta", "nowhere"])
def test_a_device_that_cannot_be_used_is_refused(device: str):
    X, y = rising(20)
    for call in (lambda: classifier(device=device).fit(X, y), lambda: classifier().fit(X, y).to(device)):
        assert_refused(f"device='{device}' cannot be used: .*; take device='cpu'", call)
