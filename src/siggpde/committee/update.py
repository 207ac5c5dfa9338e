"""New series for a committee of views: the posterior of every member, updated in the span of its landmarks
(docs/design.md, The regression of a member)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from siggpde.committee.regression import Regression, Targets, whitening_of
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows, rows_of

if TYPE_CHECKING:
    from siggpde.committee.committee import Member, ViewCommittee

_CHUNK = 512
_LEARNED_SHARE = 0.95  # 1 - Sigma above which float32 does not tell what is left


@torch.no_grad()
def updated(committee: ViewCommittee, batch: SeriesBatch, y: Tensor) -> tuple[list[Member], list[Posterior]]:
    """Returns the members, and their posteriors, with the series of a batch and their targets (n,) too."""
    weights = None if committee.class_weights is None else committee.class_weights[y.long()]
    targets = Targets(y, committee.classes, weights)
    if committee.posteriors is None:
        landmarks = rows_of(committee.blocks)
        count = len(committee.landmarks) if committee.landmarks is not None else 0
        posteriors = [
            Posterior(member.regression, whitening_of(member.mixed(landmarks).gram[:, :count]))
            for member in committee.members
        ]
    else:
        posteriors = [posterior.copy() for posterior in committee.posteriors]  # an error leaves those as they are
    done = 0
    for chunk in batch.split(_CHUNK):
        rows = committee.rows(chunk)
        chunk_targets = targets[done : done + len(chunk)]
        for member, posterior in zip(committee.members, posteriors, strict=True):
            posterior.add(member.mixed(rows), chunk_targets)
        done += len(chunk)
    members = [
        replace(member, posterior=posterior.regression())
        for member, posterior in zip(committee.members, posteriors, strict=True)
    ]
    return members, posteriors


class Posterior:
    """A regression's posterior in whitened features: R (m, r), alpha (m, outputs) and Sigma (r, r)."""

    def __init__(self, before: Regression, whitening: Tensor) -> None:
        self.before, self.whitening = before, whitening
        self.mean = before.alpha.clone()
        self.covariance = covariance_of(before, whitening)
        self.roots = [before.root]
        if before.counts is not None or before.root.dtype != whitening.dtype:
            share, vectors = torch.linalg.eigh(self.covariance)
            self.roots = [whitening @ (vectors * (1 - share).clamp_min(0.0).sqrt())]

    def copy(self) -> Posterior:
        """Returns a posterior to which series can be added without changing this one."""
        other = copy.copy(self)
        other.roots = list(self.roots)
        return other

    def add(self, rows: Rows, targets: Targets) -> None:
        """Adds n series: their rows against the landmarks and their targets."""
        features = rows.gram[:, : len(self.whitening)] @ self.whitening
        noise = self.before.noise / targets.counts
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
        self.mean = self.mean.clone()
        self.mean[: len(self.whitening)] += self.whitening @ step
        self.covariance = self.covariance - gain @ gain.T
        self.roots.append(self.whitening @ gain)
        if sum(root.shape[1] for root in self.roots) > len(self.whitening) + _CHUNK:
            self.roots = [_narrowed(torch.cat(self.roots, dim=1))]

    def regression(self) -> Regression:
        """Returns the regression with all series added; its root is at most as wide as there are landmarks."""
        root = _narrowed(torch.cat(self.roots, dim=1))
        self.roots = [root]
        if not bool(torch.isfinite(self.mean).all()):
            raise ArithmeticError("the update with the new series is not finite; look for outliers in X and y")
        return Regression(self.mean, root, self.before.noise, self.before.amplitude)


def _narrowed(root: Tensor) -> Tensor:
    """Returns a root (m, at most m) of the same B B^T: the triangle of the QR decomposition of B^T."""
    if root.shape[1] <= root.shape[0]:
        return root
    return torch.linalg.qr(root.T, mode="r").R.T.contiguous()


def covariance_of(regression: Regression, whitening: Tensor) -> Tensor:
    """Returns Sigma (r, r) of a regression, positive semidefinite but for rounding; `whitening` is R (m, r)."""
    eye = torch.eye(whitening.shape[1], dtype=whitening.dtype, device=whitening.device)
    shares = 1 / whitening.square().sum(0)  # the eigenvalues s of K, whose eigenvectors are R s^(1/2)
    landmarks = whitening * shares
    if regression.counts is not None:
        learned, vectors = torch.linalg.eigh(landmarks.T @ (regression.counts[:, None] * landmarks))
        return (vectors * (regression.noise / (regression.noise + learned.clamp_min(0.0)))) @ vectors.T
    coordinates = landmarks.T @ regression.root.to(whitening)
    covariance = eye - coordinates @ coordinates.T
    if regression.root.dtype == whitening.dtype:
        return covariance
    # (1 - Sigma_jj) / Sigma_jj = c s_j / noise, were Phi^T Phi = c diag(s).
    known = (1 - covariance.diagonal()).clamp(1 - _LEARNED_SHARE, _LEARNED_SHARE)
    factor = (known / (1 - known) * regression.noise / shares).median()
    sampled = regression.noise / (regression.noise + factor * shares)
    left, vectors = torch.linalg.eigh(covariance)
    resolved, others = vectors[:, left > 1 - _LEARNED_SHARE], vectors[:, left <= 1 - _LEARNED_SHARE]
    resolved_shares = left[left > 1 - _LEARNED_SHARE].clamp_max(1.0)
    return (resolved * resolved_shares) @ resolved.T + others @ (others.T @ (sampled[:, None] * others)) @ others.T
