"""Predictions of a committee of any kind for the estimators, with what is known of how new the series are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.link import probability_spread
from siggpde.committee.view_committee import AveragedMembers, average_latents
from siggpde.series import SeriesBatch

if TYPE_CHECKING:
    from siggpde.committee.novelty import Scores


@torch.no_grad()
def class_probabilities(
    committee: Any, batch: SeriesBatch, with_spread: bool
) -> tuple[np.ndarray, np.ndarray | None, Scores | None]:
    """Probabilities (n, classes); with `with_spread` their standard deviations; and the scores of novelty, if any."""
    if not isinstance(committee, AveragedMembers):
        if with_spread:
            raise ValueError(
                "return_std=True is for likelihood='auto' and method='views'; latent(X) has the spread of the latents"
            )
        chances, scores = committee.probabilities(batch), _scores(committee, batch)
        if scores is not None:
            chances = committee.novelty.mixed(chances, scores, committee.novelty.frequencies)
        return chances.cpu().numpy(), None, scores
    judged = committee.judged(batch)
    chances = committee.probabilities(batch, judged).cpu().numpy()
    if not with_spread:
        return chances, None, judged.scores
    assert committee.link is not None
    latents = average_latents(judged.means, judged.variances, committee.weights)
    return chances, probability_spread(committee.link, *latents).cpu().numpy(), judged.scores


@torch.no_grad()
def log_likelihoods(committee: Any, batch: SeriesBatch, y: Tensor) -> np.ndarray:
    """log p(y) (n,) of targets y (n,), by the same distributions as predictions are."""
    found = committee.log_predictive(batch, y)
    novelty = committee.novelty
    if not isinstance(committee, AveragedMembers) and novelty is not None and novelty.labels is not None:
        scores = _scores(committee, batch)
        if scores is not None:
            found = novelty.mixed(found.exp(), scores, novelty.frequencies[y.long().cpu()]).log()
    return found.cpu().numpy()


@torch.no_grad()
def numbers(committee: Any, batch: SeriesBatch, *asked: tuple[Any, ...]) -> tuple[list[Any], Scores | None]:
    """What methods of a committee predict, of one look at the series, and the scores of novelty, if any.

    `asked` are names of methods with their arguments: ("mean_and_variance",) or ("quantiles", probabilities).
    """
    if isinstance(committee, AveragedMembers):
        judged = committee.judged(batch)
        found = [getattr(committee, what)(batch, *arguments, judged=judged) for what, *arguments in asked]
        return found, judged.scores
    found = [getattr(committee, what)(batch, *arguments) for what, *arguments in asked]
    return found, _scores(committee, batch)


@torch.no_grad()
def latents_of(committee: Any, batch: SeriesBatch) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the latents, averaged over the members, two (n, outputs)."""
    if isinstance(committee, AveragedMembers):
        mean, variance = committee.latents(batch)
        spread = variance.sqrt()[:, None].expand_as(mean)
        return mean.cpu().numpy(), np.ascontiguousarray(spread.cpu().numpy())
    means, variances = committee.member_latents(batch)
    weights = committee.weights.to(means)[:, None, None]
    mean = (weights * means).sum(0)
    variance = (weights * (variances + (means - mean).square())).sum(0)
    return mean.cpu().numpy(), variance.sqrt().cpu().numpy()


def _scores(committee: Any, batch: SeriesBatch) -> Scores | None:
    """Of committees without closed form."""
    if committee.novelty is None or batch.facts is None:
        return None
    return committee.novelty.scores(spread_of(committee, batch), batch.facts)


def spread_of(committee: Any, batch: SeriesBatch) -> Tensor:
    """The variance (K, n) of the members' latents, the mean over latents."""
    return committee.member_latents(batch)[1].mean(2)
