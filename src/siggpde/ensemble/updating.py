r"""New series for a committee of views: the posterior of every member, updated in the span of its landmarks.

With :math:`R R^T = K^{-1}` of the landmarks' Gram matrix, a member is a regression on the whitened features
:math:`\phi(X) = R^T k_X`, whose posterior covariance at unit amplitude is :math:`\Sigma = I - G G^T`, :math:`G` being
:math:`R^{-1} B` of its root. New series with features :math:`\Phi`, targets :math:`Y` and weights w change it by

.. math:: S = \Phi \Sigma \Phi^T + \lambda W^{-1}, \qquad
          \alpha \leftarrow \alpha + R \Sigma \Phi^T S^{-1} (Y - k_X \alpha), \qquad
          B \leftarrow [B, \; R \Sigma \Phi^T L^{-T}], \quad S = L L^T.

That is the regression on the same features of all series, old and new, at the noise of before: nothing old is needed
but the landmarks. Noise, amplitude, weights of the members, link and recalibration stay as they are.

The root of a member with more than 512 landmarks leaves out directions that explain little. Where all its series were
landmarks and weighed alike, the root is known from K and the noise, :math:`B B^T = (K + \lambda)^{-1}`, and is made
whole first; otherwise directions that were left out count as not seen, so that the update is approximate in them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.ensemble.regression import Regression, Targets, whitening_of
from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.paths import SeriesBatch
from siggpde.views.base import Rows

_CHUNK = 512
_SAME = 1e-4  # relative: how closely a root has to fit K and the noise to be that of K + noise


@torch.no_grad()
def update_views(committee: ViewCommittee, batch: SeriesBatch, y: Tensor) -> None:
    """Updates all members in place with the series of a batch and their targets (n,); after an error none has changed.

    Of classes, y are labels 0..classes-1. A series counts as one of its class did in the fit.
    """
    classes = None if committee.link is None else len(committee.link.offset)
    weights = None if committee.class_weights is None else committee.class_weights[y.long()]
    targets = Targets(y, classes, weights)
    spans = committee.spans or whitenings(committee)
    posteriors = [
        Posterior(member.regression, whitening) for member, whitening in zip(committee.members, spans, strict=True)
    ]
    done = 0
    for chunk in batch.split(_CHUNK):
        rows = committee.rows(chunk)
        own = targets[done : done + len(chunk)]
        for member, posterior in zip(committee.members, posteriors, strict=True):
            posterior.add(member.mixed(rows), own)
        done += len(chunk)
    members = [
        member.with_regression(posterior.regression())
        for member, posterior in zip(committee.members, posteriors, strict=True)
    ]
    committee.spans = spans
    committee.members = members


def whitenings(committee: ViewCommittee) -> list[Tensor]:
    """R (m, r) with R R^T = K^-1 of the landmarks, the constant included, for every member."""
    rows: dict[str, Rows] = {}
    for block in committee.blocks:
        rows |= block.landmark_rows()
    return [whitening_of(member.mixed(rows).gram) for member in committee.members]


class Posterior:
    """The posterior of a regression in whitened features; `whitening` is R (m, r).

    `mean` is alpha (m, outputs), `covariance` Sigma (r, r).
    """

    def __init__(self, before: Regression, whitening: Tensor) -> None:
        self.before, self.whitening = before, whitening
        self.mean = before.alpha.clone()
        self.roots = [_whole_root(before, whitening)]
        # R^-1 = R^T (R R^T)^+, and R has orthogonal columns of squared lengths 1 / eigenvalue.
        coordinates = (whitening / whitening.square().sum(0)).T @ self.roots[0]
        self.covariance = torch.eye(whitening.shape[1]).to(whitening) - coordinates @ coordinates.T

    def add(self, rows: Rows, targets: Targets) -> None:
        """Adds n series: their rows against the landmarks and their targets."""
        features = rows.gram @ self.whitening
        noise = torch.full_like(rows.variance, self.before.noise)
        if targets.weights is not None:
            noise = noise / targets.weights
        seen = self.covariance @ features.T
        spread = features @ seen
        factor, info = torch.linalg.cholesky_ex(spread + torch.diag(noise))
        if int(info) or not bool(torch.isfinite(factor).all()):
            raise ArithmeticError(
                "the members could not be updated with the new series: they are too unlike those before for a step to "
                "be found; fit a model to all the series"
            )
        gain = torch.linalg.solve_triangular(factor, seen.T, upper=False).T  # (r, n)
        errors = targets.signs() - rows.gram @ self.mean
        step = gain @ torch.linalg.solve_triangular(factor, errors, upper=False)
        self.mean = self.mean + self.whitening @ step
        self.covariance = self.covariance - gain @ gain.T
        self.roots.append(self.whitening @ gain)
        if sum(root.shape[1] for root in self.roots) > len(self.whitening) + _CHUNK:
            self.roots = [_narrowed(torch.cat(self.roots, dim=1))]

    def regression(self) -> Regression:
        """The regression with all series added; its root is at most as wide as there are landmarks."""
        root = _narrowed(torch.cat(self.roots, dim=1))
        if not bool(torch.isfinite(self.mean).all()):
            raise ArithmeticError("the update with the new series is not finite; look for outliers in X and y")
        return Regression(self.mean, root, self.before.noise, self.before.amplitude)


def _narrowed(root: Tensor) -> Tensor:
    """A root (m, at most m) of the same B B^T: the triangle of the QR decomposition of B^T."""
    if root.shape[1] <= root.shape[0]:
        return root
    return torch.linalg.qr(root.T, mode="r").R.T.contiguous()


def _whole_root(regression: Regression, whitening: Tensor) -> Tensor:
    """The root of a regression with what was left out of it, where K and the noise tell what that is."""
    root, noise = regression.root.to(whitening), regression.noise
    if root.shape[1] == len(root):
        return root
    shares = 1 / whitening.square().sum(0)  # the eigenvalues of K
    vectors = whitening * shares.sqrt()
    turned = vectors.T @ root
    # Of K + noise a root is made of eigenvectors: column j of it, turned, is at one place, 1 / sqrt(share + noise).
    heights, places = turned.abs().max(dim=0)
    expected = (shares[places] + noise).rsqrt()
    along = (heights / expected - 1).abs().amax() if len(heights) else heights.new_zeros(())
    lengths = root.square().sum(0).sqrt()
    across = (lengths / heights - 1).abs().amax() if len(heights) else heights.new_zeros(())
    if len(places.unique()) < len(places) or not (float(along) < _SAME and float(across) < _SAME):
        return root
    return vectors * (shares + noise).rsqrt()
