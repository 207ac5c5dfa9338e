"""New series for a trained model: its q(u) becomes the prior of what comes, and nothing old is needed.

With q_0(u) = N(m_0, Sigma_0) from before, the new q(u) maximises sum_n E_q[log p(y_n | f_n)] - KL[q || q_0] over the
new series. For `Gaussian` the maximum is known in closed form: the posterior of old and new series
together, in the features and with the noise of before. For other likelihoods, and for diagonal covariances, steps of
q(u) are repeated until they settle; none lowers the bound.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from siggpde.gp.model import AnyGP
from siggpde.gp.prior import EarlierPosterior
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.training.posterior_update import Batch, Climb, Model, NaturalGradient, solve_gaussian

_CHUNK = 4096
_MAX_STEPS = 300
_SETTLED = 1e-10


@torch.no_grad()
def update_posterior(model: AnyGP, x: inputs.Series, y: Any, *, lengths: Lengths = None) -> None:
    """Updates q(u) of `model` in place with the series x (n, length, channels) and their targets y (n,).

    Where it fails, it raises and nothing has changed.
    """
    targets = model.targets(y)
    batch = model.kernel.checked_paths(x, lengths)
    if len(targets) != len(batch):
        raise ValueError(f"there are {len(batch)} series but {len(targets)} targets")
    inputs.check_finite(batch.values, batch.lengths)  # errors name series by their number in x, not in a chunk
    if len(batch) == 0:
        return
    batches = (
        (model.project(piece.values.detach(), lengths=piece.lengths), targets[piece.first : piece.first + len(piece)])
        for piece in batch.split(_CHUNK)
    )
    q = model.variational
    root, mean = q.root.detach().clone(), q.mean.detach().clone()
    try:
        if model.likelihood.is_gaussian and q.full:
            features = ((projection.features, target) for projection, target in batches)
            _require(solve_gaussian(q, model.likelihood, features, prior=EarlierPosterior(q)))
        else:
            settle_from_posterior(model, list(batches))
        _require(bool(torch.isfinite(q.mean).all()))
    except BaseException:
        q.root.copy_(root)
        q.mean.copy_(mean)
        raise


def settle_from_posterior(model: Model, batches: list[Batch]) -> None:
    """Steps of q(u), which is the prior of the series of the batches, until they gain nothing any more."""
    prior = EarlierPosterior(model.variational)
    climb = Climb(NaturalGradient(model, prior=prior, dtype=torch.float64), batches)
    _require(math.isfinite(climb.elbo))
    for _ in range(_MAX_STEPS):
        if climb.step() <= _SETTLED * (abs(climb.elbo) + climb.total):
            return


def _require(done: bool) -> None:
    if not done:
        raise ArithmeticError(
            "q(u) could not be updated with the new series: they are too unlike those before for a step to be found; "
            "fit a model to all the series"
        )
