"""More data for a trained model: q(u) becomes the prior of what comes, and nothing old is needed.

With q_0(u) = N(m_0, Sigma_0) from before, the new q(u) maximises sum_n E_q[log p(y_n | f_n)] - KL[q || q_0] over the
new series. A step in natural parameters goes towards

    L = Sigma_0^-1 + sum a_n s_n s_n^T,    L m = Sigma_0^-1 m_0 + sum s_n (g_n + a_n mean_n).

For `Gaussian` and `LeastSquares` one step is exact: old and new series together, in the features and with the noise of
before. For other likelihoods, and diagonal covariances, steps are repeated until they settle; none lowers the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.model import AnyGP
from siggpde.gp.triangular import gram_upper
from siggpde.gp.variational import VariationalGaussian
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths

_CHUNK = 4096
_MOST_STEPS = 300
_SETTLED = 1e-10

Piece = tuple[Projection, Tensor]


@torch.no_grad()
def absorb(model: AnyGP, x: inputs.Series, y: Any, *, lengths: Lengths = None) -> None:
    """Updates q(u) of `model` in place with the series x (n, length, channels) and their targets y (n,).

    Where it fails, it raises and nothing has changed.
    """
    targets = model.targets(y)
    batch, counts = model.kernel.checked_paths(x, lengths)
    if len(targets) != len(batch):
        raise ValueError(f"there are {len(batch)} series but {len(targets)} targets")
    inputs.check_finite(batch, counts)  # errors name series by their place in x, not in a chunk
    if len(batch) == 0:
        return
    q = model.variational
    kept = q.root.detach().clone(), q.mean.detach().clone()
    pieces = _pieces(model, batch.detach(), counts, targets)
    try:
        if model.likelihood.is_gaussian and q.full:
            old, more = q.natural(), _sites(model, pieces)
            _require(q.set_natural(old[0] + more[0], old[1] + more[1]))
        else:
            _climb(model, list(pieces))
        _require(bool(torch.isfinite(q.mean).all()))
    except BaseException:
        q.root.copy_(kept[0])
        q.mean.copy_(kept[1])
        raise


def _require(done: bool) -> None:
    if not done:
        raise ArithmeticError(
            "the new series could not be absorbed: they are too unlike those before for a step to be found; "
            "fit a model to all the series"
        )


def _climb(model: AnyGP, pieces: list[Piece]) -> None:
    """Steps of q(u), each halved until it raises the bound, until they gain nothing any more."""
    q = model.variational
    n = sum(len(y) for _, y in pieces)
    prior = now = q.natural()
    start = _Prior(q)
    bound = _bound(model, start, pieces)
    _require(math.isfinite(bound))
    rho = 0.5
    for _ in range(_MOST_STEPS):
        more = _sites(model, pieces)
        slack = 0.01 * torch.finfo(model.dtype).eps * (abs(bound) + n)
        while rho > 1e-5:
            new = tuple(torch.lerp(a, b + c, rho) for a, b, c in zip(now, prior, more, strict=True))
            if q.set_natural(*new):
                value = _bound(model, start, pieces)
                if value >= bound - slack:  # never where it is NaN
                    break
            rho /= 2
        else:
            _require(q.set_natural(*now))
            return
        gain, bound, now = value - bound, value, new
        rho = min(1.0, 1.5 * rho)
        if gain <= _SETTLED * (abs(bound) + n):
            return


class _Prior:
    """q(u) as it was, for the divergence of what it becomes."""

    def __init__(self, q: VariationalGaussian) -> None:
        self.mean = q.mean.detach().double().clone()
        self.root = q.root.detach().double().clone()
        identity = torch.eye(q.size, dtype=torch.float64, device=q.root.device)
        self.inverse = torch.linalg.solve_triangular(self.root, identity, upper=False) if q.full else 1 / self.root

    def divergence(self, q: VariationalGaussian) -> float:
        """KL[q || this], summed over latents: that from the prior N(0, I) of u' = R_0^-1 (u - m_0)."""
        other = VariationalGaussian(q.latents, q.size, q.covariance, device=q.root.device)
        root, move = q.root.double(), q.mean.double() - self.mean
        other.root.copy_(self.inverse @ root if q.full else self.inverse * root)
        other.mean.copy_((self.inverse @ move[..., None])[..., 0] if q.full else self.inverse * move)
        return float(other.kl())


def _bound(model: AnyGP, start: _Prior, pieces: list[Piece]) -> float:
    fit = 0.0
    for seen, y in pieces:
        fit += float(model.likelihood.expected_log_prob(*model.latent_marginals(seen), y).double().sum())
    return fit - start.divergence(model.variational)


def _pieces(model: AnyGP, x: Tensor, counts: Tensor | None, y: Tensor) -> Iterator[Piece]:
    for start in range(0, len(x), _CHUNK):
        rows = slice(start, start + _CHUNK)
        yield model.project(x[rows], lengths=None if counts is None else counts[rows]), y[rows]


def _sites(model: AnyGP, pieces: Iterator[Piece] | list[Piece]) -> tuple[Tensor, Tensor]:
    """What the series add to L and to L m, at the present q(u)."""
    q = model.variational
    precision, shift = torch.zeros_like(q.root, dtype=torch.float64), torch.zeros_like(q.mean, dtype=torch.float64)
    for seen, y in pieces:
        mean, variance = model.latent_marginals(seen)
        _, g, a = (part.double() for part in model.likelihood.statistics(mean, variance, y))
        if q.shared:  # the best covariance for all is that of their average curvature
            a = a.mean(dim=1, keepdim=True)
        features = seen.features.double()
        if q.full:
            for place, curvature in enumerate(a.T):
                precision[place] += gram_upper(features, curvature)
            shift += (g + a * mean.double()).T @ features
        else:
            more = a.T @ features.square()
            precision += more
            shift += g.T @ features + more * q.mean.double()
    return precision, shift
