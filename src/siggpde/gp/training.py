"""`fit` trains a model on series by the phases of a schedule, and returns what happened."""

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.cache import PathStore, SignatureCache
from siggpde.gp.checkpoint import Checkpoint, describe, read_checkpoint, restore
from siggpde.gp.exact import Exact
from siggpde.gp.likelihoods import Classification
from siggpde.gp.model import AnyGP, SignatureGP
from siggpde.gp.phases import NaturalGradients, PaperSchedule, Phase
from siggpde.gp.trainer import History, Trainer, split_rows, word_pool
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series import SeriesBatch
from siggpde.series.batch import fingerprint, pad_to_longest
from siggpde.utils.progress import Progress

Schedule = NaturalGradients | PaperSchedule | Exact
_LOWEST_ELBO = -1e6


def fit(
    model: AnyGP,
    data: tuple[inputs.Series, Any],
    schedule: Schedule | None = None,
    *,
    lengths: Lengths = None,
    sample_weight: Sequence[float] | Tensor | None = None,
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
    """Trains a model in place and returns what happened.

    Parameters
    ----------
    model : SignatureGP or SparseGP
        The model, whose q(u), hyperparameters and, where its features ask for it, words or directions are learned.
    data : tuple of (x, y)
        Series x (n, length, channels), or a list of series, and their targets y (n,).
    schedule : NaturalGradients, PaperSchedule or Exact, optional
        How to train; `NaturalGradients()` by default. `Exact()` is for the Gaussian likelihood.
    lengths : array of int, optional
        The numbers of points of the series (n,), where x is padded.
    sample_weight : array of float, optional
        How much each series counts (n,), in the sum of the ELBO and in validation scores; `PaperSchedule` only. A
        weight of 2 is like having the series twice.
    validation : float or tuple of two sequences of int, default 0.2
        The share of series, drawn evenly from the classes, on which hyperparameters are compared, or the row numbers
        (train, validation). Below 50 series there is none, and the ELBO is compared. The last phase trains on all.
    seed : int, default 0
        Decides the split and the batches; the global random state is neither read nor changed.
    time_limit : float, optional
        Seconds after which every phase is cut short; of the paper's phases each has a third of them.
    progress : bool, optional
        Whether a bar is shown on the terminal; by default where there is one.
    checkpoint : path, optional
        A file written every `checkpoint_every` seconds and at the start of every phase.
    checkpoint_every : float, default 60
        Seconds between two states of the checkpoint.
    resume : bool, default False
        Whether to go on from the checkpoint, with the same steps as if nothing had happened.
    memory_budget : int, default 2**31
        Bytes of signatures kept in memory; above, they are kept in a temporary file.
    cache_dir : path, optional
        A folder where signatures are kept, to be read by the next fit of the same series and words.
    ranks : Ranks, optional
        What `siggpde.connect` gave, where several processes train one model: each hands in the same model and settings
        and its own part of the series. Rows are numbered through all parts; rank 0 keeps the checkpoint.

    Returns
    -------
    History
        ELBO, validation scores and hyperparameters over time, and why each phase ended.

    Examples
    --------
    >>> from siggpde import NaturalGradients, OrthogonalSignatureFeatures, SignatureGP, SignatureKernel, likelihoods
    >>> model = SignatureGP(SignatureKernel(1), OrthogonalSignatureFeatures(1, 3), likelihoods.Bernoulli())
    >>> x, y = torch.tensor([[[0.0], [1.0]], [[0.0], [-1.0]]] * 5), torch.tensor([1, 0] * 5)
    >>> print(fit(model, (x, y), NaturalGradients(learn=False), progress=False).stopped)
    {'q': 'settled', 'all': 'settled'}
    >>> model.predict(x[:2]).argmax(1)
    tensor([1, 0])
    """
    schedule = NaturalGradients() if schedule is None else schedule
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be NaturalGradients(), PaperSchedule() or Exact(), got {schedule!r}")
    phases = schedule.phases(model)
    path = None if checkpoint is None else Path(checkpoint)
    if resume and path is None:
        raise ValueError("resume=True needs the checkpoint to go on from: give checkpoint=")
    with ranks.together():  # what is wrong with the series of one rank is raised on all
        batch, y = _checked(model, data, lengths, ranks)
        weights = None if sample_weight is None else _checked_weights(sample_weight, len(batch), schedule)
    settings: tuple[Any, ...] = ()  # what all ranks, and a fit that is resumed, must have in common
    if path is not None or not ranks.alone:
        settings = (schedule, seed, describe(model))
        options = (path is None, resume, time_limit is None, weights is None)
        kinds = (batch.values.dtype, y.dtype, batch.values.device.type, y.device.type, model.device.type)
        ranks.check_same("model, schedule or kind of data", (settings, *kinds, batch.channels, *options))
    shard = Shard(ranks, len(batch))
    batch, y = pad_to_longest(batch, ranks), ranks.all_gather_rows(y)
    weights = None if weights is None else ranks.all_gather_rows(weights)
    generator = torch.Generator().manual_seed(seed)
    train, valid = split_rows(validation, y, isinstance(model.likelihood, Classification), generator)
    state, saved = None, None
    if path is not None:
        counted = () if weights is None else (weights,)
        saved = Checkpoint(path, checkpoint_every, fingerprint(shard, batch, y, *settings, train, valid, *counted))
        state = ranks.broadcast(lambda: read_checkpoint(path, saved.fingerprint)) if resume else None

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
        count = len(model.features.words)
    else:
        cache, count = PathStore(model, batch), model.features.size
    seconds = time.perf_counter() - started
    trainer = Trainer(model, cache, y, train, valid, history, generator, shard, weights=weights)
    # Directions come from a factorisation; the paper's schedule has none, and its words stay words.
    trainer.span_series = not isinstance(schedule, PaperSchedule)
    if state is None:
        trainer.choose_features(count)
        history.phase_seconds["set-up"] = time.perf_counter() - started
        trainer.earlier_seconds = seconds
    else:
        restore(trainer, state)
    phase_state = None if state is None else state["phase_state"]
    with Progress(progress if ranks.leads else False) as trainer.bar:
        _run_phases(trainer, phases, count, phase_state, time_limit, saved if ranks.leads else None)
    # The closed form cannot diverge: its ELBO may be that low where there is hardly any noise.
    if ranks.leads and not isinstance(schedule, Exact):
        _warn_if_diverged(history)
    return history


def _checked(
    model: AnyGP, data: tuple[inputs.Series, Any], lengths: Lengths, ranks: Ranks
) -> tuple[SeriesBatch, Tensor]:
    batch = model.kernel.checked_paths(data[0], lengths)
    batch = replace(batch, values=batch.values.detach())
    y = model.likelihood.check_targets(data[1])
    if len(batch) != len(y):
        raise ValueError(f"there are {len(batch)} series but {len(y)} targets")
    if len(batch) == 0 and ranks.alone:
        raise ValueError("there are no series to train on")
    inputs.check_finite(batch.values, batch.lengths)  # errors name series by their number in x, not in a minibatch
    return batch, y


def _checked_weights(weights: Sequence[float] | Tensor, count: int, schedule: Schedule) -> Tensor:
    if not isinstance(schedule, PaperSchedule):
        raise ValueError(f"sample_weight is for PaperSchedule(); leave it out with {type(schedule).__name__}()")
    values = torch.as_tensor(weights, dtype=torch.float64).detach()
    if values.shape != (count,) or not bool(((values > 0) & torch.isfinite(values)).all()):
        raise ValueError(f"sample_weight must be {count} positive numbers, one a series; leave out what counts 0")
    return values


def _run_phases(
    trainer: Trainer,
    phases: list[Phase[Any]],
    count: int,
    phase_state: dict[str, Any] | None,
    time_limit: float | None,
    checkpoint: Checkpoint | None,
) -> None:
    """Runs the phases from `trainer.phase`, the first from `phase_state`, the others with `count` words chosen anew."""
    while trainer.phase < len(phases):
        phase = phases[trainer.phase]
        if phase_state is not None:
            phase.state, phase_state = phase.state_type(**phase_state), None
        else:
            trainer.iteration = 0
            if trainer.phase > 0:
                trainer.choose_features(count)
            phase.begin(trainer)
            if checkpoint is not None:
                checkpoint.save(trainer, phase)
        trainer.bar.start(phase.name, phase.max_steps)
        trainer.history.stopped[phase.name] = _run(trainer, phase, time_limit, checkpoint)
        trainer.phase += 1
    if checkpoint is not None:
        checkpoint.save(trainer, None)


def _run(trainer: Trainer, phase: Phase[Any], time_limit: float | None, checkpoint: Checkpoint | None) -> str:
    """Makes the iterations of a phase that are left, and returns why it ended."""
    history = trainer.history
    limit = None if time_limit is None or phase.time_share is None else time_limit * phase.time_share
    earlier, started = history.phase_seconds.get(phase.name, 0.0), time.perf_counter()
    phase.prepare(trainer)
    reason = None
    while reason is None:
        reason = phase.iterate(trainer)
        trainer.iteration += 1
        if reason is None and trainer.iteration >= phase.max_steps:
            reason = f"{phase.max_steps} iterations"
        if limit is not None and trainer.ranks.broadcast_value(trainer.seconds > limit):
            reason = reason or "time limit"
        if trainer.bar.shown:
            trainer.bar.step(history.latest())
        history.phase_seconds[phase.name] = earlier + time.perf_counter() - started  # also before an interruption
        if reason is None and checkpoint is not None and time.perf_counter() - checkpoint.saved > checkpoint.seconds:
            checkpoint.save(trainer, phase)
    phase.finish(trainer)
    history.phase_seconds[phase.name] = earlier + time.perf_counter() - started
    return reason


def _warn_if_diverged(history: History) -> None:
    """Warns of an ELBO, in nats a series, that no data have: steps have led q(u) far off."""
    if history.elbo is not None and not history.elbo > _LOWEST_ELBO:
        warnings.warn(
            f"the fit is lost: its ELBO is {history.elbo:.1e} a series. Predictions mean nothing; scale the series or "
            "the targets down, or take covariance='diagonal'",
            RuntimeWarning,
            stacklevel=3,
        )
