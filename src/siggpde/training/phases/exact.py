"""The closed form of `Exact`: noise and amplitude by leave-one-out, the posterior, and what it says of left-out series.

Three steps, each done once. A checkpoint may come between them; a time limit does not cut them short, for the
posterior is worth its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.leave_one_out import best_noise, left_out
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.variational import VariationalGaussian
from siggpde.training.phases.base import Control, PhaseState
from siggpde.training.posterior_update import solve_gaussian
from siggpde.training.schedules import Exact
from siggpde.training.trainer import Trainer

_CHUNK = 4096
_SCORED_ROWS = 4000


@dataclass
class ExactState(PhaseState):
    """Which steps are done: whether noise and amplitude are tuned, and the posterior, mean (1, M) and root (M, M)
    in float64, once it is solved."""

    tuned: bool = False
    mean: Tensor | None = None
    root: Tensor | None = None


class ExactPosterior:
    """The one phase of `Exact`: tune, solve, score."""

    name = "exact"
    max_steps = 3
    time_share = 1.0

    def __init__(self, schedule: Exact) -> None:
        self.schedule = schedule
        self.state = ExactState()

    def begin(self, trainer: Trainer) -> None:
        self.state = ExactState()

    def state_dict(self) -> dict[str, Any]:
        return self.state.state_dict()

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.state = ExactState.from_state_dict(values)

    @torch.no_grad()
    def run(self, trainer: Trainer, control: Control) -> str:
        if not self.state.tuned:
            if self.schedule.tune:
                self._tune(trainer)
            self.state.tuned = True
            control.after_step()
        if self.state.root is None:
            self._solve(trainer)
            control.after_step()
        self._score(trainer)
        control.after_step(last=True)
        return "exact"

    def _tune(self, trainer: Trainer) -> None:
        """Noise and amplitude with the best leave-one-out predictions of a regression on the features."""
        model, rows = trainer.model, _subsample(trainer, self.schedule.max_tuned)
        features = trainer.shard.all_gather(rows, trainer.project(rows).features).double()
        # Noise is tried relative to features of mean square 1, also where the kernel is not normalised.
        size = float(features.square().sum(dim=1).mean())
        features = features / math.sqrt(size)
        y, likelihood = trainer.y[rows].double(), model.likelihood
        spread = float(y.std(correction=0)) or 1.0
        best = trainer.ranks.broadcast(lambda: best_noise(features, y / spread).amplitude_and_noise(spread))
        amplitude, noise = best
        model.kernel.log_amplitude.add_(math.log(amplitude / size))
        assert isinstance(likelihood, Gaussian)
        likelihood.log_noise.fill_(math.log(noise))

    def _solve(self, trainer: Trainer) -> None:
        """The posterior q(u) of all the series."""
        q = trainer.model.variational
        exact = VariationalGaussian(q.latents, q.size, "shared", device=q.mean.device)
        local_rows = trainer.shard.select(trainer.rows("all"))  # the closed form needs no validation
        chunks = trainer.bar.over(local_rows.split(_CHUNK), "adding up")
        batches = ((trainer.project(rows).features, trainer.y[rows]) for rows in chunks)
        if not solve_gaussian(exact, trainer.model.likelihood, batches, ranks=trainer.ranks):
            raise ArithmeticError(
                "the posterior could not be solved: the noise is too small beside the features for double precision; "
                "give the likelihood more noise and Exact(tune=False)"
            )
        q.root.copy_(exact.root.expand_as(q.root))
        q.mean.copy_(exact.mean)
        self.state.mean, self.state.root = exact.mean.detach(), exact.root.detach()[0]

    def _score(self, trainer: Trainer) -> None:
        """Records the NLPP of left-out series and the ELBO."""
        likelihood = trainer.model.likelihood
        assert isinstance(likelihood, Gaussian)
        assert self.state.root is not None and self.state.mean is not None
        rows = _subsample(trainer, _SCORED_ROWS)
        y, projection = trainer.y[trainer.shard.select(rows)], trainer.project(rows)
        root, mean = (part.to(projection.features.device) for part in (self.state.root, self.state.mean))
        latents = left_out(likelihood, root, mean, projection, y)
        mean, variance = (trainer.shard.all_gather(rows, part) for part in latents)
        nlpp = -float(likelihood.log_predictive(mean, variance, trainer.y[rows]).mean())
        trainer.record(self.name, elbo=_elbo(trainer) / len(trainer.rows("all")), nlpp=nlpp)


def _subsample(trainer: Trainer, size: int) -> Tensor:
    """At most `size` of all the rows, the same ones at every call."""
    rows = trainer.rows("all")
    if len(rows) <= size:
        return rows
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(trainer.history.seed))
    return rows[order[:size]].sort().values


def _elbo(trainer: Trainer) -> float:
    model, total = trainer.model, 0.0
    for rows in trainer.bar.over(trainer.shard.select(trainer.rows("all")).split(_CHUNK), "ELBO"):
        mean, variance = model.latent_marginals(trainer.project(rows))
        total += float(model.likelihood.expected_log_prob(mean, variance, trainer.y[rows]).double().sum())
    (total_of_ranks,) = trainer.ranks.all_reduce_sum(torch.tensor(total, dtype=torch.float64))
    return float(total_of_ranks) - float(model.variational.kl())
