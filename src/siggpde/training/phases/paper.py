"""The paper's schedule: Nadam in three equal phases."""

from __future__ import annotations

import copy
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.training.nadam import Nadam, q_step
from siggpde.training.parameters import frozen, trainable
from siggpde.training.phases.base import IterativePhase, PhaseState
from siggpde.training.schedules import PaperSchedule
from siggpde.training.trainer import Part, Trainer

_IMPROVEMENT = 0.005  # an evaluation counts as an improvement when it lowers the NLPP by this share


def paper_phases(schedule: PaperSchedule) -> list[NadamPhase]:
    """The three phases of the paper: q(u); q(u) and hyperparameters; q(u) on training and validation series."""
    return [
        NadamPhase("q", "train", False, schedule, 1 / 3),
        NadamPhase("hyperparameters", "train", True, schedule, 2 / 3),
        NadamPhase("all", "all", False, schedule),
    ]


@dataclass
class NadamState(PhaseState):
    """The state of Nadam, a running average of the ELBO per series, and CPU seconds spent.

    `best` is the state of the model with `best_nlpp` on the validation part, where hyperparameters are learned.
    `reference_nlpp` is that of the last evaluation that improved enough, and `idle` counts those since.
    """

    optimizer: dict[str, Any] | None = None
    elbo: float | None = None
    cpu_seconds: float = 0.0
    best: dict[str, Any] | None = None
    best_nlpp: float = math.inf
    reference_nlpp: float = math.inf
    idle: int = 0


class NadamPhase(IterativePhase[NadamState]):
    """Minibatch steps of q(u) and of the features' parameters, and with `learn` of the hyperparameters too.

    With `learn`, the phase ends with the state of the best validation NLPP.
    """

    state_type = NadamState

    def __init__(self, name: str, which: Part, learn: bool, schedule: PaperSchedule, time_share: float = 1.0) -> None:
        self.name, self.learn, self.schedule, self.time_share = name, learn, schedule, time_share
        self.which: Part = which
        self.max_steps = schedule.iterations

    def begin(self, trainer: Trainer) -> None:
        trainer.minibatches.reset()
        self.state = NadamState()

    def prepare(self, trainer: Trainer) -> None:
        self.rows = trainer.rows(self.which)
        self.local_rows = trainer.shard.select(self.rows)
        model = trainer.model
        modules = (model.features, model.kernel, model.likelihood) if self.learn else (model.features,)
        self.parameters: list[Tensor] = [parameter for module in modules for parameter in trainable(module)]
        q = model.variational
        self.optimizer = Nadam([q.mean, q.root, *self.parameters], self.schedule.learning_rate)
        if self.state.optimizer is not None:
            self.optimizer.load(self.state.optimizer)
        fixed = not self.learn and not trainable(model.features)
        self.projection = trainer.project(self.rows) if fixed else None
        first = trainer.history.steps.get("q")
        if self.which == "all" and self.schedule.patience is not None and first is not None:
            self.max_steps = first

    def iterate(self, trainer: Trainer) -> str | None:
        started = time.process_time()
        rows = trainer.minibatches.next(self.rows, self.schedule.batch)
        elbo = self._step(trainer, rows) / len(self.rows)
        stepped = time.process_time()
        history, state, done = trainer.history, self.state, trainer.iteration + 1
        history.steps[self.name] = done
        history.step_seconds[self.name] = history.step_seconds.get(self.name, 0.0) + stepped - started
        state.elbo = elbo if state.elbo is None else 0.98 * state.elbo + 0.02 * elbo
        state.optimizer = self.optimizer.state()
        budget = self.schedule.cpu_budget
        used = state.cpu_seconds + stepped - started
        spent = budget is not None and bool(trainer.ranks.broadcast_value(used > budget / 3))
        settled = False
        if spent or done % self.schedule.evaluate_every == 0 or done == self.max_steps:
            self._evaluate(trainer)
            settled = self.schedule.patience is not None and state.idle >= self.schedule.patience
        state.cpu_seconds += time.process_time() - started
        return "settled" if settled else "budget spent" if spent else None

    def finish(self, trainer: Trainer) -> None:
        if not trainer.history.of(self.name):  # a time limit came before the first evaluation
            self._evaluate(trainer)
        if self.state.best is not None:
            trainer.model.load_state_dict(self.state.best)

    def _step(self, trainer: Trainer, rows: Tensor) -> float:
        """One update of everything this phase learns; returns the estimate of the ELBO before it."""
        model, optimizer, total = trainer.model, self.optimizer, len(self.rows)
        local_rows = trainer.shard.select(rows)
        y, of_features = trainer.y[local_rows], self.projection is None
        for module in (model.likelihood, model.kernel, model.features) if of_features else (model.likelihood,):
            module.zero_grad(set_to_none=True)
        if self.projection is not None:
            projection = self.projection[torch.searchsorted(self.local_rows, local_rows)]
        else:
            with torch.enable_grad(), nullcontext() if self.learn else frozen(model.kernel):
                projection = trainer.cache.project(model, trainer.shard.local_index(local_rows))
        features, tail = projection.features, projection.tail
        rates = optimizer.advance()
        gradient = q_step(
            model,
            optimizer,
            rates,
            features,
            tail,
            y,
            total,
            of_features=of_features,
            batch=len(rows),
            ranks=trainer.ranks,
        )
        if of_features:
            assert gradient.features is not None and gradient.tail is not None
            pairs = [(features, gradient.features), (tail, gradient.tail.to(tail))]
            pairs = [(tensor, grad) for tensor, grad in pairs if tensor.requires_grad]
            if pairs:
                torch.autograd.backward([tensor for tensor, _ in pairs], [grad for _, grad in pairs])
        trainer.ranks.all_reduce_gradients(self.parameters)
        for index, parameter in enumerate(self.parameters, 2):
            grad = parameter.grad
            optimizer.update(index, torch.zeros_like(parameter) if grad is None else grad, rates)
        return gradient.elbo

    def _evaluate(self, trainer: Trainer) -> None:
        state = self.state
        scores = trainer.validate() if self.which == "train" else None
        nlpp, accuracy = scores or (None, None)
        trainer.record(self.name, elbo=state.elbo, nlpp=nlpp, accuracy=accuracy)
        if nlpp is None:
            return
        if nlpp < state.reference_nlpp - _IMPROVEMENT * abs(nlpp):
            state.reference_nlpp, state.idle = nlpp, 0
        else:
            state.idle += 1
        if nlpp < state.best_nlpp:
            state.best_nlpp = nlpp
            state.best = copy.deepcopy(trainer.model.state_dict()) if self.learn else None
