"""The paper's model trained on a million satellite series: synthetic ones, for the paper's data is not public.

Each synthetic series is a training series of Crop with noise added, so that a million of them hold hardly more than the
originals: what is measured is time and memory, and that accuracy does not suffer. The same model is trained for as many
iterations on the originals, and both are tested on the real test series.
"""

from __future__ import annotations

import resource
import sys
import time
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from siggpde_paper.experiments import tables
from siggpde_paper.experiments.methods import Prepared, build, judged, prepare, standardised, train, with_time
from siggpde_paper.experiments.results import Results

_METHOD = {"kind": "siggpde", "order": "lexicographic"}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """The model on the synthetic series and on the originals, each in a process of its own, for its peak memory.

    The paper's experiment on a million satellite series, with a synthetic million.
    """
    for seed in range(runs):
        for kind in ("original", "synthetic"):
            checkpoint = results.folder / "checkpoints" / f"{kind}-{seed}.pt"
            results.compute({f"fit/{kind}/{seed}": partial(train_once, config, kind, seed, checkpoint)}, apart=True)


def train_once(config: dict[str, Any], kind: str, seed: int, checkpoint: Path | None) -> dict[str, Any]:
    """One run of the schedule on the `original` or the `synthetic` series; a record of plain numbers."""
    started = time.process_time()
    data = prepare(config)
    if kind == "synthetic":
        data = synthetic(data, config["synthetic"], config["noise"], seed)
    model = build(config, _METHOD, data, seed)
    history = train(config, model, data, seed, checkpoint)
    spent = time.process_time() - started
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return judged(model, history, data) | {"series": len(data.y_train), "process_cpu": spent, "peak_gib": peak}


def synthetic(data: Prepared, count: int, noise: float, seed: int) -> Prepared:
    """`count` synthetic training series, standardised by themselves; real test series, scaled in the same way."""
    raw, labels = resampled(data, count, noise, seed)
    train, test = standardised(with_time(raw), with_time(data.raw_test.float()))
    return Prepared(train, labels, test, data.y_test, data.raw_train, data.raw_test, data.classes)


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


def report(config: dict[str, Any], results: Results) -> str:
    """The table of both fits."""
    columns = tables.FIGURES | {
        "iterations": tables.iterations_cell,
        "kernel fixed / learned": lambda records: " / ".join(
            tables.duration(mean(record["seconds_per_iteration"][phase] for record in records))
            for phase in ("q", "hyperparameters")
        ),
        "CPU time": tables.duration_cell("cpu_seconds"),
        "wall time": tables.duration_cell("wall_seconds"),
        "peak memory": lambda records: f"{max(record['peak_gib'] for record in records):.1f} GiB",
        "ended by": tables.ended_cell,
    }
    rows = []
    for kind in ("synthetic", "original"):
        records = list(results.records(f"fit/{kind}/").values())
        rows.append(([f"{records[0]['series']:,} {kind}" if records else kind], records))
    return tables.page(
        "**Synthetic series**: each is one of the training series, drawn at random with its class, with Gaussian noise "
        f"of {config['noise']:g} times the spread of its channel added at every point. Both models are tested on the "
        "real test series.",
        tables.runs_table(["training series"], rows, columns),
        "Kernel fixed / learned: CPU time of an iteration. CPU and wall time: of all iterations, and of the whole fit "
        "with set-up, signatures and evaluations. Peak memory: of the process, data included.",
        tables.protocol(config),
        tables.notes_list(config),
    )
