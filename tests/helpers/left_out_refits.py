"""Members of a committee refitted without some series, densely and at the same noise: the slow way of the jackknife."""

import torch
from torch import Tensor

from helpers.view_data import dense
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.regression import Targets
from siggpde.series import SeriesBatch
from siggpde.views.base import rows_of


def means_without(committee: ViewCommittee, new: SeriesBatch) -> Tensor:
    """Mean latents (m, n, outputs) of m new series without the group of each of the n landmarks."""
    record, weights = committee.left_out, committee.members[0].regression.counts
    assert record is not None and weights is not None
    n = len(record.y)
    signs = Targets(record.y, None if committee.link is None else record.mean.shape[1]).signs()
    groups = torch.arange(n) if record.groups is None else record.groups
    landmarks = rows_of(committee.blocks)
    rows, columns = committee.rows(new), []
    for i in range(n):
        rest = (groups != groups[i]).nonzero()[:, 0]
        mean = torch.zeros(len(new), signs.shape[1], dtype=torch.float64)
        for share, member in zip(committee.weights.tolist(), committee.members, strict=True):
            gram, across, fit = member.mixed(landmarks).gram, member.mixed(rows), member.regression
            kernels = gram[rest][:, rest], across.gram[:, rest], across.variance
            mean += share * dense(*kernels, signs[rest], fit.noise, fit.amplitude, weights[rest]).mean
        columns.append(mean)
    return torch.stack(columns, dim=1)
