"""A committee of signature Gaussian processes whose settings are judged by leaving out blocks, weeks say, not windows.

Windows of weather overlap: the neighbours of one that is left out have seen almost all of it, and leave-one-out takes
memory for foresight. Leaving out a block is exact as well. With features F (n, M), noise s, H = F (F^T F + s I)^-1 F^T
and the fit mu = H t of the targets t, the latents of a block B without the targets of B have

    mean t_B - (I - H_BB)^-1 (t_B - mu_B)    and    covariance s H_BB (I - H_BB)^-1,

from one eigendecomposition of F^T F for all levels of noise. Words, scales, noise, temperature, and the weights of the
committee are all chosen by these; then every member is solved with all the windows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member, sharpen, stack
from siggpde.ensemble.recalibration import mixture_quantile
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import LeastSquares
from siggpde.gp.model import SignatureGP
from siggpde.numerics.signature import signature
from siggpde.paths import PathOptions, PathTransform, SeriesBatch
from siggpde.selection.candidates import Candidate, best_kinds, choose_words, scales
from siggpde.training import Exact, fit
from siggpde.training.class_link import best_temperature, mix
from siggpde.word_sets import Word

log = logging.getLogger(__name__)


class BlockRegression:
    """Regression of targets (n,) on features (n, M), and what it predicts of each block without that block.

    `blocks` (n,) are numbers; rows with the same number are left out together.
    """

    def __init__(self, features: Tensor, targets: Tensor, blocks: np.ndarray) -> None:
        self.targets = targets
        self.rows = [torch.from_numpy(np.flatnonzero(blocks == number)) for number in np.unique(blocks)]
        values, vectors = torch.linalg.eigh(features.T @ features)
        self.values, self.turned = values.clamp_min(0.0), features @ vectors

    def left_out(self, noise: float) -> tuple[Tensor, Tensor]:
        """Mean and variance (n,) of the latents of every row from the other blocks, for a prior of variance |F_n|²."""
        gain = 1 / (self.values + noise)
        residual = self.targets - self.turned @ (gain * (self.turned.T @ self.targets))
        half = self.turned * gain.sqrt()
        mean, variance = torch.empty_like(residual), torch.empty_like(residual)
        for rows in self.rows:
            own = half[rows] @ half[rows].T
            rest = torch.eye(len(rows), dtype=own.dtype) - own
            mean[rows] = self.targets[rows] - torch.linalg.solve(rest, residual[rows])
            variance[rows] = noise * torch.linalg.solve(rest, own).diagonal()
        return mean, variance

    def amplitude(self, noise: float) -> float:
        """The variance of the prior, as a factor, under which the targets are most probable."""
        fitted = self.turned @ ((self.turned.T @ self.targets) / (self.values + noise))
        return float(self.targets @ (self.targets - fitted) / (noise * len(self.targets)))


@dataclass
class _Judged:
    """A candidate with its best noise, and the latents (n,) of left-out blocks, whose amplitude is 1."""

    candidate: Candidate
    transform: PathTransform
    theta: Tensor
    words: list[Word]
    score: float
    noise: float
    amplitude: float
    mean: Tensor
    variance: Tensor


def candidates(settings: Mapping[str, Any]) -> list[Candidate]:
    """All combinations of the lists in `settings`; a degree of 0 sets no bound."""
    return [
        Candidate(PathOptions(append=append), length, time, settings["words"], degree or None)
        for append, degree, length, time in product(
            settings["append"], settings["degrees"], settings["path_lengths"], settings["time_scales"]
        )
    ]


def fit_by_blocks(batch: SeriesBatch, y: Tensor, blocks: np.ndarray, settings: Mapping[str, Any]) -> Committee:
    """The best `members` kinds of candidates for labels y (n,) of 0 and 1, weighed by their left-out blocks."""
    if len(np.unique(blocks)) < 2:
        raise ValueError("leaving out blocks needs two or more of them; give more weeks, or shorter blocks")
    tried = {each: _judge(each, batch, y, blocks, settings["noises"]) for each in candidates(settings)}
    ranked = sorted(tried, key=lambda each: tried[each].score)
    members, densities, chances = [], [], []
    for choice in (tried[each] for each in best_kinds(ranked, settings["members"])):
        member, mean, variance = _member(choice, batch, y)
        likelihood = member.model.likelihood
        members.append(member)
        densities.append(likelihood.log_predictive(mean, variance, y))
        chances.append(likelihood.predict(mean, variance))
        log.info("member %s: left-out NLPP %.4f", choice.candidate, -float(densities[-1].mean()))
    weights = stack(torch.stack(densities))
    average = (weights[:, None, None] * torch.stack(chances)).sum(dim=0)
    return Committee(members, weights, None, sharpen(average, y, torch.ones(len(y), dtype=torch.float64)))


def _judge(candidate: Candidate, batch: SeriesBatch, y: Tensor, blocks: np.ndarray, noises: Sequence[float]) -> _Judged:
    """The best noise is that of the least NLPP of a logistic curve through the latents of left-out blocks."""
    transform = PathTransform(candidate.options).fit(batch.values)
    paths, _ = transform(batch.values)
    theta = scales(paths, candidate)
    words = choose_words(paths, None, theta, candidate)
    features = signature(paths * theta, words=words)
    regression = BlockRegression(features / features.norm(dim=1, keepdim=True), 2.0 * y.double() - 1.0, blocks)
    best: _Judged | None = None
    for noise in noises:
        mean, variance = regression.left_out(noise)
        score = _curve_nlpp(mean.numpy(), y.numpy())
        if best is None or score < best.score:
            size = regression.amplitude(noise)
            best = _Judged(candidate, transform, theta, words, score, noise, size, mean, size * variance)
    assert best is not None
    return best


def _curve_nlpp(latent: np.ndarray, y: np.ndarray) -> float:
    column = latent[:, None]
    return -float(LogisticRegression(C=1e3).fit(column, y).predict_log_proba(column)[np.arange(len(y)), y].mean())


def _member(choice: _Judged, batch: SeriesBatch, y: Tensor) -> tuple[Member, Tensor, Tensor]:
    """A model of all the windows with the link of the left-out latents; these, for both classes, two (n, 2)."""
    channels = len(choice.theta)
    kernel = SignatureKernel(
        channels, theta=choice.theta, amplitude=choice.amplitude, normalized=True, words=choice.words
    )
    features = OrthogonalSignatureFeatures(channels, len(choice.words), "lexicographic", chosen=choice.words)
    likelihood = LeastSquares(2, noise=choice.amplitude * choice.noise, lapse=1 / (len(y) + 2))
    model = SignatureGP(kernel, features, likelihood, covariance="shared")
    paths, _ = choice.transform(batch.values)
    history = fit(model, (paths, y), Exact(tune=False), validation=0.0, progress=False)
    mean = torch.stack([-choice.mean, choice.mean], dim=1)
    variance = choice.variance[:, None].expand_as(mean)
    likelihood.calibration[0] = best_temperature(likelihood, mean, variance, y)
    mix(likelihood, mean, variance, y)
    facts = {**asdict(choice.candidate), "used_words": len(choice.words), "noise": choice.noise}
    return Member(choice.transform, model, facts, choice.score, history), mean, variance


def logit_quantiles(committee: Committee, batch: SeriesBatch, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (n, levels) of the log-odds of class 1 under the posterior: a mixture of the members' Gaussians.

    Lapse and sharpness keep the order of log-odds, so that they are applied to the quantiles. All members have the same
    lapse.
    """
    means, spreads, lapse = [], [], 0.0
    for member in committee.members:
        likelihood = member.model.likelihood
        assert isinstance(likelihood, LeastSquares)
        lapse = likelihood.lapse
        slope = likelihood.temperature * (likelihood.mixing[1] - likelihood.mixing[0])
        shift = likelihood.offset[1] - likelihood.offset[0]
        latents = [member.model.predict_f(member.paths(piece)[0]) for piece in batch.split(1024)]
        mean, variance = (torch.cat(parts).double() for parts in zip(*latents, strict=True))
        means.append(mean @ slope + shift)
        spreads.append((variance @ slope.square()).sqrt())
    mean, spread = torch.stack(means), torch.stack(spreads)
    found = [mixture_quantile(NormalDist().inv_cdf(level), mean, spread, committee.weights) for level in levels]
    chances = (1 - lapse) * torch.sigmoid(torch.stack(found, dim=1)) + lapse / 2
    return committee.sharpness * torch.logit(chances).numpy()


def log_odds(committee: Committee, batch: SeriesBatch) -> np.ndarray:
    """Logarithm of p/(1 - p) for the probability p of class 1, (n,)."""
    chances = committee.probabilities(batch).log()
    return (chances[:, 1] - chances[:, 0]).numpy()
