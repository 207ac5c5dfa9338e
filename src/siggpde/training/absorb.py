"""More data for a trained model: q(u) becomes the prior of what comes, and nothing old is needed.

With q(u) = N(m, Sigma) from before, the new natural parameters are

    L = Sigma^-1 + sum a_n s_n s_n^T,    L m = Sigma^-1 m + sum s_n (g_n + a_n mean_n)

over the new series. For `Gaussian` and `LeastSquares` one step is exact: old and new series together, in the features
and with the noise of before. For other likelihoods steps are repeated until they settle.
"""

from __future__ import annotations

from typing import Any

import torch

from siggpde import _inputs
from siggpde._triangular import gram_upper
from siggpde.goursat import Lengths
from siggpde.inducing import Projection
from siggpde.model import SignatureGP

_MOST_STEPS = 30
_SETTLED = 1e-8


@torch.no_grad()
def absorb(model: SignatureGP, x: _inputs.Series, y: Any, *, lengths: Lengths = None) -> None:
    """Updates q(u) of `model` in place with the series x (n, length, channels) and their targets y (n,)."""
    targets = model.likelihood.check_targets(y)
    seen = model.project(x, lengths=lengths)
    if len(targets) != len(seen.features):
        raise ValueError(f"there are {len(seen.features)} series but {len(targets)} targets")
    q = model.variational
    old_precision, old_shift = (part.double() for part in q.natural())
    kept = q.root.detach().clone(), q.mean.detach().clone()
    precision, shift, rho = old_precision, old_shift, 1.0
    for _ in range(1 if model.likelihood.is_gaussian else _MOST_STEPS):
        more, pull = _sites(model, seen, targets)
        before = q.mean.detach().clone()
        while rho > 1e-3:
            new = torch.lerp(precision, old_precision + more, rho), torch.lerp(shift, old_shift + pull, rho)
            if q.set_natural(*new) and bool(torch.isfinite(q.mean).all()):
                break
            rho /= 2
        else:
            q.root.copy_(kept[0])
            q.mean.copy_(kept[1])
            raise ArithmeticError("the new series could not be absorbed: no step kept q(u) positive definite")
        precision, shift = new
        rho = 1.0 if model.likelihood.is_gaussian else 0.7
        if float((q.mean - before).abs().max()) <= _SETTLED * float(1 + q.mean.abs().max()):
            break


def _sites(model: SignatureGP, seen: Projection, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q = model.variational
    mean, variance = model.latent_marginals(seen)
    _, g, a = (part.double() for part in model.likelihood.statistics(mean, variance, y))
    if q.shared:
        a = a.mean(dim=1, keepdim=True)
    features = seen.features.double()
    if q.full:
        upper = [gram_upper(features, a[:, place]) for place in range(len(q.root))]
        more = torch.stack([part.triu() + part.triu(1).T for part in upper])
        return more, (g + a * mean.double()).T @ features
    more = a.T @ features.square()
    return more, g.T @ features + more * q.mean.double()
