"""The methods that are compared, each from prepared series to test figures."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.datasets import Dataset, data_folders, load_dataset, read_dataset
from siggpde.datasets.archive import DownloadError, download
from siggpde.datasets.loading import cache_folder
from siggpde.estimators import SigGPClassifier
from siggpde.gp.cache import PathStore
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel, lengthscales
from siggpde.gp.likelihoods import Bernoulli, RobustMax, Softmax
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP, SignatureGP
from siggpde.gp.nadam import Nadam, Rates
from siggpde.gp.phases import NadamPhase, NadamState, PaperSchedule, Phase
from siggpde.gp.trainer import History, Trainer
from siggpde.gp.training import fit
from siggpde.series import SeriesBatch, Spectrogram
from siggpde_paper.experiments.variants import FiniteDifferenceKernel
from siggpde_paper.gpsig import gpsig

_LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax}
_CHUNK = 1024
_BETA1, _BETA2 = 0.9, 0.999


class Prepared(NamedTuple):
    """Paths (n, length, channels) in float64 and labels 0..classes-1; `raw` series are without time and scaling."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    raw_train: Tensor
    raw_test: Tensor
    classes: int


def prepare(config: dict[str, Any]) -> Prepared:
    """The data set of the settings, or a part of its series, as paths of equal lengths through any spectrogram."""
    data = load_series(config)
    indices = {label: index for index, label in enumerate(sorted(set(data.y_train.tolist())))}
    series, labels = [], []
    for x, y, number in ((data.X_train, data.y_train, "series"), (data.X_test, data.y_test, "test_series")):
        if not np.isfinite(x).all():
            raise ValueError(f"{data.name} has series of unequal length or with gaps; the experiments take whole ones")
        rows = np.linspace(0, len(x) - 1, min(config.get(number, len(x)), len(x))).astype(int)
        batch = SeriesBatch(torch.from_numpy(np.swapaxes(x[rows], 1, 2).astype(np.float64)))
        if "spectrogram" in config:
            batch = Spectrogram(**config["spectrogram"])(batch)
        series.append(standardised_by_series(batch.values) if config.get("each") else batch.values)
        labels.append(torch.tensor([indices[label] for label in y[rows].tolist()]))
    train, test = standardised(with_time(series[0]), with_time(series[1]))
    return Prepared(train, labels[0], test, labels[1], series[0], series[1], len(indices))


def load_series(config: dict[str, Any]) -> Dataset:
    """The data set of the settings: of all its files that with the `official` numbers of series, if given."""
    name, official = config["data"], config.get("official")
    for path in _candidates(name) if official else ():
        if path.is_file() and split_sizes(data := read_dataset(path)) == official:
            return data
    return load_dataset(name)


def _candidates(name: str) -> Iterator[Path]:
    """The files that may hold a data set: in the folders, and downloaded."""
    yield from (folder / f"{name}.npz" for folder in data_folders())
    with contextlib.suppress(DownloadError):
        yield download(name, cache_folder())


def split_sizes(data: Dataset) -> list[int]:
    return [len(data.y_train), len(data.y_test)]


def with_time(x: Tensor) -> Tensor:
    """x (n, length, d) with time i / length in front, (n, length, 1 + d)."""
    time = torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]
    return torch.cat([time[None, :, None].expand(len(x), -1, 1), x], dim=2)


def standardised_by_series(x: Tensor) -> Tensor:
    """x (n, length, d) with mean 0 and spread 1 in every channel of every series; constant ones become 0."""
    deviation = x.std(dim=1, correction=0, keepdim=True)
    return (x - x.mean(dim=1, keepdim=True)) / torch.where(deviation > 0, deviation, 1.0)


