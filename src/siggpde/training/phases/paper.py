"""The paper's schedule: Nadam in three equal phases."""

from __future__ import annotations

import copy
import math
import time
from contextlib import nullcontext
from typing import Literal

import torch
from torch import Tensor

from siggpde.training.nadam import Nadam, q_step
from siggpde.training.parameters import at_rest, learned
from siggpde.training.schedules import PaperSchedule
from siggpde.training.trainer import Trainer

_SETTLED = 0.005  # an evaluation counts as an improvement when it lowers the NLPP by this share


def paper_phases(schedule: PaperSchedule) -> list[NadamPhase]:
    return [
        NadamPhase("q", "train", False, schedule),
        NadamPhase("hyperparameters", "train", True, schedule),
        NadamPhase("all", "all", False, schedule),
    ]


class NadamPhase:
    """Minibatch steps of q(u) and of inducing variables that move, and with `learn` of the hyperparameters too.

    With `learn`, the phase ends with the state of the best validation NLPP.
    """

    def __init__(self, name: str, rows: Literal["train", "all"], learn: bool, schedule: PaperSchedule) -> None:
        self.name, self.which, self.learn, self.schedule = name, rows, learn, schedule
        self.most = schedule.iterations

    def begin(self, trainer: Trainer) -> None:
        trainer.scratch = {"optimizer": None, "best": None, "score": math.inf, "elbo": None}
        trainer.scratch |= {"mark": math.inf, "bad": 0, "cpu": 0.0}

    def prepare(self, trainer: Trainer) -> None:
        both = torch.cat([trainer.train, trainer.valid]).sort().values
        self.rows = trainer.train if self.which == "train" else both
        self.held = trainer.shard.select(self.rows)
        model = trainer.model
        parts = (model.features, model.kernel, model.likelihood) if self.learn else (model.features,)
        self.moved: list[Tensor] = [parameter for part in parts for parameter in learned(part)]
        q = model.variational
        self.optimizer = Nadam([q.mean, q.root, *self.moved], self.schedule.learning_rate)
        if trainer.scratch["optimizer"] is not None:
            self.optimizer.load(trainer.scratch["optimizer"])
        still = not self.learn and not learned(model.features)
        self.seen = trainer.project(self.rows) if still else None
        first = trainer.history.steps.get("q")
        if self.which == "all" and self.schedule.patience is not None and first is not None:
            self.most = first

    def iterate(self, trainer: Trainer) -> str | None:
        started = time.process_time()
        rows = trainer.batch(self.rows, self.schedule.batch)
        elbo = self._step(trainer, rows) / len(self.rows)
        stepped = time.process_time()
        history, scratch, done = trainer.history, trainer.scratch, trainer.iteration + 1
        history.steps[self.name] = done
        history.step_seconds[self.name] = history.step_seconds.get(self.name, 0.0) + stepped - started
        scratch["elbo"] = elbo if scratch["elbo"] is None else 0.98 * scratch["elbo"] + 0.02 * elbo
        scratch["optimizer"] = self.optimizer.state()
        budget = self.schedule.cpu_budget
        used = scratch["cpu"] + stepped - started
        spent = budget is not None and bool(trainer.ranks.broadcast_value(used > budget / 3))
        settled = False
        if spent or done % self.schedule.evaluate_every == 0 or done == self.most:
            self._judge(trainer)
            settled = self.schedule.patience is not None and scratch["bad"] >= self.schedule.patience
        scratch["cpu"] += time.process_time() - started
        return "settled" if settled else "budget spent" if spent else None

    def finish(self, trainer: Trainer) -> None:
        best = trainer.scratch["best"]
        trainer.scratch = {}
        if best is not None:
            trainer.model.load_state_dict(best)

    def _step(self, trainer: Trainer, rows: Tensor) -> float:
        """One update of everything this phase moves; returns the estimate of the ELBO before it."""
        model, optimizer, total = trainer.model, self.optimizer, len(self.rows)
        mine = trainer.shard.select(rows)
        y, moves = trainer.y[mine], self.seen is None
        for part in (model.likelihood, model.kernel, model.features) if moves else (model.likelihood,):
            part.zero_grad(set_to_none=True)
        if self.seen is not None:
            places = torch.searchsorted(self.held, mine)
            features, tail = self.seen.features[places], self.seen.tail[places]
        else:
            with torch.enable_grad(), nullcontext() if self.learn else at_rest(model.kernel):
                projection = trainer.cache.project(model, trainer.shard.local_index(mine))
                features, tail = projection.features, projection.tail
        rates = optimizer.advance()
        found = q_step(
            model, optimizer, rates, features, tail, y, total, of_features=moves, batch=len(rows), ranks=trainer.ranks
        )
        if moves:
            assert found.features is not None and found.tail is not None
            pulled = [(features, found.features), (tail, found.tail.to(tail))]
            pulled = [(tensor, grad) for tensor, grad in pulled if tensor.requires_grad]
            if pulled:
                torch.autograd.backward([tensor for tensor, _ in pulled], [grad for _, grad in pulled])
        trainer.ranks.all_reduce_gradients(self.moved)
        for index, parameter in enumerate(self.moved, 2):
            grad = parameter.grad
            optimizer.update(index, torch.zeros_like(parameter) if grad is None else grad, rates)
        return found.elbo

    def _judge(self, trainer: Trainer) -> None:
        judged = trainer.validate() if self.which == "train" else None
        nlpp, accuracy = judged or (None, None)
        trainer.record(self.name, elbo=trainer.scratch["elbo"], nlpp=nlpp, accuracy=accuracy)
        scratch = trainer.scratch
        if nlpp is None:
            return
        if nlpp < scratch["mark"] - _SETTLED * abs(nlpp):
            scratch |= {"mark": nlpp, "bad": 0}
        else:
            scratch["bad"] += 1
        if nlpp < scratch["score"]:
            best = copy.deepcopy(trainer.model.state_dict()) if self.learn else None
            scratch |= {"score": nlpp, "best": best}
