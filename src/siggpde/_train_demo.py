"""The demonstration of training: PenDigits from raw series to probabilities, judged on its test set."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.datasets import Dataset, load_pendigits
from siggpde.model import SignatureGP
from siggpde.screening import screen
from siggpde.training import History, fit

log = logging.getLogger(__name__)


def train_demo(series: int | None = None, seed: int = 0, rank: int = 500) -> tuple[dict[str, Any], SignatureGP]:
    """Screen settings, train, and judge on the test set; on the first `series` training series only where given.

    Returns plain facts, with accuracy, NLPP (the mean of -log p(y | x)) and seconds, and the model.
    """
    data = load_pendigits()
    x_train, y_train, x_test, y_test = tensors(data)
    x_train, y_train = x_train[:series], y_train[:series]
    started = time.perf_counter()
    found = screen(x_train, y_train, seed=seed)
    log.info("screened %d settings in %.1f s", len(found.report), found.seconds)
    model = found.build(rank=rank, dtype=torch.float32)
    paths, _ = found.transform(x_train)
    history = fit(model, (paths, y_train), seed=seed, screening=found)
    trained = time.perf_counter()
    log.info("%s", history)
    paths, _ = found.transform(x_test)
    nlpp = -float(model.log_predictive(paths, y_test).mean())
    accuracy = float((model.predict(paths).argmax(dim=1) == y_test).double().mean())
    facts = {
        "data": {"name": data.name, "train": len(x_train), "test": len(x_test)},
        "accuracy": accuracy,
        "nlpp": nlpp,
        "seconds": {"training": trained - started, "prediction": time.perf_counter() - trained},
        "inducing_variables": model.features.size,
        "words": len(model.features.words),
        "settings": found.to_dict()["chosen"],
        "theta": model.kernel.theta.tolist(),
        "amplitude": float(model.kernel.amplitude.detach()),
        "history": history.to_dict(),
    }
    return facts, model


def tensors(data: Dataset) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Series (n, length, channels) in float64 and labels 0..C-1 in the order of the sorted names: train, then test."""
    names = {name: place for place, name in enumerate(sorted(set(data.y_train.tolist())))}
    found = []
    for series, labels in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        found.append(torch.from_numpy(np.swapaxes(series, 1, 2).astype(np.float64)))
        found.append(torch.tensor([names[label] for label in labels.tolist()]))
    return found[0], found[1], found[2], found[3]


def write_training(folder: Path, facts: dict[str, Any], model: SignatureGP) -> None:
    """model.pt, the parameters of the model; report.md, what was done and how good it is."""
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "report.md").write_text(_report(facts), encoding="utf-8")


def _report(facts: dict[str, Any]) -> str:
    history = History.from_dict(facts["history"])
    data, chosen, seconds = facts["data"], facts["settings"], facts["seconds"]
    times = f"{seconds['training']:.1f} s | {seconds['prediction']:.2f} s"
    scales = ", ".join(f"{value:.3g}" for value in facts["theta"])
    lines = [
        f"# {data['name']}: trained on {data['train']} series, judged on {data['test']}",
        "",
        "| accuracy | NLPP | training | prediction |",
        "| --- | --- | --- | --- |",
        f"| {100 * facts['accuracy']:.2f} % | {facts['nlpp']:.4f} | {times} |",
        "",
        f"Inducing variables: {facts['inducing_variables']} directions of {facts['words']} words.",
        f"Settings chosen by leave-one-out: {chosen['options']},",
        f"path length {chosen['path_length']:g}, weight of time {chosen['time_scale']:g}.",
        f"Learned: amplitude {facts['amplitude']:.3g}, scales {scales}.",
        "",
        "| phase | seconds | ended because |",
        "| --- | --- | --- |",
        *(
            f"| {phase} | {seconds:.1f} | {history.stopped.get(phase, '')} |"
            for phase, seconds in history.phase_seconds.items()
        ),
        "",
        "| phase | iteration | ELBO a series | validation NLPP | validation accuracy |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {r.phase} | {r.iteration} | {_number(r.elbo)} | {_number(r.nlpp)} | {_number(r.accuracy)} |"
            for r in history.records
        ),
    ]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