def standardised(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both standardised by the mean and spread of every channel of `train`; channels constant in `train` become 0."""
    mean = train.mean(dim=(0, 1))
    deviation = train.std(dim=(0, 1), correction=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def fit_tasks(config: dict[str, Any], folder: Path, runs: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """`runs` runs of every row of `fit_settings` by key, with checkpoints in the folder; run i has seed i."""
    tasks = {}
    for seed in range(runs):
        for key, (sized, method) in fit_settings(config).items():
            checkpoint = folder / "checkpoints" / f"{key.replace('/', '-')}-{seed}.pt"
            tasks[f"fit/{key}/{seed}"] = partial(run_method, sized, method, seed, checkpoint)
    return tasks


def fit_settings(config: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """By key the settings, with M as `inducing`, and the method, once for each of its numbers M where it lists them."""
    rows = {}
    for name, method in config["methods"].items():
        if "sizes" not in method:
            rows[name] = config, method
        for count in method.get("sizes", ()):
            rows[f"{name}/{count}"] = config | {"inducing": count}, method
    return rows


def run_method(config: dict[str, Any], method: dict[str, Any], seed: int, checkpoint: Path | None) -> dict[str, Any]:
    """One run of a method with M = config["inducing"] inducing variables; a record of plain numbers."""
    data = prepare(config)
    kinds = {"siggpde": _by_the_paper, "gpsig": _by_the_paper, "natural": _natural, "classifier": _classifier}
    if method["kind"] not in kinds:
        raise ValueError(f"a method is of kind {', '.join(kinds)}, not {method['kind']!r}")
    return kinds[method["kind"]](config, method, data, seed, checkpoint)


def build(config: dict[str, Any], method: dict[str, Any], data: Prepared, seed: int) -> AnyGP:
    """The model of a `siggpde` or `gpsig` method before training; two classes have one latent and a probit link."""
    likelihood = Bernoulli() if data.classes == 2 else _LIKELIHOODS[config["likelihood"]](data.classes)
    count = config["inducing"]
    if method["kind"] == "gpsig":
        model = gpsig(
            data.x_train, data.y_train, likelihood, kind=method["variables"], count=count, level=method["level"],
            static=method["static"], method=method.get("method", "auto"), seed=seed,
            quotas=method.get("quotas", "equal"),
        )  # fmt: skip
        model.kernel.log_weights.requires_grad_(not method.get("frozen_levels", False))
        return model
    dtype = getattr(torch, config.get("dtype", "float64"))
    return paper_model(data.x_train, likelihood, count, method, seed, dtype)


def paper_model(
    paths: Tensor, likelihood: Classification, count: int, method: dict, seed: int, dtype: torch.dtype = torch.float64
) -> SignatureGP:
    """The paper's model of paths (n, length, channels) with `count` words in the order of the method."""
    channels, points = paths.shape[2], torch.full((len(paths),), paths.shape[1])
    theta = 1 / lengthscales(paths, points, torch.Generator().manual_seed(seed))
    scales, tol = method.get("scales", "exact"), method.get("tol", 1e-6)
    if scales == "finite differences":
        values = method.get("values", False)
        kernel = FiniteDifferenceKernel(channels, theta=theta, refine=method["refine"], values=values, tol=tol)
    elif scales in ("exact", "frozen"):
        kernel = SignatureKernel(channels, theta=theta, tol=tol)
        kernel.log_theta.requires_grad_(scales == "exact")
    else:
        raise ValueError(f"scales must be 'exact', 'frozen' or 'finite differences', got {scales!r}")
    features = OrthogonalSignatureFeatures(channels, count, method["order"])
    return SignatureGP(kernel, features, likelihood, dtype=dtype)


def _by_the_paper(config: dict[str, Any], method: dict, data: Prepared, seed: int, checkpoint: Path | None) -> dict:
    model = build(config, method, data, seed)
    config = config | {"schedule": config["schedule"] | method.get("schedule", {})}
    history = train_model(config, model, data.x_train, data.y_train, seed, checkpoint)
    return judged(model, history, data) | {"elbo": full_elbo(model, data.x_train, data.y_train)}


def _natural(config: dict[str, Any], method: dict, data: Prepared, seed: int, checkpoint: Path | None) -> dict:
    started = time.process_time()
    model = build(config, method, data, seed)
    fit(model, (data.x_train, data.y_train), validation=config["validation"], seed=seed)
    return {
        **test_figures(model, data.x_test, data.y_test),
        "cpu_seconds": time.process_time() - started,
        "elbo": full_elbo(model, data.x_train, data.y_train),
        **_kernel_scales(model),
    }


def train_model(
    config: Mapping[str, Any], model: AnyGP, x: Tensor, y: Tensor, seed: int, checkpoint: Path | None
) -> History:
    """The paper's schedule, whole or until config["budget"] CPU seconds are spent; goes on from the checkpoint."""
    kind = AuthorsSchedule if "l1" in config["schedule"] else PaperSchedule
    schedule = kind(**config["schedule"], cpu_budget=config.get("budget"))
    resumed = {"checkpoint": checkpoint, "resume": checkpoint is not None}
    return fit(model, (x, y), schedule, validation=config["validation"], seed=seed, **resumed)


def judged(model: AnyGP, history: History, data: Prepared) -> dict[str, Any]:
    """Test figures of a trained model, and what its training took and did: a record of plain numbers."""
    return {
        **test_figures(model, data.x_test, data.y_test),
        "cpu_seconds": sum(history.step_seconds.values()),  # of all iterations, those before an interruption too
        "wall_seconds": history.seconds,
        "stopped": history.stopped,
        **training_facts(model, history),
        "theta_start": history.records[0].theta,  # of phase q, which leaves the kernel alone
        "rounded_tails": history.rounded_tails,
        "validation": [[r.phase, r.iteration + 1, r.nlpp] for r in history.records if r.nlpp is not None],
        "scales": [[r.phase, r.iteration + 1, r.theta] for r in history.records if r.phase == "hyperparameters"],
    }


def training_facts(model: AnyGP, history: History) -> dict[str, Any]:
    """Iterations and CPU seconds of one by phase, and the learned scales of the kernel."""
    seconds = {name: history.step_seconds[name] / count for name, count in history.steps.items() if count}
    return {"iterations": history.steps, "seconds_per_iteration": seconds} | _kernel_scales(model)


def _kernel_scales(model: AnyGP) -> dict[str, Any]:
    return {"theta": model.kernel.theta.tolist(), "amplitude": float(model.kernel.amplitude.detach())}


@torch.no_grad()
def test_figures(model: AnyGP, x: Tensor, y: Tensor) -> dict[str, float]:
    mean, variance = model.predict_f(x, chunk=_CHUNK)
    likelihood = model.likelihood
    right = likelihood.predict(mean, variance).argmax(dim=1) == y
    nlpp = -float(likelihood.log_predictive(mean, variance, y).double().mean())
    return {"accuracy": 100 * float(right.double().mean()), "nlpp": nlpp}


@torch.no_grad()
def full_elbo(model: AnyGP, x: Tensor, y: Tensor) -> float:
    """The ELBO of all the series over their number: no estimate from a minibatch."""
    store, value = PathStore(model, SeriesBatch(x)), 0.0
    for rows in torch.arange(len(y)).split(_CHUNK):
        marginals = model.latent_marginals(store.project(model, rows))
        value += float(model.likelihood.expected_log_prob(*marginals, y[rows]).double().sum())
    return (value - float(model.variational.kl())) / len(y)


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


@dataclass(frozen=True)
class AuthorsSchedule(PaperSchedule):
    """The phases of the authors' code, with the ELBO minus `l1` sum |m|; the `last` may be left out."""

    evaluate_every: int = 100
    l1: float = 1.0
    last: bool = True

    def phases(self, model: AnyGP) -> list[Phase[Any]]:
        super().phases(model)  # refuses what the paper's schedule has not
        phases = [
            AuthorsPhase("q", "train", False, self, 1 / 3),
            AuthorsPhase("hyperparameters", "train", True, self, 2 / 3),
            AuthorsPhase("all", "all", False, self),
        ]
        return list(phases if self.last else phases[:2])


class AuthorsNadam(Nadam):
    """TensorFlow's Nadam, whose first parameter, the mean of q(u), has the gradient of the penalty added."""

    def __init__(self, parameters: list[Tensor], learning_rate: float, l1: float) -> None:
        super().__init__(parameters, learning_rate)
        self.l1 = l1

    def advance(self) -> Rates:
        self.steps += 1
        rate = self.rate * (1 - _BETA2**self.steps) ** 0.5 / (1 - _BETA1**self.steps)
        return Rates(rate * (1 - _BETA1), rate * _BETA1, 1.0)

    def update(self, index: int, gradient: Tensor, rates: Rates) -> None:
        if index == 0 and self.l1:
            gradient = gradient.add(torch.sign(self.parameters[0].detach()), alpha=self.l1)
        super().update(index, gradient, rates)


class AuthorsPhase(NadamPhase):
    """A phase of `AuthorsSchedule`; phase 2 keeps a state only if its NLPP is below all those seen in phase 1."""

    def begin(self, trainer: Trainer) -> None:
        super().begin(trainer)
        scores = [record.nlpp for record in trainer.history.of("q") if record.nlpp is not None]
        if self.learn and scores:
            self.state = NadamState(best=copy.deepcopy(trainer.model.state_dict()), best_nlpp=min(scores))

    def prepare(self, trainer: Trainer) -> None:
        super().prepare(trainer)
        settings: Any = self.schedule
        self.optimizer = AuthorsNadam(self.optimizer.parameters, settings.learning_rate, settings.l1)
        if self.state.optimizer is not None:
            self.optimizer.load(self.state.optimizer)
