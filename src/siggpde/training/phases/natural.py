"""The phases of the natural-gradient schedule."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.variational import NaturalParameters
from siggpde.training.parameters import frozen, trainable
from siggpde.training.phases.base import IterativePhase, PhaseState
from siggpde.training.posterior_update import Climb, NaturalGradient, in_batches
from siggpde.training.schedules import NaturalGradients
from siggpde.training.trainer import Part, Trainer

# Curvature of the first step from the prior: that of a softmax or logistic likelihood at its steepest.
_START_CURVATURE = 0.25


def natural_phases(schedule: NaturalGradients) -> list[SettleQ | LearnHyperparameters]:
    hyperparameters = [LearnHyperparameters(schedule)] if schedule.learn else []
    return [SettleQ("q", "train", schedule), *hyperparameters, SettleQ("all", "all", schedule)]


@dataclass
class SettleState(PhaseState):
    """Natural parameters of q(u), the step rho, how many iterations at the start take minibatches (`warm_up`), and how
    many steps in a row gained too little (`idle`)."""

    precision: Tensor
    shift: Tensor
    rho: float
    warm_up: int
    idle: int = 0


class SettleQ(IterativePhase[SettleState]):
    """Steps of q(u) alone until the ELBO has settled."""

    state_type = SettleState

    def __init__(self, name: str, which: Part, schedule: NaturalGradients) -> None:
        self.name, self.schedule, self.max_steps = name, schedule, schedule.max_iter
        self.which: Part = which

    def begin(self, trainer: Trainer) -> None:
        trainer.minibatches.reset()
        model = trainer.model
        gaussian, at_prior = model.likelihood.is_gaussian, model.variational.covariance_is_prior()
        # One pass over the data in small steps, where that is cheaper.
        minibatches = math.ceil(len(trainer.rows(self.which)) / batch_size(trainer, self.schedule))
        warm_up = 0 if gaussian or not at_prior else 2 * minibatches if minibatches > 2 else 1
        self.state = SettleState(*model.variational.natural_parameters(), 1.0 if gaussian else 0.5, warm_up)

    def prepare(self, trainer: Trainer) -> None:
        self.rows = trainer.rows(self.which)
        self.local_rows = trainer.shard.select(self.rows)
        self.y = trainer.y[self.local_rows]
        self.projection = trainer.project(self.rows) if len(self.rows) <= self.schedule.max_joint else None
        self.gradient = _resumed(trainer, self.state)
        self.climb: Climb | None = None

    def iterate(self, trainer: Trainer) -> str | None:
        state = self.state
        if trainer.iteration < state.warm_up:
            self._stochastic(trainer, 0.5)
            return None
        if self.projection is None:
            return self._stochastic_only(trainer)
        if self.climb is None:
            self.climb = Climb(self.gradient, in_batches(self.projection, self.y), state.rho)
        gain = self.climb.step() / len(self.rows)
        (state.precision, state.shift), state.rho = self.gradient.natural, self.climb.rho
        trainer.record(self.name, elbo=self.climb.elbo / len(self.rows), step=self.climb.rho)
        # Before the hyperparameters are learned, q(u) need not be exact.
        enough = self.schedule.settle * (5 if self.schedule.learn and self.which == "train" else 1)
        state.idle = state.idle + 1 if gain < enough else 0
        return "settled" if gain <= 0 or state.idle >= 2 else None

    def finish(self, trainer: Trainer) -> None:
        scores = trainer.validate() if self.which == "train" else None
        if scores is not None:
            trainer.record(self.name, nlpp=scores[0], accuracy=scores[1])

    def _stochastic(self, trainer: Trainer, rho: float) -> None:
        """A step from one minibatch."""
        rows = trainer.minibatches.next(self.rows, batch_size(trainer, self.schedule))
        index = torch.searchsorted(self.local_rows, trainer.shard.select(rows))
        projection = trainer.project(rows) if self.projection is None else self.projection[index]
        first = trainer.iteration == 0 and self.state.warm_up > 0
        curvature = _START_CURVATURE if first else None
        batches = in_batches(projection, self.y[index])
        value = self.gradient.step(batches, len(self.rows), 1.0 if first else rho, curvature)
        elbo = value / len(rows) - float(trainer.model.variational.kl().detach()) / len(self.rows)
        self.state.precision, self.state.shift = self.gradient.natural
        trainer.record(self.name, elbo=elbo, step=rho)

    def _stochastic_only(self, trainer: Trainer) -> str | None:
        """Too many series for joint steps: steps that shrink, so that the average over batches remains."""
        done = trainer.iteration - self.state.warm_up
        self._stochastic(trainer, 0.5 / (1 + done / 4))
        passes = done * batch_size(trainer, self.schedule) / len(self.rows)
        return "settled" if passes >= 2 and done >= 20 else None


@dataclass
class HyperparameterState(PhaseState):
    """Natural parameters of q(u), its step rho, the state of Adam, and the best state of the model with its score, and
    how many evaluations in a row were no better (`idle`)."""

    precision: Tensor
    shift: Tensor
    rho: float
    optimizer: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    best_score: float = math.inf
    idle: int = 0


class LearnHyperparameters(IterativePhase[HyperparameterState]):
    """Adam for scales, amplitude and likelihood in turn with steps of q(u); ends with the best state that it had."""

    name = "hyperparameters"
    state_type = HyperparameterState

    def __init__(self, schedule: NaturalGradients) -> None:
        self.schedule, self.max_steps = schedule, schedule.max_iter

    def begin(self, trainer: Trainer) -> None:
        trainer.minibatches.reset()
        rho = 1.0 if trainer.model.likelihood.is_gaussian else 0.5
        self.state = HyperparameterState(*trainer.model.variational.natural_parameters(), rho)

    def prepare(self, trainer: Trainer) -> None:
        self.gradient = _resumed(trainer, self.state)
        model, state = trainer.model, self.state
        self.parameters = [p for part in (model.kernel, model.likelihood, model.features) for p in trainable(part)]
        if not self.parameters:
            state.best = copy.deepcopy(model.state_dict())
            return
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.schedule.learning_rate, betas=(0.9, 0.95))
        if state.optimizer is not None:
            self.optimizer.load_state_dict(state.optimizer)
        if state.best is None:
            self._evaluate(trainer, None)

    def iterate(self, trainer: Trainer) -> str | None:
        if not self.parameters:
            return "nothing to learn"
        for _ in range(self.schedule.inner):
            self._adam(trainer)
        elbo = self._step_of_q(trainer)
        self.state.optimizer = copy.deepcopy(self.optimizer.state_dict())
        self._evaluate(trainer, elbo)
        return "no more improvement" if self.state.idle >= self.schedule.patience else None

    def finish(self, trainer: Trainer) -> None:
        assert self.state.best is not None
        trainer.model.load_state_dict(self.state.best)

    def _adam(self, trainer: Trainer) -> None:
        model = trainer.model
        size = min(512, len(trainer.train))
        rows = trainer.shard.select(trainer.minibatches.next(trainer.train, size))
        with frozen(model.variational):
            self.optimizer.zero_grad()
            if len(rows):  # the KL divergence is constant here: q(u) is frozen
                marginals = model.latent_marginals(trainer.cache.project(model, trainer.shard.local_index(rows)))
                loss = -model.likelihood.expected_log_prob(*marginals, trainer.y[rows]).sum() / size
                loss.backward()
            trainer.ranks.all_reduce_gradients(self.parameters)
            self.optimizer.step()

    def _step_of_q(self, trainer: Trainer) -> float:
        """One step of q(u) at the new hyperparameters; returns the ELBO per series after it."""
        rows = trainer.train
        if len(rows) > self.schedule.max_joint:
            rows = trainer.minibatches.next(rows, 4 * batch_size(trainer, self.schedule))
        batches = in_batches(trainer.project(rows), trainer.y[trainer.shard.select(rows)])
        if len(rows) < len(trainer.train):
            value = self.gradient.step(batches, len(trainer.train), 0.3)
            elbo = value / len(rows) - float(trainer.model.variational.kl().detach()) / len(trainer.train)
        else:
            climb = Climb(self.gradient, batches, self.state.rho)
            climb.step()
            self.state.rho = climb.rho
            elbo = climb.elbo / len(rows)
        self.state.precision, self.state.shift = self.gradient.natural
        return elbo

    def _evaluate(self, trainer: Trainer, elbo: float | None) -> None:
        """Compares by validation NLPP, or without a validation part by the ELBO; keeps the best state."""
        state = self.state
        nlpp, accuracy = trainer.validate() or (None, None)
        if elbo is not None:
            trainer.record(self.name, elbo=elbo, nlpp=nlpp, accuracy=accuracy)
        elif nlpp is None and len(trainer.train) <= self.schedule.max_joint:
            y = trainer.y[trainer.shard.select(trainer.train)]
            start = Climb(self.gradient, in_batches(trainer.project(trainer.train), y))
            elbo = start.elbo / len(trainer.train)
        score = nlpp if nlpp is not None else (-elbo if elbo is not None else math.inf)
        if score < state.best_score - 1e-4 or state.best is None:
            state.best_score, state.best, state.idle = score, copy.deepcopy(trainer.model.state_dict()), 0
        else:
            state.idle += 1


def _resumed(trainer: Trainer, state: SettleState | HyperparameterState) -> NaturalGradient:
    """Natural gradients that go on from the natural parameters of a state."""
    device = trainer.model.device
    natural = NaturalParameters(state.precision.to(device), state.shift.to(device))
    return NaturalGradient(trainer.model, natural, ranks=trainer.ranks)


def batch_size(trainer: Trainer, schedule: NaturalGradients) -> int:
    return schedule.batch or max(1024, 2 * trainer.model.variational.size)
