"""Whole fits on real data: accuracy and NLPP on the test set, wall and CPU seconds from raw series to a fitted model.

Nothing is tuned on a test set: settings come from `siggpde.screen` on the training series, hyperparameters from `fit`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from _train_cases import Grid
from torch import Tensor

import siggpde
from siggpde.datasets import Dataset, load_dataset
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Softmax
from siggpde.gp.model import SignatureGP
from siggpde.gp.word_choice import grow_pool
from siggpde.selection.screening import Candidate, Screening
from siggpde.series import SeriesBatch


@dataclass(frozen=True)
class Fit:
    """One kind of fit. The goals are (accuracy in %, NLPP), None where there is none."""

    key: str
    data: str
    what: str
    build: Callable[[Screening, Tensor], SignatureGP]
    words: int = 4000
    learn: bool = True
    screened: bool = True
    paper: tuple[float | None, float | None] = (None, None)
    needed: tuple[float | None, float | None] = (None, None)


@dataclass
class Outcome:
    accuracy: float
    nlpp: float
    wall: float
    cpu: float
    phases: dict[str, float]


def words_of_the_full_kernel(found: Screening, paths: Tensor) -> SignatureGP:
    """500 words by energy under the untruncated, normalised kernel: the paper's features, in a better order.

    The scales are those screened, shrunk until the words hold nine tenths of the kernel on 256 training series.
    """
    some = paths[:: max(1, len(paths) // 256)]
    assert found.classes is not None
    theta = found.theta
    while True:
        kernel = SignatureKernel(len(theta), theta=theta, amplitude=30.0, normalized=True)
        pool = grow_pool(kernel, SeriesBatch(some), 2000)
        share = siggpde.signature(some * theta, words=pool).square() / kernel.squared_norm(some).detach()[:, None]
        held = share.mean(dim=0).sort(descending=True).values[:500].sum()
        if held > 0.9:
            return SignatureGP(
                kernel, OrthogonalSignatureFeatures(len(theta), 500), Softmax(found.classes), dtype=torch.float32
            )
        theta = 0.9 * theta


def directions(rank: int | None) -> Callable[[Screening, Tensor], SignatureGP]:
    return lambda found, _: found.build(Softmax(found.classes or 2), rank=rank, dtype=torch.float32)


FITS = [
    Fit("untruncated", "PenDigits", "500 words, untruncated kernel", words_of_the_full_kernel,
        paper=(97.73, 0.085)),
    Fit("words", "PenDigits", "500 words, the kernel of these", directions(None), words=500,
        paper=(97.73, 0.085), needed=(98.0, 0.080)),
    Fit("directions", "PenDigits", "500 directions of 3280 words", directions(500),
        paper=(97.73, 0.085), needed=(98.6, 0.060)),
    Fit("fast", "PenDigits", "300 directions, nothing screened or learned but q(u)", directions(300),
        learn=False, screened=False, paper=(97.73, 0.085), needed=(97.73, 0.085)),
    Fit("crop", "Crop", "500 directions of 3280 words", directions(500), needed=(68.0, None)),
]  # fmt: skip


def run(fit: Fit, seed: int) -> Outcome:
    """From raw series to predictions; the time is that of everything but loading the file and judging."""
    train, labels, test, truth = tensors(load_dataset(fit.data))
    wall, cpu = time.perf_counter(), time.process_time()
    candidates = None if fit.screened else [Candidate(words=fit.words)]
    found = siggpde.screen(
        train, labels, seed=seed, candidates=candidates, max_words=fit.words, max_series=1500 if fit.screened else 500
    )
    paths, lengths = found.transform(train)
    model = fit.build(found, paths)
    schedule = siggpde.NaturalGradients(learn=fit.learn)
    history = siggpde.fit(
        model, (paths, labels), schedule, lengths=lengths, seed=seed, screening=found, progress=False,
        validation=0.2 if fit.learn else 0.0,
    )  # fmt: skip
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    paths, lengths = found.transform(test)
    nlpp = -float(model.log_predictive(paths, truth, lengths=lengths).mean())
    right = model.predict(paths, lengths=lengths).argmax(dim=1) == truth
    return Outcome(
        100 * float(right.double().mean()), nlpp, wall, cpu, {"screening": found.seconds, **history.phase_seconds}
    )


def accuracy(_rounds: int, quick: bool) -> Grid:
    """All the fits, mean ± sd over three seeds (one with `quick`), on all cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    cores = f"{torch.get_num_threads()} cores, float32; seconds from raw series to the fitted model"
    grid = Grid("accuracy", f"Whole fits on real data, {cores}", HEADINGS)
    try:
        for fit in FITS:
            try:
                outcomes = [run(fit, seed) for seed in range(1 if quick else 3)]
            except FileNotFoundError:
                grid.add([fit.data, fit.what, "data set not found: set SIGGPDE_DATA", "", "", "", "", ""])
                continue
            grid.add(_row(fit, outcomes), fit=fit.key, outcomes=[asdict(outcome) for outcome in outcomes])
    finally:
        torch.set_num_threads(threads)
    return grid


def _row(fit: Fit, outcomes: list[Outcome]) -> list[str]:
    return [
        fit.data,
        fit.what,
        _spread([o.accuracy for o in outcomes], 2),
        _spread([o.nlpp for o in outcomes], 4),
        _pair(fit.paper),
        _pair(fit.needed),
        _spread([o.wall for o in outcomes], 1),
        _spread([o.cpu for o in outcomes], 1),
    ]


HEADINGS = ["data", "model", "accuracy %", "NLPP", "paper", "at least", "wall s", "CPU s"]


def _spread(values: list[float], digits: int) -> str:
    middle = f"{statistics.mean(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ± {statistics.stdev(values):.{digits}f}"


def _pair(values: tuple[float | None, float | None]) -> str:
    return " / ".join("–" if value is None else f"{value:g}" for value in values)


def tensors(data: Dataset) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Series (n, length, channels) in float64 and labels 0..C-1 in the order of the sorted names: train, then test."""
    indices = {label: index for index, label in enumerate(sorted(set(data.y_train.tolist())))}
    arrays = []
    for series, labels in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        arrays.append(torch.from_numpy(np.swapaxes(series, 1, 2).astype(np.float64)))
        arrays.append(torch.tensor([indices[label] for label in labels.tolist()]))
    return arrays[0], arrays[1], arrays[2], arrays[3]
