r"""How badly a class fits a series: adaptive scores, of training series by links that they had no part in.

Of class probabilities p the score of class c is the probability of the classes that are more probable than it, and a
share u of its own (Romano, Sesia, Candès 2020),

.. math:: s(c) = \sum_{k: p_k > p_c} p_k + u \, p_c.

With u = 0 the most probable class has score 0. With u uniform on [0, 1], drawn for every series, scores have no ties.

The link from latents to probabilities (`committee.link`) has a parameter for every pair of classes, fitted to left-out
series: of those very series it makes probabilities too good. So series are compared fold by fold, with a link that was
fitted to the other folds, and new series by the same link as the training series that they are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.link import ClassLink, fit_link
from siggpde.committee.nesting import fold_numbers
from siggpde.committee.targets import Targets
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.hashing import digest
from siggpde.series import SeriesBatch

_DIGITS = 12  # of a hash, which make the u of a new series


@dataclass(frozen=True)
class ScoredFold:
    """Some training series, at `rows` (n,) of the record, a link that was fitted without them, and the scores (n,) of
    their own labels."""

    rows: Tensor
    link: ClassLink
    scores: Tensor


def scored_folds(
    committee: ViewCommittee | WeightCommittee, record: LeftOutRecord, randomised: bool
) -> list[ScoredFold]:
    """All training series of the record; series of one group are in one fold."""
    assert committee.link is not None
    targets = Targets(record.y, record.mean.shape[1], _weights(committee, record), record.groups)
    numbers, share = fold_numbers(targets), training_shares(len(targets), randomised).to(record.mean)
    folds = []
    for number in numbers.unique():
        rows, others = (numbers == number).nonzero()[:, 0], (numbers != number).nonzero()[:, 0]
        link = committee.link
        if len(others):
            link = fit_link(record.mean[others], record.variance[others], targets[others])
        scores = adaptive_scores(link.probabilities(record.mean[rows], record.variance[rows]), share[rows])
        folds.append(ScoredFold(rows, link, scores.gather(1, record.y[rows].long()[:, None])[:, 0]))
    return folds


def _weights(committee: ViewCommittee | WeightCommittee, record: LeftOutRecord) -> Tensor | None:
    """What every series counts, (n,), as far as the model has kept it."""
    if not isinstance(committee, ViewCommittee):
        return None
    counts = committee.members[0].regression.counts
    if counts is not None:
        return counts
    return None if committee.class_weights is None else committee.class_weights[record.y.long()]


def adaptive_scores(chances: Tensor, share: Tensor) -> Tensor:
    """s(c) (..., classes) of probabilities (..., classes), for u (...)."""
    scores = share[..., None] * chances
    for chance in chances.unbind(-1):
        scores += torch.where(chance[..., None] > chances, chance[..., None], 0.0)
    return scores


def training_shares(n: int, randomised: bool) -> Tensor:
    """u (n,) of training series: 0, or evenly spaced in random order, by which few series cover as stated too."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).double()
    return (order + 0.5) / n if randomised else torch.zeros_like(order)


def new_shares(batch: SeriesBatch, randomised: bool) -> Tensor:
    """u (m,) of new series: 0, or as good as uniform on [0, 1], the same for the same series in every batch."""
    shares = torch.zeros(len(batch), dtype=torch.float64)
    if not randomised:
        return shares
    for row, count in enumerate(batch.counts().tolist()):
        times = None if batch.times is None else batch.times[row, :count]
        shares[row] = int(digest(batch.values[row, :count], times)[:_DIGITS], 16) / 16**_DIGITS
    return shares
