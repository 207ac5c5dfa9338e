"""CPU time of iterations of the paper's schedule, apart from all else that a fit does."""

from __future__ import annotations

from statistics import mean

import torch
from torch import Tensor

from siggpde.gp.model import AnyGP
from siggpde.training import PaperSchedule
from siggpde.training.history import History
from siggpde.training.path_cache import PathStore
from siggpde.training.phases.paper import NadamPhase
from siggpde.training.signature_cache import SignatureCache
from siggpde.training.trainer import Trainer


def iteration_seconds(
    model: AnyGP, cache: SignatureCache | PathStore, y: Tensor, batch: int, iterations: int, learn: bool
) -> float:
    """CPU seconds of one iteration, the mean of `iterations` after a first one; with `learn` also of the kernel."""
    return mean(iteration_times(model, cache, y, batch, iterations, learn))


def iteration_times(
    model: AnyGP, cache: SignatureCache | PathStore, y: Tensor, batch: int, iterations: int, learn: bool
) -> list[float]:
    """CPU seconds of each of `iterations` iterations after a first one; with `learn` also of the kernel."""
    nothing = torch.empty(0, dtype=torch.int64)
    trainer = Trainer(model, cache, y, torch.arange(len(y)), nothing, History(), torch.Generator().manual_seed(0))
    endless = 10**9  # no evaluation falls into the timing
    phase = NadamPhase("", "train", learn, PaperSchedule(iterations=endless, batch=batch, evaluate_every=endless))
    phase.begin(trainer)
    phase.prepare(trainer)
    seconds = []
    for _ in range(iterations + 1):
        trainer.history.step_seconds.clear()
        phase.iterate(trainer)
        seconds.append(trainer.history.step_seconds[""])
        trainer.iteration += 1
    return seconds[1:]
