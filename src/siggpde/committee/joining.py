r"""Training series left out of a regression to which a new series is joined.

With :math:`Q = (K + \lambda W^{-1})^{-1}`, :math:`k = k(X, \text{training})` and
:math:`s = k(X, X) + \lambda - k^T Q k`, the inverse of the enlarged matrix has the diagonal
:math:`Q_{ii} + (Q k)_i^2 / s`, whose inverse is the variance of a left-out target.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.regression import Regression
from siggpde.committee.view_committee import ViewCommittee
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows


@torch.no_grad()
def joined_variances(committee: ViewCommittee, batch: SeriesBatch) -> Tensor:
    """Variances (K, n, m) of the targets of the m training series, the landmarks, with each of n new series joined.

    A series of weight w has the noise of one of weight 1 here, so that all are compared alike.
    """
    record = committee.left_out
    assert record is not None and record.exact
    rows = committee.rows(batch)
    return torch.stack(
        [
            _joined(member.regression, member.mixed(rows), record, number)
            for number, member in enumerate(committee.members)
        ]
    )


def _joined(regression: Regression, rows: Rows, record: LeftOutRecord, number: int) -> Tensor:
    assert regression.counts is not None
    noise, amplitude = regression.noise, regression.amplitude
    root = regression.root.to(rows.gram)
    projected = rows.gram @ root
    s = (rows.variance - projected.square().sum(1)).clamp_min(0.0) + noise
    own_noise = noise / regression.counts
    inverse = 1 / (record.variances[number] / amplitude + own_noise)  # Q_ii
    joined = 1 / (inverse + (projected @ root.T).square() / s[:, None])
    return amplitude * ((joined - own_noise).clamp_min(0.0) + noise)
