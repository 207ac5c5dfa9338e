"""A million synthetic satellite series, for the paper's data is not public: time and memory of SigGPDE."""

from __future__ import annotations

import resource
import time
from typing import Any

import torch
from torch import Tensor

from siggpde.experiments.iteration_time import iteration_seconds
from siggpde.experiments.methods import likelihood_of
from siggpde.experiments.preparation import Prepared, prepare, standardised, with_time
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.model import SignatureGP
from siggpde.paths import SeriesBatch
from siggpde.training.signature_cache import SignatureCache


def resampled(data: Prepared, count: int, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """`count` synthetic series (count, length, channels) and labels: each a training series drawn with its class.

    Gaussian noise of `noise` times the spread of its channel is added at every point. Float32.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(data.y_train), (count,), generator=generator)
    raw = data.raw_train.float()
    scale = noise * raw.std(dim=(0, 1))
    series = raw[rows]
    for chunk in series.split(2**16):
        chunk.add_(torch.randn(chunk.shape, generator=generator) * scale)
    return series, data.y_train[rows]


def time_million(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """CPU seconds of the signatures of all series and of iterations with scales fixed and moving, and peak memory.

    To be called in a process of its own: the peak is that of the process.
    """
    settings, count = config["million"], config["million"]["inducing"]
    data = prepare(config)
    raw, labels = resampled(data, settings["series"], settings["noise"], seed)
    paths, _ = standardised(with_time(raw), with_time(raw[:1]))
    del raw
    channels = paths.shape[2]
    kernel = SignatureKernel(channels, theta=(2 * channels) ** -0.5, tol=1e-6)
    features = OrthogonalSignatureFeatures(channels, count, "lexicographic")
    model = SignatureGP(kernel, features, likelihood_of(config, data.classes), dtype=torch.float32)
    started, wall = time.process_time(), time.perf_counter()
    cache = SignatureCache(SeriesBatch(paths), features.words, kernel.log_theta, dtype=torch.float32)
    made, made_wall = time.process_time() - started, time.perf_counter() - wall
    record = {"series": len(labels), "inducing": count, "signature_seconds": made, "signature_wall": made_wall}
    for name, learn in (("fixed", False), ("moving", True)):
        seconds = iteration_seconds(model, cache, labels, config["schedule"]["batch"], settings["iterations"], learn)
        record[f"{name}_seconds_per_iteration"] = seconds
    record["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return record
