"""The demonstration of training: PenDigits from raw series to probabilities, evaluated on its test set."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.datasets import Dataset, load_pendigits
from siggpde.ensemble.committee import Committee
from siggpde.estimators import SigGPClassifier
from siggpde.estimators.describing import members_of_views

log = logging.getLogger(__name__)


def train_demo(series: int | None = None, seed: int = 0) -> tuple[dict[str, Any], SigGPClassifier]:
    """Train with the defaults, on the first `series` training series where given, and evaluate on the test set.

    Returns a summary of plain values, with accuracy, NLPP (the mean of -log p(y | x)) and seconds, and the classifier.
    """
    data = load_pendigits()
    x_train, y_train = data.X_train[:series], data.y_train[:series]
    started = time.perf_counter()
    classifier = SigGPClassifier(random_state=seed, n_jobs=None, verbose=1, channel_names=data.channel_names)
    classifier.fit(x_train, y_train)
    trained = time.perf_counter()
    probabilities, new = classifier.predict_with_newness(data.X_test)
    assert new is not None
    own = probabilities[np.arange(len(probabilities)), np.searchsorted(classifier.classes_, data.y_test)]
    accuracy = float((classifier.classes_[probabilities.argmax(1)] == data.y_test).mean())
    committee = classifier.committee_
    members = [] if isinstance(committee, Committee) else members_of_views(committee)
    summary = {
        "data": {"name": data.name, "train": len(x_train), "test": len(data.X_test)},
        "accuracy": accuracy,
        "nlpp": -float(np.log(own).mean()),
        "unlike": sum(reason is not None for reason in new.unlike),
        "seconds": {"training": trained - started, "prediction": time.perf_counter() - trained},
        "members": [
            {"weight": member.weight, "kernel": member.kernel, "left_out_nlpp": member.score} for member in members
        ],
    }
    return summary, classifier


def tensors(data: Dataset) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Series (n, length, channels) in float64 and labels 0..C-1 in the order of the sorted names: train, then test."""
    indices = {label: index for index, label in enumerate(sorted(set(data.y_train.tolist())))}
    arrays = []
    for series, labels in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        arrays.append(torch.from_numpy(np.swapaxes(series, 1, 2).astype(np.float64)))
        arrays.append(torch.tensor([indices[label] for label in labels.tolist()]))
    return arrays[0], arrays[1], arrays[2], arrays[3]


def write_training(folder: Path, summary: dict[str, Any], classifier: SigGPClassifier) -> None:
    """model/, to be read by `siggpde.load`; report.md, what was done and how good it is."""
    classifier.save(folder / "model", force=True)
    (folder / "report.md").write_text(_report(summary), encoding="utf-8")


def _report(summary: dict[str, Any]) -> str:
    data, seconds = summary["data"], summary["seconds"]
    times = f"{seconds['training']:.1f} s | {seconds['prediction']:.2f} s"
    lines = [
        f"# {data['name']}: trained on {data['train']} series, tested on {data['test']}",
        "",
        "| accuracy | NLPP | training | prediction |",
        "| --- | --- | --- | --- |",
        f"| {100 * summary['accuracy']:.2f} % | {summary['nlpp']:.4f} | {times} |",
        "",
        "Members were chosen by leave-one-out on the training series alone. The models that are averaged:",
        "",
        "| weight | kernel | leave-one-out loss |",
        "| ---: | --- | ---: |",
        *(f"| {m['weight']:.2f} | {m['kernel']} | {m['left_out_nlpp']:.4f} |" for m in summary["members"]),
        "",
        "```python",
        "import siggpde",
        "",
        'classifier = siggpde.load("model")',
        "```",
    ]
    return "\n".join(lines) + "\n"
