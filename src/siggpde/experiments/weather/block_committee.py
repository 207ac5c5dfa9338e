"""A committee of signature Gaussian processes whose settings are chosen by leaving out blocks, such as weeks.

Windows of weather overlap: a window that is left out is almost contained in its neighbours, so that leave-one-out
rewards memorising. Leaving out a block has a closed form as well, that of `siggpde.ensemble.groups`. With features F
(n, M), noise s, H = F (F^T F + s I)^-1 F^T and the fit mu = H t of the targets t, the latents of a block B without the
targets of B have

    mean t_B - (I - H_BB)^-1 (t_B - mu_B)    and    covariance s H_BB (I - H_BB)^-1,

from one eigendecomposition of F^T F for all noise variances s. The estimators do the same for `groups`; what is special
here is that all members are words of paths, whose features the report names. Words, scales, noise, temperature and the
weights of the committee are all chosen by left-out blocks; then every member is solved with all the windows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.ensemble.groups import Groups
from siggpde.ensemble.recalibration import mixture_quantile
from siggpde.ensemble.stacking import sharpen, stack
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import LeastSquares
from siggpde.gp.model import SignatureGP
from siggpde.paths import PathOptions, SeriesBatch
from siggpde.selection.candidates import Candidate
from siggpde.selection.trial import Prepared, Trial, best_kinds, ways
from siggpde.training import Exact, fit
from siggpde.training.class_link import best_temperature, fit_class_mixing

log = logging.getLogger(__name__)


class BlockRegression:
    """Regression of targets (n,) on features (n, M), and its predictions for each block from the other blocks.

    `blocks` (n,) are the numbers of the blocks; rows with the same number are left out together.
    """

    def __init__(self, features: Tensor, targets: Tensor, blocks: np.ndarray) -> None:
        self.targets, self.groups = targets, Groups.of(torch.from_numpy(np.ascontiguousarray(blocks)))
        values, vectors = torch.linalg.eigh(features.T @ features)
        self.eigenvalues, self.rotated = values.clamp_min(0.0), features @ vectors

    def left_out(self, noise: float) -> tuple[Tensor, Tensor]:
        """Mean and variance (n,) of the latents of every row from the other blocks, for a prior of variance |F_n|²."""
        gain = 1 / (self.eigenvalues + noise)
        residual = self.targets - self.rotated @ (gain * (self.rotated.T @ self.targets))
        errors, inverse = self.groups.solve(self.rotated * gain.sqrt(), residual[:, None], complement=True)
        return self.targets - errors[:, 0], noise * (inverse - 1)  # H (I - H)^-1 = (I - H)^-1 - I

    def amplitude(self, noise: float) -> float:
        """The factor of the prior variance under which the targets are most probable."""
        fitted = self.rotated @ ((self.rotated.T @ self.targets) / (self.eigenvalues + noise))
        return float(self.targets @ (self.targets - fitted) / (noise * len(self.targets)))


@dataclass(frozen=True)
class LeftOutBlocks:
    """The best noise, its score and amplitude, and mean and variance (n,) of the latents of left-out blocks."""

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
    tried = candidates(settings)
    trials: list[Trial[LeftOutBlocks]] = []
    for options, places in ways(tried).items():
        prepared = Prepared.of(batch, options)
        trials += [_try_candidate(prepared, tried[place], y, blocks, settings["noises"]) for place in places]
        del prepared  # before the paths of the next way are made
    ranked = sorted(trials, key=lambda trial: trial.result.score)
    members, densities, probabilities = [], [], []
    for trial in best_kinds(ranked, settings["members"]):
        member, mean, variance = _train_member(trial, batch, y)
        likelihood = member.model.likelihood
        members.append(member)
        densities.append(likelihood.log_predictive(mean, variance, y))
        probabilities.append(likelihood.predict(mean, variance))
        log.info("member %s: left-out NLPP %.4f", trial.candidate, -float(densities[-1].mean()))
    weights = stack(torch.stack(densities))
    average = (weights[:, None, None] * torch.stack(probabilities)).sum(dim=0)
    return Committee(members, weights, None, sharpen(average, y, torch.ones(len(y), dtype=torch.float64)))


def _try_candidate(
    prepared: Prepared, candidate: Candidate, y: Tensor, blocks: np.ndarray, noises: Sequence[float]
) -> Trial[LeftOutBlocks]:
    """The candidate with the best noise: the lowest NLPP of a logistic regression on the latents of left-out blocks."""
    seen = prepared.describe(candidate)
    regression = BlockRegression(seen.features, 2.0 * y.double() - 1.0, blocks)
    best: LeftOutBlocks | None = None
    for noise in noises:
        mean, variance = regression.left_out(noise)
        score = _logistic_nlpp(mean.numpy(), y.numpy())
        if best is None or score < best.score:
            amplitude = regression.amplitude(noise)
            best = LeftOutBlocks(score, noise, amplitude, mean, amplitude * variance)
    assert best is not None
    return prepared.trial(candidate, seen, best)


def _logistic_nlpp(latent: np.ndarray, y: np.ndarray) -> float:
    column = latent[:, None]
    return -float(LogisticRegression(C=1e3).fit(column, y).predict_log_proba(column)[np.arange(len(y)), y].mean())


def _train_member(trial: Trial[LeftOutBlocks], batch: SeriesBatch, y: Tensor) -> tuple[Member, Tensor, Tensor]:
    """The member, trained with all windows, and mean and variance (n, 2) of the left-out latents of both classes."""
    channels, result = len(trial.theta), trial.result
    kernel = SignatureKernel(
        channels, theta=trial.theta, amplitude=result.amplitude, normalized=True, words=trial.words
    )
    features = OrthogonalSignatureFeatures(channels, len(trial.words), "lexicographic", chosen=trial.words)
    likelihood = LeastSquares(2, noise=result.amplitude * result.noise, lapse=1 / (len(y) + 2))
    model = SignatureGP(kernel, features, likelihood, covariance="shared")
    paths = trial.transform.paths(batch)
    history = fit(model, (paths.values, y), Exact(tune=False), validation=0.0, progress=False)
    mean = torch.stack([-result.mean, result.mean], dim=1)
    variance = result.variance[:, None].expand_as(mean)
    likelihood.calibration[0] = best_temperature(likelihood, mean, variance, y)
    fit_class_mixing(likelihood, mean, variance, y)
    origin = {**trial.settings, "used_words": len(trial.words), "noise": result.noise}
    return Member(trial.transform, model, origin, result.score, history), mean, variance


def logit_quantiles(committee: Committee, batch: SeriesBatch, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (n, levels) of the log-odds of class 1 under the posterior: a mixture of the members' Gaussians.

    Lapse and sharpness are monotone in the log-odds, so that they can be applied to the quantiles. All members have the
    same lapse.
    """
    means, spreads, lapse = [], [], 0.0
    for member in committee.members:
        likelihood = member.model.likelihood
        assert isinstance(likelihood, LeastSquares)
        lapse = likelihood.lapse
        slope = likelihood.temperature * (likelihood.mixing[1] - likelihood.mixing[0])
        shift = likelihood.offset[1] - likelihood.offset[0]
        latents = [member.model.predict_f(member.paths(chunk).values) for chunk in batch.split(1024)]
        mean, variance = (torch.cat(chunks).double() for chunks in zip(*latents, strict=True))
        means.append(mean @ slope + shift)
        spreads.append((variance.sqrt() @ (slope * slope.new_tensor([-1.0, 1.0]))).abs())  # the latents are -f and f
    mean, spread = torch.stack(means), torch.stack(spreads)
    logits = [mixture_quantile(NormalDist().inv_cdf(level), mean, spread, committee.weights) for level in levels]
    probabilities = (1 - lapse) * torch.sigmoid(torch.stack(logits, dim=1)) + lapse / 2
    return committee.sharpness * torch.logit(probabilities).numpy()


def log_odds(committee: Committee, batch: SeriesBatch) -> np.ndarray:
    """Logarithm of p/(1 - p) for the probability p of class 1, (n,)."""
    log_p = committee.probabilities(batch).log()
    return (log_p[:, 1] - log_p[:, 0]).numpy()
