"""Runs the phases of a schedule one after the other, with progress, a time limit and checkpoints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from siggpde.training.checkpoint import save_checkpoint
from siggpde.training.phases.base import Phase
from siggpde.training.trainer import Trainer
from siggpde.utils.progress import Progress


class Checkpoint:
    """A file that the fit is saved to: at the start of every phase, every `seconds` and at the end."""

    def __init__(self, path: Path, seconds: float, fingerprint: str) -> None:
        self.path, self.seconds, self.fingerprint = path, seconds, fingerprint
        self._saved = time.perf_counter()

    def save(self, trainer: Trainer, phase: Phase | None) -> None:
        """`phase` is the one that is running; None when all are done."""
        save_checkpoint(self.path, trainer, {} if phase is None else phase.state_dict(), self.fingerprint)

    def save_if_due(self, trainer: Trainer, phase: Phase) -> None:
        if time.perf_counter() - self._saved > self.seconds:
            self.save(trainer, phase)
            self._saved = time.perf_counter()


class PhaseControl:
    """The `Control` of a running phase."""

    def __init__(self, trainer: Trainer, phase: Phase, checkpoint: Checkpoint | None, time_limit: float | None) -> None:
        self.trainer, self.phase, self.checkpoint, self.time_limit = trainer, phase, checkpoint, time_limit
        self._earlier = trainer.history.phase_seconds.get(phase.name, 0.0)
        self._started = time.perf_counter()

    def after_step(self, *, last: bool = False) -> bool:
        trainer = self.trainer
        limit = None if self.time_limit is None else self.time_limit * self.phase.time_share
        late = limit is not None and bool(trainer.ranks.broadcast_value(trainer.seconds > limit))
        if trainer.bar.shown:
            trainer.bar.step(trainer.history.latest())
        self.count_seconds()
        if self.checkpoint is not None and not last and not late:
            self.checkpoint.save_if_due(trainer, self.phase)
        return late

    def count_seconds(self) -> None:
        """Writes the time spent in this phase, also before an interruption, into the History."""
        self.trainer.history.phase_seconds[self.phase.name] = self._earlier + time.perf_counter() - self._started


def run_phases(
    trainer: Trainer,
    phases: list[Phase],
    *,
    count: int,
    saved: dict[str, Any] | None,
    time_limit: float | None,
    progress: bool | None,
    checkpoint: Checkpoint | None,
) -> None:
    """Runs all phases, or those from `trainer.phase` on; `saved` is the state of that one from a checkpoint.

    `count` is the number of words, which are chosen anew before every phase but the first.
    """
    with Progress(progress) as bar:
        trainer.bar = bar
        while trainer.phase < len(phases):
            phase = phases[trainer.phase]
            if saved is not None:
                phase.load_state_dict(saved)
                saved = None
            else:
                trainer.iteration = 0
                if trainer.phase > 0:
                    trainer.choose_features(count)
                phase.begin(trainer)
                if checkpoint is not None:
                    checkpoint.save(trainer, phase)
            bar.start(phase.name, phase.max_steps)
            control = PhaseControl(trainer, phase, checkpoint, time_limit)
            reason = phase.run(trainer, control)
            control.count_seconds()
            trainer.history.stopped[phase.name] = reason
            trainer.phase += 1
    if checkpoint is not None:
        checkpoint.save(trainer, None)
