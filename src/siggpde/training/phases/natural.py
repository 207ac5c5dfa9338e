"""The phases of the natural-gradient schedule."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor

from siggpde.gp.variational import NaturalParameters
from siggpde.training.parameters import at_rest, learned
from siggpde.training.posterior_update import Climb, NaturalGradient, in_batches
from siggpde.training.schedules import NaturalGradients
from siggpde.training.trainer import Trainer

# Curvature of the first step from the prior: that of a softmax or logistic likelihood at its steepest.
_START_CURVATURE = 0.25


def natural_phases(schedule: NaturalGradients) -> list[SettleQ | LearnHyperparameters]:
    learned = [LearnHyperparameters(schedule)] if schedule.learn else []
    return [SettleQ("q", "train", schedule), *learned, SettleQ("all", "all", schedule)]


class SettleQ:
    """Steps of q(u) alone until the ELBO has settled."""

    def __init__(self, name: str, rows: Literal["train", "all"], schedule: NaturalGradients) -> None:
        self.name, self.which, self.schedule, self.most = name, rows, schedule, schedule.max_iter

    def begin(self, trainer: Trainer) -> None:
        fresh = trainer.model.variational.covariance_is_prior()
        rows, size = self._rows(trainer), batch_size(trainer, self.schedule)
        natural = NaturalGradient(trainer.model, ranks=trainer.ranks)
        first = math.ceil(len(rows) / size)  # one pass over the data in small steps, where that is cheaper
        trainer.scratch = {
            "precision": natural.natural.precision,
            "shift": natural.natural.shift,
            "rho": 1.0 if trainer.model.likelihood.is_gaussian else 0.5,
            "warm": 0 if not fresh or trainer.model.likelihood.is_gaussian else (2 * first if first > 2 else 1),
            "settled": 0,
        }

    def prepare(self, trainer: Trainer) -> None:
        self.rows = self._rows(trainer)
        self.held = trainer.shard.select(self.rows)
        self.y = trainer.y[self.held]
        self.seen = trainer.project(self.rows) if len(self.rows) <= self.schedule.max_joint else None
        self.natural = restored(trainer)
        self.climb: Climb | None = None

    def iterate(self, trainer: Trainer) -> str | None:
        scratch = trainer.scratch
        if trainer.iteration < scratch["warm"]:
            self._stochastic(trainer, 0.5)
            return None
        if self.seen is None:
            return self._stochastic_only(trainer)
        if self.climb is None:
            self.climb = Climb(self.natural, in_batches(self.seen, self.y), scratch["rho"])
        gain = self.climb.step() / len(self.rows)
        scratch |= {
            "precision": self.natural.natural.precision,
            "shift": self.natural.natural.shift,
            "rho": self.climb.rho,
        }
        trainer.record(self.name, elbo=self.climb.elbo / len(self.rows), step=self.climb.rho)
        # Before the hyperparameters move, q(u) need not be exact.
        enough = self.schedule.settle * (5 if self.schedule.learn and self.which == "train" else 1)
        scratch["settled"] = scratch["settled"] + 1 if gain < enough else 0
        return "settled" if gain <= 0 or scratch["settled"] >= 2 else None

    def finish(self, trainer: Trainer) -> None:
        trainer.scratch = {}
        judged = trainer.validate() if self.which == "train" else None
        if judged is not None:
            trainer.record(self.name, nlpp=judged[0], accuracy=judged[1])

    def _rows(self, trainer: Trainer) -> Tensor:
        return trainer.train if self.which == "train" else torch.cat([trainer.train, trainer.valid]).sort().values

    def _stochastic(self, trainer: Trainer, rho: float) -> float:
        rows = trainer.batch(self.rows, batch_size(trainer, self.schedule))
        places = torch.searchsorted(self.held, trainer.shard.select(rows))
        seen = trainer.project(rows) if self.seen is None else self.seen[places]
        batches = in_batches(seen, self.y[places])
        first = trainer.iteration == 0 and trainer.scratch["warm"] > 0
        curvature = _START_CURVATURE if first else None
        value = self.natural.step(batches, len(self.rows), 1.0 if first else rho, curvature)
        elbo = value / len(rows) - float(trainer.model.variational.kl().detach()) / len(self.rows)
        trainer.scratch |= {"precision": self.natural.natural.precision, "shift": self.natural.natural.shift}
        trainer.record(self.name, elbo=elbo, step=rho)
        return elbo

    def _stochastic_only(self, trainer: Trainer) -> str | None:
        """Too many series for joint steps: steps that shrink, so that the average over batches remains."""
        done = trainer.iteration - trainer.scratch["warm"]
        self._stochastic(trainer, 0.5 / (1 + done / 4))
        passes = done * batch_size(trainer, self.schedule) / len(self.rows)
        return "settled" if passes >= 2 and done >= 20 else None


class LearnHyperparameters:
    """Adam for scales, amplitude and likelihood in turn with steps of q(u); ends with the best state seen."""

    name = "hyperparameters"

    def __init__(self, schedule: NaturalGradients) -> None:
        self.schedule, self.most = schedule, schedule.max_iter

    def begin(self, trainer: Trainer) -> None:
        natural = NaturalGradient(trainer.model, ranks=trainer.ranks)
        trainer.scratch = {
            "precision": natural.natural.precision,
            "shift": natural.natural.shift,
            "rho": 1.0 if trainer.model.likelihood.is_gaussian else 0.5,
            "optimizer": None,
            "best": None,
            "score": math.inf,
            "bad": 0,
        }

    def prepare(self, trainer: Trainer) -> None:
        self.natural = restored(trainer)
        model = trainer.model
        self.parameters = [p for part in (model.kernel, model.likelihood, model.features) for p in learned(part)]
        if not self.parameters:
            trainer.scratch["best"] = copy.deepcopy(model.state_dict())
            return
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.schedule.learning_rate, betas=(0.9, 0.95))
        if trainer.scratch["optimizer"] is not None:
            self.optimizer.load_state_dict(trainer.scratch["optimizer"])
        if trainer.scratch["best"] is None:
            self._judge(trainer, None)

    def iterate(self, trainer: Trainer) -> str | None:
        if not self.parameters:
            return "nothing to learn"
        for _ in range(self.schedule.inner):
            self._adam(trainer)
        elbo = self._step_of_q(trainer)
        trainer.scratch["optimizer"] = copy.deepcopy(self.optimizer.state_dict())
        self._judge(trainer, elbo)
        return "no more improvement" if trainer.scratch["bad"] >= self.schedule.patience else None

    def finish(self, trainer: Trainer) -> None:
        best = trainer.scratch["best"]
        trainer.scratch = {}
        trainer.model.load_state_dict(best)

    def _adam(self, trainer: Trainer) -> None:
        model = trainer.model
        size = min(512, len(trainer.train))
        rows = trainer.shard.select(trainer.batch(trainer.train, size))
        with at_rest(model.variational):
            self.optimizer.zero_grad()
            if len(rows):  # the KL divergence is that of q(u), which rests
                marginals = model.latent_marginals(trainer.cache.project(model, trainer.shard.local_index(rows)))
                loss = -model.likelihood.expected_log_prob(*marginals, trainer.y[rows]).sum() / size
                loss.backward()
            trainer.ranks.all_reduce_gradients(self.parameters)
            self.optimizer.step()

    def _step_of_q(self, trainer: Trainer) -> float:
        """One step of q(u) at the new hyperparameters; returns the ELBO per series after it."""
        rows = trainer.train
        if len(rows) > self.schedule.max_joint:
            rows = trainer.batch(rows, 4 * batch_size(trainer, self.schedule))
        batches = in_batches(trainer.project(rows), trainer.y[trainer.shard.select(rows)])
        if len(rows) < len(trainer.train):
            value = self.natural.step(batches, len(trainer.train), 0.3)
            elbo = value / len(rows) - float(trainer.model.variational.kl().detach()) / len(trainer.train)
        else:
            climb = Climb(self.natural, batches, trainer.scratch["rho"])
            climb.step()
            trainer.scratch["rho"] = climb.rho
            elbo = climb.elbo / len(rows)
        trainer.scratch |= {"precision": self.natural.natural.precision, "shift": self.natural.natural.shift}
        return elbo

    def _judge(self, trainer: Trainer, elbo: float | None) -> None:
        """Validation NLPP, or without a validation part the ELBO; the best state is kept."""
        judged = trainer.validate()
        nlpp, accuracy = judged or (None, None)
        if elbo is not None:
            trainer.record(self.name, elbo=elbo, nlpp=nlpp, accuracy=accuracy)
        elif nlpp is None and len(trainer.train) <= self.schedule.max_joint:
            y = trainer.y[trainer.shard.select(trainer.train)]
            start = Climb(self.natural, in_batches(trainer.project(trainer.train), y))
            elbo = start.elbo / len(trainer.train)
        score = nlpp if nlpp is not None else (-elbo if elbo is not None else math.inf)
        scratch = trainer.scratch
        if score < scratch["score"] - 1e-4 or scratch["best"] is None:
            scratch |= {"score": score, "best": copy.deepcopy(trainer.model.state_dict()), "bad": 0}
        else:
            scratch["bad"] += 1


def restored(trainer: Trainer) -> NaturalGradient:
    """Natural gradients that go on where the scratch says."""
    precision, shift = (trainer.scratch[name].to(trainer.model.device) for name in ("precision", "shift"))
    return NaturalGradient(trainer.model, NaturalParameters(precision, shift), ranks=trainer.ranks)


def batch_size(trainer: Trainer, schedule: NaturalGradients) -> int:
    return schedule.batch or max(1024, 2 * trainer.model.variational.size)
