"""The paper's schedule: Nadam in three equal phases."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor

from siggpde.inducing import Projection
from siggpde.training.nadam import Nadam, q_gradient
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
        model = trainer.model
        parts = (model.kernel, model.likelihood) if self.learn else ()
        self.hyper: list[Tensor] = [p for part in parts for p in part.parameters() if p.requires_grad]
        q = model.variational
        self.optimizer = Nadam([q.mean, q.root, *self.hyper], self.schedule.learning_rate)
        if trainer.scratch["optimizer"] is not None:
            self.optimizer.load(trainer.scratch["optimizer"])
        self.seen = None if self.learn else trainer.project(self.rows)

    def iterate(self, trainer: Trainer) -> str | None:
        place = trainer.batch(torch.arange(len(self.rows)), self.schedule.batch)
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
        model, y = trainer.model, trainer.y[self.rows[place]]
        for parameter in model.likelihood.parameters():
            parameter.grad = None
        if self.seen is not None:
            seen = Projection(self.seen.features[place], self.seen.variance[place], self.seen.tail[place], 0)
            found = q_gradient(model, seen.features, seen.tail, y, len(self.rows))
            self.optimizer.step([found.mean, found.root])
            return found.elbo
        for parameter in model.kernel.parameters():
            parameter.grad = None
        with torch.enable_grad():
            seen = trainer.cache.project(model, self.rows[place])
        found = q_gradient(model, seen.features, seen.tail, y, len(self.rows), of_features=True)
        assert found.features is not None and found.tail is not None
        moving = [(seen.features, found.features), (seen.tail, found.tail.to(seen.tail))]
        moving = [(tensor, grad) for tensor, grad in moving if tensor.requires_grad]
        if moving:
            torch.autograd.backward([tensor for tensor, _ in moving], [grad for _, grad in moving])
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.hyper]
        self.optimizer.step([found.mean, found.root, *grads])
        return found.elbo

    def _judge(self, trainer: Trainer) -> None:
        judged = trainer.validate() if self.which == "train" else None
        nlpp, accuracy = judged or (None, None)
        trainer.record(self.name, elbo=trainer.scratch["elbo"], nlpp=nlpp, accuracy=accuracy)
        if self.learn and nlpp is not None and nlpp < trainer.scratch["score"]:
            trainer.scratch |= {"score": nlpp, "best": copy.deepcopy(trainer.model.state_dict())}
