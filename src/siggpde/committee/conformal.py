r"""Sets of classes that hold the true one with a given probability, from left-out training series.

A training series i, left out, gives the score :math:`s_i` of its label (`committee.conformal_scores`); the same model
without i gives the scores :math:`s_{-i}(c)` of the classes of a new series. Class c is in the set of level
:math:`1 - \alpha` if

.. math:: 1 + \sum_i w_i \, [s_i \ge s_{-i}(c)] > \alpha \Big(1 + \sum_i w_i\Big)

with all :math:`w_i = 1`: cross-conformal sets (Vovk 2015), in the form of jackknife+ (Barber et al. 2021; Romano et al.
2020). For exchangeable series they hold the true class with probability :math:`1 - 2 \alpha` at least, and with about
:math:`1 - \alpha` where a single series changes predictions little; noise, members and links are taken as fixed. Where
the training series are not the landmarks, all :math:`s_{-i}(c)` are those of the model itself.

Of series in groups a group counts as one, :math:`w_i = 1 / |g(i)|`, and is left out as a whole. By class, class c is
compared with the series of class c alone (Mondrian): :math:`w_i = 0` for all others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.committee.conformal_scores import ScoredFold, adaptive_scores, new_shares, scored_folds
from siggpde.committee.jackknife import Jackknife, Without, group_numbers
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.series import SeriesBatch

_ROUNDING = 1e-9


def record_of(committee: object) -> LeftOutRecord:
    """The left-out training series of a committee."""
    record = getattr(committee, "left_out", None)
    if record is None:
        raise ValueError(
            "new series are compared with left-out training series, of which this model has no record: fit it with "
            "method='views' and likelihood='auto' (a model saved by an earlier version: fit and save it anew)"
        )
    return record


@torch.no_grad()
def prediction_sets(
    committee: ViewCommittee | WeightCommittee,
    batch: SeriesBatch,
    level: float,
    *,
    by_class: bool = False,
    allow_empty: bool = False,
) -> Tensor:
    """Which classes are in the sets of m series, (m, classes) of bools; of level 0.9 they hold nine in ten labels.

    Without `allow_empty` u is 0 and the most probable class always in; with it u is random, but always the same for the
    same series.
    """
    record, link = record_of(committee), committee.link
    assert link is not None
    jackknife, folds = Jackknife(committee, record), scored_folds(committee, record, allow_empty)
    weights = comparison_weights(record, record.mean.shape[1], by_class)
    needed = (1 - level) * (1 + weights.sum(0)) + _ROUNDING
    shares, sets = new_shares(batch, allow_empty).to(record.mean), []
    for without in jackknife.predict(batch):
        m = len(without.means)
        share, shares = shares[:m], shares[m:]
        found = 1 + sum(_weight_at_least(without, share, fold, jackknife, weights) for fold in folds) > needed
        if not allow_empty:
            found[torch.arange(m), link.probabilities(*without.latents).argmax(1)] = True
        sets.append(found)
    return torch.cat(sets)


def _weight_at_least(
    without: Without, share: Tensor, fold: ScoredFold, jackknife: Jackknife, weights: Tensor
) -> Tensor:
    """The sum (m, classes) of the w_i of a fold with s_i >= s_-i(c)."""
    means = without.means[:, jackknife.group[fold.rows]] if jackknife.closed_form else without.means
    m, count, classes = means.shape
    variance = without.latents.variance.repeat_interleave(count)
    chances = fold.link.probabilities(means.reshape(m * count, classes), variance).view(m, count, classes)
    at_least = fold.scores[:, None] >= adaptive_scores(chances, share[:, None])  # (m, n, classes)
    return (at_least * weights[fold.rows]).sum(1)


def comparison_weights(record: LeftOutRecord, classes: int, by_class: bool) -> Tensor:
    """w (n, classes): what every training series counts where a class is judged."""
    group, count = group_numbers(record)
    if by_class:
        counted = torch.nn.functional.one_hot(record.y.long(), classes).double()
    else:
        counted = torch.ones(len(group), classes, dtype=torch.float64, device=group.device)
    together = counted.new_zeros(count, classes).index_add_(0, group, counted)[group]
    return counted / together.clamp_min(1.0)
