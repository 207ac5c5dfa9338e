"""`fit` trains a model on series by the phases of a schedule, and returns what happened."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.cache import PathStore, SignatureCache
from siggpde.gp.checkpoint import Checkpoint, describe, read_checkpoint, restore
from siggpde.gp.exact import ExactPosterior
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP, SignatureGP
from siggpde.gp.phases import Exact, NaturalGradients, PaperSchedule, Phase, Schedule, natural_phases, paper_phases
from siggpde.gp.trainer import History, Trainer, split_rows, word_pool
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series.batch import fingerprint, pad_to_longest
from siggpde.utils.progress import Progress

_LOWEST_ELBO = -1e6


def fit(
    model: AnyGP,
    data: tuple[inputs.Series, Any],
    schedule: Schedule | None = None,
    *,
    lengths: Lengths = None,
    validation: float | tuple[Sequence[int], Sequence[int]] = 0.2,
    seed: int = 0,
    time_limit: float | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
    memory_budget: int = 2**31,
    cache_dir: str | os.PathLike[str] | None = None,
    ranks: Ranks = ALONE,
) -> History:
    """Trains `model` in place on data = (x, y), x (n, length, channels) or a list of series, and returns the History.

    - `schedule`: `NaturalGradients()`, the default, `PaperSchedule()`, or for the Gaussian likelihood `Exact()`.
    - `validation`: the share of series, drawn evenly from the classes, on which hyperparameters are compared, or the
      row numbers (train, validation); below 50 series there is none, and the ELBO is compared. The last phase trains on
      all of them.
    - `seed` decides the split and the batches; the global random state is neither read nor changed.
    - `time_limit`: seconds after which every phase is cut short; of the paper's phases each has a third of them.
    - `progress`: a bar on the terminal; by default where there is one.
    - `checkpoint`: a file written every `checkpoint_every` seconds and at the start of every phase; `resume=True` goes
      on from it, with the same steps as if nothing had happened.
    - `memory_budget`: bytes of signatures kept in memory; above, they are kept in a temporary file.
    - `cache_dir`: a folder where signatures are kept, to be read by the next fit of the same series and words.
    - `ranks`: what `siggpde.connect` gave, where several processes train one model: each hands in the same model and
      settings and its own part of the series. Rows are numbered through all parts; rank 0 keeps the checkpoint.
    """
    if schedule is None:
        schedule = NaturalGradients()
    phases = _phases(schedule, model)
    path = None if checkpoint is None else Path(checkpoint)
    if resume and path is None:
        raise ValueError("resume=True needs the checkpoint to go on from: give checkpoint=")
    with ranks.together():
        batch = model.kernel.checked_paths(data[0], lengths)
        batch = replace(batch, values=batch.values.detach())
        y = model.likelihood.check_targets(data[1])
        if len(batch) != len(y):
            raise ValueError(f"there are {len(batch)} series but {len(y)} targets")
        if len(batch) == 0 and ranks.alone:
            raise ValueError("there are no series to train on")
        inputs.check_finite(batch.values, batch.lengths)  # errors name series by their number in x, not in a minibatch
    settings: tuple[Any, ...] = ()  # what all ranks, and a fit that is resumed, must have in common
    if path is not None or not ranks.alone:
        settings = (schedule, seed, describe(model))
        options = (path is None, resume, time_limit is None)
        kinds = (batch.values.dtype, y.dtype, batch.values.device.type, y.device.type, model.device.type)
        ranks.check_same("model, schedule or kind of data", (settings, *kinds, batch.channels, *options))
    shard = Shard(ranks, len(batch))
    batch, y = pad_to_longest(batch, ranks), ranks.all_gather_rows(y)
    generator = torch.Generator().manual_seed(seed)
    train, valid = split_rows(validation, y, isinstance(model.likelihood, Classification), generator)
    data_fingerprint = "" if path is None else fingerprint(shard, batch, y, *settings, train, valid)
    state = None
    if path is not None and resume:
        file = path
        state = ranks.broadcast(lambda: read_checkpoint(file, data_fingerprint))

    history = History(seed=seed, schedule=type(schedule).__name__)
    started = time.perf_counter()
    if isinstance(model, SignatureGP):
        pool = word_pool(model, batch, shard) if state is None else [tuple(word) for word in state["pool"]]
        reference = model.kernel.log_theta if state is None else state["reference"].to(model.device)
        folder = None if cache_dir is None else Path(cache_dir)
        with ranks.together():
            cache = SignatureCache(
                batch, pool, reference, dtype=model.dtype, budget=memory_budget, folder=folder, progress=progress
            )
        wanted = len(model.features.words)
    else:
        cache, wanted = PathStore(model, batch), model.features.size
    made = time.perf_counter() - started
    # Directions come from a factorisation; the paper's schedule has none, and its words stay words.
    span_series = not isinstance(schedule, PaperSchedule)
    trainer = Trainer(model, cache, y, train, valid, history, generator, shard, span_series=span_series)
    if state is None:
        trainer.choose_features(wanted)
        history.phase_seconds["set-up"] = time.perf_counter() - started
        trainer.earlier_seconds = made
    else:
        restore(trainer, state)
    run_phases(
        trainer,
        phases,
        count=wanted,
        saved=None if state is None else state["phase_state"],
        time_limit=time_limit,
        progress=progress if ranks.leads else False,
        checkpoint=None if path is None or not ranks.leads else Checkpoint(path, checkpoint_every, data_fingerprint),
    )
    # The closed form cannot diverge: its ELBO may be that low where there is hardly any noise.
    if ranks.leads and not isinstance(schedule, Exact):
        _warn_if_diverged(history)
    return history


def _warn_if_diverged(history: History) -> None:
    """Warns of an ELBO, in nats a series, that no data have: steps have led q(u) far off and not back."""
    if history.elbo is not None and not history.elbo > _LOWEST_ELBO:
        warnings.warn(
            f"the fit is lost: its ELBO is {history.elbo:.1e} a series. Predictions mean nothing; scale the series or "
            "the targets down, or take covariance='diagonal'",
            RuntimeWarning,
            stacklevel=3,
        )


def _phases(schedule: Schedule, model: AnyGP) -> list[Phase]:
    if isinstance(schedule, NaturalGradients):
        return [*natural_phases(schedule)]
    if isinstance(schedule, PaperSchedule):
        if model.variational.shared:
            raise ValueError("the paper's schedule has no covariance='shared'; take 'full' or 'diagonal'")
        return [*paper_phases(schedule)]
    if isinstance(schedule, Exact):
        if not model.likelihood.is_gaussian:
            name = type(model.likelihood).__name__
            raise ValueError(f"Exact() is for the Gaussian likelihood, not {name}; take NaturalGradients()")
        if not model.variational.full:
            raise ValueError("Exact() has no covariance='diagonal'; take 'shared' or 'full'")
        return [ExactPosterior(schedule)]
    raise ValueError(f"schedule must be NaturalGradients(), PaperSchedule() or Exact(), got {schedule!r}")


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
