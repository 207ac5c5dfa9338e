"""Training as the authors of the paper ran it, where their code differs from the paper.

Their objective is the ELBO minus sum |m| over all inducing variables and latents. Nadam is TensorFlow's, Adam with
Nesterov momentum of a constant 0.9. The validation NLPP is watched in the first phase too: the second phase starts with
the state at its own beginning as the best one, which later states replace if their NLPP is below all of the first
phase.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.model import AnyGP
from siggpde.gp.nadam import Nadam, Rates
from siggpde.gp.phases import NadamPhase, NadamState, PaperSchedule, Phase
from siggpde.gp.trainer import Trainer

_BETA1, _BETA2 = 0.9, 0.999


@dataclass(frozen=True)
class AuthorsSchedule(PaperSchedule):
    """The paper's three phases with the training of the authors' code; `l1` is the weight of the penalty sum |m|."""

    evaluate_every: int = 100
    l1: float = 1.0

    def phases(self, model: AnyGP) -> list[Phase[Any]]:
        super().phases(model)  # refuses what the paper's schedule has not
        return [
            AuthorsPhase("q", "train", False, self, 1 / 3),
            AuthorsPhase("hyperparameters", "train", True, self, 2 / 3),
            AuthorsPhase("all", "all", False, self),
        ]


class AuthorsNadam(Nadam):
    """TensorFlow's Nadam, whose first parameter, the mean of q(u), has the gradient of the penalty added."""

    def __init__(self, parameters: list[Tensor], learning_rate: float, l1: float) -> None:
        super().__init__(parameters, learning_rate)
        self.l1 = l1

    def advance(self) -> Rates:
        self.steps += 1
        rate = self.rate * (1 - _BETA2**self.steps) ** 0.5 / (1 - _BETA1**self.steps)
        return Rates(rate * (1 - _BETA1), rate * _BETA1, 1.0)

    def update(self, index: int, gradient: Tensor, rates: Rates) -> None:
        if index == 0 and self.l1:
            gradient = gradient.add(torch.sign(self.parameters[0].detach()), alpha=self.l1)
        super().update(index, gradient, rates)


class AuthorsPhase(NadamPhase):
    """A phase of `AuthorsSchedule`."""

    def begin(self, trainer: Trainer) -> None:
        super().begin(trainer)
        scores = [record.nlpp for record in trainer.history.of("q") if record.nlpp is not None]
        if self.learn and scores:
            self.state = NadamState(best=copy.deepcopy(trainer.model.state_dict()), best_nlpp=min(scores))

    def prepare(self, trainer: Trainer) -> None:
        super().prepare(trainer)
        settings: Any = self.schedule
        self.optimizer = AuthorsNadam(self.optimizer.parameters, settings.learning_rate, settings.l1)
        if self.state.optimizer is not None:
            self.optimizer.load(self.state.optimizer)
