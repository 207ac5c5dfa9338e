"""The paper's schedule: Nadam in three equal phases."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor

from siggpde.training.nadam import Nadam, q_step
from siggpde.training.schedules import PaperSchedule
from siggpde.training.trainer import Trainer


def paper_phases(schedule: PaperSchedule) -> list[NadamPhase]:
    return [
        NadamPhase("q", "train", False, schedule),
        NadamPhase("hyperparameters", "train", True, schedule),
        NadamPhase("all", "all", False, schedule),
    ]


class NadamPhase:
    """Minibatch steps of q(u), and with `learn` of the hyperparameters too, the best validation NLPP restored."""

    def __init__(self, name: str, rows: Literal["train", "all"], learn: bool, schedule: PaperSchedule) -> None:
        self.name, self.which, self.learn, self.schedule = name, rows, learn, schedule
        self.most = schedule.iterations

    def begin(self, trainer: Trainer) -> None:
        trainer.scratch = {"optimizer": None, "best": None, "score": math.inf, "elbo": None}

    def prepare(self, trainer: Trainer) -> None:
        both = torch.cat([trainer.train, trainer.valid]).sort().values
        self.rows = trainer.train if self.which == "train" else both
        self.places, self.y = torch.arange(len(self.rows)), trainer.y[self.rows]
        model = trainer.model
        parts = (model.kernel, model.likelihood) if self.learn else ()
        self.hyper: list[Tensor] = [p for part in parts for p in part.parameters() if p.requires_grad]
        q = model.variational
        self.optimizer = Nadam([q.mean, q.root, *self.hyper], self.schedule.learning_rate)
        if trainer.scratch["optimizer"] is not None:
            self.optimizer.load(trainer.scratch["optimizer"])
        self.seen = None if self.learn else trainer.project(self.rows)

    def iterate(self, trainer: Trainer) -> str | None:
        place = trainer.batch(self.places, self.schedule.batch)
        elbo = self._step(trainer, place) / len(self.rows)
        scratch = trainer.scratch
        scratch["elbo"] = elbo if scratch["elbo"] is None else 0.98 * scratch["elbo"] + 0.02 * elbo
        scratch["optimizer"] = self.optimizer.state()
        if (trainer.iteration + 1) % self.schedule.evaluate_every == 0 or trainer.iteration + 1 == self.most:
            self._judge(trainer)
        return None

    def finish(self, trainer: Trainer) -> None:
        best = trainer.scratch["best"]
        trainer.scratch = {}
        if best is not None:
            trainer.model.load_state_dict(best)

    def _step(self, trainer: Trainer, place: Tensor) -> float:
        """One update of everything this phase moves; returns the estimate of the ELBO before it."""
        model, optimizer, total = trainer.model, self.optimizer, len(self.rows)
        y, moves = self.y[place], self.seen is None
        for part in (model.likelihood, model.kernel) if moves else (model.likelihood,):
            for parameter in part.parameters():
                parameter.grad = None
        if self.seen is not None:
            features, tail = self.seen.features[place], self.seen.tail[place]
        else:
            with torch.enable_grad():
                features, _, tail, _ = trainer.cache.project(model, self.rows[place])
        rates = optimizer.advance()
        found = q_step(model, optimizer, rates, features, tail, y, total, of_features=moves)
        if moves:
            assert found.features is not None and found.tail is not None
            pulled = [(features, found.features), (tail, found.tail.to(tail))]
            pulled = [(tensor, grad) for tensor, grad in pulled if tensor.requires_grad]
            if pulled:
                torch.autograd.backward([tensor for tensor, _ in pulled], [grad for _, grad in pulled])
        for index, parameter in enumerate(self.hyper, 2):
            grad = parameter.grad
            optimizer.update(index, torch.zeros_like(parameter) if grad is None else grad, rates)
        return found.elbo

    def _judge(self, trainer: Trainer) -> None:
        judged = trainer.validate() if self.which == "train" else None
        nlpp, accuracy = judged or (None, None)
        trainer.record(self.name, elbo=trainer.scratch["elbo"], nlpp=nlpp, accuracy=accuracy)
        if self.learn and nlpp is not None and nlpp < trainer.scratch["score"]:
            trainer.scratch |= {"score": nlpp, "best": copy.deepcopy(trainer.model.state_dict())}
