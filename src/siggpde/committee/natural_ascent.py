r"""The fit of a `FeatureGP`: natural-gradient steps of q(u) in turn with steps of amplitude and likelihood.

Neither kind of step lowers the ELBO. At fixed q(u) the latents' means and variances are those at unit amplitude times
:math:`\sigma` and :math:`\sigma^2`, so that steps of :math:`\log \sigma^2` and of the likelihood's parameters cost no
product of matrices. The state of an ascent is all that it needs to go on with bitwise the same steps.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.variational import NaturalParameters
from siggpde.training.parameters import trainable
from siggpde.training.posterior_update import Climb, NaturalGradient, Sites, in_batches, sum_sites

_SETTLE = 2e-4  # nats a series: less than this twice in a row is settled
_INNER = 5
_RATE = 0.1
_AMPLITUDE_SPREAD = 2.0  # of the prior of log sigma² about where it starts
_LEARNED_FROM = 4096  # series of a rank that steps of amplitude and likelihood look at


class Ascent:
    """Steps on the series of all `ranks`; features and targets y (n,) are those of this rank."""

    def __init__(self, gp: FeatureGP, features: Features, y: Tensor, ranks: Ranks = ALONE) -> None:
        self.gp, self.features, self.y, self.ranks = gp, features, y, ranks
        self.natural = gp.variational.natural_parameters()
        self.rho, self.rate, self.idle, self.elbo, self.steps = 0.5, _RATE, 0, -math.inf, 0
        self.parameters = [gp.log_amplitude, *trainable(gp.likelihood)]
        self.centre = float(gp.log_amplitude.detach())

    def start(self, precision: Tensor, targets: Tensor) -> None:
        """q(u) as if latents (n, latents) were seen at `targets` with noise of `precision` (n,)."""
        a = precision[:, None].expand_as(targets)
        sites = Sites(self.gp.project(self.features).features, a * targets, a, torch.zeros_like(targets))
        natural = sum_sites(self.gp.variational, [sites], ranks=self.ranks)
        natural.precision.diagonal(dim1=1, dim2=2).add_(1.0)
        if self.gp.variational.set_natural_parameters(natural):
            self.natural = natural

    def step(self, *, learn: bool) -> bool:
        """One step of q(u), and of amplitude and likelihood where `learn` says so; returns whether it has settled."""
        gradient = NaturalGradient(self.gp, self.natural, ranks=self.ranks)
        climb = Climb(gradient, in_batches(self.gp.project(self.features), self.y), self.rho)
        if not math.isfinite(climb.elbo):
            raise ArithmeticError("the ELBO is not finite; look for outliers in X and y, or take likelihood='auto'")
        before = max(self.elbo, climb.elbo) if self.steps == 0 else self.elbo
        climb.step()
        self.natural, self.rho, self.steps = gradient.natural, climb.rho, self.steps + 1
        gain = (climb.elbo - before) / climb.total
        self.elbo = climb.elbo + (self._learn() if learn else 0.0)
        self.idle = self.idle + 1 if gain < _SETTLE else 0
        return self.idle >= 2

    def _learn(self) -> float:
        """Steps of Adam, taken back where they lower the ELBO; returns by how much it rose."""
        n = len(self.y)
        rows = torch.arange(0, n, max(1, -(-n // _LEARNED_FROM)), device=self.y.device)
        with torch.no_grad():
            mean, spread = self.gp.variational(self.features.values[rows])
            variance = spread + self.features.tail[rows, None]
        y, share = self.y[rows], n / max(1, len(rows))

        def loss() -> Tensor:
            amplitude = self.gp.log_amplitude.exp()
            fit = self.gp.likelihood.expected_log_prob(amplitude.sqrt() * mean, amplitude * variance, y).sum() * share
            prior = 0.5 * ((self.gp.log_amplitude - self.centre) / _AMPLITUDE_SPREAD).square()
            return (prior if self.ranks.leads else 0.0) - fit

        def value() -> float:
            with torch.no_grad():
                return float(self.ranks.all_reduce_sum(loss().double())[0])

        before, old = value(), [parameter.detach().clone() for parameter in self.parameters]
        optimizer = torch.optim.Adam(self.parameters, lr=self.rate, betas=(0.9, 0.95))
        for _ in range(_INNER):
            optimizer.zero_grad()
            loss().backward()
            self.ranks.all_reduce_gradients(self.parameters)
            optimizer.step()
        optimizer.zero_grad()
        gain = before - value()
        if not gain >= 0:  # also where it is NaN
            with torch.no_grad():
                for parameter, earlier in zip(self.parameters, old, strict=True):
                    parameter.copy_(earlier)
            self.rate /= 2
            return 0.0
        return gain

    def state(self) -> dict[str, Any]:
        """Tensors and numbers that `restore` takes."""
        numbers = {name: getattr(self, name) for name in ("rho", "rate", "idle", "elbo", "steps", "centre")}
        return {**numbers, "natural": tuple(self.natural), "model": copy.deepcopy(self.gp.state_dict())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from the `state` of an ascent that was made with the same arguments."""
        for name in ("rho", "rate", "idle", "elbo", "steps", "centre"):
            setattr(self, name, state[name])
        self.gp.load_state_dict(state["model"])
        self.natural = NaturalParameters(*(part.to(self.gp.device) for part in state["natural"]))
