"""The methods that are compared, each from prepared series to test figures.

`siggpde` is the paper's model: the untruncated kernel, the first words by level and alphabet, the paper's schedule.
`screened` is ours with as many inducing variables: settings by closed-form leave-one-out, directions of many words,
natural gradients. `classifier` is the estimator with its defaults. `gpsig` is the baseline, with the paper's schedule.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.baselines import gpsig
from siggpde.baselines.starting_values import lengthscales
from siggpde.estimators import SigGPClassifier
from siggpde.experiments.preparation import Prepared, prepare
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, RobustMax, Softmax
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP, SignatureGP
from siggpde.paths import SeriesBatch
from siggpde.selection.screening import screen
from siggpde.training import NaturalGradients, PaperSchedule, fit
from siggpde.training.history import History
from siggpde.training.path_cache import PathStore

_LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax}
_CHUNK = 1024


def run_method(config: dict[str, Any], method: dict[str, Any], seed: int, checkpoint: Path | None) -> dict[str, Any]:
    """One run of a method with M = config["inducing"] inducing variables; a record of plain numbers."""
    data = prepare(config)
    kinds = {"siggpde": _by_the_paper, "gpsig": _by_the_paper, "screened": _screened, "classifier": _classifier}
    if method["kind"] not in kinds:
        raise ValueError(f"a method is of kind {', '.join(kinds)}, not {method['kind']!r}")
    return kinds[method["kind"]](config, method, data, seed, checkpoint)


def build(config: dict[str, Any], method: dict[str, Any], data: Prepared, seed: int) -> AnyGP:
    """The model of a `siggpde` or `gpsig` method before training, on the scales that GPSig starts with."""
    likelihood, count = likelihood_of(config, data.classes), config["inducing"]
    if method["kind"] == "gpsig":
        return gpsig(
            data.x_train, data.y_train, likelihood, kind=method["variables"], count=count, level=method["level"],
            static=method["static"], method=method.get("method", "auto"), seed=seed,
        )  # fmt: skip
    channels = data.x_train.shape[2]
    points = torch.full((len(data.x_train),), data.x_train.shape[1])
    theta = 1 / lengthscales(data.x_train, points, torch.Generator().manual_seed(seed))
    kernel = SignatureKernel(channels, theta=theta, tol=method.get("tol", 1e-6))
    return SignatureGP(kernel, OrthogonalSignatureFeatures(channels, count, method["order"]), likelihood)


def likelihood_of(config: dict[str, Any], classes: int) -> Classification:
    """One latent and a probit link for two classes, else the likelihood that the settings name."""
    return Bernoulli() if classes == 2 else _LIKELIHOODS[config["likelihood"]](classes)


def _by_the_paper(config: dict[str, Any], method: dict, data: Prepared, seed: int, checkpoint: Path | None) -> dict:
    """The paper's schedule, whole where the method says `full`, else until the one rule for all ends a phase."""
    model = build(config, method, data, seed)
    settings = dict(config["schedule"])
    if method.get("full", False):
        settings["patience"] = None
    schedule = PaperSchedule(**settings, cpu_budget=config["budget"])
    history = fit(
        model, (data.x_train, data.y_train), schedule, validation=config["validation"], seed=seed,
        checkpoint=checkpoint, resume=checkpoint is not None,
    )  # fmt: skip
    return _judged(model, history, data)


def _judged(model: AnyGP, history: History, data: Prepared) -> dict[str, Any]:
    return {
        **test_figures(model, data.x_test, data.y_test),
        "elbo": full_elbo(model, data.x_train, data.y_train),
        "cpu_seconds": sum(history.step_seconds.values()),  # of all iterations, those before an interruption too
        "iterations": history.steps,
        "stopped": history.stopped,
        "seconds_per_iteration": {
            name: history.step_seconds[name] / count for name, count in history.steps.items() if count
        },
        "theta": model.kernel.theta.tolist(),
        "amplitude": float(model.kernel.amplitude.detach()),
        "validation": [[r.phase, r.iteration + 1, r.nlpp] for r in history.records if r.nlpp is not None],
    }


@torch.no_grad()
def test_figures(model: AnyGP, x: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy in per cent and NLPP."""
    mean, variance = model.predict_f(x, chunk=_CHUNK)
    likelihood = model.likelihood
    right = likelihood.predict(mean, variance).argmax(dim=1) == y
    nlpp = -float(likelihood.log_predictive(mean, variance, y).double().mean())
    return {"accuracy": 100 * float(right.double().mean()), "nlpp": nlpp}


@torch.no_grad()
def full_elbo(model: AnyGP, x: Tensor, y: Tensor) -> float:
    """The ELBO of all the series over their number: no estimate from a minibatch."""
    projection = PathStore(model, SeriesBatch(x)).project(model)
    return float(model.elbo_of(projection, y)) / len(y)


def _screened(config: dict[str, Any], method: dict, data: Prepared, seed: int, checkpoint: Path | None) -> dict:
    started = time.process_time()
    screening = screen(
        data.raw_train, data.y_train, seed=seed, max_words=method["words"], max_series=method["series"], progress=False
    )
    paths, _ = screening.transform(data.raw_train)
    likelihood = Bernoulli() if data.classes == 2 else Softmax(data.classes)
    model = screening.build(likelihood, rank=config["inducing"], dtype=torch.float32)
    history = fit(
        model, (paths, data.y_train), NaturalGradients(), validation=config["validation"], seed=seed,
        screening=screening, checkpoint=checkpoint, resume=checkpoint is not None,
    )  # fmt: skip
    cpu = time.process_time() - started
    tests, _ = screening.transform(data.raw_test)
    return {
        **test_figures(model, tests, data.y_test),
        "cpu_seconds": cpu,
        "iterations": {name: len(history.of(name)) for name in history.stopped},
        "stopped": history.stopped,
    }


def _classifier(config: dict[str, Any], method: dict, data: Prepared, seed: int, checkpoint: Path | None) -> dict:
    started = time.process_time()
    classifier = SigGPClassifier(random_state=seed, verbose=0)
    train, test = (np.swapaxes(series.numpy(), 1, 2) for series in (data.raw_train, data.raw_test))
    classifier.fit(train, data.y_train.numpy())
    cpu = time.process_time() - started
    truth = data.y_test.numpy()
    return {
        "accuracy": 100 * float((classifier.predict(test) == truth).mean()),
        "nlpp": -float(classifier.log_likelihood(test, truth).mean()),
        "cpu_seconds": cpu,
    }
