"""The posterior of a regression in closed form, with noise, amplitude and temperature set by leave-one-out.

With features s_n, targets t_n and weights w_n, q(u) has the precision I + sum w_n s_n s_n^T / noise. Leaving series n
out of it is exact: with v_n = s_n^T Sigma s_n and h_n = w_n v_n / noise, its latent is left with

    mean (mu_n - h_n t_n) / (1 - h_n)    and    variance v_n / (1 - h_n).

Where the noise is small h_n is almost 1. All of it is computed in float64, whatever the model's dtype, and 1 - h_n is
never below what it is for a series that no other is like, noise / (noise + w_n |s_n|²).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.leave_one_out import leave_one_out
from siggpde.gp.likelihoods import Gaussian, LeastSquares
from siggpde.gp.model import AnyGP
from siggpde.gp.triangular import times_lower
from siggpde.gp.variational import VariationalGaussian
from siggpde.training.class_link import best_temperature, mix
from siggpde.training.posterior_update import solve_gaussian
from siggpde.training.schedules import Exact
from siggpde.training.trainer import Trainer

_CHUNK = 4096
_ROWS_FOR_LINK = 4000


class ExactPosterior:
    """The one phase of `Exact`: tune, solve, calibrate."""

    name = "exact"
    most = 3

    def __init__(self, schedule: Exact) -> None:
        self.schedule = schedule

    def begin(self, trainer: Trainer) -> None:
        trainer.scratch = {"done": 0}

    def prepare(self, trainer: Trainer) -> None:
        self.rows = torch.cat([trainer.train, trainer.valid]).sort().values

    @torch.no_grad()
    def iterate(self, trainer: Trainer) -> str | None:
        """Three steps, so that a checkpoint or a time limit can come between them."""
        step = trainer.scratch["done"]
        if step == 0 and self.schedule.tune:
            self._tune(trainer)
        elif step == 1:
            self._solve(trainer)
        elif step == 2:
            self._judge(trainer)
        trainer.scratch["done"] = step + 1
        return "exact" if step == 2 else None

    def finish(self, trainer: Trainer) -> None:
        while trainer.scratch["done"] < 3:  # cut short by a time limit: what is exact is worth its time
            self.iterate(trainer)
        trainer.scratch = {}

    def _some(self, trainer: Trainer, most: int) -> Tensor:
        """At most so many of the rows, the same ones at every call."""
        if len(self.rows) <= most:
            return self.rows
        order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(trainer.history.seed))
        return self.rows[order[:most]].sort().values

    def _tune(self, trainer: Trainer) -> None:
        model, rows = trainer.model, self._some(trainer, self.schedule.max_tuned)
        features = trainer.shard.all_gather(rows, trainer.project(rows).features).double()
        # Noise is tried relative to features of mean square 1, also where the kernel is not normalised.
        size = float(features.square().sum(dim=1).mean())
        features = features / math.sqrt(size)
        y, likelihood = trainer.y[rows], model.likelihood
        classes = likelihood.classes if isinstance(likelihood, LeastSquares) else None
        spread = 1.0 if classes is not None else float(y.double().std(correction=0)) or 1.0
        targets = y if classes is not None else y.double() / spread
        amplitude, noise, temperature = trainer.ranks.broadcast(lambda: _tuned(features, targets, classes))
        amplitude = max(amplitude, 1e-12) * spread**2
        model.kernel.log_amplitude.add_(math.log(amplitude / size))
        assert isinstance(likelihood, Gaussian | LeastSquares)
        likelihood.log_noise.fill_(math.log(amplitude * noise))
        if isinstance(likelihood, LeastSquares):
            likelihood.calibration[0] = temperature

    def _solve(self, trainer: Trainer) -> None:
        q, likelihood = trainer.model.variational, trainer.model.likelihood
        exact = VariationalGaussian(q.latents, q.size, "shared", device=q.mean.device)
        chunks = trainer.bar.over(trainer.shard.select(self.rows).split(_CHUNK), "adding up")
        batches = ((trainer.project(rows).features, trainer.y[rows]) for rows in chunks)
        if not solve_gaussian(exact, likelihood, batches, ranks=trainer.ranks):
            raise ArithmeticError(
                "the posterior could not be solved: the noise is too small beside the features for double precision; "
                "give the likelihood more noise and Exact(tune=False)"
            )
        q.root.copy_(exact.root.expand_as(q.root))
        q.mean.copy_(exact.mean)
        trainer.scratch |= {"root": exact.root.detach(), "mean": exact.mean.detach()}

    def _judge(self, trainer: Trainer) -> None:
        """Leave-one-out NLPP, and accuracy where there are classes; the temperature that makes the NLPP least."""
        likelihood = trainer.model.likelihood
        assert isinstance(likelihood, Gaussian | LeastSquares)
        rows = self._some(trainer, _ROWS_FOR_LINK)
        y, seen = trainer.y[trainer.shard.select(rows)], trainer.project(rows)
        root, means = (trainer.scratch[name].to(seen.features.device) for name in ("root", "mean"))
        features = seen.features.double()
        variance = times_lower(features, root[0]).square().sum(dim=1, keepdim=True)
        left = left_out(likelihood, features @ means.T, variance, seen, y)
        y, (mean, variance) = trainer.y[rows], (trainer.shard.all_gather(rows, part) for part in left)
        if self.schedule.tune and isinstance(likelihood, LeastSquares):
            lapse = 1.0 / (len(self.rows) + 2)
            link = trainer.ranks.broadcast(lambda: _link(likelihood, lapse, mean, variance, y))
            likelihood.calibration, likelihood.mixing, likelihood.offset = (part.to(mean.device) for part in link)
        nlpp = -float(likelihood.log_predictive(mean, variance, y).mean())
        accuracy = None
        if isinstance(likelihood, LeastSquares):
            accuracy = float((likelihood.predict(mean, variance).argmax(dim=1) == y).double().mean())
        elbo = self._elbo(trainer) / len(self.rows)
        trainer.record(self.name, elbo=elbo, nlpp=nlpp, accuracy=accuracy)

    def _elbo(self, trainer: Trainer) -> float:
        model, total = trainer.model, 0.0
        for place in trainer.bar.over(trainer.shard.select(self.rows).split(_CHUNK), "judging"):
            mean, variance = model.latent_marginals(trainer.project(place))
            total += float(model.likelihood.expected_log_prob(mean, variance, trainer.y[place]).double().sum())
        (whole,) = trainer.ranks.all_reduce_sum(torch.tensor(total, dtype=torch.float64))
        return float(whole) - float(model.variational.kl())


def _tuned(features: Tensor, targets: Tensor, classes: int | None) -> tuple[float, float, float]:
    found = leave_one_out(features, targets, classes)
    return found.amplitude, found.noise, found.temperature


def _link(
    likelihood: LeastSquares, lapse: float, mean: Tensor, variance: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Temperature and lapse, mixing and offset that make the left-out series most probable."""
    likelihood.calibration[1] = lapse
    likelihood.calibration[0] = best_temperature(likelihood, mean, variance, y)
    mix(likelihood, mean, variance, y)
    return likelihood.calibration, likelihood.mixing, likelihood.offset


