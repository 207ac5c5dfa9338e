"""Leave-one-out predictions of a regression from its exact posterior.

With features s_n, targets t_n and weights w_n, q(u) has the precision I + sum w_n s_n s_n^T / noise. Leaving series n
out of it is exact: with v_n = s_n^T Sigma s_n and h_n = w_n v_n / noise, its latent is left with

    mean (mu_n - h_n t_n) / (1 - h_n)    and    variance v_n / (1 - h_n).

Where the noise is small h_n is almost 1. All of it is computed in float64, whatever the model's dtype, and 1 - h_n is
never below its value for a series that no other is like, noise / (noise + w_n |s_n|²).
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.likelihoods import Gaussian, LeastSquares
from siggpde.gp.model import AnyGP
from siggpde.gp.triangular import times_lower


def left_out(
    likelihood: Gaussian | LeastSquares, root: Tensor, mean: Tensor, projection: Projection, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and variance, two (n, latents), of the latents of every series from all the other series.

    `root` (M, M), lower triangular, and `mean` (latents, M) are those of the exact q(u), which the n series with
    targets y were part of. The tail, which no inducing variable explains, is added as it is.
    """
    features = projection.features.double()
    latent_mean = features @ mean.double().T
    variance = times_lower(features, root.double()).square().sum(dim=1, keepdim=True)
    targets, weights = _targets(likelihood, y)
    precision = (weights / likelihood.noise.detach())[:, None]
    alone = 1 / (1 + precision * (projection.variance - projection.tail).detach()[:, None])
    rest = torch.maximum(1 - variance * precision, alone)
    spread = variance / rest + projection.tail.detach()[:, None]
    return targets + (latent_mean - targets) / rest, spread.expand_as(latent_mean)


@torch.no_grad()
def left_out_latents(model: AnyGP, x: Tensor, y: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`left_out` of training series x (n, length, channels) of a model whose q(u) is exact, two (n, latents)."""
    q = model.variational
    assert isinstance(model.likelihood, Gaussian | LeastSquares) and q.full
    return left_out(model.likelihood, q.root[0], q.mean, model.project(x, lengths=lengths), y)


def _targets(likelihood: Gaussian | LeastSquares, y: Tensor) -> tuple[Tensor, Tensor]:
    """Targets of the regression (n, latents) and weights (n,), in float64."""
    if isinstance(likelihood, LeastSquares):
        like = torch.empty(0, dtype=torch.float64, device=y.device)
        return likelihood.signs(y, like), likelihood.weights(y, like)
    return y.double()[:, None], torch.ones(len(y), dtype=torch.float64, device=y.device)
