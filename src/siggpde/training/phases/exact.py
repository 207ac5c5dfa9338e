"""The closed form of `Exact`: noise and amplitude by leave-one-out, the posterior, the link of classes.

Three steps, each done once. A checkpoint may come between them; a time limit does not cut them short, for the
posterior is worth its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.leave_one_out import leave_one_out
from siggpde.gp.likelihoods import Gaussian, LeastSquares
from siggpde.gp.variational import VariationalGaussian
from siggpde.training.class_link import best_temperature, fit_class_mixing
from siggpde.training.left_out import left_out
from siggpde.training.phases.base import Control, PhaseState
from siggpde.training.posterior_update import solve_gaussian
from siggpde.training.schedules import Exact
from siggpde.training.trainer import Trainer

_CHUNK = 4096
_ROWS_FOR_LINK = 4000
_SMALLEST_AMPLITUDE = 1e-12


@dataclass
class ExactState(PhaseState):
    """Which steps are done: whether noise and amplitude are tuned, and the posterior, mean (latents, M) and root (M, M)
    in float64, once it is solved."""

    tuned: bool = False
    mean: Tensor | None = None
    root: Tensor | None = None


class ExactPosterior:
    """The one phase of `Exact`: tune, solve, calibrate."""

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
        self._calibrate(trainer)
        control.after_step(last=True)
        return "exact"

    def _tune(self, trainer: Trainer) -> None:
        """Noise and amplitude with the best leave-one-out predictions of a regression on the features."""
        model, rows = trainer.model, _subsample(trainer, self.schedule.max_tuned)
        features = trainer.shard.all_gather(rows, trainer.project(rows).features).double()
        # Noise is tried relative to features of mean square 1, also where the kernel is not normalised.
        size = float(features.square().sum(dim=1).mean())
        features = features / math.sqrt(size)
        y, likelihood = trainer.y[rows], model.likelihood
        classes = likelihood.classes if isinstance(likelihood, LeastSquares) else None
        spread = 1.0 if classes is not None else float(y.double().std(correction=0)) or 1.0
        targets = y if classes is not None else y.double() / spread
        amplitude, noise, temperature = trainer.ranks.broadcast(lambda: _tuned(features, targets, classes, spread))
        model.kernel.log_amplitude.add_(math.log(amplitude / size))
        assert isinstance(likelihood, Gaussian | LeastSquares)
        likelihood.log_noise.fill_(math.log(noise))
        if isinstance(likelihood, LeastSquares):
            likelihood.calibration[0] = temperature

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

    def _calibrate(self, trainer: Trainer) -> None:
        """The link of classes that suits left-out series best; records their NLPP and accuracy, and the ELBO."""
        likelihood = trainer.model.likelihood
        assert isinstance(likelihood, Gaussian | LeastSquares)
        assert self.state.root is not None and self.state.mean is not None
        rows = _subsample(trainer, _ROWS_FOR_LINK)
        y, projection = trainer.y[trainer.shard.select(rows)], trainer.project(rows)
        root, mean = (part.to(projection.features.device) for part in (self.state.root, self.state.mean))
        latents = left_out(likelihood, root, mean, projection, y)
        y, (mean, variance) = trainer.y[rows], (trainer.shard.all_gather(rows, part) for part in latents)
        if self.schedule.tune and isinstance(likelihood, LeastSquares):
            lapse = 1.0 / (len(trainer.rows("all")) + 2)
            link = trainer.ranks.broadcast(lambda: _fit_link(likelihood, lapse, mean, variance, y))
            likelihood.calibration, likelihood.mixing, likelihood.offset = (part.to(mean.device) for part in link)
        nlpp = -float(likelihood.log_predictive(mean, variance, y).mean())
        accuracy = None
        if isinstance(likelihood, LeastSquares):
            accuracy = float((likelihood.predict(mean, variance).argmax(dim=1) == y).double().mean())
        elbo = _elbo(trainer) / len(trainer.rows("all"))
        trainer.record(self.name, elbo=elbo, nlpp=nlpp, accuracy=accuracy)


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


def _tuned(features: Tensor, targets: Tensor, classes: int | None, spread: float) -> tuple[float, float, float]:
    """Amplitude, noise variance and temperature with the best leave-one-out predictions of targets / spread."""
    best = leave_one_out(features, targets, classes)
    return *best.amplitude_and_noise(spread, _SMALLEST_AMPLITUDE), best.temperature


def _fit_link(
    likelihood: LeastSquares, lapse: float, mean: Tensor, variance: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Temperature and lapse, mixing and offset that make the left-out series most probable."""
    likelihood.calibration[1] = lapse
    likelihood.calibration[0] = best_temperature(likelihood, mean, variance, y)
    fit_class_mixing(likelihood, mean, variance, y)
    return likelihood.calibration, likelihood.mixing, likelihood.offset