def left_out(
    likelihood: Gaussian | LeastSquares, mean: Tensor, variance: Tensor, seen: Projection, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and variance (n, latents) of every series' latents from all the other series.

    `mean` (n, latents) and `variance`, the same or (n, 1), are those of s_n^T u under the exact q(u), in float64. The
    tail, which no inducing variable explains, is as it was.
    """
    targets, weights = _targets(likelihood, y)
    precision = (weights / likelihood.noise.detach())[:, None]
    alone = 1 / (1 + precision * (seen.variance - seen.tail).detach()[:, None])
    rest = torch.maximum(1 - variance * precision, alone)
    spread = variance / rest + seen.tail.detach()[:, None]
    return targets + (mean - targets) / rest, spread.expand_as(mean)


@torch.no_grad()
def left_out_latents(model: AnyGP, x: Tensor, y: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`left_out` of training series x (n, length, channels) of a model whose q(u) is exact, two (n, latents)."""
    seen = model.project(x, lengths=lengths)
    q, features = model.variational, seen.features.double()
    assert isinstance(model.likelihood, Gaussian | LeastSquares) and q.full
    variance = times_lower(features, q.root[0].double()).square().sum(dim=1, keepdim=True)
    return left_out(model.likelihood, features @ q.mean.double().T, variance, seen, y)


def _targets(likelihood: Gaussian | LeastSquares, y: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(likelihood, LeastSquares):
        like = torch.empty(0, dtype=torch.float64, device=y.device)
        return likelihood.signs(y, like), likelihood.weights(y, like)
    return y.double()[:, None], torch.ones(len(y), dtype=torch.float64, device=y.device)
